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
        let message =
            "an asynchronous call ends when its future is dropped; put the timeout around the call";
        return syn::Error::new_spanned(timeout, message).into_compile_error();
    }
    let ItemFn { attrs, vis, sig, .. } = &function.item;
    let mut outer = sig.clone();
    for (input, (name, kind, _)) in outer.inputs.iter_mut().zip(&function.parameters) {
        *input = parse_quote!(#name: #kind);
    }
    let (outside, inside): (Vec<_>, Vec<_>) = attrs.iter().partition(|one| is_of_signature(one));
    let name = sig.ident.to_string();
    let names: Vec<_> = function.parameters.iter().map(|(name, ..)| name).collect();
    let body = body(&function.item, &inside);
    let entry = entry(function, &name);
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
            static FUNCTION: ::farcall::isolate::Isolated<#result> = ::farcall::isolate::Isolated::new(
                #name,
                entry,
                ::farcall::isolate::Options::new(::core::env!("CARGO_PKG_NAME")) #methods,
                read,
            );
            if ::farcall::isolate::is_executor() {
                return isolated(#(#names),*) #awaited;
            }
            match #call #awaited {
                ::core::result::Result::Ok(result) => result,
                ::core::result::Result::Err(error) => {
                    #[allow(unused_imports)]
                    use ::farcall::isolate::{Failed as _, Returned as _};
                    (&&::farcall::isolate::Form::<#result>::new()).failed(#name, error)
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
    body.sig.ident = format_ident!("isolated");
    body
}

/// The wrapper function that the executor calls.
fn entry(function: &Function, name: &str) -> TokenStream {
    let is_alone = is_alone(function);
    let reads = function.parameters.iter().map(|(name, _, parameter)| {
        let read = match (is_alone, parameter.form, parameter.passing) {
            (true, Form::Text, Passing::View) => quote!(reader.whole_text()?),
            (true, _, _) => quote!(reader.whole()),
            (_, Form::Text, Passing::View) => quote!(reader.text()?),
            (_, Form::Numbers, Passing::View) => quote!(reader.numbers()?),
            (_, Form::Value, Passing::View) => quote!(reader.value::<::std::vec::Vec<_>>()?),
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
    let call = quote!(isolated(#(#passed),*));
    let call = match function.is_async() {
        true => quote!(::farcall::isolate::block_on(#call)),
        false => call,
    };
    let write = write_outcome(&function.outcome);
    quote! {
        extern "C" fn entry(
            arguments: ::farcall::isolate::Arguments<'_>,
        ) -> ::farcall::executor::WrapperFunctionBuffer {
            ::farcall::isolate::serve(#name, arguments, |reader, writer| {
                let _ = &reader;
                #(#reads)*
                let result = #call;
                #write
                ::core::result::Result::Ok(())
            })
        }
    }
}

/// Writes the result.
fn write_outcome(outcome: &Outcome) -> TokenStream {
    let value = quote!(value);
    let write = outcome.form.write(&value);
    if !outcome.is_result {
        return quote!({ let value = &result; #write });
    }
    quote! {
        match &result {
            ::core::result::Result::Ok(value) => {
                writer.number(&0_u8);
                #write
            }
            ::core::result::Result::Err(error) => {
                #[allow(unused_imports)]
                use ::farcall::isolate::{ErrorByText as _, ErrorByValue as _};
                writer.number(&1_u8);
                (&&::farcall::isolate::Form::of(error)).write(error, writer);
            }
        }
    }
}

/// The function that reads the result, in the caller.
fn reading(outcome: &Outcome, result: &Type) -> TokenStream {
    let read = outcome.form.read();
    let read = match outcome.is_result {
        false => quote! {
            let value = #read;
            ::core::result::Result::Ok(value)
        },
        true => quote! {
            #[allow(unused_imports)]
            use ::farcall::isolate::{ErrorByText as _, ErrorByValue as _};
            type Failed = <#result as ::farcall::isolate::IsResult>::Error;
            if reader.is_error()? {
                let form = ::farcall::isolate::Form::<Failed>::new();
                return ::core::result::Result::Ok(::core::result::Result::Err((&&form).read(reader)?));
            }
            let value = #read;
            ::core::result::Result::Ok(::core::result::Result::Ok(value))
        },
    };
    quote! {
        #[allow(unused_variables)]
        fn read(
            reader: &mut ::farcall::isolate::Reader<'_>,
        ) -> ::core::result::Result<#result, ::farcall::Error> {
            #read
        }
    }
}

/// The call, in the caller.
fn call(function: &Function) -> TokenStream {
    if let (true, [(name, _, parameter)]) = (is_alone(function), &*function.parameters) {
        return match parameter.form {
            Form::Text => quote!(FUNCTION.call_bytes(#name.as_bytes())),
            _ => quote!(FUNCTION.call_bytes(#name)),
        };
    }
    let writes = function.parameters.iter().map(|(name, _, parameter)| written(name, parameter));
    let method = match function.is_async() {
        true => quote!(submit),
        false => quote!(call),
    };
    quote!(FUNCTION.#method(|writer| {
        let _ = &writer;
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

/// True for an attribute that belongs to the name, and not to the body.
fn is_of_signature(attribute: &Attribute) -> bool {
    ["doc", "cfg", "must_use", "deprecated", "test"]
        .iter()
        .any(|name| attribute.path().is_ident(name))
}
