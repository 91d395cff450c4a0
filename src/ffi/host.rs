//! What belongs to the host: its context, and tasks for its threads.

use std::ffi::c_void;

/// Something to do once, on any thread: the host runs it or drops it.
#[derive(Debug)]
pub struct Task(farcall::task::Task);

/// Receives a task, which is to be run soon, by a thread that may wait. It must not run inside of this function, unless the
/// host knows that no task waits for a message.
pub type Dispatch = Option<unsafe extern "C" fn(task: *mut Task, context: *mut c_void)>;

/// A pointer of the host's that functions of the host get.
#[derive(Debug, Clone, Copy)]
pub(super) struct Context(*mut c_void);

// SAFETY: this library never follows the pointer; the host's functions are called from any thread, as the header says.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

impl Context {
    pub(super) fn new(context: *mut c_void) -> Self {
        Self(context)
    }

    pub(super) fn get(self) -> *mut c_void {
        self.0
    }
}

impl Task {
    pub(super) fn give(task: farcall::task::Task) -> *mut Self {
        Box::into_raw(Box::new(Self(task)))
    }
}

/// Runs a task, on this thread, and frees it.
///
/// # Safety
///
/// It must come from a dispatch function, and be run or dropped once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_task_run(task: *mut Task) {
    // SAFETY: the caller vouches for the task.
    unsafe { Box::from_raw(task) }.0.run();
}

/// Frees a task that is not to run. What waits for it receives an error.
///
/// # Safety
///
/// It must come from a dispatch function, and be run or dropped once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_task_drop(task: *mut Task) {
    // SAFETY: the caller vouches for the task.
    drop(unsafe { Box::from_raw(task) });
}
