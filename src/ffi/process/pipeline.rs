//! Calls that do not wait, and their completions.
//!
//! Invariant: each call that was submitted completes once: with its result, or because the pipeline was closed.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::c_void;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context as Polling, Poll, Wake, Waker};
use std::thread::{self, ThreadId};

use farcall::controller::Function;
use farcall::controller::calls::PendingCall;
use farcall::task::{Task, TaskDispatcher};
use farcall::types::{Signature, Value as Typed};
use farcall::{ErrorKind, ExecutorAddr};

use super::buffer::{Buffer, Out, message};
use super::error::{Error, invalid};
use super::host::{Context, Dispatcher};
use super::life::{LiveProcess, Process};
use super::object::{self, Number, Object};
use super::value::Value;

/// Sends calls without waiting for their results. A number, as farcall_executor is one.
///
/// The calls of a pipeline run in the order of their submission, one after the other, on a thread of the executor of their own. At
/// most 256 are under way; a thread that submits more waits.
#[derive(Debug)]
pub struct Pipeline {
    /// No value of this type exists: its address is a number.
    _nobody: std::convert::Infallible,
}

/// Receives the outcome of a call, and owns both: error is NULL and result its result, or result is empty.
///
/// It runs once: as a task of the executor's dispatcher, or within farcall_pipeline_poll if the pipeline is polled. If the pipeline
/// or the executor is closed, it runs within the closing function. It may submit and wait. May be NULL: error.
pub type OnComplete =
    Option<unsafe extern "C" fn(error: *mut Error, result: Buffer, context: *mut c_void)>;

/// Receives the outcome of a call of a function, as farcall_on_complete, and owns both: error is NULL and result its result, or result is
/// FARCALL_VOID. May be NULL: error.
pub type OnResult =
    Option<unsafe extern "C" fn(error: *mut Error, result: Value, context: *mut c_void)>;

/// A pipeline, and its calls that are under way.
pub(super) struct Calls {
    pub(super) pipeline: farcall::controller::calls::Pipeline,
    /// None when the host polls.
    dispatcher: Option<Arc<Dispatcher>>,
    state: Mutex<State>,
    completing: Arc<Completing>,
}

/// The threads of the library that complete calls of a pipeline. A call has it beside the pipeline, which ends with its last owner.
#[derive(Default)]
struct Completing {
    threads: Mutex<Vec<ThreadId>>,
    has_left: Condvar,
}

#[derive(Default)]
struct State {
    last: u64,
    open: BTreeMap<u64, Arc<Call>>,
    /// Calls whose results are there, for a poll.
    ready: VecDeque<Arc<Call>>,
    is_closed: bool,
}

impl Object for Calls {
    type Handle = Pipeline;
    const WHAT: &'static str = "pipeline";

    /// Completes all calls that are under way.
    fn close(&self) {
        let open = {
            let mut state = self.lock();
            state.is_closed = true;
            state.ready.clear();
            std::mem::take(&mut state.open)
        };
        for call in open.into_values() {
            call.close();
        }
    }

    fn settle(&self) {
        self.completing.wait_for_others();
    }
}

impl Completing {
    fn lock(&self) -> MutexGuard<'_, Vec<ThreadId>> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does work that may complete a call.
    fn count<T>(&self, work: impl FnOnce() -> T) -> T {
        let own = thread::current().id();
        self.lock().push(own);
        let outcome = work();
        let mut threads = self.lock();
        if let Some(at) = threads.iter().rposition(|thread| *thread == own) {
            threads.swap_remove(at);
        }
        self.has_left.notify_all();
        outcome
    }

    fn wait_for_others(&self) {
        let own = thread::current().id();
        let mut threads = self.lock();
        while threads.iter().any(|thread| *thread != own) {
            threads = self.has_left.wait(threads).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// A call under way.
struct Call {
    number: u64,
    calls: Weak<Calls>,
    completing: Arc<Completing>,
    completion: Receiver,
    context: Context,
    stage: Mutex<Stage>,
}

/// What receives the outcome.
enum Receiver {
    Bytes(unsafe extern "C" fn(*mut Error, Buffer, *mut c_void)),
    Value(unsafe extern "C" fn(*mut Error, Value, *mut c_void)),
}

/// The result that is to come.
enum Pending {
    Bytes(PendingCall),
    Value(PendingCall<Signature>),
}

/// The result that has come.
enum Outcome {
    Bytes(Vec<u8>),
    Value(Typed),
}

enum Stage {
    Pending(Pending),
    /// A thread looks for the result; true when the call was woken, closed, or cancelled, meanwhile.
    Looked {
        woken: bool,
        closed: bool,
        cancelled: bool,
    },
    /// The result is there, and its task has not run.
    Arrived(farcall::Result<Outcome>),
    Completed,
}

/// Opens a pipeline. If is_polled is true, completions run within farcall_pipeline_poll; otherwise as tasks of the executor's
/// dispatcher.
///
/// # Safety
///
/// pipeline must be writable.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn farcall_pipeline_open(
    process: *mut Process,
    is_polled: bool,
    pipeline: *mut *mut Pipeline,
) -> *mut Error {
    // SAFETY: the caller vouches that the pointer is writable.
    Out::stored(unsafe { Out::new(pipeline, "pipeline", std::ptr::null_mut()) }, || {
        let live = object::find::<LiveProcess>(process)?;
        let pipeline = live.process.pipeline()?;
        if is_polled {
            // From now on no thread of the library receives results.
            pipeline.poll();
        }
        let dispatcher = (!is_polled).then(|| Arc::clone(&live.dispatcher));
        let (state, completing) = (Mutex::default(), Arc::default());
        let calls = Calls { pipeline, dispatcher, state, completing };
        Number::new().name(Some(live.number), Arc::new(calls))
    })
}

/// Submits a call of the wrapper function at an address of the executor, with a copy of the arguments. on_complete receives its
/// outcome. If this function returns an error, nothing was submitted, and on_complete is not called. May be NULL: args.
///
/// # Safety
///
/// The arguments must be readable.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn farcall_pipeline_submit(
    pipeline: *mut Pipeline,
    function: u64,
    args: *const c_void,
    size: usize,
    on_complete: OnComplete,
    context: *mut c_void,
) -> *mut Error {
    object::with::<Calls>(pipeline, |calls| {
        let on_complete = on_complete.ok_or_else(|| invalid("on_complete is NULL"))?;
        // SAFETY: the caller vouches for the arguments.
        let args = unsafe { message(args, size, "arguments") }?;
        let pending = calls.pipeline.submit(ExecutorAddr::new(function), args)?;
        calls.add(Pending::Bytes(pending), Receiver::Bytes(on_complete), context)
    })
}

/// Cancels the calls of a pipeline that were submitted with this context, from any thread, and does not wait for their ends. A call that
/// runs is interrupted, and its process lives on; a call that waits does not begin. Both complete with FARCALL_INTERRUPTED. Calls that have
/// ended, and other calls, are left alone. The context is compared, and not used. FARCALL_INVALID for a call that runs in this process.
#[unsafe(no_mangle)]
#[must_use]
pub extern "C" fn farcall_pipeline_cancel(
    pipeline: *mut Pipeline,
    context: *mut c_void,
) -> *mut Error {
    Error::of(|| object::find::<Calls>(pipeline)?.cancel(context))
}

/// Receives the results that have come, without waiting, and completes their calls on this thread. Stores how many completed. Any
/// thread may poll. FARCALL_INVALID if the pipeline is not polled.
///
/// # Safety
///
/// completed must be writable.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn farcall_pipeline_poll(
    pipeline: *mut Pipeline,
    completed: *mut usize,
) -> *mut Error {
    // SAFETY: the caller vouches that the pointer is writable.
    Out::stored(unsafe { Out::new(completed, "completed", 0) }, || {
        let calls = object::find::<Calls>(pipeline)?;
        if calls.dispatcher.is_some() {
            return Err(invalid("the completions of the pipeline run on the dispatcher"));
        }
        calls.pipeline.poll();
        let mut count = 0;
        // Not those that come meanwhile: a completion may submit.
        let ready = std::mem::take(&mut calls.lock().ready);
        for call in ready {
            count += usize::from(call.advance());
        }
        Ok(count)
    })
}

/// Closes a pipeline. Calls without an outcome are cancelled in the executor; here they complete with FARCALL_DISCONNECTED, on this thread,
/// before this function returns. May be NULL: pipeline.
#[unsafe(no_mangle)]
#[must_use]
pub extern "C" fn farcall_pipeline_close(pipeline: *mut Pipeline) -> *mut Error {
    Error::of_given(pipeline, || {
        object::remove::<Calls>(pipeline)?.close();
        Ok(())
    })
}

fn closed() -> farcall::Error {
    farcall::Error::new(ErrorKind::Disconnected, "the pipeline was closed")
}

impl Calls {
    /// Submits a call of a function that is bound to the pipeline.
    pub(super) fn submit_function(
        self: &Arc<Self>,
        function: &Function<Signature>,
        values: &[Typed],
        on_result: OnResult,
        context: *mut c_void,
    ) -> farcall::Result<()> {
        let on_result = on_result.ok_or_else(|| invalid("on_result is NULL"))?;
        if self.lock().is_closed {
            return Err(closed());
        }
        let pending = function.submit(values)?;
        self.add(Pending::Value(pending), Receiver::Value(on_result), context)
    }

    /// Adds a call that was submitted.
    fn add(
        self: &Arc<Self>,
        pending: Pending,
        completion: Receiver,
        context: *mut c_void,
    ) -> farcall::Result<()> {
        let call = {
            let mut state = self.lock();
            if state.is_closed {
                return Err(closed());
            }
            state.last += 1;
            let call = Arc::new(Call {
                number: state.last,
                calls: Arc::downgrade(self),
                completing: Arc::clone(&self.completing),
                completion,
                context: Context::new(context),
                stage: Mutex::new(Stage::Pending(pending)),
            });
            state.open.insert(call.number, Arc::clone(&call));
            call
        };
        if call.look(None) {
            self.dispatch(call);
        }
        Ok(())
    }

    /// Cancels the calls with this context.
    ///
    /// # Errors
    ///
    /// When a call that runs cannot be cancelled; the first such reason.
    pub(super) fn cancel(&self, context: *mut c_void) -> farcall::Result<()> {
        let open: Vec<_> = self.lock().open.values().map(Arc::clone).collect();
        let mut outcome = Ok(());
        for call in open.into_iter().filter(|call| call.context.get() == context) {
            let mut cancelled = Ok(());
            if call.look(Some(&mut cancelled)) {
                self.dispatch(call);
            }
            outcome = outcome.and(cancelled);
        }
        outcome
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Completes a call whose result is there, or looks again, where completions run.
    fn dispatch(&self, call: Arc<Call>) {
        match &self.dispatcher {
            Some(dispatcher) => match &**dispatcher {
                // Nothing waits for threads of the host.
                Dispatcher::Host(..) => dispatcher.dispatch(Task::new(move || _ = call.advance())),
                Dispatcher::Pool(_) => dispatcher.dispatch(Task::new(move || {
                    let completing = Arc::clone(&call.completing);
                    completing.count(|| call.advance());
                })),
            },
            None => {
                let mut state = self.lock();
                if !state.is_closed {
                    state.ready.push_back(call);
                    return;
                }
                drop(state);
                // No poll will come.
                call.advance();
            }
        }
    }
}

impl Call {
    fn lock(&self) -> MutexGuard<'_, Stage> {
        self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks for the result, and cancels the call before if it gets a place for the outcome of that. True when the result is there, and
    /// has to be completed.
    fn look(self: &Arc<Self>, mut outcome: Option<&mut farcall::Result<()>>) -> bool {
        let mut cancels = outcome.is_some();
        let waker = Waker::from(Arc::clone(self));
        let mut stage = self.lock();
        loop {
            let mut pending = match std::mem::replace(&mut *stage, Stage::Completed) {
                Stage::Pending(pending) => pending,
                Stage::Looked { closed, cancelled, .. } => {
                    // The thread that looks will do it again.
                    *stage = Stage::Looked { woken: true, closed, cancelled: cancels | cancelled };
                    return false;
                }
                Stage::Arrived(result) => {
                    *stage = Stage::Arrived(result);
                    return true;
                }
                Stage::Completed => return false,
            };
            *stage = Stage::Looked { woken: false, closed: false, cancelled: false };
            drop(stage);
            if cancels {
                let cancelled = pending.cancel();
                if let Some(place) = outcome.take() {
                    *place = cancelled;
                }
            }
            // Without the lock: wakers of other calls run here, and perhaps this one's.
            let polled = pending.poll(&mut Polling::from_waker(&waker));
            stage = self.lock();
            let woken;
            let closed;
            (woken, closed, cancels) = match &*stage {
                Stage::Looked { woken, closed, cancelled } => (*woken, *closed, *cancelled),
                _ => (false, true, false),
            };
            match polled {
                Poll::Ready(result) => {
                    *stage = Stage::Arrived(result);
                    return true;
                }
                Poll::Pending if closed => {
                    *stage = Stage::Arrived(Err(self::closed()));
                    return true;
                }
                Poll::Pending => *stage = Stage::Pending(pending),
            }
            if !woken {
                return false;
            }
        }
    }

    /// Looks for the result, and completes the call if it is there.
    fn advance(self: &Arc<Self>) -> bool {
        if !self.look(None) {
            return false;
        }
        let Stage::Arrived(result) = std::mem::replace(&mut *self.lock(), Stage::Completed) else {
            return false;
        };
        if let Some(calls) = self.calls.upgrade() {
            calls.lock().open.remove(&self.number);
        }
        self.complete(result);
        true
    }

    /// Completes the call without its result, unless that is there.
    fn close(self: &Arc<Self>) {
        let mut stage = self.lock();
        let result = match std::mem::replace(&mut *stage, Stage::Completed) {
            Stage::Pending(pending) => {
                drop(stage);
                drop(pending);
                Err(closed())
            }
            Stage::Arrived(result) => {
                drop(stage);
                result
            }
            Stage::Looked { woken, cancelled, .. } => {
                // The thread that looks completes it.
                *stage = Stage::Looked { woken, closed: true, cancelled };
                return;
            }
            Stage::Completed => return,
        };
        self.complete(result);
    }

    fn complete(&self, result: farcall::Result<Outcome>) {
        let (error, outcome) = match result {
            Ok(outcome) => (std::ptr::null_mut(), Some(outcome)),
            Err(error) => (Error::give(error), None),
        };
        match self.completion {
            Receiver::Bytes(complete) => {
                let bytes = match &outcome {
                    Some(Outcome::Bytes(bytes)) => bytes,
                    _ => &[][..],
                };
                // SAFETY: the host gave the function and its context for this.
                unsafe { complete(error, Buffer::of(bytes), self.context.get()) };
            }
            Receiver::Value(complete) => {
                let value = match &outcome {
                    Some(Outcome::Value(value)) => Value::give(value).ok(),
                    _ => None,
                };
                let value = value.unwrap_or_else(|| Value::empty(None));
                // SAFETY: the host gave the function and its context for this.
                unsafe { complete(error, value, self.context.get()) };
            }
        }
    }
}

impl Pending {
    /// Cancels the call. Where that fails, it runs on.
    fn cancel(&self) -> farcall::Result<()> {
        match self {
            Self::Bytes(call) => call.cancel(),
            Self::Value(call) => call.cancel(),
        }
    }

    fn poll(&mut self, context: &mut Polling<'_>) -> Poll<farcall::Result<Outcome>> {
        match self {
            Self::Bytes(call) => Pin::new(call).poll(context).map_ok(Outcome::Bytes),
            Self::Value(call) => Pin::new(call).poll(context).map_ok(Outcome::Value),
        }
    }
}

impl Wake for Call {
    fn wake(self: Arc<Self>) {
        if let Some(calls) = self.calls.upgrade() {
            calls.dispatch(self);
        }
    }
}
