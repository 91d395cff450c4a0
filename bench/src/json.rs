//! JSON text, written by hand: values are made of text that is already JSON.
//!
//! Invariant: what [`string`] and [`number`] return is valid JSON for every input.

use std::fmt::Write;

/// An object with these members, in this order; the values are JSON already.
pub(crate) fn object(members: &[(&str, String)]) -> String {
    let members = members.iter().map(|(name, value)| format!("{}:{value}", string(name)));
    format!("{{{}}}", members.collect::<Vec<_>>().join(","))
}

/// An array of values that are JSON already.
pub(crate) fn array(values: impl Iterator<Item = String>) -> String {
    format!("[{}]", values.collect::<Vec<_>>().join(","))
}

/// A number, or `null` for what JSON cannot say (infinities, not a number).
pub(crate) fn number(value: f64) -> String {
    if value.is_finite() { value.to_string() } else { "null".to_owned() }
}

/// A quoted string.
pub(crate) fn string(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for character in text.chars() {
        match character {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\t' => quoted.push_str("\\t"),
            control if u32::from(control) < 0x20 => {
                // Writing to a String cannot fail.
                let _ = write!(quoted, "\\u{:04x}", u32::from(control));
            }
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_escaped() {
        assert_eq!(string("a\"b\\c\nd\te\u{1}é"), "\"a\\\"b\\\\c\\nd\\te\\u0001é\"");
    }

    #[test]
    fn numbers_that_json_lacks_are_null() {
        assert_eq!(number(0.5), "0.5");
        assert_eq!(number(27_000.0), "27000");
        assert_eq!(number(f64::NAN), "null");
        assert_eq!(number(f64::INFINITY), "null");
    }

    #[test]
    fn objects_keep_their_order() {
        let list = array([1.0, 2.5].into_iter().map(number));
        assert_eq!(object(&[("b", list), ("a", string("x"))]), r#"{"b":[1,2.5],"a":"x"}"#);
        assert_eq!(object(&[]), "{}");
    }
}
