//! How each function of a header is called: the roles of its parameters. Every language's binding is written from this.

use crate::header::{Constant, Number, Record, Type};

/// A binding without a language.
#[derive(Debug, Clone, Default)]
pub(crate) struct Plan {
    /// The functions that are bound.
    pub(crate) functions: Vec<PlannedFunction>,
    /// The structures that are copied, or stay with the library.
    pub(crate) records: Vec<Record>,
    /// Structures without fields, which are named by handles.
    pub(crate) opaque: Vec<String>,
    /// Macros and enumerators with values.
    pub(crate) constants: Vec<Constant>,
    /// Functions that are not bound, with the reason.
    pub(crate) left_out: Vec<(String, String)>,
    /// The guesses, a line each.
    pub(crate) guesses: Vec<String>,
}

/// A function that is bound.
#[derive(Debug, Clone)]
pub(crate) struct PlannedFunction {
    pub(crate) name: String,
    pub(crate) declaration: String,
    pub(crate) parameters: Vec<PlannedParameter>,
    pub(crate) result: Outcome,
}

/// A parameter.
#[derive(Debug, Clone)]
pub(crate) struct PlannedParameter {
    /// A name of C, also where the header has none.
    pub(crate) name: String,
    pub(crate) role: Role,
}

/// An element of a slice, or the target of a pointer.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Element {
    /// A number; bytes for `void`.
    Number(Number),
    /// A structure that is copied.
    Record(String),
}

/// The use of a parameter.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Role {
    /// A number.
    Number(Number),
    /// A string that the library reads, or null.
    Text,
    /// A slice that the library reads.
    Input(Element),
    /// A slice that the library writes. `length` is the parameter with the number of elements that it has written, if it says so.
    Output {
        /// Its elements.
        element: Element,
        /// The number of the parameter.
        length: Option<usize>,
        /// True if the library reads it as well.
        is_read: bool,
    },
    /// The length of the slice with that number.
    Length(usize, Number),
    /// A pointer to the length of the slice with that number, which the library changes.
    LengthPointer(usize, Number),
    /// A structure that the library reads.
    InputStructure(String),
    /// A structure or number that the library reads and writes.
    InOut(Element),
    /// A pointer that the library stores.
    InOutAddress,
    /// An object of the library.
    Handle(String),
    /// An object that the library stores.
    OutHandle(String),
    /// A string that the library stores, and the function that frees it.
    OutText(String),
    /// An address.
    Address,
    /// A closure; the parameter with that number is its data.
    Callback(Callback, usize),
    /// The data of the closure with that number.
    CallbackData(usize),
}

/// A function of the host that the library calls.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Callback {
    /// The parameters.
    pub(crate) parameters: Vec<CallbackRole>,
    /// The parameter with the data.
    pub(crate) data: usize,
    /// None for `void`.
    pub(crate) result: Option<Number>,
}

/// The use of a callback's parameter.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum CallbackRole {
    /// A number.
    Number(Number),
    /// An address.
    Address,
    /// The data of the closure.
    Data,
    /// A string, or null.
    Text,
    /// An array of strings, and the parameter that counts them.
    Texts(usize),
    /// An object of the library.
    Handle(String),
}

/// The result of a function.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Outcome {
    /// None.
    Void,
    /// A number, and whether it decides about the host's memory.
    Number(Number, bool),
    /// A string or null, and the function that frees it.
    Text(Option<String>),
    /// An object of the library.
    Handle(String),
    /// An address.
    Address,
}

impl Element {
    /// The element of a pointer to that type.
    pub(crate) fn of(kind: &Type) -> Option<Self> {
        match kind {
            Type::Void => Some(Self::Number(Number::U8)),
            Type::Number(number) => Some(Self::Number(*number)),
            Type::Record(name) => Some(Self::Record(name.clone())),
            _ => None,
        }
    }
}
