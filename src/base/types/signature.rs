//! The type of a function, known at run time.

use std::fmt;

use super::layout::Type;
use super::value::{Value, mismatch};
use crate::error::{Error, Result};

/// The parameters and the result of a C function.
///
/// It is built by methods, or read from a prototype as C writes it. [`str::parse`] reads one, and
/// [`Declarations`](super::Declarations) one with structures that have names. The name of the function appears in messages.
///
/// # Examples
///
/// ```
/// # use farcall_base as farcall;
/// use farcall::types::{Signature, Type};
///
/// let scale: Signature = "double scale(long count, double unit)".parse()?;
/// let built = Signature::new().parameter(Type::I64).parameter(Type::F64).returns(Type::F64);
/// assert!(scale.is_like(&built));
/// assert_eq!(scale.to_string(), "double scale(int64_t, double)");
/// let error = "double scale(long, dubble)".parse::<Signature>().expect_err("no such type");
/// assert!(error.to_string().contains("column 20"), "{error}");
/// # Ok::<(), farcall::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default, Hash)]
pub struct Signature {
    name: String,
    parameters: Vec<Type>,
    result: Option<Type>,
}

impl Signature {
    /// A function without parameters and without a result.
    #[must_use]
    pub fn new() -> Signature {
        Signature::default()
    }

    /// Gives the function a name, for messages.
    #[must_use]
    pub fn named(mut self, name: impl Into<String>) -> Signature {
        self.name = name.into();
        self
    }

    /// Adds a parameter behind the others.
    #[must_use]
    pub fn parameter(mut self, kind: Type) -> Signature {
        self.parameters.push(kind);
        self
    }

    /// Sets the type of the result.
    #[must_use]
    pub fn returns(mut self, kind: Type) -> Signature {
        self.result = Some(kind);
        self
    }

    /// The name of the function, perhaps empty.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The types of the parameters, in order.
    #[must_use]
    pub fn parameters(&self) -> &[Type] {
        &self.parameters
    }

    /// The type of the result; `None` for `void`.
    #[must_use]
    pub fn result(&self) -> Option<&Type> {
        self.result.as_ref()
    }

    /// True when a caller of one type calls a function of the other rightly: all types are [alike](Type::is_like).
    #[must_use]
    pub fn is_like(&self, other: &Signature) -> bool {
        let results = match (&self.result, &other.result) {
            (Some(one), Some(other)) => one.is_like(other),
            (one, other) => one.is_none() && other.is_none(),
        };
        let pairs = || self.parameters.iter().zip(&other.parameters);
        results
            && self.parameters.len() == other.parameters.len()
            && pairs().all(|(one, other)| one.is_like(other))
    }

    /// Checks the arguments of a call.
    #[doc(hidden)]
    pub fn check(&self, arguments: &[Value]) -> Result<()> {
        let (due, given) = (self.parameters.len(), arguments.len());
        if due != given {
            return Err(mismatch(format!("{self}: expected {due} arguments, given {given}")));
        }
        for (at, (value, kind)) in arguments.iter().zip(&self.parameters).enumerate() {
            let what = |error: Error| error.during(format_args!("{self}: argument {}", at + 1));
            value.check(kind).map_err(what)?;
        }
        Ok(())
    }
}

impl fmt::Display for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.result {
            None => f.write_str("void ")?,
            Some(kind @ Type::Pointer) => write!(f, "{kind}")?,
            Some(kind) => write!(f, "{kind} ")?,
        }
        let name = if self.name.is_empty() { "f" } else { &self.name };
        write!(f, "{name}(")?;
        for (at, kind) in self.parameters.iter().enumerate() {
            write!(f, "{}{kind}", if at == 0 { "" } else { ", " })?;
        }
        f.write_str(if self.parameters.is_empty() { "void)" } else { ")" })
    }
}
