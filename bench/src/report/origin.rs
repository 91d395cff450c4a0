//! Which program made a report, and how it was asked to.

use serde::{Deserialize, Serialize};

/// The program and the flags that a report comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// The version of farcall.
    pub version: String,
    /// The commit that it was built from; `None` where it was not built in a repository.
    pub commit: Option<String>,
    /// The flags of the run.
    pub flags: Vec<String>,
}

impl Origin {
    /// This program with these flags.
    pub(crate) fn here(flags: &[String]) -> Origin {
        let version = env!("CARGO_PKG_VERSION").to_owned();
        let commit = option_env!("FARCALL_COMMIT").map(str::to_owned);
        Origin { version, commit, flags: flags.to_vec() }
    }

    /// Version and commit, as in the heading of a table.
    pub(crate) fn program(&self) -> String {
        let commit = self.commit.as_deref().map(|commit| format!(" ({commit})"));
        format!("farcall {}{}", self.version, commit.unwrap_or_default())
    }
}
