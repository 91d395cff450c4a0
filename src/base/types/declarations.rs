//! Reads C declarations: structures, `typedef`s and prototypes.
//!
//! Invariant: the depth of the reader has a bound, [`DEPTH_MAX`]. The depth of the types that it makes has one as well,
//! [`TYPE_DEPTH_MAX`], since all that looks into a type goes as deep.

use std::collections::HashMap;
use std::ffi::c_char;
use std::str::FromStr;

use super::layout::{Struct, Type};
use super::parameter::{Parameter, Pointee, Target};
use super::signature::Signature;
use super::tokens::{Token, Tokens};
use crate::error::{Error, Result};

/// How deep declarators, structures and parameters may lie in each other.
const DEPTH_MAX: usize = 32;

/// `char` without a sign: the processor's convention says whether it has one.
const CHAR: Type = if c_char::MAX == 127 { Type::I8 } else { Type::U8 };

/// How deep structures and arrays may lie in each other, also by the names of others.
const TYPE_DEPTH_MAX: usize = 64;

/// Structures and `typedef`s of C with their names, and what reads prototypes that use them.
///
/// It reads base types in all their spellings, pointers (to functions as well), arrays, and `enum`. It knows the names of
/// `stdint.h`, `size_t`, `ssize_t`, `ptrdiff_t`, and `__m128` with its variants. It has no preprocessor.
///
/// It refuses bit-fields, unions, `long double`, complex numbers, `__int128`, and what changes a layout, such as `packed`.
///
/// # Examples
///
/// ```
/// # use farcall_base as farcall;
/// use farcall::types::Declarations;
///
/// let mut types = Declarations::new();
/// types.declare("typedef struct { double x, y; } point; struct box { point corners[2]; const char *name; };")?;
/// let area = types.signature("double area(struct box, point *)")?;
/// assert_eq!(area.to_string(), "double area(struct box, void *)");
/// assert_eq!(area.parameters()[0].bytes(), 40);
/// # Ok::<(), farcall::Error>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct Declarations {
    /// Structures by their tags.
    tags: HashMap<String, Type>,
    typedefs: HashMap<String, Declared>,
}

/// The kind of thing that a declaration declares.
#[derive(Debug, Clone)]
enum Kind {
    Void,
    Value(Type),
    /// A structure that is not defined; its pointers are.
    Unknown(String),
    /// Its target is known for one step: a pointer to a pointer leads to a number.
    Pointer(Box<Pointee>),
    Function(Box<Function>),
}

/// A declared thing, with the facts that only pointers to it know.
#[derive(Debug, Clone)]
struct Declared {
    kind: Kind,
    is_const: bool,
    word: Word,
}

/// The base types that have a type in calls with others, and that pointers tell from them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Word {
    Other,
    /// `char`.
    Character,
    /// `__m128`.
    Singles,
    /// `__m128d`.
    Doubles,
}

#[derive(Debug, Clone)]
struct Function {
    parameters: Vec<Parameter>,
    result: Option<Type>,
}

impl Declarations {
    /// Without any names but the names of C and `stdint.h`.
    #[must_use]
    pub fn new() -> Declarations {
        Declarations::default()
    }

    /// Reads definitions of structures, and `typedef`s, each ended by `;`. Later texts may use their names.
    ///
    /// # Errors
    ///
    /// When the text is none; the error shows the line and the column. The declarations before it stay.
    pub fn declare(&mut self, text: &str) -> Result<()> {
        let mut tokens = Tokens::new(text)?;
        while tokens.peek() != Token::End {
            let is_typedef = tokens.take(Token::Word("typedef"));
            let base = self.specifiers(&mut tokens, 0)?;
            if is_typedef {
                loop {
                    let at = tokens.position();
                    let (name, declared) = self.declarator(&mut tokens, base.clone(), 0)?;
                    if name.is_empty() {
                        return Err(tokens.refuse_at(at, "a typedef without a name"));
                    }
                    self.typedefs.insert(name.clone(), declared.named(name));
                    if !tokens.take(Token::Mark(',')) {
                        break;
                    }
                }
            }
            tokens.expect(';')?;
        }
        Ok(())
    }

    /// Names a structure that was built by methods, as `struct NAME`.
    pub fn define(&mut self, one: Struct) {
        self.tags.insert(one.name().to_owned(), Type::from(one));
    }

    /// Reads a prototype. Its name and its parameters' names may be missing, and so may the `;` behind it. A structure may be
    /// defined in it, for itself alone.
    ///
    /// # Errors
    ///
    /// When the text is no prototype, or uses a type that is not known; the error shows the column.
    pub fn signature(&self, prototype: &str) -> Result<Signature> {
        let (name, function) = self.function(prototype)?;
        Ok(function.signature().named(name))
    }

    /// Reads a prototype as [`signature`](Declarations::signature) does, for what a signature leaves out: the names of the parameters, and
    /// what pointers lead to.
    ///
    /// # Errors
    ///
    /// As [`signature`](Declarations::signature).
    pub fn parameters(&self, prototype: &str) -> Result<Vec<Parameter>> {
        Ok(self.function(prototype)?.1.parameters)
    }

    fn function(&self, prototype: &str) -> Result<(String, Function)> {
        let mut tokens = Tokens::new(prototype)?;
        let mut own = self.clone();
        let base = own.specifiers(&mut tokens, 0)?;
        let at = tokens.position();
        let (name, declared) = own.declarator(&mut tokens, base, 0)?;
        tokens.take(Token::Mark(';'));
        if tokens.peek() != Token::End {
            return Err(tokens.unexpected("the end"));
        }
        match declared.kind {
            Kind::Function(function) => Ok((name, *function)),
            _ => Err(tokens.refuse_at(at, "no parameters: this is no function")),
        }
    }

    /// Reads qualifiers and the words of a type.
    fn specifiers(&mut self, tokens: &mut Tokens<'_>, depth: usize) -> Result<Declared> {
        let start = tokens.position();
        let mut words = Vec::new();
        let mut found: Option<Declared> = None;
        let mut is_const = false;
        while let Token::Word(word) = tokens.peek() {
            match word {
                "const" => {
                    is_const = true;
                    tokens.skip();
                }
                "volatile" | "restrict" | "__restrict" | "extern" | "static" | "inline"
                | "register" => tokens.skip(),
                "struct" if words.is_empty() && found.is_none() => {
                    tokens.skip();
                    found = Some(self.structure(tokens, depth)?.into());
                }
                "enum" if words.is_empty() && found.is_none() => {
                    tokens.skip();
                    enumeration(tokens)?;
                    found = Some(Kind::Value(Type::U32).into());
                }
                "union" => {
                    return Err(tokens.refuse("unions are not passed by value; pass an address"));
                }
                _ if found.is_none() && is_base(word) => {
                    words.push(word);
                    tokens.skip();
                }
                _ if found.is_none() && words.is_empty() => match self.known(word) {
                    Some(known) => {
                        found = Some(known);
                        tokens.skip();
                    }
                    None => return Err(tokens.refuse(&format!("no type is named `{word}`"))),
                },
                // The name that is declared.
                _ => break,
            }
        }
        if let Some(mut found) = found {
            found.is_const |= is_const;
            return Ok(found);
        }
        if words.is_empty() {
            return Err(tokens.unexpected("a type"));
        }
        let word = if words == ["char"] { Word::Character } else { Word::Other };
        let kind = base(&mut words).ok_or_else(|| {
            tokens
                .refuse_at(start, &format!("`{}` is no type that calls can pass", words.join(" ")))
        })?;
        Ok(Declared { kind, is_const, word })
    }

    /// Reads what follows `struct`.
    fn structure(&mut self, tokens: &mut Tokens<'_>, depth: usize) -> Result<Kind> {
        let depth = deeper(tokens, depth)?;
        let mut name = String::new();
        if let Token::Word(word) = tokens.peek() {
            word.clone_into(&mut name);
            tokens.skip();
        }
        if !tokens.take(Token::Mark('{')) {
            if name.is_empty() {
                return Err(tokens.unexpected("a name or `{`"));
            }
            let known = self.tags.get(&name).cloned();
            return Ok(known.map_or_else(|| Kind::Unknown(name), Kind::Value));
        }
        let mut one = Struct::new(name.clone());
        while !tokens.take(Token::Mark('}')) {
            let base = self.specifiers(tokens, depth)?;
            loop {
                let at = tokens.position();
                let (name, declared) = self.declarator(tokens, base.clone(), depth)?;
                if tokens.peek() == Token::Mark(':') {
                    return Err(tokens.refuse("bit-fields have no layout here"));
                }
                if name.is_empty() {
                    return Err(tokens.refuse_at(at, "a field without a name"));
                }
                match declared.kind.into_value() {
                    Ok(Type::Array(_, 0)) => {
                        return Err(tokens.refuse_at(at, "an array without elements"));
                    }
                    Ok(kind) => {
                        one = one.field(name, flat_enough(tokens, at, kind)?);
                    }
                    Err(why) => return Err(tokens.refuse_at(at, &why)),
                }
                if !tokens.take(Token::Mark(',')) {
                    break;
                }
            }
            tokens.expect(';')?;
        }
        if one.fields().is_empty() {
            return Err(tokens.refuse("a structure without fields"));
        }
        let kind = Type::from(one);
        if !name.is_empty() {
            self.tags.insert(name, kind.clone());
        }
        Ok(Kind::Value(kind))
    }

    /// Reads pointers, a name, and what stands behind it.
    fn declarator(
        &mut self,
        tokens: &mut Tokens<'_>,
        mut declared: Declared,
        depth: usize,
    ) -> Result<(String, Declared)> {
        let depth = deeper(tokens, depth)?;
        while tokens.take(Token::Mark('*')) {
            declared = Kind::Pointer(Box::new(declared.into_pointee())).into();
            while let Token::Word(word @ ("const" | "volatile" | "restrict" | "__restrict")) =
                tokens.peek()
            {
                declared.is_const |= word == "const";
                tokens.skip();
            }
        }
        let is_nested = tokens.peek() == Token::Mark('(')
            && matches!(tokens.peek_behind(1), Token::Mark('*' | '('));
        if is_nested {
            // The part behind the parentheses is applied before the part in them.
            tokens.skip();
            let inside = tokens.position();
            tokens.skip_to_close()?;
            let declared = self.suffixes(tokens, declared, depth)?;
            let behind = tokens.position();
            tokens.go_to(inside);
            let inner = self.declarator(tokens, declared, depth)?;
            tokens.expect(')')?;
            tokens.go_to(behind);
            return Ok(inner);
        }
        let mut name = String::new();
        if let Token::Word(word) = tokens.peek() {
            if is_base(word) {
                return Err(tokens.unexpected("a name"));
            }
            word.clone_into(&mut name);
            tokens.skip();
        }
        Ok((name, self.suffixes(tokens, declared, depth)?))
    }

    /// Reads parameters, or the sizes of arrays.
    fn suffixes(
        &mut self,
        tokens: &mut Tokens<'_>,
        declared: Declared,
        depth: usize,
    ) -> Result<Declared> {
        let at = tokens.position();
        if tokens.take(Token::Mark('(')) {
            let parameters = self.read_parameters(tokens, depth)?;
            let result = match declared.kind {
                Kind::Void => None,
                other => Some(other.into_value().map_err(|why| tokens.refuse_at(at, &why))?),
            };
            if let Some(kind @ Type::Array(..)) = result {
                return Err(tokens.refuse_at(at, &format!("no function returns {kind}")));
            }
            return Ok(Kind::Function(Box::new(Function { parameters, result })).into());
        }
        let mut counts = Vec::new();
        while tokens.take(Token::Mark('[')) {
            let mut count = 0;
            while let Token::Word("static" | "const" | "restrict") = tokens.peek() {
                tokens.skip();
            }
            if let Token::Number(number) = tokens.peek() {
                count = number;
                tokens.skip();
            }
            tokens.expect(']')?;
            counts.push(count);
            if counts.len() > DEPTH_MAX {
                return Err(tokens.refuse("too many dimensions"));
            }
        }
        counts.into_iter().rev().try_fold(declared, |declared, count| {
            let element = declared.kind.into_value();
            let element = element.map_err(|why| tokens.refuse_at(at, &why))?;
            let element = flat_enough(tokens, at, element)?;
            Ok(Declared { kind: Kind::Value(Type::array(element, count)), ..declared })
        })
    }

    /// Reads parameters up to the `)`. Arrays and functions are pointers there.
    fn read_parameters(&mut self, tokens: &mut Tokens<'_>, depth: usize) -> Result<Vec<Parameter>> {
        let mut parameters = Vec::new();
        if tokens.take(Token::Mark(')')) {
            return Ok(parameters);
        }
        if tokens.peek() == Token::Word("void") && tokens.peek_behind(1) == Token::Mark(')') {
            tokens.skip();
            tokens.skip();
            return Ok(parameters);
        }
        loop {
            if tokens.peek() == Token::Ellipsis {
                return Err(tokens.refuse("`...`: give the types of the arguments of your calls"));
            }
            let base = self.specifiers(tokens, depth)?;
            let at = tokens.position();
            let (name, declared) = self.declarator(tokens, base, depth)?;
            let parameter = declared.into_parameter(name);
            parameters.push(parameter.map_err(|why| tokens.refuse_at(at, &why))?);
            if !tokens.take(Token::Mark(',')) {
                break;
            }
        }
        tokens.expect(')')?;
        Ok(parameters)
    }

    /// The type that a name stands for.
    fn known(&self, name: &str) -> Option<Declared> {
        if let Some(known) = self.typedefs.get(name) {
            return Some(known.clone());
        }
        let word = match name {
            "__m128" => Word::Singles,
            "__m128d" => Word::Doubles,
            _ => Word::Other,
        };
        let kind = Kind::Value(match name {
            "int8_t" => Type::I8,
            "uint8_t" => Type::U8,
            "int16_t" => Type::I16,
            "uint16_t" => Type::U16,
            "int32_t" => Type::I32,
            "uint32_t" => Type::U32,
            "int64_t" | "ssize_t" | "ptrdiff_t" | "intptr_t" | "intmax_t" => Type::I64,
            "uint64_t" | "size_t" | "uintptr_t" | "uintmax_t" => Type::U64,
            "__m128" | "__m128d" | "__m128i" => Type::V128,
            _ => return None,
        });
        Some(Declared { kind, is_const: false, word })
    }
}

impl FromStr for Signature {
    type Err = Error;

    /// Reads a prototype; [`Declarations::signature`] says which there are.
    fn from_str(prototype: &str) -> Result<Signature> {
        Declarations::new().signature(prototype)
    }
}

impl Kind {
    /// Its type as an argument, a field or a result, or why it is none.
    fn into_value(self) -> std::result::Result<Type, String> {
        Err(match self {
            Kind::Value(kind) => return Ok(kind),
            Kind::Pointer(_) => return Ok(Type::Pointer),
            Kind::Void => "`void` is no value".to_owned(),
            Kind::Unknown(name) => format!("`struct {name}` is not defined; its pointers are"),
            Kind::Function(_) => "a function is not allowed here, its pointer is".to_owned(),
        })
    }
}

impl From<Kind> for Declared {
    fn from(kind: Kind) -> Self {
        Self { kind, is_const: false, word: Word::Other }
    }
}

impl Declared {
    /// The target of a pointer to it.
    fn into_pointee(self) -> Pointee {
        let target = match (self.kind, self.word) {
            (Kind::Void, _) => Target::Void,
            (Kind::Value(Type::I8 | Type::U8), Word::Character) => Target::Character,
            (Kind::Value(Type::V128), Word::Singles) => Target::Value(Type::array(Type::F32, 4)),
            (Kind::Value(Type::V128), Word::Doubles) => Target::Value(Type::array(Type::F64, 2)),
            (Kind::Value(kind), _) => Target::Value(kind),
            (Kind::Pointer(_), _) => Target::Value(Type::Pointer),
            (Kind::Unknown(name), _) => Target::Undefined(name),
            (Kind::Function(function), _) => Target::Function(function.signature()),
        };
        Pointee { target, is_const: self.is_const }
    }

    /// The parameter that it declares, or why it declares none. Arrays and functions are pointers there.
    fn into_parameter(self, name: String) -> std::result::Result<Parameter, String> {
        let pointee = match self.kind {
            Kind::Pointer(pointee) => *pointee,
            Kind::Value(Type::Array(element, _)) => {
                let kind = Kind::Value(Type::clone(&element));
                Declared { kind, is_const: self.is_const, word: self.word }.into_pointee()
            }
            function @ Kind::Function(_) => Declared::from(function).into_pointee(),
            other => return Ok(Parameter { name, kind: other.into_value()?, pointee: None }),
        };
        Ok(Parameter { name, kind: Type::Pointer, pointee: Some(pointee) })
    }

    /// The same, with a name for a structure that has none.
    fn named(self, name: String) -> Self {
        let kind = match self.kind {
            Kind::Value(Type::Struct(one)) if one.name().is_empty() => {
                let fields = one.fields().iter().cloned();
                let start = Struct::new(name);
                Kind::Value(Type::from(
                    fields.fold(start, |one, field| one.field(field.name, field.kind)),
                ))
            }
            other => other,
        };
        Self { kind, ..self }
    }
}

impl Function {
    fn signature(&self) -> Signature {
        let kinds = self.parameters.iter().map(|parameter| parameter.kind.clone());
        let signature = kinds.fold(Signature::new(), Signature::parameter);
        self.result.iter().cloned().fold(signature, Signature::returns)
    }
}

/// Reads what follows `enum`.
fn enumeration(tokens: &mut Tokens<'_>) -> Result<()> {
    let mut is_one = false;
    if let Token::Word(_) = tokens.peek() {
        tokens.skip();
        is_one = true;
    }
    if tokens.take(Token::Mark('{')) {
        while !tokens.take(Token::Mark('}')) {
            if tokens.peek() == Token::Mark('-') {
                return Err(
                    tokens.refuse("an enumeration with negative values is an `int`: write that")
                );
            }
            if tokens.peek() == Token::End {
                return Err(tokens.unexpected("`}`"));
            }
            tokens.skip();
        }
        is_one = true;
    }
    if is_one { Ok(()) } else { Err(tokens.unexpected("a name or `{`")) }
}

fn deeper(tokens: &Tokens<'_>, depth: usize) -> Result<usize> {
    if depth < DEPTH_MAX {
        Ok(depth + 1)
    } else {
        Err(tokens.refuse("declarations too deep in each other"))
    }
}

/// The same type, if it can lie in a structure or an array.
fn flat_enough(tokens: &Tokens<'_>, at: usize, kind: Type) -> Result<Type> {
    if kind.depth() < TYPE_DEPTH_MAX {
        return Ok(kind);
    }
    Err(tokens.refuse_at(
        at,
        &format!("structures and arrays lie in each other more than {TYPE_DEPTH_MAX} deep; pass an address"),
    ))
}

/// The words that base types are made of.
fn is_base(word: &str) -> bool {
    const WORDS: &[&str] = &[
        "void", "bool", "_Bool", "char", "short", "int", "long", "signed", "unsigned", "float",
        "double", "__int128", "_Complex",
    ];
    WORDS.contains(&word)
}

/// The base type of these words, which C takes in any order.
fn base(words: &mut [&str]) -> Option<Kind> {
    words.sort_unstable();
    Some(Kind::Value(match &*words {
        ["void"] => return Some(Kind::Void),
        ["bool"] | ["_Bool"] => Type::Bool,
        ["char"] => CHAR,
        ["char", "signed"] => Type::I8,
        ["char", "unsigned"] => Type::U8,
        ["short"] | ["short", "signed"] | ["int", "short"] | ["int", "short", "signed"] => {
            Type::I16
        }
        ["short", "unsigned"] | ["int", "short", "unsigned"] => Type::U16,
        ["int"] | ["signed"] | ["int", "signed"] => Type::I32,
        ["unsigned"] | ["int", "unsigned"] => Type::U32,
        ["float"] => Type::F32,
        ["double"] => Type::F64,
        [rest @ .., "unsigned"] if is_long(rest) => Type::U64,
        [rest @ .., "signed"] if is_long(rest) => Type::I64,
        rest if is_long(rest) => Type::I64,
        _ => return None,
    }))
}

/// Whether the words are `long` or `long long`, with or without `int`.
fn is_long(words: &[&str]) -> bool {
    matches!(words, ["long"] | ["long", "long"] | ["int", "long"] | ["int", "long", "long"])
}

#[cfg(test)]
mod tests;
