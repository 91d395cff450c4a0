//! The only source of atomics, locks and thread-locals that are model-checked. They come from the standard library, loom or
//! shuttle. Under `--cfg hostile` they are words whose loads a liar answers.
//!
//! Invariant: no other room names an atomic type by its original path.

#[cfg(hostile)]
pub mod hostile;
mod lock;

#[cfg(not(model))]
pub use std::sync::atomic::AtomicPtr;
#[cfg(not(any(loom, shuttle, hostile)))]
pub use std::sync::atomic::AtomicU64;
#[cfg(any(not(model), loom))]
pub use std::sync::atomic::compiler_fence;
#[cfg(not(any(loom, shuttle)))]
pub use std::sync::atomic::{AtomicBool, Ordering, fence};
#[cfg(not(any(loom, shuttle)))]
pub use std::thread::yield_now;
#[cfg(not(any(loom, shuttle)))]
pub use std::thread_local;

#[cfg(hostile)]
pub use hostile::AtomicU64;
pub use lock::{Condvar, Mutex, MutexGuard};

/// A cell that one thread changes while no other looks into it. Loom's version checks that.
#[cfg(not(loom))]
#[derive(Debug)]
pub struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

#[cfg(not(loom))]
impl<T> UnsafeCell<T> {
    pub const fn new(value: T) -> Self {
        Self(std::cell::UnsafeCell::new(value))
    }

    /// Runs `look` with the value, which no thread may change meanwhile.
    #[inline(always)]
    pub fn with<R>(&self, look: impl FnOnce(*const T) -> R) -> R {
        look(self.0.get())
    }

    /// Runs `change` with the value, which no other thread may look at meanwhile.
    #[inline(always)]
    pub fn with_mut<R>(&self, change: impl FnOnce(*mut T) -> R) -> R {
        change(self.0.get())
    }
}

#[cfg(loom)]
pub use loom::{
    cell::UnsafeCell,
    sync::atomic::{AtomicBool, AtomicU64, Ordering, fence},
    thread::yield_now,
};
/// Loom's macro takes no constant initializers; this one drops the `const`.
#[cfg(loom)]
#[macro_export]
macro_rules! loom_thread_local {
    ($(#[$attribute:meta])* static $name:ident: $type:ty = const $initial:block;) => {
        loom::thread_local! { $(#[$attribute])* static $name: $type = $initial; }
    };
}
/// A static that each execution of a model initializes anew.
#[cfg(loom)]
pub use loom::lazy_static;
#[cfg(loom)]
pub use loom_thread_local as thread_local;

#[cfg(shuttle)]
pub use shuttle::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering, fence},
    thread::yield_now,
    thread_local,
};
