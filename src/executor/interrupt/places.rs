//! Whose code an address belongs to, for a signal handler: it takes no lock.
#![allow(unsafe_code, reason = "names functions of the C library and of the unwinder")]

use std::ffi::{c_int, c_void};
use std::sync::Once;

use crate::executor::process::loaded;
use crate::limits::SLABS_MAX;
use crate::sync::{AtomicU64, Ordering};
use crate::{AddrRange, ExecutorAddr};

/// Whose code is at an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// Code that the controller has linked.
    Linked,
    /// This library, and the program that it is part of.
    Own,
    /// A stub to which a library returns.
    Stub,
    /// The unwinder, or a lock of the C library that the unwinder may hold. No search for callers may begin here.
    Unwinder,
    /// Any other library.
    Library,
}

/// A range that is written once: its start, and its end, which is stored last.
struct Range([AtomicU64; 2]);

impl Range {
    const fn empty() -> Self {
        Self([const { AtomicU64::new(0) }; 2])
    }

    fn set(&self, range: AddrRange) {
        self.0[0].store(range.start.get(), Ordering::Relaxed);
        // [RANGE] Release: pairs with the Acquire in `contains`; the start is visible.
        self.0[1].store(range.end.get(), Ordering::Release);
    }

    fn contains(&self, address: u64) -> bool {
        // [RANGE] Acquire: pairs with the Release in `set`.
        address < self.0[1].load(Ordering::Acquire) && address >= self.0[0].load(Ordering::Relaxed)
    }
}

/// The bytes in front of a lock function of the C library, and behind its start, in which its parts are.
const LOCK_BYTES: [u64; 2] = [1024, 1536];

static LINKED: [Range; SLABS_MAX] = [const { Range::empty() }; SLABS_MAX];
static OWN: Range = Range::empty();
static STUBS: Range = Range::empty();
/// The unwinder's file, and the two functions by which it takes and releases its lock.
static UNWINDER: [Range; 3] = [const { Range::empty() }; 3];

/// The functions of the C library that hold nothing, call nothing, and may take long: they can be left at any instruction.
static LEAVES: [AtomicU64; 12] = [const { AtomicU64::new(0) }; 12];

/// True for the start of a function that can be left at any instruction.
pub(super) fn is_leaf(function: u64) -> bool {
    function != 0 && LEAVES.iter().any(|leaf| leaf.load(Ordering::Relaxed) == function)
}

/// Adds the slab with this index to linked code.
pub(crate) fn add_linked(index: usize, slab: AddrRange) {
    if let Some(range) = LINKED.get(index) {
        range.set(slab);
    }
}

/// Finds the code of this library and of the unwinder, once; a forked child knows it. It calls the dynamic linker, so call it before linked
/// code runs.
pub(crate) fn prepare() {
    static PREPARED: Once = Once::new();
    PREPARED.call_once(find);
}

fn find() {
    let own = prepare as *const c_void as u64;
    let unwinder = _Unwind_Backtrace as *const c_void as u64;
    let (files, _) = loaded::files();
    let file_of = |address| files.iter().find(|file| file.contains(address));
    if let Some(file) = file_of(own) {
        OWN.set(file.span());
    }
    if let Some(file) = file_of(unwinder).filter(|file| !file.contains(own)) {
        UNWINDER[0].set(file.span());
    }
    let leaves = [
        libc::memcpy as *const c_void,
        libc::memmove as *const c_void,
        libc::memset as *const c_void,
        libc::memcmp as *const c_void,
        libc::memchr as *const c_void,
        libc::memrchr as *const c_void,
        libc::strlen as *const c_void,
        libc::strnlen as *const c_void,
        libc::strcmp as *const c_void,
        libc::strncmp as *const c_void,
        libc::strchr as *const c_void,
        libc::strcpy as *const c_void,
    ];
    for (word, leaf) in LEAVES.iter().zip(leaves) {
        word.store(leaf as u64, Ordering::Relaxed);
    }
    let locks =
        [libc::pthread_mutex_lock as *const c_void, libc::pthread_mutex_unlock as *const c_void];
    for (range, lock) in UNWINDER[1..].iter().zip(locks) {
        let [before, behind] = LOCK_BYTES;
        let [start, end] = [lock as u64 - before, lock as u64 + behind];
        range.set(AddrRange { start: ExecutorAddr::new(start), end: ExecutorAddr::new(end) });
    }
}

/// Tells where the stubs are to which libraries return.
pub(super) fn set_stubs(stubs: AddrRange) {
    STUBS.set(stubs);
}

impl Place {
    pub(super) fn of(address: u64) -> Self {
        if LINKED.iter().any(|range| range.contains(address)) {
            Self::Linked
        } else if STUBS.contains(address) {
            Self::Stub
        } else if OWN.contains(address) {
            Self::Own
        } else if UNWINDER.iter().any(|range| range.contains(address)) {
            Self::Unwinder
        } else {
            Self::Library
        }
    }
}

unsafe extern "C" {
    fn _Unwind_Backtrace(
        callback: extern "C" fn(*mut c_void, *mut c_void) -> c_int,
        argument: *mut c_void,
    ) -> c_int;
}
