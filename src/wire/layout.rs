//! The layout of a lane's segment. Version 5.
//!
//! ```text
//! line 0         magic, version, segment bytes, ring lines, nanoseconds to poll
//! line 1         in a segment with a name: the creator's process and its start time, the attached one's and its start time;
//!                the word that the thread sleeps on that opens lanes
//! lines 2..6     crash record
//! line 6         number of the last posted call that ran; the lock that the executor's thread holds while it serves
//! line 7         CPU of the controller, CPU of the executor, each plus one; the parker of the controller, that of the executor;
//!                1 when the lane is closed
//! line 8         in the first lane of an executor: the lock that a thread of it holds as long as its process lives
//! lines 10..12   baton (one line, alone in its pair of lines)
//! lines 12..     ring controller -> executor, then ring executor -> controller
//! then           in the first lane of an executor: how far each slab's data was ever used
//! then           bulk buffer for payloads that the baton tells of, from a page on; backed as it is used
//! ```

use crate::limits::{BULK_BYTES, RING_LINES, SLABS_MAX};
use crate::ring::{LINE_WORDS, ring_words};

/// "farcall" and a zero byte.
pub(crate) const MAGIC: u64 = u64::from_le_bytes(*b"farcall\0");
/// Raised with every change of layout, frames or contract.
pub(crate) const VERSION: u64 = 5;

/// How many nanoseconds each side polls before it sleeps. The controller writes it before there is an executor.
pub(crate) const SPIN_NS_WORD: usize = 4;
/// The number of the process that created a named segment, 0 in others.
#[cfg(feature = "named-segment")]
pub(crate) const CREATOR_WORD: usize = LINE_WORDS;
/// When it started.
#[cfg(feature = "named-segment")]
pub(crate) const CREATOR_STARTED_WORD: usize = LINE_WORDS + 1;
/// Changes whenever the executor's thread that opens lanes has something to do. That thread sleeps on this word.
pub(crate) const DOORBELL_WORD: usize = LINE_WORDS + 4;
/// The number of the process that has attached to it.
#[cfg(feature = "named-segment")]
pub(crate) const ATTACHED_WORD: usize = LINE_WORDS + 2;
/// When it started.
#[cfg(feature = "named-segment")]
pub(crate) const ATTACHED_STARTED_WORD: usize = LINE_WORDS + 3;
/// First word of the crash record.
pub(crate) const CRASH_WORD: usize = 2 * LINE_WORDS;
/// The number of the last posted call that has run, above a bit that says that a thread waits for the word.
pub(crate) const SETTLED_WORD: usize = 6 * LINE_WORDS;
/// First word of the lock (a robust `pthread_mutex_t`) that a thread of the executor holds while it serves the lane.
pub(crate) const HOLDER_WORD: usize = SETTLED_WORD + 1;
/// Words of such a lock: as many as on the processor where it has most.
pub(crate) const HOLDER_WORDS: usize = 6;
/// The CPU hints: first the controller's, then the executor's. Each is the number of the CPU on which that side last waited
/// for long, plus one; 0 when it has not waited yet.
pub(crate) const CPU_HINT_WORDS: [usize; 2] = [7 * LINE_WORDS, 7 * LINE_WORDS + 1];
/// The words that each side sleeps on: first the controller, then the executor.
pub(crate) const PARKER_WORDS: [usize; 2] = [7 * LINE_WORDS + 2, 7 * LINE_WORDS + 3];
/// Not 0 when nothing more will come.
pub(crate) const CLOSED_WORD: usize = 7 * LINE_WORDS + 4;
/// First word of the lock that the executor's thread holds that opens lanes. That thread lives until the process ends.
pub(crate) const PROCESS_HOLDER_WORD: usize = 8 * LINE_WORDS;
/// First word of the baton.
pub(crate) const BATON_WORD: usize = 10 * LINE_WORDS;
/// First word of the ring from the controller to the executor.
pub(crate) const RING_TO_EXECUTOR_WORD: usize = 12 * LINE_WORDS;
/// First word of the ring from the executor to the controller.
pub(crate) const RING_TO_CONTROLLER_WORD: usize = RING_TO_EXECUTOR_WORD + ring_words(RING_LINES);
/// First of the words that say for each slab of an executor how many bytes of its data may not be zero. The controller writes it
/// before it writes there.
pub(crate) const DATA_END_WORD: usize = RING_TO_CONTROLLER_WORD + ring_words(RING_LINES);
/// Words before the bulk buffer, which are backed from the beginning.
pub(crate) const FIXED_WORDS: usize = (DATA_END_WORD + SLABS_MAX).next_multiple_of(PAGE_WORDS);
/// The bulk buffer begins at a page.
const PAGE_WORDS: usize = if cfg!(model) { LINE_WORDS } else { 512 };
/// Words of the whole segment.
pub(crate) const SEGMENT_WORDS: usize = FIXED_WORDS + BULK_BYTES / 8;

/// The first words of every segment of this version.
pub(crate) const HEADER: [u64; 4] = [MAGIC, VERSION, SEGMENT_WORDS as u64 * 8, RING_LINES as u64];

const _: () = assert!(BATON_WORD.is_multiple_of(2 * LINE_WORDS), "the baton shares no line pair");
const _: () = assert!(HOLDER_WORD + HOLDER_WORDS <= SETTLED_WORD + LINE_WORDS);
const _: () = assert!(cfg!(model) || PAGE_WORDS as u64 * 8 == crate::limits::PAGE_BYTES);
