//! Macros and enumerators as constants.

use std::ffi::CString;

use proc_macro2::{Literal, TokenStream};
use quote::quote;

use super::{identifier, number};
use crate::header::{Constant, Number, Value};

/// A constant.
pub(super) fn constant(constant: &Constant) -> TokenStream {
    let name = identifier(&constant.name);
    match &constant.value {
        Value::Integer(Number::Bool, value) => {
            let value = *value != 0;
            quote!(pub const #name: bool = #value;)
        }
        Value::Integer(kind, value) => {
            let literal = match kind {
                Number::U64 => Literal::u64_unsuffixed(value.cast_unsigned()),
                _ => Literal::i64_unsuffixed(*value),
            };
            let kind = number(*kind);
            quote!(pub const #name: #kind = #literal;)
        }
        Value::Float(value) if value.is_finite() => quote!(pub const #name: f64 = #value;),
        Value::Float(value) => {
            let bits = value.to_bits();
            quote!(pub const #name: f64 = f64::from_bits(#bits);)
        }
        Value::Text(text) => match CString::new(text.as_str()) {
            Ok(text) => {
                let text = Literal::c_string(&text);
                quote!(pub const #name: &::core::ffi::CStr = #text;)
            }
            Err(_) => quote!(),
        },
    }
}
