//! The controller's side of the arena of thread-locals: which part of it belongs to which link.
//!
//! The arena is a thread-local of the executor's program, so that every thread has a copy of it at the same
//! distance from its thread pointer. A link for which it has no room takes a number instead, by which its code asks the
//! executor for a block of its own. Taking and giving back are local; what is taken gets its values when the
//! link that took it is initialised.
//!
//! Invariant: what was taken is given back once: when a [`Taken`] is dropped, or by who has it
//! [kept](Taken::keep).

use crate::controller::memory::space::Space;
use crate::error::{Error, Result};
use crate::limits::{PAGE_BYTES, THREAD_ARENA_BYTES_MAX, THREAD_MODULES_MAX};
use crate::sync::{Mutex, MutexGuard};

/// The arena of one executor.
#[derive(Debug)]
pub(crate) struct Arena {
    /// How far from the thread pointer it starts; a multiple of a page.
    offset: i64,
    space: Space,
    /// The numbers of blocks that lie elsewhere.
    modules: Space,
}

/// Where the thread-locals of a link are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum ThreadPlace {
    /// There are none.
    #[default]
    Nowhere,
    /// A part of the arena.
    Range { start: u64, bytes: u64 },
    /// A block with this number, of which threads get copies on demand.
    Module(u32),
}

/// A place that a link has taken; given back when dropped.
#[derive(Debug)]
pub(crate) struct Taken<'a> {
    arena: &'a Mutex<Arena>,
    place: ThreadPlace,
}

impl<'a> Taken<'a> {
    /// Takes a part of the arena of this size and alignment (of at most a page); nothing when `bytes` is 0.
    ///
    /// # Errors
    ///
    /// When the arena has no such hole.
    pub(crate) fn range(arena: &'a Mutex<Arena>, bytes: u64, alignment: u64) -> Result<Self> {
        let place = lock(arena).take(bytes, alignment)?;
        Ok(Self { arena, place })
    }

    /// Takes a number, and says which.
    ///
    /// # Errors
    ///
    /// When there is none left.
    pub(crate) fn module(arena: &'a Mutex<Arena>) -> Result<(Self, u32)> {
        let number = lock(arena).take_module()?;
        Ok((Self { arena, place: ThreadPlace::Module(number) }, number))
    }

    /// Takes up again what was [kept](Taken::keep).
    pub(crate) fn again(arena: &'a Mutex<Arena>, place: ThreadPlace) -> Self {
        Self { arena, place }
    }

    /// How far from the thread pointer it starts; 0 outside of the arena.
    pub(crate) fn offset(&self) -> i64 {
        lock(self.arena).offset_of(self.place)
    }

    /// Leaves it to the caller to give it back.
    pub(crate) fn keep(mut self) -> ThreadPlace {
        std::mem::take(&mut self.place)
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        lock(self.arena).give_back(self.place);
    }
}

fn lock(arena: &Mutex<Arena>) -> MutexGuard<'_, Arena> {
    arena.lock()
}

impl Arena {
    /// The arena that an executor says it has: how far from the thread pointer, and its size, which is 0 when it
    /// has none.
    ///
    /// # Errors
    ///
    /// When there can be no such arena.
    pub(crate) fn new(offset: i64, bytes: i64) -> Result<Self> {
        let size = u64::try_from(bytes).ok().filter(|size| *size <= THREAD_ARENA_BYTES_MAX);
        let is_aligned = offset.cast_unsigned().is_multiple_of(PAGE_BYTES);
        let is_near = i32::try_from(offset).is_ok();
        match size {
            Some(size) if is_aligned && is_near => {
                let modules = Space::new(THREAD_MODULES_MAX as u64);
                Ok(Self { offset, space: Space::new(size), modules })
            }
            _ => Err(Error::violation(format!(
                "an arena of {bytes} bytes for thread-locals at {offset} from the thread pointer"
            ))),
        }
    }

    fn take(&mut self, bytes: u64, alignment: u64) -> Result<ThreadPlace> {
        if bytes == 0 {
            return Ok(ThreadPlace::Nowhere);
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
                 executor's arena of {} bytes has {}",
                self.space.bytes(),
                self.space.largest()
            ))
        })?;
        Ok(ThreadPlace::Range { start, bytes })
    }

    fn take_module(&mut self) -> Result<u32> {
        let number = self.modules.take(1, 1).and_then(|number| u32::try_from(number).ok());
        number.ok_or_else(|| {
            Error::exhausted(format!(
                "{THREAD_MODULES_MAX} links with thread-locals outside of the executor's arena are there, and no more \
                 are possible; clear dylibs"
            ))
        })
    }

    /// Gives a place back. It may be taken again at once.
    pub(crate) fn give_back(&mut self, place: ThreadPlace) {
        match place {
            ThreadPlace::Nowhere => {}
            ThreadPlace::Range { start, bytes } => self.space.give_back(start, bytes),
            ThreadPlace::Module(number) => self.modules.give_back(number.into(), 1),
        }
    }

    fn offset_of(&self, place: ThreadPlace) -> i64 {
        match place {
            // Arenas are small.
            ThreadPlace::Range { start, .. } => self.offset.wrapping_add_unsigned(start),
            ThreadPlace::Nowhere | ThreadPlace::Module(_) => 0,
        }
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
        assert_eq!(arena.take(0, 1).expect("nothing is always there"), ThreadPlace::Nowhere);
    }

    #[test]
    fn what_is_not_kept_comes_back() {
        let arena = Mutex::new(Arena::new(-8192, 4096).expect("possible"));
        for round in 0..3 {
            let taken = Taken::range(&arena, 4096, 8).expect("all of it");
            assert_eq!(taken.offset(), -8192);
            assert!(Taken::range(&arena, 1, 1).expect_err("full").is_exhausted());
            let (module, number) = Taken::module(&arena).expect("a number");
            assert_eq!((number, module.offset()), (round, 0), "those that are kept are taken");
            drop(Taken::module(&arena).expect("another"));
            assert_eq!(module.keep(), ThreadPlace::Module(round));
            drop(taken);
        }
        for number in 0..3 {
            lock(&arena).give_back(ThreadPlace::Module(number));
        }
        let all: Vec<_> = (0..THREAD_MODULES_MAX).map(|_| Taken::module(&arena)).collect();
        assert!(all.iter().all(Result::is_ok));
        let error = Taken::module(&arena).expect_err("one too many");
        assert!(error.is_exhausted() && error.to_string().contains("4096"), "{error}");
    }

    #[test]
    fn a_full_arena_says_how_full_it_is() {
        let mut arena = Arena::new(-8192, 4096).expect("possible");
        arena.take(4000, 1).expect("room");
        let error = arena.take(97, 1).expect_err("too much");
        let text = error.to_string();
        assert!(error.is_exhausted(), "{text}");
        assert!(["97", "4096", " 96"].iter().all(|number| text.contains(number)), "{text}");
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
