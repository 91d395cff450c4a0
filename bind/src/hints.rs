//! Hints from a file in TOML: the lengths, owners and lives that a header does not say.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::Error;

/// Hints about the functions and structures of a header.
///
/// # Examples
///
/// ```
/// use farcall_bind::Hints;
///
/// let hints = Hints::parse(
///     r#"
///     ## The stream keeps pointers to itself.
///     [structures]
///     z_stream_s = "stays"
///
///     ## int compress(Bytef *dest, uLongf *destLen, const Bytef *source, uLong sourceLen);
///     [functions.compress]
///     dest = { role = "output", length = "destLen" }
///     source = { length = "sourceLen" }
///     "#,
/// )?;
/// assert_eq!(hints.functions["compress"].parameters["source"].length.as_deref(), Some("sourceLen"));
/// # Ok::<(), farcall_bind::Error>(())
/// ```
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Hints {
    /// The functions and constants of the binding, if it is to have some only. A star at the end of a name stands for anything.
    pub only: Vec<String>,
    /// By the name of the function.
    pub functions: BTreeMap<String, FunctionHints>,
    /// By the name of the structure.
    pub structures: BTreeMap<String, StructureHint>,
}

/// Hints about a function.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct FunctionHints {
    /// True for a function that is left out.
    pub skip: bool,
    /// About the result.
    pub result: ResultHint,
    /// By the name of the parameter, or by its number from 0 if it has none.
    #[serde(flatten)]
    pub parameters: BTreeMap<String, ParameterHint>,
}

/// Hints about a result.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ResultHint {
    /// The function that frees a string, once it was copied.
    pub freed_by: Option<String>,
    /// True for a number that decides about the host's memory; the default for integers of 64 bits.
    pub is_untrusted: Option<bool>,
    /// True for an address, also of text.
    pub is_address: bool,
}

/// Hints about a parameter.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ParameterHint {
    /// The use of a pointer.
    pub role: Option<RoleHint>,
    /// The parameter that has the length, by its name or number.
    pub length: Option<String>,
    /// The function that frees a string which the library stores, once it was copied.
    pub freed_by: Option<String>,
    /// The `void *` that the library hands to a callback.
    pub data: Option<String>,
    /// The parameter of a callback that gets the data, by number, if several may.
    pub data_argument: Option<usize>,
    /// Parameters of a callback that are arrays of strings, by number, with the number of the parameter that counts them.
    pub texts: BTreeMap<String, usize>,
}

/// The use of a pointer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RoleHint {
    /// The library reads it while the call runs.
    Input,
    /// The library writes it while the call runs.
    Output,
    /// The library reads and writes it while the call runs.
    Inout,
    /// An address, which the caller vouches for: the library keeps it, or its length is known to the caller alone.
    Address,
}

/// The life of a structure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StructureHint {
    /// Copied to the library and back in each call.
    Copied,
    /// Stays with the library; the caller has a handle.
    Stays,
}

impl Hints {
    /// True for a function or constant that the binding is to have.
    #[must_use]
    pub fn wants(&self, name: &str) -> bool {
        let is_it = |one: &String| match one.strip_suffix('*') {
            Some(start) => name.starts_with(start),
            None => name == one,
        };
        self.only.is_empty() || self.only.iter().any(is_it)
    }

    /// Reads hints.
    ///
    /// # Errors
    ///
    /// When the text is no TOML, or has a word that means nothing.
    pub fn parse(text: &str) -> Result<Self, Error> {
        toml::from_str(text).map_err(|error| {
            let line = error
                .span()
                .map_or(1, |span| text[..span.start.min(text.len())].lines().count().max(1));
            Error::new(format!("line {line}: {}", error.message()))
        })
    }
}
