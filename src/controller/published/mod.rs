//! Published sessions: what `farcall top` shows of a session, and other processes may read.
//!
//! | file | what it is |
//! |---|---|
//! | `page` | the shared page: its words, and times in buckets |
//! | `publication` | the host's side, which writes the page |
//! | `listing` | the reader's side, which finds the pages of all processes and reads them |
//!
//! A page is a memory file that the host keeps open. A reader finds it among the host's descriptors in `/proc`. So a publication has no
//! name on disk, no thread and no socket, and ends with its process.
//!
//! Invariant: the page is sealed against other writers, apart from children that the host forks. A reader takes each word for a number
//! that may be anything.

mod listing;
mod page;
mod publication;

pub use listing::Published;
pub(in crate::controller) use publication::{Publication, Publish, Shown};
