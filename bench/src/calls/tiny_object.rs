//! Small relocatable objects, made without a compiler: machine code in, ELF out.
//!
//! Invariant: the library's own builder makes every object; no linker can tell it from a compiler's.

use farcall::link::{Frame, ObjectBuilder};

/// An object under construction: functions, variables, and fields that refer to symbols of this object or of others. A chain
/// of calls for [`ObjectBuilder`], which makes it.
///
/// # Examples
/// ```
/// use farcall_bench::{TinyObject, tiny_code};
/// let object = TinyObject::new().function("echo", tiny_code::NULL_CALL).bytes();
/// assert_eq!(object[..4], *b"\x7fELF");
/// ```
#[derive(Debug)]
pub struct TinyObject {
    parts: Vec<Part>,
}

/// A function or a variable.
#[derive(Debug)]
struct Part {
    name: String,
    bytes: Vec<u8>,
    is_function: bool,
    is_unwound: bool,
    fields: Vec<Field>,
}

/// Four bytes of a part that refer to a symbol.
#[derive(Debug)]
struct Field {
    offset: u64,
    symbol: String,
    is_call: bool,
}

impl TinyObject {
    /// An object that defines nothing.
    #[must_use]
    pub fn new() -> TinyObject {
        TinyObject { parts: Vec::new() }
    }

    /// Adds a global function with this machine code, which must not depend on its address except
    /// through [`call_at`](Self::call_at) and [`data_at`](Self::data_at).
    #[must_use]
    pub fn function(self, name: &str, code: &[u8]) -> TinyObject {
        self.define(name, code, true)
    }

    /// Adds a global variable with this first value, aligned to 8.
    #[must_use]
    pub fn variable(self, name: &str, value: &[u8]) -> TinyObject {
        self.define(name, value, false)
    }

    /// Makes the four bytes at `offset` of the newest function the operand of a `call` or `jmp` to `symbol`, which need not be
    /// defined here.
    ///
    /// # Panics
    /// When nothing was added yet.
    #[must_use]
    pub fn call_at(self, offset: u64, symbol: &str) -> TinyObject {
        self.refer(offset, symbol, true)
    }

    /// Makes the four bytes at `offset` of the newest function the distance from their end to the variable `symbol`, which need
    /// not be defined here. The instruction must end with them.
    ///
    /// # Panics
    /// When nothing was added yet.
    #[must_use]
    pub fn data_at(self, offset: u64, symbol: &str) -> TinyObject {
        self.refer(offset, symbol, false)
    }

    /// Adds unwind information for the functions added so far, as of code that never moves the stack pointer.
    ///
    /// # Panics
    /// When there is no function.
    #[must_use]
    pub fn unwound(mut self) -> TinyObject {
        assert!(self.parts.iter().any(|part| part.is_function), "there is no function");
        for part in &mut self.parts {
            part.is_unwound = part.is_function;
        }
        self
    }

    /// The object file.
    ///
    /// # Panics
    /// When two parts have one name, a name contains a NUL byte, or a field is outside of its part.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        let mut object = ObjectBuilder::new("tiny.o");
        for Part { name, bytes, is_function, is_unwound, fields } in &self.parts {
            let part = match is_function {
                true => object.function(name.as_str(), bytes.as_slice()),
                false => object.data(name.as_str(), bytes.as_slice()),
            };
            for Field { offset, symbol, is_call } in fields {
                match is_call {
                    true => part.call(*offset, symbol),
                    false => part.distance(*offset, symbol, 0),
                };
            }
            if *is_unwound {
                part.frame(Frame::new());
            }
        }
        let object = object.build().expect("parts of different names, with fields inside of them");
        object.bytes().to_vec()
    }

    fn define(mut self, name: &str, bytes: &[u8], is_function: bool) -> TinyObject {
        self.parts.push(Part {
            name: name.to_owned(),
            bytes: bytes.to_vec(),
            is_function,
            is_unwound: false,
            fields: Vec::new(),
        });
        self
    }

    fn refer(mut self, offset: u64, symbol: &str, is_call: bool) -> TinyObject {
        let part = self.parts.last_mut().expect("a part is added before its fields");
        part.fields.push(Field { offset, symbol: symbol.to_owned(), is_call });
        self
    }
}

impl Default for TinyObject {
    fn default() -> TinyObject {
        TinyObject::new()
    }
}
