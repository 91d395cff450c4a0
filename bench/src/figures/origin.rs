//! The program that made a report, and the flags of the run.

use serde::{Deserialize, Serialize};

/// The program and the flags that a report comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// The version of farcall.
    pub version: String,
    /// The commit that the program was built from; `None` if its build found no repository.
    pub commit: Option<String>,
    /// The flags of the run.
    pub flags: Vec<String>,
}

impl Origin {
    /// This version of farcall, built from `commit`, with the flags of the run.
    #[must_use]
    pub fn new(commit: Option<&str>, flags: Vec<String>) -> Origin {
        let version = env!("CARGO_PKG_VERSION").to_owned();
        Origin { version, commit: commit.map(str::to_owned), flags }
    }

    /// Version and commit, as in the heading of a table.
    pub(crate) fn program(&self) -> String {
        let commit = self.commit.as_deref().map(|commit| format!(" ({commit})"));
        format!("farcall {}{}", self.version, commit.unwrap_or_default())
    }
}
