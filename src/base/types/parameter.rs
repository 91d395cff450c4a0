//! A parameter of a prototype with what its type leaves out: its name, and what its pointer leads to.

use super::layout::Type;
use super::signature::Signature;

/// A parameter of a prototype. [`Declarations::parameters`](super::Declarations::parameters) reads a function's parameters.
///
/// # Examples
///
/// ```
/// # use farcall_base as farcall;
/// use farcall::types::{Declarations, Target, Type};
///
/// let parameters = Declarations::new().parameters("double sum(const double *values, size_t)")?;
/// assert_eq!((parameters[0].name.as_str(), &parameters[0].kind), ("values", &Type::Pointer));
/// let values = parameters[0].pointee.as_ref().expect("a pointer");
/// assert!(values.is_const && values.target == Target::Value(Type::F64));
/// assert_eq!(parameters[1].pointee, None);
/// # Ok::<(), farcall::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Parameter {
    /// Its name, perhaps empty.
    pub name: String,
    /// Its type in calls, where arrays and functions are pointers.
    pub kind: Type,
    /// The target of a pointer.
    pub pointee: Option<Pointee>,
}

/// The target of a pointer among the parameters.
///
/// # Examples
///
/// ```
/// # use farcall_base as farcall;
/// use farcall::types::{Declarations, Target};
///
/// let parameters = Declarations::new().parameters("int puts(const char *)")?;
/// let text = parameters[0].pointee.as_ref().expect("a pointer");
/// assert!(text.is_const && text.target == Target::Character);
/// # Ok::<(), farcall::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Pointee {
    /// Its type.
    pub target: Target,
    /// The function only reads it.
    pub is_const: bool,
}

/// The type that a pointer leads to.
///
/// # Examples
///
/// ```
/// # use farcall_base as farcall;
/// use farcall::types::{Declarations, Target, Type};
///
/// let parameters = Declarations::new().parameters("void f(double (*rows)[3], struct closed *)")?;
/// let targets: Vec<Target> = parameters.into_iter().filter_map(|one| one.pointee).map(|one| one.target).collect();
/// assert_eq!(targets, [Target::Value(Type::array(Type::F64, 3)), Target::Undefined("closed".to_owned())]);
/// # Ok::<(), farcall::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Target {
    /// `void`.
    Void,
    /// `char`, the element of texts.
    Character,
    /// A number, a pointer, a structure or an array. `__m128` is an array of four `float`, `__m128d` one of two `double`.
    Value(Type),
    /// A structure that is not defined, by its name.
    Undefined(String),
    /// A function.
    Function(Signature),
}
