//! The types of a C function's parameters, read from its prototype.

use farcall::Result;
use farcall::types::{self, Declarations, Pointee, Signature, Target, Type};

/// A C function, and what its parameters take.
#[derive(Debug, Clone)]
pub(crate) struct Prototype {
    pub(crate) signature: Signature,
    /// The user's text, on one line.
    pub(crate) text: String,
    pub(crate) names: Vec<String>,
    pub(crate) parameters: Vec<Parameter>,
    /// A parameter is a function.
    pub(crate) has_callbacks: bool,
}

/// The kinds of arguments of a parameter.
#[derive(Debug, Clone)]
pub(crate) enum Parameter {
    /// A number, or a structure by value.
    Value(Type),
    Pointer(Pointee),
    /// The address of a function, which may be one of Python.
    Function(Signature),
}

impl Prototype {
    /// Reads a prototype.
    ///
    /// # Errors
    ///
    /// As [`Declarations::signature`].
    pub(crate) fn read(declarations: &Declarations, text: &str) -> Result<Self> {
        let signature = declarations.signature(text)?;
        let read = declarations.parameters(text)?;
        let names = read.iter().map(|parameter| parameter.name.clone()).collect();
        let parameters: Vec<_> = read.into_iter().map(Parameter::from).collect();
        let has_callbacks = parameters.iter().any(|one| matches!(one, Parameter::Function(_)));
        Ok(Self { signature, text: on_one_line(text), names, parameters, has_callbacks })
    }
}

impl From<types::Parameter> for Parameter {
    fn from(read: types::Parameter) -> Self {
        match read.pointee {
            None => Self::Value(read.kind),
            Some(Pointee { target: Target::Function(signature), .. }) => {
                let name = if read.name.is_empty() { "callback" } else { &read.name };
                Self::Function(signature.named(name))
            }
            Some(pointee) => Self::Pointer(pointee),
        }
    }
}

/// The text without comments, with one space between words. The library has read it already, so each comment has an end.
fn on_one_line(text: &str) -> String {
    let (mut left, mut rest) = (String::new(), text);
    while let Some(at) = rest.find("//").into_iter().chain(rest.find("/*")).min() {
        let end = if rest[at..].starts_with("//") { "\n" } else { "*/" };
        left.push_str(&rest[..at]);
        left.push(' ');
        rest = rest[at + 2..].split_once(end).map_or("", |(_, behind)| behind);
    }
    left.push_str(rest);
    let words: Vec<&str> = left.trim_end_matches([';', ' ', '\n']).split_whitespace().collect();
    words.join(" ")
}
