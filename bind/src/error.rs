//! The error of this package.

use std::fmt;

/// Why there is no binding, in one line.
///
/// # Examples
///
/// ```
/// let error = farcall_bind::HeaderFile::new("/no/such/header.h").read().unwrap_err();
/// assert!(error.to_string().starts_with("/no/such/header.h: "));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error(String);

impl Error {
    /// An error with this message, whose further lines are left out.
    pub(crate) fn new(message: impl Into<String>) -> Self {
        let message = message.into();
        Self(message.lines().next().unwrap_or_default().to_owned())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Error {}
