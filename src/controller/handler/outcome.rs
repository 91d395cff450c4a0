//! What a handler returns.

use std::error::Error as StdError;

use crate::controller::calls::scalar::{Return, Scalar};

/// What a [`Handler`](super::definition::Handler) returns: a [`Return`], or a `Result` of one with any error.
///
/// # Examples
///
/// ```
/// use std::ffi::CStr;
///
/// use farcall::controller::handler::Handler;
///
/// let parse = Handler::new(|text: &CStr| -> Result<i64, Box<dyn std::error::Error + Send + Sync>> {
///     Ok(text.to_str()?.parse()?)
/// });
/// let exists = Handler::new(|path: &CStr| -> Result<(), std::io::Error> {
///     std::fs::metadata(path.to_string_lossy().as_ref()).map(drop)
/// });
/// # let _ = (parse, exists);
/// ```
#[expect(private_bounds, reason = "the form of a result is private")]
pub trait Outcome: Finished {
    /// What the C function returns.
    type Value: Return;
}

pub(super) trait Finished {
    /// The result as a word.
    fn finish(self) -> std::result::Result<u64, Box<dyn StdError + Send + Sync>>;
}

/// The result of a C function, which becomes a word.
trait Value: Return {
    fn word(self) -> u64;
}

impl<T: Scalar + Return> Value for T {
    #[inline]
    fn word(self) -> u64 {
        self.to_word()
    }
}

impl Value for () {
    #[inline]
    fn word(self) -> u64 {
        0
    }
}

impl<T: Value> Outcome for T {
    type Value = T;
}

impl<T: Value> Finished for T {
    #[inline]
    fn finish(self) -> std::result::Result<u64, Box<dyn StdError + Send + Sync>> {
        Ok(self.word())
    }
}

impl<T: Value, E: Into<Box<dyn StdError + Send + Sync>>> Outcome for std::result::Result<T, E> {
    type Value = T;
}

impl<T: Value, E: Into<Box<dyn StdError + Send + Sync>>> Finished for std::result::Result<T, E> {
    #[inline]
    fn finish(self) -> std::result::Result<u64, Box<dyn StdError + Send + Sync>> {
        self.map(Value::word).map_err(Into::into)
    }
}
