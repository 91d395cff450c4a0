//! Values of C types, tagged with their types.

use farcall::ExecutorAddr;
use farcall::types::{Type, Value as Typed};

use super::buffer::Buffer;
use super::error::invalid;

/// The type of a value.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueKind {
    /// No value: the result of a function that returns void.
    Void = 0,
    /// boolean
    Bool = 1,
    /// i8
    I8 = 2,
    /// u8
    U8 = 3,
    /// i16
    I16 = 4,
    /// u16
    U16 = 5,
    /// i32
    I32 = 6,
    /// u32
    U32 = 7,
    /// i64
    I64 = 8,
    /// u64
    U64 = 9,
    /// f32
    F32 = 10,
    /// f64
    F64 = 11,
    /// address: a pointer of the executor.
    Pointer = 12,
    /// vector: 128 bits.
    V128 = 13,
    /// bytes: those of a structure, padding included.
    Bytes = 14,
}

/// A value without its type: the member that the kind names.
#[repr(C)]
#[derive(Clone, Copy)]
pub union ValueData {
    /// FARCALL_BOOL
    pub boolean: bool,
    /// FARCALL_I8
    pub i8: i8,
    /// FARCALL_U8
    pub u8: u8,
    /// FARCALL_I16
    pub i16: i16,
    /// FARCALL_U16
    pub u16: u16,
    /// FARCALL_I32
    pub i32: i32,
    /// FARCALL_U32
    pub u32: u32,
    /// FARCALL_I64
    pub i64: i64,
    /// FARCALL_U64
    pub u64: u64,
    /// FARCALL_F32
    pub f32: f32,
    /// FARCALL_F64
    pub f64: f64,
    /// FARCALL_POINTER
    pub address: u64,
    /// FARCALL_V128
    pub vector: [u8; 16],
    /// FARCALL_BYTES
    pub bytes: Buffer,
}

/// An argument or a result. Its type is exactly that of the parameter: an int32_t is no argument for int64_t.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Value {
    /// A farcall_value_kind.
    pub kind: u32,
    /// The value.
    pub data: ValueData,
}

impl std::fmt::Debug for ValueData {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ValueData")
    }
}

impl std::fmt::Debug for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Value of kind {}", self.kind)
    }
}

/// Frees the bytes of a result of the kind FARCALL_BYTES, and leaves FARCALL_VOID. Others need not be freed. May be NULL: value.
///
/// # Safety
///
/// The value must be the caller's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_value_dispose(value: *mut Value) {
    // SAFETY: the caller vouches for the value.
    let Some(value) = (unsafe { value.as_mut() }) else { return };
    if value.kind == ValueKind::Bytes as u32 {
        // SAFETY: the kind says that it is a buffer.
        let bytes = unsafe { value.data.bytes };
        // SAFETY: the caller vouches for it, and it is left no more.
        drop(unsafe { bytes.take() });
    }
    *value = Value::empty(None);
}

macro_rules! numbers {
    ($($kind:ident: $member:ident),* $(,)?) => {
        /// The same for C. The bytes of a structure are a copy, which C owns.
        pub(crate) fn give(value: &Typed) -> farcall::Result<Value> {
            let (kind, data) = match value {
                $(Typed::$kind(value) => (ValueKind::$kind, ValueData { $member: *value }),)*
                Typed::Void => (ValueKind::Void, ValueData { u64: 0 }),
                Typed::Bool(value) => (ValueKind::Bool, ValueData { boolean: *value }),
                Typed::Pointer(value) => (ValueKind::Pointer, ValueData { address: value.get() }),
                Typed::V128(value) => (ValueKind::V128, ValueData { vector: *value }),
                Typed::Bytes(value) => (ValueKind::Bytes, ValueData { bytes: Buffer::of(value) }),
                other => return Err(invalid(format!("{other} has no form in C"))),
            };
            Ok(Value { kind: kind as u32, data })
        }

        /// The value that C has given; bytes are copied.
        ///
        /// # Errors
        ///
        /// When its kind is none.
        ///
        /// # Safety
        ///
        /// The member of its kind must be set.
        pub(crate) unsafe fn look(&self) -> farcall::Result<Typed> {
            /// # Safety
            ///
            /// The bytes must be a `T`.
            unsafe fn member<T: Copy>(data: &ValueData) -> T {
                // SAFETY: the caller vouches for the bytes; every member starts at the first one.
                unsafe { std::ptr::from_ref(data).cast::<T>().read() }
            }
            let data = &self.data;
            $(if self.kind == ValueKind::$kind as u32 {
                // SAFETY: the caller vouches for the member of this kind, and any bytes are a number.
                return Ok(Typed::$kind(unsafe { member(data) }));
            })*
            // SAFETY: the caller vouches that a member is set; it has at least this byte, unless the kind is Void.
            let byte = |data: &ValueData| unsafe { data.u8 };
            match self.kind {
                kind if kind == ValueKind::Void as u32 => Ok(Typed::Void),
                kind if kind == ValueKind::Bool as u32 => Ok(Typed::Bool(byte(data) != 0)),
                kind if kind == ValueKind::Pointer as u32 => {
                    // SAFETY: the caller vouches for the member of this kind.
                    Ok(Typed::Pointer(ExecutorAddr::new(unsafe { data.address })))
                }
                kind if kind == ValueKind::V128 as u32 => {
                    // SAFETY: the caller vouches for the member of this kind.
                    Ok(Typed::V128(unsafe { data.vector }))
                }
                kind if kind == ValueKind::Bytes as u32 => {
                    // SAFETY: the caller vouches for the member of this kind.
                    let bytes = unsafe { &data.bytes };
                    // SAFETY: as above.
                    unsafe { bytes.copied() }.map(Typed::Bytes)
                }
                kind => Err(invalid(format!("a value of the kind {kind}"))),
            }
        }
    };
}

impl Value {
    numbers! {
        I8: i8, U8: u8, I16: i16, U16: u16, I32: i32, U32: u32, I64: i64, U64: u64, F32: f32, F64: f64,
    }

    /// Zero of this type; the kind Void for no type and for structures.
    pub(crate) fn empty(kind: Option<&Type>) -> Self {
        let zero =
            kind.and_then(|kind| Typed::from_bytes(kind, vec![0; kind.bytes()].as_slice()).ok());
        let empty = Value { kind: ValueKind::Void as u32, data: ValueData { vector: [0; 16] } };
        zero.and_then(|zero| Self::give(&zero).ok())
            .filter(|value| value.kind != ValueKind::Bytes as u32)
            .map_or(empty, |value| Value { kind: value.kind, ..empty })
    }

    /// A value without bytes of its own, for a function of the host.
    pub(crate) fn lend(value: &Typed) -> Self {
        match value {
            Typed::Bytes(_) | Typed::Fields(_) => Self::empty(None),
            value => Self::give(value).unwrap_or_else(|_| Self::empty(None)),
        }
    }
}

const _: () = assert!(size_of::<ValueData>() == 16);
