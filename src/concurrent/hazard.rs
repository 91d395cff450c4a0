//! A hazard-pointer table: many threads use its values without a lock or a locked instruction, and any thread can remove one.
//!
//! | user | remover |
//! |---|---|
//! | publishes the slot's address in its hazards | clears the slot's tag |
//! | issues the [light fence](crate::sys::asymmetric_fence) | issues the heavy fence |
//! | loads the tag | scans the hazards of all users |
//!
//! So the user sees that the tag is cleared, or the remover sees the hazard. A value that is removed while in use is
//! *retired*: its last user drops it. For that, a user that has cleared its hazard issues the light fence again and loads `has_retired`.
//!
//! Invariants: a slot never moves. A value changes only under the lock of its table. Then its slot has no tag, and no hazard of
//! a thread that may have seen the tag.

use std::cell::{Cell, OnceCell};
use std::fmt;
use std::sync::{Arc, OnceLock};

use crossbeam_utils::CachePadded;

use crate::sync::{AtomicBool, AtomicU64, Mutex, MutexGuard, Ordering, UnsafeCell};
use crate::sys::asymmetric_fence::{LightFence, heavy_fence};

/// Nested uses whose hazards fit one block of a thread.
const DEPTH: usize = 8;
/// The bits of a tag that number the slot; the bits above count the values that the slot had before.
const SLOT_BITS: u64 = u32::MAX as u64;
/// Logarithm of the number of slots in the first block; each further block has twice as many as the one before.
const FIRST_ORDER: u32 = 5;
/// Blocks that together have a slot for every tag.
const BLOCKS: usize = 28;

/// Values by their tags. A tag is never 0. It comes again only after 2^32 other values have been in its slot.
pub(crate) struct HazardTable<T> {
    blocks: [OnceLock<Box<[Slot<T>]>>; BLOCKS],
    /// A value was removed that may still be in use.
    has_retired: AtomicBool,
    state: Mutex<State>,
}

struct Slot<T> {
    /// The tag of the value; 0 when the slot is empty or its value was removed.
    tag: AtomicU64,
    value: UnsafeCell<Option<T>>,
}

#[derive(Debug, Default)]
struct State {
    /// Slots that have ever had a value.
    slots: u64,
    /// The next tags of the free slots.
    free: Vec<u64>,
    /// The tags of values that were removed and may be in use.
    retired: Vec<u64>,
}

// SAFETY: a shared table lends shared values (`Sync`) and drops values that other threads added (`Send`). Values change only
// under the module's first invariant.
unsafe impl<T: Send + Sync> Sync for HazardTable<T> {}

/// The addresses of the slots that a thread uses, outermost use first. Only that thread stores here.
#[derive(Debug, Default)]
struct Hazards([AtomicU64; DEPTH]);

/// A thread as a user of any table.
#[derive(Debug)]
struct User {
    hazards: Arc<CachePadded<Hazards>>,
    depth: Cell<usize>,
    light: LightFence,
    /// The next block of hazards, used while this one is full.
    deeper: OnceCell<Box<User>>,
}

/// The hazards of all users of the process. This lock is taken inside of a table's lock.
#[cfg(not(loom))]
static USERS: Mutex<Vec<Arc<CachePadded<Hazards>>>> = Mutex::new(Vec::new());
#[cfg(loom)]
crate::sync::lazy_static! {
    static ref USERS: Mutex<Vec<Arc<CachePadded<Hazards>>>> = Mutex::new(Vec::new());
}

#[cfg(not(model))]
thread_local! {
    static USER: User = User::new(LightFence::of_process());
}

impl<T> HazardTable<T> {
    pub(crate) fn new() -> Self {
        Self {
            blocks: [const { OnceLock::new() }; BLOCKS],
            has_retired: AtomicBool::new(false),
            state: Mutex::default(),
        }
    }

    /// An empty table, none of whose tags is one of `other`'s values.
    #[cfg(not(model))]
    pub(crate) fn beyond(other: &Self) -> Self {
        let table = Self::new();
        lock(&table.state).slots = lock(&other.state).slots;
        table
    }

    /// Adds a value and returns its tag.
    ///
    /// # Panics
    ///
    /// When the table has 2^32 - 1 slots and all have values.
    pub(crate) fn add(&self, value: T) -> u64 {
        // Registering with the system takes up to 10 ms: here, not at the first use.
        LightFence::of_process();
        let mut state = lock(&self.state);
        let tag = state.free.pop().unwrap_or_else(|| {
            assert!(state.slots < SLOT_BITS, "all slots are taken");
            state.slots += 1;
            state.slots
        });
        let (block, at) = position(tag);
        let slots = self.blocks[block].get_or_init(|| {
            let slot = || Slot { tag: AtomicU64::new(0), value: UnsafeCell::new(None) };
            std::iter::repeat_with(slot).take(1 << (block + FIRST_ORDER as usize)).collect()
        });
        let slot = &slots[at];
        // SAFETY: the slot is free and has no tag, and this thread has the lock.
        slot.value.with_mut(|empty| unsafe { *empty = Some(value) });
        // [HAZARD] Release: a user that loads the tag sees the value.
        slot.tag.store(tag, Ordering::Release);
        tag
    }

    /// Removes a value: later uses do not find it. This call drops it, or its last user does.
    pub(crate) fn remove(&self, tag: u64) {
        let mut state = lock(&self.state);
        let slot = self.slot(tag).filter(|slot| slot.tag.load(Ordering::Relaxed) == tag);
        let Some(slot) = slot else { return };
        slot.tag.store(0, Ordering::Relaxed);
        self.has_retired.store(true, Ordering::Relaxed);
        // If the heavy fence fails, the hazards cannot be trusted: the value stays until the table is dropped.
        if heavy_fence() {
            state.retired.push(tag);
        }
        let unused = self.reclaim(&mut state);
        drop(state);
        drop(unused);
    }

    /// Runs `work` with a value, which stays until `work` returns; `None` when no value has this tag.
    #[cfg(not(model))]
    #[inline(always)]
    pub(crate) fn with<R>(&self, tag: u64, work: impl FnOnce(&T) -> R) -> Option<R> {
        let mut work = Some(work);
        let mut lend = |user: &User| self.lend(user, tag, work.take()?);
        // A thread that is about to end has already dropped its own user.
        USER.try_with(&mut lend).unwrap_or_else(|_| lend(&User::new(LightFence::of_process())))
    }

    #[inline(always)]
    fn lend<R>(&self, user: &User, tag: u64, work: impl FnOnce(&T) -> R) -> Option<R> {
        let user = if user.depth.get() < DEPTH { user } else { user.deepest() };
        let slot = self.slot(tag)?;
        let _cleared_at_the_end = Hazard::new(self, user, slot);
        user.light.issue();
        // [HAZARD] Acquire: pairs with the store of the tag in `add`.
        if slot.tag.load(Ordering::Acquire) != tag {
            return None;
        }
        // SAFETY: the slot had the tag after the hazard was published, so the value does not change until that is cleared.
        slot.value.with(|value| unsafe { &*value }.as_ref().map(work))
    }

    #[inline(always)]
    fn slot(&self, tag: u64) -> Option<&Slot<T>> {
        let (block, at) = position(tag);
        self.blocks.get(block)?.get()?.get(at)
    }

    /// Takes out the retired values that are not in use.
    fn reclaim(&self, state: &mut State) -> Vec<T> {
        let users = lock(&USERS);
        let mut unused = Vec::new();
        for tag in std::mem::take(&mut state.retired) {
            let Some(slot) = self.slot(tag) else { continue };
            let address = slot.address();
            // [HAZARD] Acquire: pairs with the stores that clear a hazard or replace it by the next.
            let is_it = |hazard: &AtomicU64| hazard.load(Ordering::Acquire) == address;
            if users.iter().any(|hazards| hazards.0.iter().any(is_it)) {
                state.retired.push(tag);
                continue;
            }
            // SAFETY: the slot has had no tag since before a heavy fence, behind which no hazard named it, and this thread has
            // the lock.
            unused.extend(slot.value.with_mut(|value| unsafe { &mut *value }.take()));
            state.free.push(tag.wrapping_add(SLOT_BITS + 1));
        }
        self.has_retired.store(!state.retired.is_empty(), Ordering::Relaxed);
        unused
    }

    /// Drops the values whose last user this thread was.
    #[cold]
    fn drop_unused(&self) {
        let unused = self.reclaim(&mut lock(&self.state));
        drop(unused);
    }
}

impl<T> Slot<T> {
    fn address(&self) -> u64 {
        std::ptr::from_ref(self).addr() as u64
    }
}

/// A published hazard; dropping this clears it.
struct Hazard<'a, T> {
    table: &'a HazardTable<T>,
    user: &'a User,
}

impl<'a, T> Hazard<'a, T> {
    #[inline(always)]
    fn new(table: &'a HazardTable<T>, user: &'a User, slot: &Slot<T>) -> Self {
        let depth = user.depth.get();
        // [HAZARD] Release: a remover that loads this in place of the hazard before sees that the use before is over.
        user.hazards.0[depth].store(slot.address(), Ordering::Release);
        user.depth.set(depth + 1);
        Self { table, user }
    }
}

impl<T> Drop for Hazard<'_, T> {
    #[inline(always)]
    fn drop(&mut self) {
        let depth = self.user.depth.get() - 1;
        self.user.depth.set(depth);
        // [HAZARD] Release: a remover that loads 0 sees that the use is over, and may drop the value.
        self.user.hazards.0[depth].store(0, Ordering::Release);
        self.user.light.issue();
        if self.table.has_retired.load(Ordering::Relaxed) {
            self.table.drop_unused();
        }
    }
}

impl User {
    fn new(light: LightFence) -> Self {
        let hazards = Arc::default();
        lock(&USERS).push(Arc::clone(&hazards));
        Self { hazards, depth: Cell::new(0), light, deeper: OnceCell::new() }
    }

    /// The first block of this thread that is not full.
    #[cold]
    fn deepest(&self) -> &User {
        let deeper = self.deeper.get_or_init(|| Box::new(User::new(self.light)));
        if deeper.depth.get() < DEPTH { deeper } else { deeper.deepest() }
    }
}

impl Drop for User {
    fn drop(&mut self) {
        lock(&USERS).retain(|hazards| !Arc::ptr_eq(hazards, &self.hazards));
    }
}

/// The block of a tag's slot, and the slot's index in it.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "slots are counted in 33 bits")]
fn position(tag: u64) -> (usize, usize) {
    let slot = (tag & SLOT_BITS) + (1 << FIRST_ORDER);
    let order = slot.ilog2();
    ((order - FIRST_ORDER) as usize, (slot ^ 1 << order) as usize)
}

impl<T> fmt::Debug for HazardTable<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HazardTable").field("state", &self.state).finish_non_exhaustive()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock()
}

#[cfg(test)]
#[cfg(loom)]
mod loom;

#[cfg(test)]
#[cfg(not(model))]
mod tests;
