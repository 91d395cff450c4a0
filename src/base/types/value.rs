//! Values of C types.

use std::fmt;

use super::layout::Type;
use crate::ExecutorAddr;
use crate::error::{Error, ErrorKind, Result};

/// An argument or a result of a function whose types are known at run time.
///
/// A value has the type of its function's parameter exactly: an [`I32`](Value::I32) is no argument for `int64_t`. A structure is
/// given as the bytes of its layout or by its fields; a result comes as bytes, and [`Value::into_fields`] takes them apart.
///
/// # Examples
///
/// ```
/// # use farcall_base as farcall;
/// use farcall::types::{Struct, Type, Value};
///
/// let point = Type::from(Struct::new("point").field("x", Type::F64).field("y", Type::F64));
/// let value = Value::Fields(vec![Value::F64(1.0), 2.0.into()]);
/// let bytes = value.to_bytes(&point)?;
/// assert_eq!(bytes[8..], 2.0_f64.to_ne_bytes());
/// assert_eq!(Value::Bytes(bytes).into_fields(&point)?, [1.0.into(), 2.0.into()]);
/// assert!(value.to_bytes(&Type::F64).is_err());
/// # Ok::<(), farcall::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Value {
    /// No result.
    Void,
    /// `bool`.
    Bool(bool),
    /// `int8_t`.
    I8(i8),
    /// `uint8_t`.
    U8(u8),
    /// `int16_t`.
    I16(i16),
    /// `uint16_t`.
    U16(u16),
    /// `int32_t`.
    I32(i32),
    /// `uint32_t`.
    U32(u32),
    /// `int64_t`.
    I64(i64),
    /// `uint64_t`.
    U64(u64),
    /// `float`.
    F32(f32),
    /// `double`.
    F64(f64),
    /// A pointer of the executor.
    Pointer(ExecutorAddr),
    /// A vector of 128 bits.
    V128([u8; 16]),
    /// The bytes of a structure, padding included.
    Bytes(Vec<u8>),
    /// The fields of a structure, or the elements of an array in one.
    Fields(Vec<Value>),
}

impl Value {
    /// The bytes of the value in memory, as a value of this type.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::TypeMismatch`] when it is no value of the type.
    pub fn to_bytes(&self, kind: &Type) -> Result<Vec<u8>> {
        self.check(kind)?;
        let mut bytes = vec![0; kind.bytes()];
        self.store(kind, &mut bytes);
        Ok(bytes)
    }

    /// The value of this type that these bytes are. The bytes of a structure stay bytes.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::TypeMismatch`] when their number is not the size of the type.
    pub fn from_bytes(kind: &Type, bytes: &[u8]) -> Result<Value> {
        let size = || {
            let given = bytes.len();
            mismatch(format!("{kind} has {} bytes, and {given} were given", kind.bytes()))
        };
        macro_rules! number {
            ($variant:ident: $number:ty) => {
                Value::$variant(<$number>::from_le_bytes(bytes.try_into().map_err(|_| size())?))
            };
        }
        Ok(match kind {
            Type::Bool => match bytes {
                [byte] => Value::Bool(*byte != 0),
                _ => return Err(size()),
            },
            Type::I8 => number!(I8: i8),
            Type::U8 => number!(U8: u8),
            Type::I16 => number!(I16: i16),
            Type::U16 => number!(U16: u16),
            Type::I32 => number!(I32: i32),
            Type::U32 => number!(U32: u32),
            Type::I64 => number!(I64: i64),
            Type::U64 => number!(U64: u64),
            Type::F32 => number!(F32: f32),
            Type::F64 => number!(F64: f64),
            Type::Pointer => {
                let address = bytes.try_into().map_err(|_| size())?;
                Value::Pointer(ExecutorAddr::new(u64::from_le_bytes(address)))
            }
            Type::V128 => Value::V128(bytes.try_into().map_err(|_| size())?),
            Type::Struct(_) | Type::Array(..) if bytes.len() == kind.bytes() => {
                Value::Bytes(bytes.to_vec())
            }
            Type::Struct(_) | Type::Array(..) => return Err(size()),
        })
    }

    /// The fields of a structure of this type, or the elements of an array. Structures in it stay bytes.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::TypeMismatch`] when the value is no structure or array of the type.
    pub fn into_fields(self, kind: &Type) -> Result<Vec<Value>> {
        self.check(kind)?;
        match (self, kind) {
            (Value::Fields(fields), _) => Ok(fields),
            (Value::Bytes(bytes), Type::Struct(one)) => {
                let part = |(at, kind): (usize, &Type)| {
                    Value::from_bytes(kind, bytes.get(at..at + kind.bytes()).unwrap_or_default())
                };
                one.fields().iter().map(|field| part((field.offset, &field.kind))).collect()
            }
            (Value::Bytes(bytes), Type::Array(element, _)) => {
                let parts = bytes.chunks(element.bytes().max(1));
                parts.map(|part| Value::from_bytes(element, part)).collect()
            }
            (other, _) => Err(mismatch(format!("{} has no fields", other.what()))),
        }
    }

    /// Checks that it is a value of the type.
    #[doc(hidden)]
    pub fn check(&self, kind: &Type) -> Result<()> {
        let is_one = match (self, kind) {
            (Value::Bool(_), Type::Bool)
            | (Value::I8(_), Type::I8)
            | (Value::U8(_), Type::U8)
            | (Value::I16(_), Type::I16)
            | (Value::U16(_), Type::U16)
            | (Value::I32(_), Type::I32)
            | (Value::U32(_), Type::U32)
            | (Value::I64(_), Type::I64)
            | (Value::U64(_), Type::U64)
            | (Value::F32(_), Type::F32)
            | (Value::F64(_), Type::F64)
            | (Value::Pointer(_), Type::Pointer)
            | (Value::V128(_), Type::V128) => true,
            (Value::Bytes(bytes), Type::Struct(_) | Type::Array(..)) => bytes.len() == kind.bytes(),
            (Value::Fields(values), Type::Struct(one)) => {
                let fields = one.fields();
                if values.len() == fields.len() {
                    for (value, field) in values.iter().zip(fields) {
                        let what = |error: Error| {
                            error.during(format_args!("field {} of {kind}", field.name))
                        };
                        value.check(&field.kind).map_err(what)?;
                    }
                    return Ok(());
                }
                false
            }
            (Value::Fields(values), Type::Array(element, count)) => {
                if values.len() == *count {
                    return values.iter().try_for_each(|value| value.check(element));
                }
                false
            }
            _ => false,
        };
        if is_one {
            return Ok(());
        }
        let size = match kind {
            Type::Struct(one) => {
                format!(" of {} bytes, {} fields", one.bytes(), one.fields().len())
            }
            _ => String::new(),
        };
        Err(mismatch(format!("expected {kind}{size}, given {}", self.what())))
    }

    /// True when the number is extended by ones.
    #[doc(hidden)]
    pub fn is_negative(&self) -> bool {
        match self {
            Value::I8(value) => *value < 0,
            Value::I16(value) => *value < 0,
            Value::I32(value) => *value < 0,
            _ => false,
        }
    }

    /// Stores the value, which was [checked](Value::check), over zeros.
    #[doc(hidden)]
    pub fn store(&self, kind: &Type, to: &mut [u8]) {
        match (self, kind) {
            (Value::Fields(values), Type::Struct(one)) => {
                for (value, field) in values.iter().zip(one.fields()) {
                    if let Some(to) = to.get_mut(field.offset..) {
                        value.store(&field.kind, to);
                    }
                }
            }
            (Value::Fields(values), Type::Array(element, _)) => {
                for (value, to) in values.iter().zip(to.chunks_mut(element.bytes().max(1))) {
                    value.store(element, to);
                }
            }
            _ => self.with_bytes(|bytes| {
                if let Some(to) = to.get_mut(..bytes.len()) {
                    to.copy_from_slice(bytes);
                }
            }),
        }
    }

    /// Calls `visit` with the bytes of a number, or of a structure that is given by its bytes.
    fn with_bytes(&self, visit: impl FnOnce(&[u8])) {
        match self {
            Value::Void | Value::Fields(_) => visit(&[]),
            Value::Bool(value) => visit(&[u8::from(*value)]),
            Value::I8(value) => visit(&value.to_le_bytes()),
            Value::U8(value) => visit(&value.to_le_bytes()),
            Value::I16(value) => visit(&value.to_le_bytes()),
            Value::U16(value) => visit(&value.to_le_bytes()),
            Value::I32(value) => visit(&value.to_le_bytes()),
            Value::U32(value) => visit(&value.to_le_bytes()),
            Value::I64(value) => visit(&value.to_le_bytes()),
            Value::U64(value) => visit(&value.to_le_bytes()),
            Value::F32(value) => visit(&value.to_le_bytes()),
            Value::F64(value) => visit(&value.to_le_bytes()),
            Value::Pointer(value) => visit(&value.get().to_le_bytes()),
            Value::V128(bytes) => visit(bytes),
            Value::Bytes(bytes) => visit(bytes),
        }
    }

    /// The type of the value, for messages.
    fn what(&self) -> String {
        match self {
            Value::Void => "void".to_owned(),
            Value::Bytes(bytes) => format!("{} bytes", bytes.len()),
            Value::Fields(values) => format!("{} fields", values.len()),
            Value::Bool(_) => Type::Bool.to_string(),
            Value::I8(_) => Type::I8.to_string(),
            Value::U8(_) => Type::U8.to_string(),
            Value::I16(_) => Type::I16.to_string(),
            Value::U16(_) => Type::U16.to_string(),
            Value::I32(_) => Type::I32.to_string(),
            Value::U32(_) => Type::U32.to_string(),
            Value::I64(_) => Type::I64.to_string(),
            Value::U64(_) => Type::U64.to_string(),
            Value::F32(_) => Type::F32.to_string(),
            Value::F64(_) => Type::F64.to_string(),
            Value::Pointer(_) => Type::Pointer.to_string(),
            Value::V128(_) => Type::V128.to_string(),
        }
    }
}

/// The error for a value that has another type than its place.
pub(super) fn mismatch(message: String) -> Error {
    Error::new(ErrorKind::TypeMismatch, message)
}

macro_rules! from {
    ($($variant:ident: $number:ty),*) => {$(
        impl From<$number> for Value {
            fn from(value: $number) -> Value {
                Value::$variant(value)
            }
        }
    )*};
}

from!(Bool: bool, I8: i8, U8: u8, I16: i16, U16: u16, I32: i32, U32: u32, I64: i64, U64: u64);
from!(F32: f32, F64: f64, Pointer: ExecutorAddr, V128: [u8; 16]);

/// The number as Rust writes it; a structure in braces.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Void => f.write_str("()"),
            Value::Bool(value) => value.fmt(f),
            Value::I8(value) => value.fmt(f),
            Value::U8(value) => value.fmt(f),
            Value::I16(value) => value.fmt(f),
            Value::U16(value) => value.fmt(f),
            Value::I32(value) => value.fmt(f),
            Value::U32(value) => value.fmt(f),
            Value::I64(value) => value.fmt(f),
            Value::U64(value) => value.fmt(f),
            Value::F32(value) => value.fmt(f),
            Value::F64(value) => value.fmt(f),
            Value::Pointer(value) => value.fmt(f),
            Value::V128(bytes) => write!(f, "{bytes:02x?}"),
            Value::Bytes(bytes) => write!(f, "{{{} bytes}}", bytes.len()),
            Value::Fields(values) => {
                f.write_str("{")?;
                for (at, value) in values.iter().enumerate() {
                    write!(f, "{}{value}", if at == 0 { "" } else { ", " })?;
                }
                f.write_str("}")
            }
        }
    }
}
