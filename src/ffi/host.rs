//! What belongs to the host: its context, its descriptors, and tasks for its threads.

use std::ffi::{c_int, c_void};
use std::os::fd::{FromRawFd, OwnedFd};
use std::sync::Arc;

use farcall::task::{TaskDispatcher, ThreadPool};

use super::error::invalid;

/// Something to do once, on any thread: the host runs it or drops it.
#[derive(Debug)]
pub struct Task(farcall::task::Task);

/// Receives a task, which the host runs soon, on a thread that may wait. Run it inside of this function only if no task waits
/// for a message.
pub type Dispatch = Option<unsafe extern "C" fn(task: *mut Task, context: *mut c_void)>;

/// A pointer of the host, which the library passes to the host's functions.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Context(*mut c_void);

// SAFETY: this library never dereferences the pointer; the header requires that the host's functions accept any thread.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

impl Context {
    pub(crate) fn new(context: *mut c_void) -> Self {
        Self(context)
    }

    pub(crate) fn get(self) -> *mut c_void {
        self.0
    }
}

impl Task {
    pub(crate) fn give(task: farcall::task::Task) -> *mut Self {
        Box::into_raw(Box::new(Self(task)))
    }
}

/// Runs a task, on this thread, and frees it. May be NULL: task.
///
/// # Safety
///
/// It must come from a dispatch function, and be run or dropped once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_task_run(task: *mut Task) {
    if !task.is_null() {
        // SAFETY: the caller vouches for the task.
        unsafe { Box::from_raw(task) }.0.run();
    }
}

/// Frees a task without running it. A thread that waits for the task gets an error. May be NULL: task.
///
/// # Safety
///
/// It must come from a dispatch function, and be run or dropped once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_task_drop(task: *mut Task) {
    if !task.is_null() {
        // SAFETY: the caller vouches for the task.
        drop(unsafe { Box::from_raw(task) });
    }
}

/// What runs tasks: the host's function, or threads of the library.
#[derive(Debug)]
pub(crate) enum Dispatcher {
    Host(unsafe extern "C" fn(task: *mut Task, context: *mut c_void), Context),
    Pool(ThreadPool),
}

impl Dispatcher {
    pub(crate) fn new(dispatch: Dispatch, context: Context) -> Arc<Self> {
        dispatch.map_or_else(Self::of_threads, |dispatch| Arc::new(Self::Host(dispatch, context)))
    }

    /// Threads of the library.
    pub(crate) fn of_threads() -> Arc<Self> {
        let width = std::thread::available_parallelism().map_or(1, usize::from);
        Arc::new(Self::Pool(ThreadPool::new(width)))
    }
}

impl TaskDispatcher for Dispatcher {
    fn dispatch(&self, task: farcall::task::Task) {
        match self {
            // SAFETY: the host gave the function and its context for this.
            Self::Host(dispatch, context) => unsafe { dispatch(Task::give(task), context.get()) },
            Self::Pool(pool) => pool.dispatch(task),
        }
    }

    fn shutdown(&self) {
        if let Self::Pool(pool) = self {
            pool.shutdown();
        }
    }
}

/// The descriptor that this function takes from C.
pub(crate) fn owned(descriptor: c_int) -> farcall::Result<OwnedFd> {
    // SAFETY: asks for flags only.
    if unsafe { libc::fcntl(descriptor, libc::F_GETFD) } < 0 {
        return Err(invalid(format!("{descriptor} is no open descriptor")));
    }
    // SAFETY: it is open, and the header says that it is given away.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}
