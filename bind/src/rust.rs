//! A binding in Rust, over `farcall::bind`.
//!
//! Structures and constants have the names of the header, which may be any. The methods lie in a module that imports nothing, and name all
//! that they use by its path.

mod callbacks;
mod constants;
mod functions;
mod records;

use std::collections::HashSet;

use proc_macro2::{Ident, Span, TokenStream};
use quote::{format_ident, quote};

use crate::Error;
use crate::header::Number;
use crate::library::Library;
use crate::plan::Plan;

/// Writes the binding: a file of Rust with a type `name` for the library.
pub(crate) fn write(
    name: &str,
    command: &str,
    plan: &Plan,
    libraries: &[Library],
) -> Result<String, Error> {
    check_names(name, plan)?;
    let library = identifier(name);
    let about = format!(
        " `{name}` runs the library's functions in a process of their own. Written by `{command}`: change the \
         header or the hints, and not this file."
    );
    let left_out =
        plan.left_out.iter().map(|(name, reason)| format!(" `{name}` is left out: {reason}."));
    let comments = std::iter::once(String::new()).chain(left_out);
    let sources = libraries.iter().map(|library| match library {
        Library::Shared(name) => quote!(LibrarySource::Shared(#name)),
        Library::Archive(path) => {
            let file = path.file_name().unwrap_or_default().to_string_lossy();
            let path = path.to_string_lossy();
            quote!(LibrarySource::Archive(#file, ::core::include_bytes!(#path)))
        }
    });
    let records = plan.records.iter().map(records::record);
    let opaque = plan.opaque.iter().map(|name| {
        let name = identifier(name);
        let about = " An object that stays with the library.";
        quote! {
            #[doc = #about]
            #[derive(Debug)]
            pub enum #name {}
        }
    });
    let constants = plan.constants.iter().map(constants::constant);
    let fields = functions::fields(plan);
    let finds = functions::finds(plan);
    let methods = plan.functions.iter().map(functions::method);
    let tokens = quote! {
        #![doc = #about]
        #(#![doc = #comments])*
        #![allow(warnings, reason = "the names are the header's")]

        pub use library::#library;

        mod library {
            use ::farcall::bind::LibrarySource;

            const SOURCES: &[LibrarySource<'_>] = &[#(#sources),*];

            /// The library in a process of its own. Cheap to clone; the last clone ends the process.
            #[derive(Debug, Clone)]
            pub struct #library {
                sandbox: ::farcall::bind::Sandbox,
                functions: ::std::sync::Arc<FunctionsOfTheLibrary>,
            }

            #[derive(Debug)]
            struct FunctionsOfTheLibrary {
                #fields
            }

            impl #library {
                /// Starts the process with these rights and limits.
                pub fn start(options: ::farcall::bind::Options) -> ::farcall::Result<Self> {
                    Self::start_with(SOURCES, options)
                }

                /// Starts the process with the library from another place.
                pub fn start_with(
                    sources: &[LibrarySource<'_>],
                    options: ::farcall::bind::Options,
                ) -> ::farcall::Result<Self> {
                    let sandbox = ::farcall::bind::Sandbox::start(sources, options)?;
                    let functions = ::std::sync::Arc::new(FunctionsOfTheLibrary { #finds });
                    Ok(Self { sandbox, functions })
                }

                /// The process, its memory, and its objects by address.
                pub fn sandbox(&self) -> &::farcall::bind::Sandbox {
                    &self.sandbox
                }

                #(#methods)*
            }
        }

        #(#records)*
        #(#opaque)*
        #(#constants)*
    };
    let file: syn::File = syn::parse2(tokens)
        .map_err(|error| Error::new(format!("the binding would be no Rust: {error}")))?;
    Ok(format!("// @generated\n{}", prettyplease::unparse(&file)))
}

/// Refuses names that are one name in Rust.
fn check_names(name: &str, plan: &Plan) -> Result<(), Error> {
    let is_name = |name: &str| {
        let is_letter = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
        name.starts_with(|first: char| first.is_ascii_alphabetic()) && name.chars().all(is_letter)
    };
    if !is_name(name) {
        return Err(Error::new(format!(
            "{name} cannot be the name of a type: give another one by --name"
        )));
    }
    let mut types = HashSet::from([identifier(name)]);
    let records = plan.records.iter().map(|record| &record.name);
    if let Some(twice) = records.chain(&plan.opaque).find(|name| !types.insert(identifier(name))) {
        return Err(Error::new(format!(
            "{twice} is the name of two types: give the library another one by --name"
        )));
    }
    let mut methods = HashSet::new();
    let mut functions = plan.functions.iter().map(|function| &function.name);
    match functions.find(|name| !methods.insert(functions::method_name(name))) {
        Some(twice) => Err(Error::new(format!(
            "two functions would have the name {twice}: skip one by a hint"
        ))),
        None => Ok(()),
    }
}

/// A name of C as one of Rust.
fn identifier(name: &str) -> Ident {
    let letter = |letter: char| if letter.is_ascii_alphanumeric() { letter } else { '_' };
    let name: String = name.chars().map(letter).collect();
    match syn::parse_str::<Ident>(&name) {
        Ok(_) if name == "gen" => Ident::new_raw(&name, Span::call_site()),
        Ok(name) => name,
        Err(_) if matches!(name.as_str(), "self" | "Self" | "super" | "crate" | "_" | "") => {
            format_ident!("{name}_")
        }
        Err(_) if name.starts_with(|first: char| first.is_ascii_digit()) => {
            format_ident!("_{name}")
        }
        Err(_) => Ident::new_raw(&name, Span::call_site()),
    }
}

/// The type of a structure, from within the module of the methods.
fn record_type(name: &str) -> TokenStream {
    let name = identifier(name);
    quote!(super::#name)
}

/// The type of a number.
fn number(number: Number) -> TokenStream {
    match number {
        Number::Bool => quote!(bool),
        Number::Char | Number::I8 => quote!(i8),
        Number::U8 => quote!(u8),
        Number::I16 => quote!(i16),
        Number::U16 => quote!(u16),
        Number::I32 => quote!(i32),
        Number::U32 => quote!(u32),
        Number::I64 => quote!(i64),
        Number::U64 => quote!(u64),
        Number::F32 => quote!(f32),
        Number::F64 => quote!(f64),
    }
}
