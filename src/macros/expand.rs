//! The code of an isolated function: the caller's, under its name, and the executor's inside of that.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::{Attribute, Ident, ItemFn, ReturnType, Type, Visibility, parse_quote};

use crate::form::{Form, Outcome, Parameter, Passing, bare};
use crate::function::Function;
use crate::options::Options;

/// The function under its name, which calls the executor.
pub(crate) fn function(function: &Function, options: &Options) -> TokenStream {
    if let (true, Some(timeout)) = (function.is_async(), &options.timeout) {
        let message = "a dropped future of an asynchronous call ends its executor; put the timeout around the call";
        return syn::Error::new_spanned(timeout, message).into_compile_error();
    }
    let ItemFn { attrs, vis, sig, .. } = &function.item;
    let mut outer = sig.clone();
    for (input, (name, kind, _)) in outer.inputs.iter_mut().zip(&function.parameters) {
        *input = parse_quote!(#name: #kind);
    }
    let outside = attrs.iter().filter(|one| is_any(one, &NAMED) || is_any(one, &LINTS));
    let inside: Vec<_> = attrs.iter().filter(|one| !is_any(one, &NAMED)).collect();
    let name = sig.ident.to_string();
    let names: Vec<_> = function.parameters.iter().map(|(name, ..)| name).collect();
    let body = body(&function.item, &inside);
    let entry = entry(function);
    let result: Type = match &sig.output {
        ReturnType::Default => parse_quote!(()),
        ReturnType::Type(_, kind) => (**kind).clone(),
    };
    let reading = reading(&function.outcome, &result);
    let methods = &options.methods;
    let call = call(function);
    let awaited = sig.asyncness.map(|_| quote!(.await));
    // An asynchronous function has no caller whose line could be named.
    let track = sig.asyncness.is_none().then(|| quote!(#[track_caller]));
    quote! {
        #(#outside)*
        #track
        #vis #outer {
            #body
            #entry
            #reading
            static FARCALL_FUNCTION: ::farcall::isolate::Isolated<#result> = ::farcall::isolate::Isolated::new(
                #name,
                farcall_entry,
                ::farcall::isolate::Options::new(::core::env!("CARGO_PKG_NAME")) #methods,
                farcall_read,
            );
            let farcall_outcome = match ::farcall::isolate::is_executor() {
                true => match FARCALL_FUNCTION.check_within() {
                    ::core::result::Result::Ok(()) => return farcall_isolated(#(#names),*) #awaited,
                    ::core::result::Result::Err(farcall_error) => ::core::result::Result::Err(farcall_error),
                },
                false => #call #awaited,
            };
            match farcall_outcome {
                ::core::result::Result::Ok(farcall_result) => farcall_result,
                ::core::result::Result::Err(farcall_error) => {
                    #[allow(unused_imports)]
                    use ::farcall::isolate::{Failed as _, Returned as _};
                    (&&::farcall::isolate::Form::<#result>::new()).failed(#name, farcall_error)
                }
            }
        }
    }
}

/// The function as it was written.
fn body(item: &ItemFn, attributes: &[&Attribute]) -> ItemFn {
    let mut body = item.clone();
    body.attrs = attributes.iter().copied().cloned().collect();
    body.vis = Visibility::Inherited;
    body.sig.ident = format_ident!("farcall_isolated");
    body
}

/// The wrapper function that the executor calls.
fn entry(function: &Function) -> TokenStream {
    let is_alone = is_alone(function);
    let reads = function.parameters.iter().map(|(name, _, parameter)| {
        let read = match (is_alone, parameter.form, parameter.passing) {
            (true, Form::Text, Passing::View) => quote!(farcall_reader.whole_text()?),
            (true, _, _) => quote!(farcall_reader.whole()),
            (_, Form::Text, Passing::View) => quote!(farcall_reader.text()?),
            (_, Form::Numbers, Passing::View) => quote!(farcall_reader.numbers()?),
            (_, Form::Value, Passing::View) => {
                quote!(farcall_reader.value::<::std::vec::Vec<_>>()?)
            }
            (_, form, _) => form.read(),
        };
        quote!(let #name = #read;)
    });
    let passed = function.parameters.iter().map(|(name, _, parameter)| {
        match (parameter.form, parameter.passing) {
            (Form::Numbers | Form::Value, Passing::View) if !is_alone => quote!(&#name[..]),
            (_, Passing::Borrowed) => quote!(&#name),
            _ => quote!(#name),
        }
    });
    let call = quote!(farcall_isolated(#(#passed),*));
    let call = match function.is_async() {
        true => quote!(::farcall::isolate::block_on(#call)),
        false => call,
    };
    let write = write_outcome(&function.outcome);
    quote! {
        extern "C" fn farcall_entry(
            farcall_arguments: ::farcall::isolate::Arguments<'_>,
        ) -> ::farcall::executor::WrapperFunctionBuffer {
            FARCALL_FUNCTION.serve(farcall_arguments, |farcall_reader, farcall_writer| {
                let _ = &farcall_reader;
                #(#reads)*
                let farcall_result = #call;
                #write
                ::core::result::Result::Ok(())
            })
        }
    }
}

/// Writes the result.
fn write_outcome(outcome: &Outcome) -> TokenStream {
    let value = quote!(farcall_value);
    let write = outcome.form.write(&value);
    if !outcome.is_result {
        return quote!({ let farcall_value = &farcall_result; #write });
    }
    quote! {
        match &farcall_result {
            ::core::result::Result::Ok(farcall_value) => {
                farcall_writer.number(&0_u8);
                #write
            }
            ::core::result::Result::Err(farcall_error) => {
                #[allow(unused_imports)]
                use ::farcall::isolate::{ErrorByText as _, ErrorByValue as _};
                farcall_writer.number(&1_u8);
                (&&::farcall::isolate::Form::of(farcall_error)).write(farcall_error, farcall_writer);
            }
        }
    }
}

/// The function that reads the result, in the caller.
fn reading(outcome: &Outcome, result: &Type) -> TokenStream {
    let read = outcome.form.read();
    let read = match outcome.is_result {
        false => quote! {
            let farcall_value = #read;
            ::core::result::Result::Ok(farcall_value)
        },
        true => quote! {
            #[allow(unused_imports)]
            use ::farcall::isolate::{ErrorByText as _, ErrorByValue as _};
            if farcall_reader.is_error()? {
                let farcall_form =
                    ::farcall::isolate::Form::<<#result as ::farcall::isolate::IsResult>::Error>::new();
                return ::core::result::Result::Ok(::core::result::Result::Err((&&farcall_form).read(farcall_reader)?));
            }
            let farcall_value = #read;
            ::core::result::Result::Ok(::core::result::Result::Ok(farcall_value))
        },
    };
    quote! {
        #[allow(unused_variables)]
        fn farcall_read(
            farcall_reader: &mut ::farcall::isolate::Reader<'_>,
        ) -> ::core::result::Result<#result, ::farcall::Error> {
            #read
        }
    }
}

/// The call, in the caller.
fn call(function: &Function) -> TokenStream {
    if let (true, [(name, _, parameter)]) = (is_alone(function), &*function.parameters) {
        return match parameter.form {
            Form::Text => quote!(FARCALL_FUNCTION.call_bytes(#name.as_bytes())),
            _ => quote!(FARCALL_FUNCTION.call_bytes(#name)),
        };
    }
    let writes = function.parameters.iter().map(|(name, _, parameter)| written(name, parameter));
    let method = match function.is_async() {
        true => quote!(submit),
        false => quote!(call),
    };
    quote!(FARCALL_FUNCTION.#method(|farcall_writer| {
        let _ = &farcall_writer;
        #(#writes)*
    }))
}

fn written(name: &Ident, parameter: &Parameter) -> TokenStream {
    let place = match parameter.passing {
        Passing::Owned => quote!(&#name),
        Passing::Borrowed | Passing::View => quote!(#name),
    };
    parameter.form.write(&place)
}

/// True where the only argument is bytes or text, which are the whole message: nothing is copied to make it.
fn is_alone(function: &Function) -> bool {
    let [(_, kind, Parameter { form, passing: Passing::View })] = &*function.parameters else {
        return false;
    };
    let is_of_bytes = match bare(kind) {
        Type::Reference(reference) => match bare(&reference.elem) {
            Type::Slice(slice) => {
                matches!(bare(&slice.elem), Type::Path(path) if path.path.is_ident("u8"))
            }
            _ => *form == Form::Text,
        },
        _ => false,
    };
    is_of_bytes && !function.is_async()
}

/// Attributes that belong to the name, and not to the body.
const NAMED: [&str; 7] = ["doc", "cfg", "must_use", "deprecated", "test", "ignore", "should_panic"];
/// Attributes that belong to both.
const LINTS: [&str; 3] = ["allow", "warn", "deny"];

fn is_any(attribute: &Attribute, names: &[&str]) -> bool {
    names.iter().any(|name| attribute.path().is_ident(name))
}
