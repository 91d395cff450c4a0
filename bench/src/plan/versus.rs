//! The transports that farcall's calls can be compared with.
//!
//! Invariant: every transport has one name, which `--vs` takes.

use std::fmt;
use std::str::FromStr;

use crate::transports::transport::Transport;
use crate::transports::{TRANSPORTS, futex, kernel};

/// A transport, by its name: one of [`all`](Self::all).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Versus(&'static str);

impl Versus {
    /// A pair of pipes.
    pub const PIPE: Versus = Versus(kernel::OVER_PIPES.word);
    /// A connected pair of Unix stream sockets.
    pub const UNIX: Versus = Versus(kernel::OVER_UNIX_STREAM.word);
    /// Two words, for each of which the other side sleeps.
    pub const FUTEX: Versus = Versus(futex::TRANSPORT.word);
    /// farcall itself while neither side ever sleeps.
    pub const SPIN: Versus = Versus("spin");

    /// All of them: every transport, then farcall itself.
    #[must_use]
    pub fn all() -> Vec<Versus> {
        let transports = TRANSPORTS.iter().map(|transport| Versus(transport.word));
        transports.chain([Versus::SPIN]).collect()
    }

    /// Its name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.0
    }

    /// The transport; none for farcall itself.
    pub(crate) fn transport(self) -> Option<&'static Transport> {
        TRANSPORTS.iter().find(|transport| transport.word == self.0)
    }
}

impl FromStr for Versus {
    type Err = String;

    fn from_str(text: &str) -> Result<Versus, String> {
        let all = Versus::all();
        all.iter().find(|versus| versus.name() == text).copied().ok_or_else(|| {
            let names: Vec<_> = all.iter().map(|versus| versus.name()).collect();
            format!("{text}: not one of {}", names.join(", "))
        })
    }
}

impl fmt::Display for Versus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        assert!(Versus::all().len() >= 7);
        for versus in Versus::all() {
            assert_eq!(versus.to_string().parse(), Ok(versus));
            assert_eq!(versus.transport().is_none(), versus == Versus::SPIN, "{versus}");
        }
        let error = "fax".parse::<Versus>().unwrap_err();
        assert!(error.starts_with("fax: not one of pipe, unix, "), "{error}");
    }
}
