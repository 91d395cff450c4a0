//! The end of one call, while its process runs on.

use std::fmt;

use super::Fact;

/// Where a call was when it was interrupted, and what was not run.
///
/// The executor tells it. Take it as a hint: hostile code there can tell anything.
///
/// # Examples
///
/// ```
/// # use farcall_base as farcall;
/// use farcall::{Error, error::Interruption};
///
/// let told: Interruption = "interrupted at pc 0x5010, cleanups skipped: 1".parse()?;
/// let error = Error::interrupted(told);
/// assert_eq!(error.interruption().map(|told| told.cleanups_skipped), Some(1));
/// # Ok::<(), farcall::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Interruption {
    /// The instruction of linked code that was executing, or behind the call of a library that was.
    pub program_counter: u64,
    /// The place of that instruction, as "function+0x12 (object.o)".
    pub location: Option<String>,
    /// The functions with cleanups that were left without them. A function's cleanups are code only at its calls. A function
    /// that runs a loop of its own is left without them.
    pub cleanups_skipped: u64,
    /// The threads that linked code has started by `pthread_create` on the call's thread, since its outermost call began. They may run on.
    /// Threads that a shared library starts are not counted, and libstdc++ starts the threads of `std::thread`.
    pub threads_started: u64,
}

impl Interruption {
    /// The known facts, by the names of the fields, as of a [`Death`](super::Death::facts).
    ///
    /// # Examples
    ///
    /// ```
    /// # use farcall_base as farcall;
    /// use farcall::error::{Fact, Interruption};
    ///
    /// let told: Interruption = "interrupted at pc 0x5010, cleanups skipped: 1".parse()?;
    /// let facts: Vec<_> = told.facts().collect();
    /// assert_eq!(facts[..2], [("program_counter", Fact::Number(0x5010)), ("cleanups_skipped", Fact::Number(1))]);
    /// assert_eq!(facts[2], ("threads_started", Fact::Number(0)));
    /// # Ok::<(), farcall::Error>(())
    /// ```
    pub fn facts(&self) -> impl Iterator<Item = (&'static str, Fact<'_>)> {
        let Self { program_counter, location, cleanups_skipped, threads_started } = self;
        [
            ("program_counter", Some(Fact::Number(*program_counter))),
            ("location", location.as_deref().map(Fact::Text)),
            ("cleanups_skipped", Some(Fact::Number(*cleanups_skipped))),
            ("threads_started", Some(Fact::Number(*threads_started))),
        ]
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)))
    }

    /// An interruption at this address.
    #[doc(hidden)]
    #[must_use]
    pub fn at(program_counter: u64, cleanups_skipped: u64, threads_started: u64) -> Self {
        Self { program_counter, location: None, cleanups_skipped, threads_started }
    }

    /// The same, with the name of its place if that is known.
    #[doc(hidden)]
    #[must_use]
    pub fn located(&self, location: Option<String>) -> Self {
        Self { location, ..self.clone() }
    }
}

impl fmt::Display for Interruption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { program_counter, location, cleanups_skipped, threads_started } = self;
        match location {
            Some(location) => write!(f, "interrupted in {location}")?,
            None => write!(f, "interrupted at pc {program_counter:#x}")?,
        }
        write!(f, ", cleanups skipped: {cleanups_skipped}")?;
        match threads_started {
            0 => Ok(()),
            _ => write!(f, "{THREADS}{threads_started}"),
        }
    }
}

/// The words in front of the number of threads, which is told if it is not 0.
const THREADS: &str = ", threads started: ";

/// Reads what an executor tells, which names no location.
impl std::str::FromStr for Interruption {
    type Err = super::Error;

    fn from_str(text: &str) -> super::Result<Self> {
        let told = text.strip_prefix("interrupted at pc 0x");
        let told = told.and_then(|text| text.split_once(", cleanups skipped: "));
        let numbers = told.and_then(|(address, skipped)| {
            let (skipped, threads) = skipped.split_once(THREADS).unwrap_or((skipped, "0"));
            let address = u64::from_str_radix(address, 16).ok()?;
            Some(Self::at(address, skipped.parse().ok()?, threads.parse().ok()?))
        });
        // Without the text, which may be long.
        let bytes = text.len();
        numbers
            .ok_or_else(|| super::Error::invalid(format!("{bytes} bytes tell of no interruption")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_an_executor_are_read_back() {
        for told in [Interruption::at(0x7f00_1234, 3, 0), Interruption::at(0, 0, 12)] {
            assert_eq!(told.to_string().parse::<Interruption>().expect("its own words"), told);
        }
        let threads = "interrupted at pc 0x10, cleanups skipped: 1, threads started: many";
        let zz = "interrupted at pc 0xzz, cleanups skipped: 1";
        for other in ["", "interrupted", zz, threads, "died"] {
            other.parse::<Interruption>().expect_err(other);
        }
    }
}
