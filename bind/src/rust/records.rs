//! Structures as types with their bytes.

use proc_macro2::TokenStream;
use quote::quote;

use super::{identifier, number};
use crate::header::{Record, Type};

/// A structure or union.
pub(super) fn record(record: &Record) -> TokenStream {
    let name = identifier(&record.name);
    let (bytes, alignment) = (usize_of(record.bytes), usize_of(record.alignment));
    let bytes_field = || (identifier("bytes"), 0_usize, quote!([u8; #bytes]));
    let fields: Vec<_> = match &record.fields {
        Some(fields) => fields
            .iter()
            .map(|one| (identifier(&one.name), usize_of(one.offset), kind(&one.kind)))
            .collect(),
        None => vec![bytes_field()],
    };
    let names: Vec<_> = fields.iter().map(|(name, ..)| name).collect();
    let offsets: Vec<_> = fields.iter().map(|(_, offset, _)| offset).collect();
    let kinds: Vec<_> = fields.iter().map(|(.., kind)| kind).collect();
    quote! {
        #[derive(Debug, Clone, Copy, PartialEq)]
        pub struct #name {
            #(pub #names: #kinds,)*
        }

        impl ::farcall::bind::Structure for #name {
            const BYTES: usize = #bytes;
            const ALIGNMENT: usize = #alignment;

            fn write(&self, to: &mut [u8]) {
                #(::farcall::bind::Structure::write(&self.#names, &mut to[#offsets..]);)*
            }

            fn read(from: &[u8]) -> Self {
                Self { #(#names: ::farcall::bind::Structure::read(&from[#offsets..]),)* }
            }
        }

        impl ::core::default::Default for #name {
            /// All bytes zero.
            fn default() -> Self {
                ::farcall::bind::Structure::read(&[0; #bytes])
            }
        }
    }
}

/// The type of a field.
fn kind(field: &Type) -> TokenStream {
    match field {
        Type::Number(one) => number(*one),
        Type::Record(name) => {
            let name = identifier(name);
            quote!(#name)
        }
        Type::Array(element, count) => {
            let (element, count) = (kind(element), usize_of(*count));
            quote!([#element; #count])
        }
        Type::Pointer(..) | Type::Void | Type::Function(_) | Type::Other(_) => {
            quote!(::farcall::ExecutorAddr)
        }
    }
}

fn usize_of(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
