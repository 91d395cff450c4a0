//! Things that many threads use without a lock or a locked instruction, and that any thread can take away.
//!
//! Who uses a thing writes down which, passes the light half of a [barrier], and looks whether it is still
//! there. Who takes it away says first that it is gone, passes the heavy half, and looks who has written it down. So
//! either the user sees that it is gone, or the other sees the user. A thing that is still in use is dropped by its
//! last user: who has crossed a thing out passes the light half again, and looks whether anything waits.
//!
//! Invariants: a thing is changed only under the lock of its shelf, while its place has no tag and nobody who could have seen
//! one has written the place down; a place never moves.

use std::cell::{Cell, OnceCell};
use std::fmt;
use std::sync::{Arc, OnceLock};

use super::barrier::{self, Light};
use crate::sync::{AtomicBool, AtomicU64, Mutex, MutexGuard, Ordering, UnsafeCell};

/// So many things, one inside of the use of another, are written down in one piece of memory.
const DEPTH: usize = 8;
/// The part of a tag that says which place it is; the rest counts what was in that place before.
const PLACE: u64 = u32::MAX as u64;
/// The logarithm of how many places the first block has; each has twice as many as the one before.
const FIRST_ORDER: u32 = 5;
/// So many have a place for every tag.
const BLOCKS: usize = 28;

/// Things by their tags. A tag is never 0, and used again only when 2^32 other things have been in its place.
pub(crate) struct Shelf<T> {
    blocks: [OnceLock<Box<[Place<T>]>>; BLOCKS],
    /// Something was taken away that was in use.
    waits: AtomicBool,
    state: Mutex<State>,
}

struct Place<T> {
    /// That of the thing; 0 when there is none, or none for who comes now.
    tag: AtomicU64,
    thing: UnsafeCell<Option<T>>,
}

#[derive(Debug, Default)]
struct State {
    /// How many places were ever taken.
    places: u64,
    /// The next tags of those that are free.
    free: Vec<u64>,
    /// The tags of things that were taken away and may be in use.
    gone: Vec<u64>,
}

// SAFETY: who has a shared shelf gets shared things, and drops what others put there; things change under the first of the
// module's invariants only.
unsafe impl<T: Send + Sync> Sync for Shelf<T> {}

/// The places that a thread has written down, each inside of the use of the one before. Only that thread writes.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Uses([AtomicU64; DEPTH]);

/// A thread, as one that uses things of whatever shelf.
#[derive(Debug)]
struct User {
    uses: Arc<Uses>,
    depth: Cell<usize>,
    light: Light,
    /// Where it writes when these are full.
    deeper: OnceCell<Box<User>>,
}

/// What the users of the process have written down. Locked inside of a shelf's lock.
#[cfg(not(loom))]
static USERS: Mutex<Vec<Arc<Uses>>> = Mutex::new(Vec::new());
#[cfg(loom)]
crate::sync::lazy_static! {
    static ref USERS: Mutex<Vec<Arc<Uses>>> = Mutex::new(Vec::new());
}

#[cfg(not(model))]
thread_local! {
    static USER: User = User::new(Light::of_process());
}

impl<T> Shelf<T> {
    pub(crate) fn new() -> Self {
        Self {
            blocks: [const { OnceLock::new() }; BLOCKS],
            waits: AtomicBool::new(false),
            state: Mutex::default(),
        }
    }

    /// Puts a thing there, and returns its tag.
    ///
    /// # Panics
    ///
    /// When there are 2^32.
    pub(crate) fn add(&self, thing: T) -> u64 {
        // Asking the system takes long: not at the first use.
        Light::of_process();
        let mut state = lock(&self.state);
        let tag = state.free.pop().unwrap_or_else(|| {
            assert!(state.places < PLACE, "all places are taken");
            state.places += 1;
            state.places
        });
        let (block, at) = position(tag);
        let places = self.blocks[block].get_or_init(|| {
            let place = || Place { tag: AtomicU64::new(0), thing: UnsafeCell::new(None) };
            std::iter::repeat_with(place).take(1 << (block + FIRST_ORDER as usize)).collect()
        });
        let place = &places[at];
        // SAFETY: the place has no tag, is free, and is changed by who has the lock only.
        place.thing.with_mut(|empty| unsafe { *empty = Some(thing) });
        // [SHELF] Release: who sees the tag sees the thing.
        place.tag.store(tag, Ordering::Release);
        tag
    }

    /// Takes a thing away: nobody gets it any more. It is dropped here, or by the last of those who use it.
    pub(crate) fn remove(&self, tag: u64) {
        let mut state = lock(&self.state);
        let place = self.place(tag).filter(|place| place.tag.load(Ordering::Relaxed) == tag);
        let Some(place) = place else { return };
        place.tag.store(0, Ordering::Relaxed);
        self.waits.store(true, Ordering::Relaxed);
        // Nobody learns who uses it when there is no barrier: it stays until the shelf goes.
        if barrier::heavy() {
            state.gone.push(tag);
        }
        let unused = self.sweep(&mut state);
        drop(state);
        drop(unused);
    }

    /// Runs `work` with a thing, which stays until that returns; `None` when there is none with this tag.
    #[cfg(not(model))]
    #[inline(always)]
    pub(crate) fn with<R>(&self, tag: u64, work: impl FnOnce(&T) -> R) -> Option<R> {
        let mut work = Some(work);
        let mut lend = |user: &User| self.lend(user, tag, work.take()?);
        // A thread that is about to end has lost its own.
        USER.try_with(&mut lend).unwrap_or_else(|_| lend(&User::new(Light::of_process())))
    }

    #[inline(always)]
    fn lend<R>(&self, user: &User, tag: u64, work: impl FnOnce(&T) -> R) -> Option<R> {
        let user = if user.depth.get() < DEPTH { user } else { user.deepest() };
        let place = self.place(tag)?;
        let _crossed_out_at_the_end = Use::new(self, user, place);
        user.light.pass();
        // [SHELF] Acquire: pairs with the store of who added it.
        if place.tag.load(Ordering::Acquire) != tag {
            return None;
        }
        // SAFETY: the place had the tag after it was written down, so nobody changes the thing until it is crossed out.
        place.thing.with(|thing| unsafe { &*thing }.as_ref().map(work))
    }

    #[inline(always)]
    fn place(&self, tag: u64) -> Option<&Place<T>> {
        let (block, at) = position(tag);
        self.blocks.get(block)?.get()?.get(at)
    }

    /// Takes out what is gone and not in use.
    fn sweep(&self, state: &mut State) -> Vec<T> {
        let users = lock(&USERS);
        let mut unused = Vec::new();
        for tag in std::mem::take(&mut state.gone) {
            let Some(place) = self.place(tag) else { continue };
            let address = place.address();
            // [SHELF] Acquire: pairs with the store of who crosses out, or writes down the next.
            let is_it = |use_: &AtomicU64| use_.load(Ordering::Acquire) == address;
            if users.iter().any(|uses| uses.0.iter().any(is_it)) {
                state.gone.push(tag);
                continue;
            }
            // SAFETY: the place has had no tag since before a barrier, behind which nobody had it written down; this thread
            // has the lock.
            unused.extend(place.thing.with_mut(|thing| unsafe { &mut *thing }.take()));
            state.free.push(tag.wrapping_add(PLACE + 1));
        }
        self.waits.store(!state.gone.is_empty(), Ordering::Relaxed);
        unused
    }

    /// Drops what this thread was the last to use.
    #[cold]
    fn sweep_behind(&self) {
        let unused = self.sweep(&mut lock(&self.state));
        drop(unused);
    }
}

impl<T> Place<T> {
    fn address(&self) -> u64 {
        std::ptr::from_ref(self).addr() as u64
    }
}

/// A thing that is written down until this is dropped.
struct Use<'a, T> {
    shelf: &'a Shelf<T>,
    user: &'a User,
}

impl<'a, T> Use<'a, T> {
    #[inline(always)]
    fn new(shelf: &'a Shelf<T>, user: &'a User, place: &Place<T>) -> Self {
        let depth = user.depth.get();
        // [SHELF] Release: who sees this and not the one before sees that that one's use is over.
        user.uses.0[depth].store(place.address(), Ordering::Release);
        user.depth.set(depth + 1);
        Self { shelf, user }
    }
}

impl<T> Drop for Use<'_, T> {
    #[inline(always)]
    fn drop(&mut self) {
        let depth = self.user.depth.get() - 1;
        self.user.depth.set(depth);
        // [SHELF] Release: who does not see the use any more may drop the thing.
        self.user.uses.0[depth].store(0, Ordering::Release);
        self.user.light.pass();
        if self.shelf.waits.load(Ordering::Relaxed) {
            self.shelf.sweep_behind();
        }
    }
}

impl User {
    fn new(light: Light) -> Self {
        let uses = Arc::default();
        lock(&USERS).push(Arc::clone(&uses));
        Self { uses, depth: Cell::new(0), light, deeper: OnceCell::new() }
    }

    /// What has room, behind those that are full.
    #[cold]
    fn deepest(&self) -> &User {
        let deeper = self.deeper.get_or_init(|| Box::new(User::new(self.light)));
        if deeper.depth.get() < DEPTH { deeper } else { deeper.deepest() }
    }
}

impl Drop for User {
    fn drop(&mut self) {
        lock(&USERS).retain(|uses| !Arc::ptr_eq(uses, &self.uses));
    }
}

/// The block, and which of its places.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "places are counted in 33 bits")]
fn position(tag: u64) -> (usize, usize) {
    let place = (tag & PLACE) + (1 << FIRST_ORDER);
    let order = place.ilog2();
    ((order - FIRST_ORDER) as usize, (place ^ 1 << order) as usize)
}

impl<T> fmt::Debug for Shelf<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shelf").field("state", &self.state).finish_non_exhaustive()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock()
}

#[cfg(test)]
#[cfg(loom)]
mod model;

#[cfg(test)]
#[cfg(not(model))]
mod tests;
