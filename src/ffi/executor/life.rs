//! Executors: one or more processes with the same contents.

use std::ffi::c_void;
use std::sync::Arc;
use std::time::Duration;

use farcall::controller::{self, ExecutorBuilder};

use super::buffer::Out;
use super::error::{Error, invalid};
use super::host::{Context, Dispatcher};
use super::object::{self, Number, Object};
use super::options::ExecutorOptions;
use super::process::{LiveProcess, LiveRegion, Process, Region};

/// One or more processes that run linked code, with the same contents. A number: if the executor was closed, functions return
/// FARCALL_INVALID.
#[derive(Debug)]
pub struct Executor {
    /// No value of this type exists: its address is a number.
    _nobody: std::convert::Infallible,
}

/// A process has died; error says how (farcall_error_facts), and belongs to this function. It may wait, and several threads may run
/// it at the same time.
pub type OnDeath =
    Option<unsafe extern "C" fn(executor: *mut Executor, error: *mut Error, context: *mut c_void)>;

/// Brings into a process what its executor does not remember. The process is lent to this function. An error that it returns belongs to
/// the library. May be NULL: the result.
pub type Establish =
    Option<unsafe extern "C" fn(process: *mut Process, context: *mut c_void) -> *mut Error>;

/// A live executor.
pub(crate) struct LiveExecutor {
    pub(super) number: Number,
    pub(super) executor: controller::Executor,
    pub(super) dispatcher: Arc<Dispatcher>,
}

impl Object for LiveExecutor {
    type Handle = Executor;
    const WHAT: &'static str = "executor";
}

impl LiveExecutor {
    /// The pointer that C gets for an executor.
    pub(super) fn give(
        executor: controller::Executor,
        owner: Option<Number>,
        dispatcher: &Arc<Dispatcher>,
    ) -> farcall::Result<*mut Executor> {
        let number = Number::new();
        number.name(owner, Arc::new(Self { number, executor, dispatcher: Arc::clone(dispatcher) }))
    }

    fn on(&self, number: usize) -> farcall::Result<controller::Executor> {
        let missing = || {
            let count = self.executor.processes();
            invalid(format!("process {number} of {count}; they are counted from 0"))
        };
        self.executor.on(number).ok_or_else(missing)
    }
}

/// Serves as an executor and ends the process, if a controller has started this program with this_program; returns at once
/// otherwise. Call it first in main, before the program starts threads.
#[unsafe(no_mangle)]
pub extern "C" fn farcall_run_if_spawned() {
    farcall::executor::run_if_spawned();
}

/// Starts an executor, and waits until it is ready. May be NULL: options.
///
/// With a restart policy, the call that finds a process dead starts the next one, with the same libraries, handlers and regions. What
/// has addresses belongs to one process: see farcall_executor_process.
///
/// # Safety
///
/// The options must be readable, with what they point to, and executor writable.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn farcall_executor_start(
    options: *const ExecutorOptions,
    executor: *mut *mut Executor,
) -> *mut Error {
    // SAFETY: the caller vouches that the pointer is writable.
    Out::stored(unsafe { Out::new(executor, "executor", std::ptr::null_mut()) }, || {
        // SAFETY: the caller vouches for the options.
        let (builder, dispatcher) = match unsafe { options.as_ref() } {
            // SAFETY: as above.
            Some(options) => unsafe { options.built() }?,
            None => (ExecutorBuilder::new(), Dispatcher::of_threads()),
        };
        LiveExecutor::give(builder.start()?, None, &dispatcher)
    })
}

/// Ends an executor for ever, also while other threads call: each call under way fails with FARCALL_DISCONNECTED, as does each completion
/// that has not come. All that belongs to the executor goes with it: libraries, functions, processes, dylibs, pipelines, memory.
///
/// A handler that runs goes to its end before its call fails. The processes have ended when this returns: after 2 s they
/// are killed. Waits for completions that run on threads of the library. May be NULL: executor.
#[unsafe(no_mangle)]
#[must_use]
pub extern "C" fn farcall_executor_close(executor: *mut Executor) -> *mut Error {
    Error::of_given(executor, || {
        let live = object::remove::<LiveExecutor>(executor)?;
        let owned = live.number.remove_owned();
        live.executor.close();
        owned.iter().for_each(|object| object.close());
        owned.iter().for_each(|object| object.settle());
        Ok(())
    })
}

/// Ends the present processes at once, whatever they do. Calls under way fail with FARCALL_DIED. With a restart policy the next call
/// starts the next process. Does nothing when they have ended.
#[unsafe(no_mangle)]
#[must_use]
pub extern "C" fn farcall_executor_kill(executor: *mut Executor) -> *mut Error {
    Error::of(|| {
        object::find::<LiveExecutor>(executor)?.executor.kill();
        Ok(())
    })
}

/// Ends all calls of linked code that run now. Each fails with FARCALL_INTERRUPTED, unless it returns first, or cannot be left within
/// grace_ns; 0 is 10 ms. The processes live on, with their code and variables. Calls that wait in a handler of the host end when the
/// handler has returned. A call that begins later is not ended. Waits only while an executor has many requests before it, for at most
/// grace_ns.
#[unsafe(no_mangle)]
#[must_use]
pub extern "C" fn farcall_executor_interrupt_all(
    executor: *mut Executor,
    grace_ns: u64,
) -> *mut Error {
    Error::of(|| {
        let grace = if grace_ns == 0 { 10_000_000 } else { grace_ns };
        let executor = &object::find::<LiveExecutor>(executor)?.executor;
        executor.interrupt_all(Duration::from_nanos(grace))
    })
}

/// As farcall_executor_kill, and starts the next processes now. FARCALL_INVALID without a restart policy.
#[unsafe(no_mangle)]
#[must_use]
pub extern "C" fn farcall_executor_restart(executor: *mut Executor) -> *mut Error {
    Error::of(|| object::find::<LiveExecutor>(executor)?.executor.restart())
}

/// Stores the number of processes, the dead ones included.
///
/// # Safety
///
/// processes must be writable.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn farcall_executor_processes(
    executor: *mut Executor,
    processes: *mut usize,
) -> *mut Error {
    // SAFETY: the caller vouches that the pointer is writable.
    Out::stored(unsafe { Out::new(processes, "processes", 0) }, || {
        Ok(object::find::<LiveExecutor>(executor)?.executor.processes())
    })
}

/// Stores the process identifiers of the processes that run, at most capacity, and their number in running. Starts none. May be NULL:
/// pids.
///
/// # Safety
///
/// As many pids must be writable, and running.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn farcall_executor_pids(
    executor: *mut Executor,
    pids: *mut i32,
    capacity: usize,
    running: *mut usize,
) -> *mut Error {
    // SAFETY: the caller vouches that the pointer is writable.
    Out::stored(unsafe { Out::new(running, "running", 0) }, || {
        // SAFETY: the pids are only counted.
        unsafe { super::buffer::array(pids.cast_const(), capacity) }?;
        let found = object::find::<LiveExecutor>(executor)?.executor.pids();
        for (at, pid) in found.iter().enumerate().take(capacity) {
            // SAFETY: the caller vouches that this many are writable.
            let to = unsafe { pids.add(at) };
            // SAFETY: as above.
            unsafe { to.write(*pid) };
        }
        Ok(found.len())
    })
}

/// Stores the present process with this number, counted from 0, for all that has addresses. With a restart policy it is started first
/// if the last one has died; the addresses of one process mean nothing in the next. Without one it is the only process, dead or alive.
/// It belongs to the executor; a program that asks often frees it (farcall_process_dispose).
///
/// # Safety
///
/// process must be writable.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn farcall_executor_process(
    executor: *mut Executor,
    number: usize,
    process: *mut *mut Process,
) -> *mut Error {
    // SAFETY: the caller vouches that the pointer is writable.
    Out::stored(unsafe { Out::new(process, "process", std::ptr::null_mut()) }, || {
        let live = object::find::<LiveExecutor>(executor)?;
        let present = live.on(number)?.process()?;
        LiveProcess::give(present, live.number, &live.dispatcher)
    })
}

/// Stores the executor with one of its processes alone, counted from 0. What is added by this handle is in no other process, and calls of
/// its functions do not wait until the process is free. It belongs to the first executor; closing it ends that process.
///
/// # Safety
///
/// one must be writable.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn farcall_executor_on(
    executor: *mut Executor,
    number: usize,
    one: *mut *mut Executor,
) -> *mut Error {
    // SAFETY: the caller vouches that the pointer is writable.
    Out::stored(unsafe { Out::new(one, "one", std::ptr::null_mut()) }, || {
        let live = object::find::<LiveExecutor>(executor)?;
        let one = live.on(number)?;
        LiveExecutor::give(one, Some(live.number), &live.dispatcher)
    })
}

/// Attaches a region at its own address, in each process and in each next one. It stays attached until the executor ends.
#[unsafe(no_mangle)]
#[must_use]
pub extern "C" fn farcall_executor_attach(
    executor: *mut Executor,
    region: *mut Region,
) -> *mut Error {
    object::with::<LiveExecutor>(executor, |live| {
        live.executor.attach(object::find::<LiveRegion>(region)?.heap.clone())
    })
}

/// Calls establish for each process, and for each next one, in the order of what was added. It runs on the thread whose call starts
/// the process, must not use the executor, and fails the start if it returns an error. In the first process that is the error here, and
/// nothing is remembered. The context must live until the executor is closed.
#[unsafe(no_mangle)]
#[must_use]
pub extern "C" fn farcall_executor_establish(
    executor: *mut Executor,
    establish: Establish,
    context: *mut c_void,
) -> *mut Error {
    object::with::<LiveExecutor>(executor, |live| {
        let establish = establish.ok_or_else(|| invalid("establish is NULL"))?;
        let (owner, context) = (live.number, Context::new(context));
        let dispatcher = Arc::clone(&live.dispatcher);
        live.executor.establish(move |process| {
            LiveProcess::lend(process, owner, &dispatcher, |process| {
                // SAFETY: the host gave the function and its context for this.
                let error = unsafe { establish(process, context.get()) };
                // SAFETY: the function gives its error.
                unsafe { Error::take(error) }.map_or(Ok(()), Err)
            })
        })
    })
}

/// Calls on_death with each death from now on. With a restart policy that is before the next process starts, on the thread that starts
/// it. Without one it is at once, on a thread of the library. Not called for the end by farcall_executor_close.
#[unsafe(no_mangle)]
#[must_use]
pub extern "C" fn farcall_executor_on_death(
    executor: *mut Executor,
    on_death: OnDeath,
    context: *mut c_void,
) -> *mut Error {
    object::with::<LiveExecutor>(executor, |live| {
        let on_death = on_death.ok_or_else(|| invalid("on_death is NULL"))?;
        let (number, context) = (live.number, Context::new(context));
        live.executor.on_death(move |error| {
            // SAFETY: the host gave the function and its context for this.
            unsafe { on_death(number.pointer(), Error::give(error.clone()), context.get()) };
        })
    })
}
