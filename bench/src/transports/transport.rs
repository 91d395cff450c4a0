//! A transport as a row: its names, and how its caller's side is made.
//!
//! Invariant: a run knows a transport by one of these alone. So a new transport is a file and its lines in the tables.

use std::rc::Rc;

use crate::processes::peer::Peer;
use crate::{Contender, CpuPair, Result, Size};

/// A transport that farcall can be compared with.
pub(crate) struct Transport {
    /// The word that `--vs` accepts.
    pub(crate) word: &'static str,
    /// True for transports of any number of bytes. The others have one row, whatever the sizes.
    pub(crate) has_sizes: bool,
    /// The name of its row for this size and this many messages in flight.
    pub(crate) row_name: fn(Size, usize) -> String,
    /// Makes the caller's side of the row.
    pub(crate) start: fn(&Setting<'_>) -> Result<Box<dyn Contender>>,
}

/// The processes and numbers that a row is made for.
pub(crate) struct Setting<'a> {
    pub(crate) peer: &'a Rc<Peer>,
    pub(crate) cpus: CpuPair,
    pub(crate) size: Size,
    /// Messages in flight, for transports that can have many; at least one.
    #[cfg_attr(not(feature = "shaq"), expect(dead_code, reason = "of shaq's row alone"))]
    pub(crate) in_flight: usize,
}
