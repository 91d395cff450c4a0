//! The allocator of thread-local storage: the static TLS reserve, and TLS modules.
//!
//! The static TLS reserve is a thread-local of the executor's program. So each thread has a copy at the same offset from its
//! thread pointer. A link for which the reserve has no hole gets a TLS module number instead; its code asks the executor for
//! that module's TLS block. Allocating and freeing are local. The executor stores the initial values when the link that
//! allocated is registered.
//!
//! Invariant: each allocation is freed once: when its [`TlsAllocation`] is dropped, or by the owner of the
//! [taken](TlsAllocation::take) placement.

use std::sync::{Arc, OnceLock};

use crate::controller::memory::free_list::FreeList;
use crate::error::{Error, ErrorKind, Result};
use crate::limits::{PAGE_BYTES, STATIC_TLS_BYTES_MAX, THREAD_MODULES_MAX};
use crate::link::Layout;
use crate::sync::Mutex;

/// The thread-local storage of one executor.
#[derive(Debug, Clone)]
pub(crate) struct TlsAllocator {
    /// The offset of the reserve from the thread pointer; a multiple of a page.
    offset: i64,
    reserve: FreeList,
    /// The numbers of TLS modules outside of the reserve.
    modules: FreeList,
}

/// Where the thread-locals of a link are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum TlsPlacement {
    /// The link has none.
    #[default]
    None,
    /// In the static TLS reserve, `start` bytes after its first.
    Static { start: u64, bytes: u64 },
    /// In a TLS module with this number, whose blocks the executor makes when a thread first uses them.
    Dynamic(u32),
}

/// Thread-local storage that a link has allocated; freed when dropped.
#[derive(Debug)]
pub(crate) struct TlsAllocation {
    tls: Arc<Mutex<TlsAllocator>>,
    placement: TlsPlacement,
}

impl TlsAllocation {
    /// Allocates part of the reserve with this size and alignment (at most a page); nothing when `bytes` is 0.
    ///
    /// # Errors
    ///
    /// When the reserve has no such hole.
    fn in_reserve(tls: &Arc<Mutex<TlsAllocator>>, bytes: u64, alignment: u64) -> Result<Self> {
        let placement = tls.lock().allocate(bytes, alignment)?;
        Ok(Self { tls: Arc::clone(tls), placement })
    }

    /// Allocates the thread-locals of a link in the reserve. When that is full, they become a TLS module, if the executor has
    /// the functions by which code finds TLS blocks.
    ///
    /// # Errors
    ///
    /// When the reserve has no such hole, and the link's thread-locals cannot be dynamic.
    pub(crate) fn of_layout(
        tls: &Arc<Mutex<TlsAllocator>>,
        layout: Layout,
        can_be_dynamic: bool,
    ) -> Result<(Layout, Self)> {
        let (bytes, alignment) = layout.thread_bytes();
        let full = match Self::in_reserve(tls, bytes, alignment) {
            Err(error) if error.kind() == ErrorKind::Exhausted && can_be_dynamic => error,
            allocated => return Ok((layout, allocated?)),
        };
        let (module, number) = Self::module(tls)?;
        let layout = layout.with_dynamic_threads(number);
        let layout = layout.map_err(|why| Error::exhausted(format!("{full}, and {why}")))?;
        Ok((layout, module))
    }

    /// Allocates a module number, and returns it as well.
    ///
    /// # Errors
    ///
    /// When all numbers are in use.
    fn module(tls: &Arc<Mutex<TlsAllocator>>) -> Result<(Self, u32)> {
        let number = tls.lock().allocate_module()?;
        Ok((Self { tls: Arc::clone(tls), placement: TlsPlacement::Dynamic(number) }, number))
    }

    /// The offset from the thread pointer; 0 outside of the reserve.
    pub(crate) fn offset(&self) -> i64 {
        self.tls.lock().offset_of(self.placement)
    }

    /// Passes the duty to free to the caller.
    pub(crate) fn take(&mut self) -> TlsPlacement {
        std::mem::take(&mut self.placement)
    }
}

impl Drop for TlsAllocation {
    fn drop(&mut self) {
        self.tls.lock().free(self.placement);
    }
}

impl TlsAllocator {
    /// An allocator for the reserve that an executor reports: its offset from the thread pointer, and its size. The size is 0
    /// when the executor has none.
    ///
    /// # Errors
    ///
    /// When no reserve can have that offset and size.
    pub(crate) fn new([offset, bytes]: [i64; 2]) -> Result<Self> {
        let size = u64::try_from(bytes).ok().filter(|size| *size <= STATIC_TLS_BYTES_MAX);
        let is_aligned = offset.cast_unsigned().is_multiple_of(PAGE_BYTES);
        let is_near = i32::try_from(offset).is_ok();
        match size {
            Some(size) if is_aligned && is_near => {
                let modules = FreeList::new(THREAD_MODULES_MAX as u64);
                Ok(Self { offset, reserve: FreeList::new(size), modules })
            }
            _ => Err(Error::violation(format!(
                "a static TLS reserve of {bytes} bytes at {offset} from the thread pointer"
            ))),
        }
    }

    /// The allocator of all executors in this process, whose threads have one reserve, and one vector of blocks each.
    ///
    /// # Errors
    ///
    /// As [`TlsAllocator::new`].
    pub(crate) fn of_this_process(reserve: [i64; 2]) -> Result<Arc<Mutex<Self>>> {
        static OWN: OnceLock<Arc<Mutex<TlsAllocator>>> = OnceLock::new();
        let made = Self::new(reserve)?;
        Ok(Arc::clone(OWN.get_or_init(|| Arc::new(Mutex::new(made)))))
    }

    fn allocate(&mut self, bytes: u64, alignment: u64) -> Result<TlsPlacement> {
        if bytes == 0 {
            return Ok(TlsPlacement::None);
        }
        if self.reserve.units() == 0 {
            return Err(Error::exhausted(format!(
                "{bytes} bytes of thread-locals wanted, and the executor has no static TLS reserve: its library was \
                 loaded by dlopen; start the executor as a program of its own"
            )));
        }
        let start = self.reserve.allocate(bytes, alignment).ok_or_else(|| {
            Error::exhausted(format!(
                "{bytes} bytes of thread-locals aligned to {alignment} wanted, the largest hole of the \
                 executor's static TLS reserve of {} bytes has {}",
                self.reserve.units(),
                self.reserve.largest()
            ))
        })?;
        Ok(TlsPlacement::Static { start, bytes })
    }

    fn allocate_module(&mut self) -> Result<u32> {
        let number = self.modules.allocate(1, 1).and_then(|number| u32::try_from(number).ok());
        number.ok_or_else(|| {
            Error::exhausted(format!(
                "all {THREAD_MODULES_MAX} TLS modules outside of the executor's static TLS reserve are in use; clear dylibs"
            ))
        })
    }

    /// Frees an allocation. The next one may have its storage.
    pub(crate) fn free(&mut self, placement: TlsPlacement) {
        match placement {
            TlsPlacement::None => {}
            TlsPlacement::Static { start, bytes } => self.reserve.free(start, bytes),
            TlsPlacement::Dynamic(number) => self.modules.free(number.into(), 1),
        }
    }

    fn offset_of(&self, placement: TlsPlacement) -> i64 {
        match placement {
            // The start is less than the size, which is at most 1 GiB.
            TlsPlacement::Static { start, .. } => self.offset.wrapping_add_unsigned(start),
            TlsPlacement::None | TlsPlacement::Dynamic(_) => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_lie_at_their_distance_from_the_thread_pointer() {
        let mut tls = TlsAllocator::new([-8192, 4096]).expect("possible");
        let first = tls.allocate(3, 1).expect("room");
        let second = tls.allocate(64, 64).expect("room");
        assert_eq!((tls.offset_of(first), tls.offset_of(second)), (-8192, -8128));
        tls.free(first);
        tls.free(second);
        let all = tls.allocate(4096, 4096).expect("everything came back");
        assert_eq!(tls.offset_of(all), -8192);
        assert_eq!(tls.allocate(0, 1).expect("nothing is always there"), TlsPlacement::None);
    }

    #[test]
    fn what_is_not_taken_is_freed() {
        let tls = Arc::new(Mutex::new(TlsAllocator::new([-8192, 4096]).expect("possible")));
        for round in 0..3 {
            let allocation = TlsAllocation::in_reserve(&tls, 4096, 8).expect("all of it");
            assert_eq!(allocation.offset(), -8192);
            assert!(
                TlsAllocation::in_reserve(&tls, 1, 1).expect_err("full").kind()
                    == ErrorKind::Exhausted
            );
            let (mut module, number) = TlsAllocation::module(&tls).expect("a number");
            assert_eq!(
                (number, module.offset()),
                (round, 0),
                "those that are taken stay allocated"
            );
            drop(TlsAllocation::module(&tls).expect("another"));
            assert_eq!(module.take(), TlsPlacement::Dynamic(round));
            drop(allocation);
        }
        for number in 0..3 {
            tls.lock().free(TlsPlacement::Dynamic(number));
        }
        let all: Vec<_> = (0..THREAD_MODULES_MAX).map(|_| TlsAllocation::module(&tls)).collect();
        assert!(all.iter().all(Result::is_ok));
        let error = TlsAllocation::module(&tls).expect_err("one too many");
        assert!(
            error.kind() == ErrorKind::Exhausted && error.to_string().contains("4096"),
            "{error}"
        );
    }

    #[test]
    fn a_full_reserve_says_how_full_it_is() {
        let mut tls = TlsAllocator::new([-8192, 4096]).expect("possible");
        tls.allocate(4000, 1).expect("room");
        let error = tls.allocate(97, 1).expect_err("too much");
        let text = error.to_string();
        assert!(error.kind() == ErrorKind::Exhausted, "{text}");
        assert!(["97", "4096", " 96"].iter().all(|number| text.contains(number)), "{text}");
        let error =
            TlsAllocator::new([0, 0]).expect("none").allocate(1, 1).expect_err("there is none");
        assert!(error.to_string().contains("dlopen"), "{error}");
    }

    #[test]
    fn impossible_reserves_are_violations() {
        for (offset, bytes) in [(-8192, -1), (-8191, 4096), (i64::MIN, 4096), (-8192, i64::MAX)] {
            assert!(
                TlsAllocator::new([offset, bytes]).expect_err("impossible").kind()
                    == ErrorKind::Violation
            );
        }
    }
}
