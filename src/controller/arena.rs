//! The controller's side of the arena of thread-locals: which part of it belongs to which link.
//!
//! The arena is a thread-local of the executor's program, so that every thread has a copy of it at the same
//! distance from its thread pointer. Taking and giving back are local; what is taken gets its values when the
//! link that took it is initialised.

use super::space::Space;
use crate::error::{Error, Result};
use crate::limits::{PAGE_BYTES, THREAD_ARENA_BYTES_MAX};

/// The arena of one executor.
#[derive(Debug)]
pub(super) struct Arena {
    /// How far from the thread pointer it starts; a multiple of a page.
    offset: i64,
    space: Space,
}

/// A part of the arena, given back as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct ThreadRange {
    start: u64,
    bytes: u64,
}

impl Arena {
    /// The arena that an executor says it has: how far from the thread pointer, and its size, which is 0 when it
    /// has none.
    ///
    /// # Errors
    ///
    /// When there can be no such arena.
    pub(super) fn new(offset: i64, bytes: i64) -> Result<Self> {
        let size = u64::try_from(bytes).ok().filter(|size| *size <= THREAD_ARENA_BYTES_MAX);
        let is_aligned = offset.cast_unsigned().is_multiple_of(PAGE_BYTES);
        let is_near = i32::try_from(offset).is_ok();
        match size {
            Some(size) if is_aligned && is_near => Ok(Self { offset, space: Space::new(size) }),
            _ => Err(Error::violation(format!(
                "an arena of {bytes} bytes for thread-locals at {offset} from the thread pointer"
            ))),
        }
    }

    /// Takes a range of this size and alignment (of at most a page); the empty one when `bytes` is 0.
    ///
    /// # Errors
    ///
    /// When the arena has no such hole.
    pub(super) fn take(&mut self, bytes: u64, alignment: u64) -> Result<ThreadRange> {
        if bytes == 0 {
            return Ok(ThreadRange::default());
        }
        if self.space.bytes() == 0 {
            return Err(Error::exhausted(format!(
                "{bytes} bytes of thread-locals, and the executor has no room for any: its library was loaded \
                 by dlopen; start it as a program of its own"
            )));
        }
        let start = self.space.take(bytes, alignment).ok_or_else(|| {
            Error::exhausted(format!(
                "{bytes} bytes of thread-locals aligned to {alignment} wanted, the largest hole of the \
                 executor's arena of {} bytes has {}; make the largest thread-locals pointers to memory \
                 that is allocated on first use",
                self.space.bytes(),
                self.space.largest()
            ))
        })?;
        Ok(ThreadRange { start, bytes })
    }

    /// Gives a range back. It may be taken again at once.
    pub(super) fn give_back(&mut self, range: ThreadRange) {
        self.space.give_back(range.start, range.bytes);
    }

    /// How far from the thread pointer a range starts.
    pub(super) fn offset_of(&self, range: ThreadRange) -> i64 {
        // Arenas are small.
        self.offset.wrapping_add_unsigned(range.start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_lie_at_their_distance_from_the_thread_pointer() {
        let mut arena = Arena::new(-8192, 4096).expect("possible");
        let first = arena.take(3, 1).expect("room");
        let second = arena.take(64, 64).expect("room");
        assert_eq!((arena.offset_of(first), arena.offset_of(second)), (-8192, -8128));
        arena.give_back(first);
        arena.give_back(second);
        let all = arena.take(4096, 4096).expect("everything came back");
        assert_eq!(arena.offset_of(all), -8192);
        assert_eq!(arena.take(0, 1).expect("nothing is always there"), ThreadRange::default());
    }

    #[test]
    fn a_full_arena_says_how_full_it_is() {
        let mut arena = Arena::new(-8192, 4096).expect("possible");
        arena.take(4000, 1).expect("room");
        let error = arena.take(97, 1).expect_err("too much");
        let text = error.to_string();
        assert!(error.is_exhausted(), "{text}");
        assert!(["97", "4096", " 96;"].iter().all(|number| text.contains(number)), "{text}");
        let error = Arena::new(0, 0).expect("none").take(1, 1).expect_err("there is none");
        assert!(error.to_string().contains("dlopen"), "{error}");
    }

    #[test]
    fn impossible_arenas_are_violations() {
        for (offset, bytes) in [(-8192, -1), (-8191, 4096), (i64::MIN, 4096), (-8192, i64::MAX)] {
            assert!(Arena::new(offset, bytes).expect_err("impossible").is_violation());
        }
    }
}
