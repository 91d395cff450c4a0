//! The layout of C types on the 64-bit systems that farcall knows: sizes, alignments, offsets.
//!
//! Invariant: no size overflows; a size that would is the largest one, which every limit refuses.

use std::fmt;
use std::sync::Arc;

/// A type of C that a function takes or returns, or that a field has.
///
/// `char` is [`I8`](Type::I8), on AArch64 [`U8`](Type::U8). `long` is [`I64`](Type::I64), an enumeration is [`U32`](Type::U32). The
/// target of a pointer is not known. Arrays are fields of structures alone, as in C.
///
/// # Examples
///
/// ```
/// # use farcall_base as farcall;
/// use farcall::types::{Struct, Type};
///
/// let point = Type::from(Struct::new("point").field("x", Type::F64).field("y", Type::F64));
/// assert_eq!((point.bytes(), point.alignment()), (16, 8));
/// assert_eq!(point.to_string(), "struct point");
/// assert_eq!(Type::U32.to_string(), "uint32_t");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Type {
    /// `bool`.
    Bool,
    /// `int8_t`, `char`.
    I8,
    /// `uint8_t`, `unsigned char`.
    U8,
    /// `int16_t`, `short`.
    I16,
    /// `uint16_t`, `unsigned short`.
    U16,
    /// `int32_t`, `int`.
    I32,
    /// `uint32_t`, `unsigned`.
    U32,
    /// `int64_t`, `long`, `ssize_t`, `ptrdiff_t`.
    I64,
    /// `uint64_t`, `unsigned long`, `size_t`.
    U64,
    /// `float`.
    F32,
    /// `double`.
    F64,
    /// A pointer of the executor.
    Pointer,
    /// A vector of 128 bits: `__m128`, `__m128d`, `__m128i`.
    V128,
    /// A structure, passed by value.
    Struct(Arc<Struct>),
    /// An array, as a field: the type and the number of its elements.
    Array(Arc<Type>, usize),
}

/// A structure of C, with the layout that C gives it.
///
/// # Examples
///
/// ```
/// # use farcall_base as farcall;
/// use farcall::types::{Struct, Type};
///
/// let packet = Struct::new("packet")
///     .field("kind", Type::U8)
///     .field("bytes", Type::array(Type::U16, 3))
///     .field("sum", Type::F32);
/// let offsets: Vec<usize> = packet.fields().iter().map(|field| field.offset).collect();
/// assert_eq!(offsets, [0, 2, 8]);
/// assert_eq!(packet.bytes(), 12);
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Struct {
    name: String,
    fields: Vec<Field>,
    /// The end of the last field.
    end: usize,
    alignment: usize,
    /// All fields have bytes.
    is_whole: bool,
    /// How deep structures and arrays lie in each other, this one included.
    depth: usize,
}

/// A field of a [`Struct`].
///
/// # Examples
///
/// ```
/// # use farcall_base as farcall;
/// use farcall::types::{Struct, Type};
///
/// let point = Struct::new("point").field("x", Type::F64).field("y", Type::F64);
/// assert_eq!((point.fields()[1].name.as_str(), point.fields()[1].offset), ("y", 8));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Field {
    /// Its name, perhaps empty.
    pub name: String,
    /// Its type.
    pub kind: Type,
    /// Bytes from the start of the structure.
    pub offset: usize,
}

impl Type {
    /// An array of `count` elements, for fields.
    #[must_use]
    pub fn array(element: Type, count: usize) -> Type {
        Type::Array(Arc::new(element), count)
    }

    /// The size in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        match self {
            Type::Bool | Type::I8 | Type::U8 => 1,
            Type::I16 | Type::U16 => 2,
            Type::I32 | Type::U32 | Type::F32 => 4,
            Type::I64 | Type::U64 | Type::F64 | Type::Pointer => 8,
            Type::V128 => 16,
            Type::Struct(one) => one.bytes(),
            Type::Array(element, count) => element.bytes().saturating_mul(*count),
        }
    }

    /// Whether it counts: an integer or a pointer, but no `bool`.
    #[doc(hidden)]
    pub fn is_integer_or_pointer(&self) -> bool {
        match self {
            Type::I8 | Type::U8 | Type::I16 | Type::U16 => true,
            Type::I32 | Type::U32 | Type::I64 | Type::U64 | Type::Pointer => true,
            Type::Bool | Type::F32 | Type::F64 | Type::V128 => false,
            Type::Struct(_) | Type::Array(..) => false,
        }
    }

    /// The alignment in bytes.
    #[must_use]
    pub fn alignment(&self) -> usize {
        match self {
            Type::Struct(one) => one.alignment,
            Type::Array(element, _) => element.alignment(),
            other => other.bytes(),
        }
    }

    /// True when both have the same layout and the same numbers in it. Names do not count.
    #[must_use]
    pub fn is_like(&self, other: &Type) -> bool {
        match (self, other) {
            (Type::Struct(one), Type::Struct(other)) => {
                let pairs = || one.fields.iter().zip(&other.fields);
                one.bytes() == other.bytes()
                    && one.fields.len() == other.fields.len()
                    && pairs().all(|(a, b)| a.offset == b.offset && a.kind.is_like(&b.kind))
            }
            (Type::Array(one, count), Type::Array(other, others)) => {
                count == others && one.is_like(other)
            }
            _ => self == other,
        }
    }

    /// Whether a value of it has bytes, and all parts of it have.
    #[doc(hidden)]
    pub fn is_whole(&self) -> bool {
        match self {
            Type::Struct(one) => one.is_whole && !one.fields.is_empty(),
            Type::Array(element, count) => *count > 0 && element.is_whole(),
            _ => true,
        }
    }

    /// How deep structures and arrays lie in each other.
    pub(super) fn depth(&self) -> usize {
        match self {
            Type::Struct(one) => one.depth,
            Type::Array(element, _) => element.depth() + 1,
            _ => 0,
        }
    }

    /// Whether it is `float` or `double`.
    #[doc(hidden)]
    pub fn is_float(&self) -> bool {
        matches!(self, Type::F32 | Type::F64)
    }

    /// Calls `visit` with each number in it that is no structure and no array, and the number's offset. Ends when `visit` returns
    /// false.
    #[doc(hidden)]
    pub fn each_number(&self, offset: usize, visit: &mut impl FnMut(&Type, usize) -> bool) -> bool {
        match self {
            Type::Struct(one) => one
                .fields
                .iter()
                .all(|field| field.kind.each_number(offset.saturating_add(field.offset), visit)),
            Type::Array(element, count) => (0..*count).all(|at| {
                element
                    .each_number(offset.saturating_add(at.saturating_mul(element.bytes())), visit)
            }),
            number => visit(number, offset),
        }
    }
}

impl Struct {
    /// A structure without fields yet. Its name appears in messages.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Struct {
        let (name, fields) = (name.into(), Vec::new());
        Struct { name, fields, end: 0, alignment: 1, is_whole: true, depth: 1 }
    }

    /// Adds a field behind the others.
    #[must_use]
    pub fn field(mut self, name: impl Into<String>, kind: Type) -> Struct {
        let offset = self.end.checked_next_multiple_of(kind.alignment()).unwrap_or(usize::MAX);
        self.end = offset.saturating_add(kind.bytes());
        self.alignment = self.alignment.max(kind.alignment());
        self.is_whole &= kind.is_whole();
        self.depth = self.depth.max(kind.depth() + 1);
        self.fields.push(Field { name: name.into(), kind, offset });
        self
    }

    /// The name, perhaps empty.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The fields, in order.
    #[must_use]
    pub fn fields(&self) -> &[Field] {
        &self.fields
    }

    /// The size in bytes, a multiple of the alignment.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.end.checked_next_multiple_of(self.alignment).unwrap_or(usize::MAX)
    }
}

impl From<Struct> for Type {
    fn from(one: Struct) -> Type {
        Type::Struct(Arc::new(one))
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Type::Bool => "bool",
            Type::I8 => "int8_t",
            Type::U8 => "uint8_t",
            Type::I16 => "int16_t",
            Type::U16 => "uint16_t",
            Type::I32 => "int32_t",
            Type::U32 => "uint32_t",
            Type::I64 => "int64_t",
            Type::U64 => "uint64_t",
            Type::F32 => "float",
            Type::F64 => "double",
            Type::Pointer => "void *",
            Type::V128 => "__m128",
            Type::Struct(one) if one.name.is_empty() => return write!(f, "{one}"),
            Type::Struct(one) => return write!(f, "struct {}", one.name),
            Type::Array(element, count) => return write!(f, "{element}[{count}]"),
        })
    }
}

/// The whole definition, as C writes it.
impl fmt::Display for Struct {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("struct ")?;
        if !self.name.is_empty() {
            write!(f, "{} ", self.name)?;
        }
        f.write_str("{ ")?;
        for Field { name, kind, .. } in &self.fields {
            let (mut element, mut counts) = (kind, String::new());
            while let Type::Array(of, count) = element {
                counts.push_str(&format!("[{count}]"));
                element = of;
            }
            let space = if matches!(element, Type::Pointer) { "" } else { " " };
            write!(f, "{element}{space}{name}{counts}; ")?;
        }
        f.write_str("}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layouts_are_as_in_c() {
        let inner = Struct::new("inner").field("a", Type::I8).field("b", Type::I64);
        assert_eq!((inner.bytes(), inner.alignment), (16, 8));
        let outer = Struct::new("outer")
            .field("c", Type::I8)
            .field("inner", Type::array(inner.into(), 2))
            .field("d", Type::I16)
            .field("v", Type::V128)
            .field("e", Type::Bool);
        let offsets: Vec<_> = outer.fields().iter().map(|field| field.offset).collect();
        assert_eq!(offsets, [0, 8, 40, 48, 64]);
        assert_eq!((outer.bytes(), Type::from(outer).alignment()), (80, 16));
    }

    #[test]
    fn no_size_overflows() {
        let huge = Type::array(Type::array(Type::V128, usize::MAX), usize::MAX);
        assert_eq!(huge.bytes(), usize::MAX);
        let one = Struct::new("").field("a", huge).field("b", Type::I64).field("c", Type::V128);
        assert_eq!(one.bytes(), usize::MAX);
    }

    #[test]
    fn likeness_is_layout_and_numbers_without_names() {
        let two = |name: &str, kind: Type| Type::from(Struct::new(name).field(name, kind));
        assert!(two("a", Type::I32).is_like(&two("b", Type::I32)));
        assert!(!two("a", Type::I32).is_like(&two("a", Type::U32)));
        assert!(!two("a", Type::I32).is_like(&Type::I32));
        let array = |count| two("a", Type::array(Type::I8, count));
        assert!(array(2).is_like(&array(2)) && !array(2).is_like(&array(3)));
    }
}
