//! Pending calls, whose results arrive at futures of Python.
//!
//! A thread of its own delivers results, because what waits for a future may be any code of Python. It sleeps while none arrives.

use std::future::Future;
use std::pin::Pin;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use farcall::controller::Function;
use farcall::controller::calls::PendingCall;
use farcall::types::{Signature, Value};
use farcall::{Error, Result};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::argument::Arguments;
use crate::callback::definitions::Definitions;
use crate::callback::exit;
use crate::error;
use crate::prototype::Prototype;
use crate::value::to_python;

/// A submitted call, and the future that waits for it.
struct Task {
    call: Mutex<Option<PendingCall<Signature>>>,
    future: Py<PyAny>,
    prototype: Arc<Prototype>,
    /// The objects that the call uses.
    _arguments: Mutex<Arguments>,
    _objects: Py<PyTuple>,
    _definitions: Py<Definitions>,
}

/// Submits a call. If nothing can end it, its future refuses to be cancelled.
///
/// # Errors
///
/// The exception for a call that cannot be submitted.
pub(crate) fn submit(
    py: Python<'_>,
    function: &Function<Signature>,
    prototype: &Arc<Prototype>,
    arguments: Arguments,
    objects: &Bound<'_, PyTuple>,
    definitions: &Py<Definitions>,
    can_end: bool,
) -> PyResult<Py<PyAny>> {
    let future = py.import("farcall.future")?.getattr("Future")?.call0()?;
    if !can_end {
        future.call_method0("set_running_or_notify_cancel")?;
    }
    let prepared = queue().and_then(|_| py.detach(|| function.submit(&arguments.values)));
    let call = prepared.map_err(|error| error::raise(py, &error))?;
    let task = Arc::new(Task {
        call: Mutex::new(Some(call)),
        future: future.clone().unbind(),
        prototype: Arc::clone(prototype),
        _arguments: Mutex::new(arguments),
        _objects: objects.clone().unbind(),
        _definitions: definitions.clone_ref(py),
    });
    future.setattr("_submitted", Pending(Arc::downgrade(&task)))?;
    py.detach(|| task.poll());
    Ok(future.unbind())
}

/// A submitted call as its future knows it.
#[pyclass(frozen, module = "farcall._farcall")]
pub(crate) struct Pending(Weak<Task>);

#[pymethods]
impl Pending {
    /// Cancels the call. If it runs on, its executor is killed later. Does nothing when it has ended.
    fn give_up(&self, py: Python<'_>) {
        py.detach(|| {
            let Some(task) = self.0.upgrade() else { return };
            let place = task.call.lock().unwrap_or_else(PoisonError::into_inner);
            // The task keeps what the call uses until the call has ended.
            let is_asked = place.as_ref().is_none_or(|call| call.cancel().is_ok());
            drop(place);
            if !is_asked || !end_later(Arc::downgrade(&task)) {
                task.end();
            }
        });
    }
}

impl Task {
    /// Delivers the result if it is there, and asks for news of it otherwise.
    fn poll(self: &Arc<Self>) {
        let mut place = self.call.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(call) = place.as_mut() else { return };
        let waker = Waker::from(Arc::clone(self));
        if let Poll::Ready(outcome) = Pin::new(call).poll(&mut Context::from_waker(&waker)) {
            place.take();
            drop(place);
            self.finish(outcome);
        }
    }

    /// Delivers the result, which has arrived or will never.
    fn deliver(&self) {
        let call = self.call.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(call) = call {
            self.finish(call.wait());
        }
    }

    /// Ends the call if it runs. Its executor is killed if the call cannot be interrupted.
    fn end(&self) {
        let call = self.call.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(call.map(|call| call.wait_timeout(Duration::ZERO)));
    }

    fn finish(&self, outcome: Result<Value>) {
        let finished = Python::try_attach(|py| {
            let kind = self.prototype.signature.result();
            let outcome = match outcome {
                Ok(value) => to_python(py, kind, value),
                Err(error) => Err(error::exception(py, &error).unwrap_or_else(|failed| failed)),
            };
            let future = self.future.bind(py);
            let none = || py.None();
            let set = match outcome {
                Ok(value) => Ok((value, none())),
                Err(raised) => {
                    raised.into_pyobject(py).map(|raised| (none(), raised.into_any().unbind()))
                }
            };
            let set = set.map_err(PyErr::from).and_then(|(value, raised)| {
                // It runs what waits for the future, which may be any code.
                exit::call(&future.getattr("_finish")?, &PyTuple::new(py, [value, raised])?)
            });
            if let Err(raised) = set {
                raised.write_unraisable(py, Some(future));
            }
        });
        // Without an interpreter no code waits.
        let _ = finished;
    }
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        // The thread runs until the process ends.
        if let Ok(queue) = queue() {
            let _ = queue.lock().unwrap_or_else(PoisonError::into_inner).send(self);
        }
    }
}

/// How long a cancelled call may take to end.
const GRACE: Duration = Duration::from_secs(1);

/// Ends the call of a task that does not end by itself. False when no thread can be started for that.
fn end_later(task: Weak<Task>) -> bool {
    /// A task, and when its call was cancelled.
    type Cancelled = (Instant, Weak<Task>);
    static QUEUE: Mutex<Option<Sender<Cancelled>>> = Mutex::new(None);
    let mut queue = QUEUE.lock().unwrap_or_else(PoisonError::into_inner);
    if queue.is_none() {
        let (sender, tasks) = channel::<Cancelled>();
        let end = move || {
            for (asked, task) in tasks {
                std::thread::sleep(GRACE.saturating_sub(asked.elapsed()));
                if let Some(task) = task.upgrade() {
                    task.end();
                }
            }
        };
        let thread = std::thread::Builder::new().name("farcall-cancels".to_owned());
        // The thread runs until the process ends.
        if thread.spawn(end).is_ok() {
            *queue = Some(sender);
        }
    }
    queue.as_ref().is_some_and(|queue| queue.send((Instant::now(), task)).is_ok())
}

/// Where tasks go whose results have arrived.
///
/// # Errors
///
/// When the thread that delivers cannot be started.
fn queue() -> Result<&'static Mutex<Sender<Arc<Task>>>> {
    static QUEUE: OnceLock<Mutex<Sender<Arc<Task>>>> = OnceLock::new();
    static STARTING: Mutex<()> = Mutex::new(());
    if let Some(queue) = QUEUE.get() {
        return Ok(queue);
    }
    let _starting = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
    if QUEUE.get().is_none() {
        let (sender, tasks) = channel::<Arc<Task>>();
        let deliver = move || tasks.iter().for_each(|task| task.deliver());
        let thread = std::thread::Builder::new().name("farcall-futures".to_owned());
        thread.spawn(deliver).map_err(Error::other)?;
        let _ = QUEUE.set(Mutex::new(sender));
    }
    QUEUE.get().ok_or_else(|| Error::other("no thread delivers results"))
}
