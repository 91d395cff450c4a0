//! Macros with values: the compiler computes them, as the initializers of variables.

use clang::{Entity, EntityKind, EvaluationResult, TranslationUnit};

use crate::header::{Constant, Number, Value};
use crate::types::number;

/// The names of the variables for numbers.
const NUMBER: &str = "farcall_number_";
/// The names of the variables for strings, whose macros the compiler sees without brackets.
const TEXT: &str = "farcall_text_";
/// The most bytes of a string.
const TEXT_BYTES_MAX: usize = 4096;

/// True for a macro that may stand in an expression: its brackets match, and it ends no declaration.
pub(crate) fn may_be_value(definition: &Entity<'_>) -> bool {
    let Some(range) = definition.get_range() else { return false };
    let words: Vec<_> =
        range.tokenize().iter().skip(1).map(clang::token::Token::get_spelling).collect();
    let mut depth = 0_i32;
    for word in &words {
        match word.as_str() {
            "(" | "[" => depth += 1,
            ")" | "]" => depth -= 1,
            "{" | "}" | ";" | "#" => return false,
            _ => {}
        }
        if depth < 0 {
            return false;
        }
    }
    depth == 0 && !words.is_empty()
}

/// The source with a variable for each macro.
pub(crate) fn source(include: &str, macros: &[String]) -> String {
    let variables = macros.iter().enumerate().map(|(at, name)| {
        format!("__auto_type {NUMBER}{at} = ({name});\nconst char *{TEXT}{at} = {name};\n")
    });
    include.to_owned() + &variables.collect::<String>()
}

/// The values that the compiler has found; a macro without one is left out.
pub(crate) fn values(unit: &TranslationUnit<'_>, macros: &[String]) -> Vec<Constant> {
    let variables = unit
        .get_entity()
        .get_children()
        .into_iter()
        .filter(|one| one.get_kind() == EntityKind::VarDecl);
    variables
        .filter_map(|variable| {
            let name = variable.get_name()?;
            let (at, value) = match name.strip_prefix(NUMBER) {
                Some(at) => (at, number_of(&variable)?),
                None => (name.strip_prefix(TEXT)?, text_of(&variable)?),
            };
            Some(Constant { name: macros.get(at.parse::<usize>().ok()?)?.clone(), value })
        })
        .collect()
}

fn number_of(variable: &Entity<'_>) -> Option<Value> {
    let kind = number(variable.get_type()?.get_canonical_type().get_kind())?;
    let is_integer = kind.is_integer() || kind == Number::Bool;
    match variable.evaluate()? {
        EvaluationResult::SignedInteger(value) if is_integer => Some(Value::Integer(kind, value)),
        EvaluationResult::UnsignedInteger(value) if is_integer => {
            Some(Value::Integer(kind, value.cast_signed()))
        }
        EvaluationResult::Float(value) if !is_integer => Some(Value::Float(value)),
        _ => None,
    }
}

fn text_of(variable: &Entity<'_>) -> Option<Value> {
    match variable.evaluate()? {
        EvaluationResult::String(text) if text.as_bytes().len() <= TEXT_BYTES_MAX => {
            Some(Value::Text(text.into_string().ok()?))
        }
        _ => None,
    }
}
