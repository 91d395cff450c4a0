//! What the parameters of a C function take, read from its prototype.
//!
//! The library's signatures know a pointer as an address. Here its target is read as well, so that arguments can be compared with it.

use farcall::Result;
use farcall::types::{Declarations, Signature, Type};

/// A C function, and what its parameters take.
#[derive(Debug, Clone)]
pub(crate) struct Prototype {
    pub(crate) signature: Signature,
    pub(crate) parameters: Vec<Parameter>,
    /// A parameter is a function.
    pub(crate) has_callbacks: bool,
}

/// What a parameter takes.
#[derive(Debug, Clone)]
pub(crate) enum Parameter {
    /// A number, or a structure by value.
    Value(Type),
    Pointer(Target),
    /// The address of a function, which may be one of Python.
    Function(Signature),
}

/// What a pointer leads to.
#[derive(Debug, Clone, Default)]
pub(crate) struct Target {
    /// Unknown for `void`, and for structures that are not defined.
    pub(crate) kind: Option<Type>,
    /// The function only reads it.
    pub(crate) is_const: bool,
    /// It is `char`.
    pub(crate) is_text: bool,
}

impl Prototype {
    /// Reads a prototype.
    ///
    /// # Errors
    ///
    /// As [`Declarations::signature`].
    pub(crate) fn read(declarations: &Declarations, text: &str) -> Result<Self> {
        let signature = declarations.signature(text)?;
        let text = without_comments(text);
        let kinds = signature.parameters();
        let texts = parameters(&text);
        let texts = if texts.len() == kinds.len() { texts } else { vec![""; kinds.len()] };
        let parameter = |(kind, text): (&Type, &str)| match kind {
            Type::Pointer => pointer(declarations, text),
            kind => Parameter::Value(kind.clone()),
        };
        let parameters: Vec<_> = kinds.iter().zip(texts).map(parameter).collect();
        let has_callbacks = parameters.iter().any(|one| matches!(one, Parameter::Function(_)));
        Ok(Self { signature, parameters, has_callbacks })
    }
}

/// The text with a space for each comment. The library has read it already, so each comment has an end.
fn without_comments(text: &str) -> String {
    let (mut left, mut rest) = (String::new(), text);
    while let Some(at) = rest.find("//").into_iter().chain(rest.find("/*")).min() {
        let end = if rest[at..].starts_with("//") { "\n" } else { "*/" };
        left.push_str(&rest[..at]);
        left.push(' ');
        rest = rest[at + 2..].split_once(end).map_or("", |(_, behind)| behind);
    }
    left + rest
}

/// The texts of the parameters: what the last parentheses hold, cut at commas.
fn parameters(text: &str) -> Vec<&str> {
    let Some(close) = text.rfind(')') else { return Vec::new() };
    let (mut depth, mut open, mut ends) = (0, None, vec![close]);
    for (at, one) in text[..=close].char_indices().rev() {
        match one {
            ')' | ']' | '}' => depth += 1,
            '(' | '[' | '{' => depth -= 1,
            ',' if depth == 1 => ends.push(at),
            _ => {}
        }
        if depth == 0 {
            open = Some(at);
            break;
        }
    }
    let Some(mut start) = open.map(|at| at + 1) else { return Vec::new() };
    let mut found = Vec::new();
    for end in ends.into_iter().rev() {
        found.push(text[start..end].trim());
        start = end + 1;
    }
    if found == [""] || found == ["void"] { Vec::new() } else { found }
}

/// What a pointer takes, by the text of its parameter.
fn pointer(declarations: &Declarations, text: &str) -> Parameter {
    if let Some(signature) = function(declarations, text) {
        return Parameter::Function(signature);
    }
    let Some(end) = text.find(['*', '[']) else {
        return Parameter::Pointer(Target::default());
    };
    let (base, behind) = text.split_at(end);
    let words = |text: &str| {
        let is_part = |one: char| one.is_alphanumeric() || one == '_';
        let words = text.split(move |one| !is_part(one)).filter(|word| !word.is_empty());
        words.map(str::to_owned).collect::<Vec<_>>()
    };
    // `T *const *p` reads pointers; `const T **p` may store some.
    if let Some((between, _)) = behind.strip_prefix('*').and_then(|rest| rest.split_once('*')) {
        let is_const = words(between).iter().any(|word| word == "const");
        let kind = Some(Type::U64);
        return Parameter::Pointer(Target { kind, is_const, is_text: false });
    }
    let is_const = words(base).iter().any(|word| word == "const");
    let is_qualifier = |word: &&String| matches!(word.as_str(), "const" | "volatile");
    let all = words(base);
    let plain: Vec<&str> =
        all.iter().filter(|word| !is_qualifier(word)).map(String::as_str).collect();
    let is_text = plain.first() == Some(&"char");
    // A parameter of that type; `void` is none, and the base of an array may have the name behind it.
    let of_base = declarations.signature(&format!("void f({base})"));
    let kind = of_base.ok().and_then(|signature| signature.parameters().first().cloned());
    Parameter::Pointer(Target { kind, is_const, is_text })
}

/// The type of a function whose pointer a parameter takes: `int (*compare)(int, int)`.
fn function(declarations: &Declarations, text: &str) -> Option<Signature> {
    let (result, rest) = text.split_once('(')?;
    let (pointer, arguments) = rest.split_once(')')?;
    let name = pointer.trim().strip_prefix('*')?.trim();
    let is_name = |one: char| one.is_alphanumeric() || one == '_';
    if !name.chars().all(is_name) {
        return None;
    }
    let name = if name.is_empty() { "callback" } else { name };
    declarations.signature(&format!("{result} {name}{arguments}")).ok()
}
