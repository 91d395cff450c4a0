//! Closures that the library calls.

use std::collections::BTreeMap;

use proc_macro2::TokenStream;
use quote::{format_ident, quote};

use super::{number, record_type};
use crate::header::Number;
use crate::plan::{Callback, CallbackRole};

/// The type of the caller's closure.
pub(super) fn closure_type(callback: &Callback) -> TokenStream {
    let parameters = callback.parameters.iter().filter_map(|role| {
        Some(match role {
            CallbackRole::Number(one) => number_type(*one),
            CallbackRole::Address => quote!(::farcall::ExecutorAddr),
            CallbackRole::Data => return None,
            CallbackRole::Text => quote!(Option<&::core::ffi::CStr>),
            CallbackRole::Texts(_) => quote!(&[Option<::std::ffi::CString>]),
            CallbackRole::Handle(name) => {
                let name = record_type(name);
                quote!(&::farcall::bind::Handle<#name>)
            }
        })
    });
    let result = callback.result.map(|one| {
        let result = number(one);
        quote!(-> #result)
    });
    quote!(Option<&mut dyn FnMut(#(#parameters),*) #result>)
}

/// A number, which the host must check if it has 64 bits.
fn number_type(one: Number) -> TokenStream {
    let kind = number(one);
    match one.may_be_length() {
        true => quote!(::farcall::bind::Untrusted<#kind>),
        false => kind,
    }
}

/// The closure by words, `None` if the caller has given none.
pub(super) fn by_words(name: &proc_macro2::Ident, callback: &Callback) -> TokenStream {
    let mut reads = Vec::new();
    let mut arguments = Vec::new();
    for (at, role) in callback.parameters.iter().enumerate() {
        let argument = format_ident!("callback_{at}");
        let address = quote!(::farcall::bind::argument::<::farcall::ExecutorAddr>(words, #at));
        let (read, passed) = match role {
            CallbackRole::Data => continue,
            CallbackRole::Number(one) => {
                let kind = number(*one);
                let read = quote!(::farcall::bind::argument::<#kind>(words, #at));
                match one.may_be_length() {
                    true => (read, quote!(::farcall::bind::Untrusted::new(#argument))),
                    false => (read, quote!(#argument)),
                }
            }
            CallbackRole::Address => (address, quote!(#argument)),
            CallbackRole::Text => (quote!(sandbox.text(#address)?), quote!(#argument.as_deref())),
            // Read together below.
            CallbackRole::Texts(_) => {
                arguments.push(quote!(&#argument));
                continue;
            }
            CallbackRole::Handle(_) => (quote!(sandbox.handle(#address)?), quote!(&#argument)),
        };
        reads.push(quote!(let #argument = #read;));
        arguments.push(passed);
    }
    reads.extend(text_arrays(callback));
    let answer = match callback.result {
        None => quote! {
            closure(#(#arguments),*);
            Ok(0)
        },
        Some(_) => quote!(Ok(::farcall::bind::Number::to_word(closure(#(#arguments),*)))),
    };
    quote! {
        let sandbox = &self.sandbox;
        let mut #name = #name.map(|closure| move |words: ::farcall::bind::Words<'_>| -> ::farcall::Result<u64> {
            #(#reads)*
            #answer
        });
    }
}

/// Reads the arrays of strings with one count by one message.
fn text_arrays(callback: &Callback) -> Vec<TokenStream> {
    let mut by_count: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (at, role) in callback.parameters.iter().enumerate() {
        if let CallbackRole::Texts(count) = role {
            by_count.entry(*count).or_default().push(at);
        }
    }
    let read = |(count, arrays): (usize, Vec<usize>)| {
        let names = arrays.iter().map(|at| format_ident!("callback_{at}"));
        quote! {
            let [#(#names),*] = sandbox.text_arrays(
                [#(::farcall::bind::argument::<::farcall::ExecutorAddr>(words, #arrays)),*],
                ::farcall::bind::argument::<u64>(words, #count),
            )?;
        }
    };
    by_count.into_iter().map(read).collect()
}

/// The function that the library calls, defined at the first use of a closure with such arguments.
pub(super) fn stub(callback: &Callback) -> TokenStream {
    let kinds: Vec<_> = callback
        .parameters
        .iter()
        .map(|role| match role {
            CallbackRole::Number(one) => number(*one),
            _ => quote!(::farcall::ExecutorAddr),
        })
        .collect();
    let names: Vec<_> = (0..kinds.len()).map(|at| format_ident!("argument_{at}")).collect();
    let data = &names[callback.data];
    let (kind, answer) = match callback.result {
        None => (quote!(()), quote!(.map(drop))),
        Some(one) => {
            let kind = number(one);
            (kind.clone(), quote!(.map(<#kind as ::farcall::bind::Number>::from_word)))
        }
    };
    // Closures with equal words share a function.
    let name = format!(
        "farcall closure ({}) {} {kind}",
        kinds.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
        callback.data
    );
    quote! {
        self.sandbox.callback(#name, |identity| move |#(#names: #kinds),*| -> ::farcall::Result<#kind> {
            ::farcall::bind::call_back(identity, #data, &[#(::farcall::bind::Number::to_word(#names)),*])#answer
        })
    }
}
