//! Snapshots: executors from which copies start.

use std::sync::Arc;

use farcall::controller;

use super::buffer::Out;
use super::error::Error;
use super::host::Dispatcher;
use super::library::{Library, LiveLibrary};
use super::life::{Executor, LiveExecutor};
use super::object::{self, Number, Object};

/// An executor at one moment, from which any number of copies start, each within some hundred microseconds. A number, as
/// farcall_executor is one.
#[derive(Debug)]
pub struct Snapshot {
    /// No value of this type exists: its address is a number.
    _nobody: std::convert::Infallible,
}

struct LiveSnapshot {
    snapshot: controller::Snapshot,
    dispatcher: Arc<Dispatcher>,
}

impl Object for LiveSnapshot {
    type Handle = Snapshot;
    const WHAT: &'static str = "snapshot";
}

/// Takes a snapshot of an executor, which has one process and no restart policy. No call may be under way, and no thread of the program.
/// The executor runs no more calls then: its libraries are what copies have (farcall_library_in_copy), as far as they are linked.
///
/// A copy has libraries, data, heap, open files and attached regions of the executor. All copies end when the executor is closed, or
/// when the snapshot is disposed of and all copies are closed.
///
/// # Safety
///
/// snapshot must be writable.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn farcall_snapshot_take(
    executor: *mut Executor,
    snapshot: *mut *mut Snapshot,
) -> *mut Error {
    // SAFETY: the caller vouches that the pointer is writable.
    Out::stored(unsafe { Out::new(snapshot, "snapshot", std::ptr::null_mut()) }, || {
        let live = object::find::<LiveExecutor>(executor)?;
        let snapshot = controller::Snapshot::take(live.executor.clone())?;
        let made = LiveSnapshot { snapshot, dispatcher: Arc::clone(&live.dispatcher) };
        Number::new().name(None, Arc::new(made))
    })
}

/// Starts a copy, or takes the copy made ahead, and waits until it is ready. It is an executor of its own, to be closed.
///
/// # Safety
///
/// copy must be writable.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn farcall_snapshot_spawn(
    snapshot: *mut Snapshot,
    copy: *mut *mut Executor,
) -> *mut Error {
    // SAFETY: the caller vouches that the pointer is writable.
    Out::stored(unsafe { Out::new(copy, "copy", std::ptr::null_mut()) }, || {
        let live = object::find::<LiveSnapshot>(snapshot)?;
        LiveExecutor::give(live.snapshot.spawn()?, None, &live.dispatcher)
    })
}

/// Frees a snapshot. Its copies live on. May be NULL: snapshot.
#[unsafe(no_mangle)]
#[must_use]
pub extern "C" fn farcall_snapshot_dispose(snapshot: *mut Snapshot) -> *mut Error {
    object::dispose::<LiveSnapshot>(snapshot)
}

/// Stores the same library in a copy of its executor: what was linked before the snapshot, at the same addresses. It belongs to the
/// copy. FARCALL_INVALID if copy is no copy of the library's executor.
///
/// # Safety
///
/// same must be writable.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn farcall_library_in_copy(
    library: *mut Library,
    copy: *mut Executor,
    same: *mut *mut Library,
) -> *mut Error {
    // SAFETY: the caller vouches that the pointer is writable.
    Out::stored(unsafe { Out::new(same, "same", std::ptr::null_mut()) }, || {
        let library = object::find::<LiveLibrary>(library)?;
        let copy = object::find::<LiveExecutor>(copy)?;
        let same = library.library.in_copy(&copy.executor)?;
        LiveLibrary::give(same, copy)
    })
}
