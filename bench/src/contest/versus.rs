//! The transports that farcall's calls can be compared with.
//!
//! Invariant: every transport has one name, which `--vs` takes.

use std::fmt;
use std::str::FromStr;

/// A transport.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Versus {
    /// A pair of pipes.
    Pipe,
    /// A connected pair of Unix stream sockets.
    Unix,
    /// A TCP connection through the loopback device.
    Tcp,
    /// Two words, for each of which the other side sleeps.
    Futex,
    /// A pair of event descriptors.
    Eventfd,
    /// Two threads of one process and two ring buffers of the `rtrb` crate.
    Local,
    /// farcall itself while neither side ever sleeps.
    Spin,
    /// Request-response of iceoryx2, polled.
    #[cfg(feature = "iceoryx2")]
    Iceoryx,
    /// Queues of the `shaq` crate, with as many messages in flight as farcall has calls.
    #[cfg(feature = "shaq")]
    Shaq,
}

impl Versus {
    /// All of them.
    pub const ALL: &[Versus] = &[
        Versus::Pipe,
        Versus::Unix,
        Versus::Tcp,
        Versus::Futex,
        Versus::Eventfd,
        Versus::Local,
        Versus::Spin,
        #[cfg(feature = "iceoryx2")]
        Versus::Iceoryx,
        #[cfg(feature = "shaq")]
        Versus::Shaq,
    ];

    /// Its name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Versus::Pipe => "pipe",
            Versus::Unix => "unix",
            Versus::Tcp => "tcp",
            Versus::Futex => "futex",
            Versus::Eventfd => "eventfd",
            Versus::Local => "local",
            Versus::Spin => "spin",
            #[cfg(feature = "iceoryx2")]
            Versus::Iceoryx => "iceoryx2",
            #[cfg(feature = "shaq")]
            Versus::Shaq => "shaq",
        }
    }
}

impl FromStr for Versus {
    type Err = String;

    fn from_str(text: &str) -> Result<Versus, String> {
        let found = Versus::ALL.iter().find(|versus| versus.name() == text);
        found.copied().ok_or_else(|| {
            let names: Vec<_> = Versus::ALL.iter().map(|versus| versus.name()).collect();
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
        assert!(Versus::ALL.len() >= 7);
        for versus in Versus::ALL {
            assert_eq!(versus.to_string().parse(), Ok(*versus));
        }
        let error = "fax".parse::<Versus>().unwrap_err();
        assert!(error.starts_with("fax: not one of pipe, unix, "), "{error}");
    }
}
