//! The declarations of a header, by types of C, without a word about their use.

use serde::{Deserialize, Serialize};

/// The declarations of a header that a binding needs.
///
/// # Examples
///
/// ```
/// let header = farcall_bind::Header::default();
/// assert!(header.functions.is_empty());
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// The functions, in the order of the header.
    pub functions: Vec<Function>,
    /// The complete structures and unions that functions name, each behind those that it contains.
    pub records: Vec<Record>,
    /// Macros and enumerators with values.
    pub constants: Vec<Constant>,
}

/// A function.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the fields are named after C")]
pub struct Function {
    pub name: String,
    /// The declaration in C.
    pub declaration: String,
    /// `FILE:LINE`.
    pub place: String,
    pub prototype: Prototype,
}

/// The type of a function.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the fields are named after C")]
pub struct Prototype {
    pub parameters: Vec<Parameter>,
    pub result: Type,
    pub is_variadic: bool,
}

/// A parameter. Its name is empty where the header has none.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the fields are named after C")]
pub struct Parameter {
    pub name: String,
    pub kind: Type,
}

/// A type, without names of `typedef`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Type {
    /// `void`.
    Void,
    /// An integer, an enumeration, `bool` or a floating-point number.
    Number(Number),
    /// A pointer to a type, which may be `const`.
    Pointer(Box<Type>, bool),
    /// A structure or union by its name, complete or not.
    Record(String),
    /// An array with its length.
    Array(Box<Type>, u64),
    /// A function, behind a pointer.
    Function(Box<Prototype>),
    /// A type that does not cross, as C writes it.
    Other(String),
}

/// A number of C.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the variants are named after C")]
pub enum Number {
    Bool,
    Char,
    I8,
    U8,
    I16,
    U16,
    I32,
    U32,
    I64,
    U64,
    F32,
    F64,
}

impl Number {
    /// The bytes in memory.
    #[must_use]
    pub fn bytes(self) -> u64 {
        match self {
            Self::Bool | Self::Char | Self::I8 | Self::U8 => 1,
            Self::I16 | Self::U16 => 2,
            Self::I32 | Self::U32 | Self::F32 => 4,
            Self::I64 | Self::U64 | Self::F64 => 8,
        }
    }

    /// True for numbers that can count.
    #[must_use]
    pub fn is_integer(self) -> bool {
        !matches!(self, Self::Bool | Self::F32 | Self::F64)
    }

    /// True for integers of 64 bits, as lengths are.
    #[must_use]
    pub fn may_be_length(self) -> bool {
        self.is_integer() && self.bytes() == 8
    }

    /// True for one byte of text or data.
    #[must_use]
    pub fn is_byte(self) -> bool {
        matches!(self, Self::Char | Self::I8 | Self::U8)
    }
}

/// A complete structure or union.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the fields are named after C")]
pub struct Record {
    pub name: String,
    pub bytes: u64,
    pub alignment: u64,
    /// True if an array without a length is at its end.
    pub is_flexible: bool,
    /// None for a union, and for a structure with bit fields or fields without a name: such a record is bytes.
    pub fields: Option<Vec<Field>>,
}

/// A field of a structure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the fields are named after C")]
pub struct Field {
    pub name: String,
    pub offset: u64,
    pub kind: Type,
}

/// A constant: a macro or an enumerator.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the fields are named after C")]
pub struct Constant {
    pub name: String,
    pub value: Value,
}

/// The value of a constant.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Value {
    /// An integer with its type; one of 64 bits without a sign has its bits.
    Integer(Number, i64),
    /// A floating-point number.
    Float(f64),
    /// A string.
    Text(String),
}
