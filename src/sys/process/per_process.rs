//! A static value that a forked child has anew.

use std::marker::PhantomData;

use super::fork;
use crate::sync::{AtomicU64, Ordering};

/// A value that each process makes when it needs it first. A forked child does not get its parent's: another thread may have
/// held its lock during the fork. The value lives until the process ends.
pub(crate) struct PerProcess<T: 'static> {
    /// The address of a [`Made`]; 0 before the first use.
    made: AtomicU64,
    of: PhantomData<&'static T>,
}

struct Made<T> {
    generation: u64,
    value: T,
}

impl<T: Default + Sync + Send> PerProcess<T> {
    pub(crate) const fn new() -> Self {
        Self { made: AtomicU64::new(0), of: PhantomData }
    }

    /// This process's value. Forks count from the first [`fork::watch`] on.
    pub(crate) fn get(&'static self) -> &'static T {
        let generation = fork::generation();
        // [PER_PROCESS] Acquire: pairs with the exchange below.
        let mut found = self.made.load(Ordering::Acquire);
        loop {
            let at = usize::try_from(found).unwrap_or(0);
            let known: *const Made<T> = std::ptr::with_exposed_provenance(at);
            // SAFETY: the address is null, or belongs to a box that is never freed.
            if let Some(made) = unsafe { known.as_ref() }
                && made.generation == generation
            {
                return &made.value;
            }
            let new = Box::into_raw(Box::new(Made { generation, value: T::default() }));
            let address = new.expose_provenance() as u64;
            // [PER_PROCESS] Release: a thread that finds the address sees the value.
            match self.made.compare_exchange(found, address, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => found = address,
                Err(other) => {
                    // SAFETY: the box was made above, and no other thread has its address.
                    drop(unsafe { Box::from_raw(new) });
                    found = other;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::Mutex;

    #[test]
    fn threads_share_it_and_a_forked_child_has_its_own() {
        static VALUE: PerProcess<Mutex<u32>> = PerProcess::new();
        fork::watch();
        std::thread::scope(|scope| {
            (0..8).for_each(|_| _ = scope.spawn(|| *VALUE.get().lock() += 1));
        });
        let held = VALUE.get().lock();
        assert_eq!(*held, 8);
        // SAFETY: the child allocates a few bytes, which the C library allows, and ends.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let is_new = VALUE.get().try_lock().is_some_and(|value| *value == 0);
            // SAFETY: no code of the process runs behind this.
            unsafe { libc::_exit(i32::from(!is_new)) };
        }
        let mut status = 0;
        // SAFETY: waits for the child and stores to a local variable.
        let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
        assert_eq!((waited, status), (child, 0));
    }
}
