//! What belongs to the host: its context, and tasks for its threads.

use std::ffi::c_void;

/// Something to do once, on any thread: the host runs it or drops it.
#[derive(Debug)]
pub struct Task(farcall::task::Task);

/// Receives a task, which the host runs soon, on a thread that may wait. Run it inside of this function only if no task waits
/// for a message.
pub type Dispatch = Option<unsafe extern "C" fn(task: *mut Task, context: *mut c_void)>;

/// A pointer of the host, which the library passes to the host's functions.
#[derive(Debug, Clone, Copy)]
pub(super) struct Context(*mut c_void);

// SAFETY: this library never dereferences the pointer; the header requires that the host's functions accept any thread.
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

/// Frees a task without running it. A thread that waits for the task gets an error.
///
/// # Safety
///
/// It must come from a dispatch function, and be run or dropped once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_task_drop(task: *mut Task) {
    // SAFETY: the caller vouches for the task.
    drop(unsafe { Box::from_raw(task) });
}
