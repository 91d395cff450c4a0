//! Numbers of the library that decide about the host's memory.

use std::fmt;

use crate::error::{Error, Result};

/// A number that the library has said. Before the host allocates, counts or indexes by it, the host says which values it accepts.
///
/// # Examples
///
/// ```
/// use farcall::bind::Untrusted;
///
/// let length = Untrusted::new(4000_u64);
/// assert_eq!(length.at_most(4096)?, 4000);
/// assert_eq!(length.at_most(100).unwrap_err().to_string(), "the library says 4000, more than the 100 that the host accepts");
/// assert_eq!(length.check(|length| length % 4 == 0)?, 4000);
/// # Ok::<(), farcall::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[must_use = "the library's number says nothing until it is checked"]
pub struct Untrusted<T>(T);

impl<T> Untrusted<T> {
    /// A number of the library.
    pub fn new(number: T) -> Self {
        Self(number)
    }

    /// The number, whatever it is.
    pub fn unchecked(self) -> T {
        self.0
    }
}

impl<T: Copy + PartialOrd + fmt::Display> Untrusted<T> {
    /// The number, if it is at most `most`.
    ///
    /// # Errors
    ///
    /// When it is larger ([`ErrorKind::Violation`](crate::ErrorKind::Violation)).
    pub fn at_most(self, most: T) -> Result<T> {
        match self.0 <= most {
            true => Ok(self.0),
            false => Err(Error::violation(format!(
                "the library says {}, more than the {most} that the host accepts",
                self.0
            ))),
        }
    }

    /// The number, if `accepts` accepts it.
    ///
    /// # Errors
    ///
    /// When it does not ([`ErrorKind::Violation`](crate::ErrorKind::Violation)).
    pub fn check(self, accepts: impl FnOnce(T) -> bool) -> Result<T> {
        match accepts(self.0) {
            true => Ok(self.0),
            false => Err(Error::violation(format!(
                "the library says {}, which the host refuses",
                self.0
            ))),
        }
    }
}

impl<T: fmt::Debug> fmt::Debug for Untrusted<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Untrusted({:?})", self.0)
    }
}
