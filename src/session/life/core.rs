//! The state that all handles of a session share, under one lock, and the calls that pass through it.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;
#[cfg(not(model))]
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use super::service::Told;
use super::stage::Life;
use super::task_group::What;
use crate::ExecutorAddr;
#[cfg(not(model))]
use crate::error::drop_panic;
use crate::error::{Error, Result};
use crate::origin::Origin;
use crate::session::SESSION_SYMBOL;
use crate::session::{
    Answer, BootstrapInfo, Completion, ControllerAccess, Reply, Service, SessionBuilder,
    SessionHandle, TaskGroup,
};
use crate::sync::{Condvar, Mutex, MutexGuard, thread_local};
use crate::task::Task;

pub(in crate::session) type Dispatch = Arc<dyn Fn(Task) + Send + Sync>;
pub(in crate::session) type Reporter = Arc<dyn Fn(&SessionHandle, Error) + Send + Sync>;
pub(in crate::session) type OnDisconnect = Box<dyn FnOnce(&SessionHandle, Result<()>) + Send>;
/// Runs the wrapper function at an address.
pub(crate) type RunAddress = fn(&SessionHandle, ExecutorAddr, Vec<u8>, Reply);

/// A function of the host, in Rust.
pub(in crate::session) struct HostFunction(pub(in crate::session) Box<Function>);

pub(in crate::session) type Function = dyn Fn(&SessionHandle, Vec<u8>, Reply) + Send + Sync;

/// A fault that a test plants in the session.
#[cfg(shuttle)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::session) enum Fault {
    /// A callback that is registered late waits for a stage that has passed.
    LateCallbackWaits,
    /// Services are shut down while managed code runs.
    DoesNotDrain,
}

thread_local! {
    /// The sessions whose end this thread must not wait for, because it runs a call of theirs or takes them down.
    static INSIDE: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

/// A session.
pub(in crate::session) struct Core {
    state: Mutex<State>,
    /// Notified when the session is over and when its shutdown is first requested.
    pub(in crate::session) changed: Condvar,
    dispatch: Dispatch,
    pub(in crate::session) report: Reporter,
    pub(in crate::session) grace: Option<Duration>,
    pub(in crate::session) info: BootstrapInfo,
    functions: HashMap<u64, Arc<HostFunction>>,
    run: RunAddress,
    /// The spans of managed code.
    pub(in crate::session) managed: TaskGroup,
    this: Weak<Core>,
    /// The process that has the threads of the session.
    pub(in crate::session) origin: Origin,
    #[cfg(shuttle)]
    fault: Option<Fault>,
}

/// The mutable state of a session.
pub(in crate::session) struct State {
    pub(in crate::session) life: Life,
    pub(in crate::session) access: Option<Arc<dyn ControllerAccess>>,
    pub(in crate::session) services: Vec<Arc<dyn Service>>,
    pub(in crate::session) on_disconnect: Option<OnDisconnect>,
    pub(in crate::session) detached: Callbacks,
    pub(in crate::session) shut_down: Callbacks,
    /// The service that was notified last, while it is not done.
    pub(in crate::session) waits_for: Option<(Arc<dyn Service>, Told)>,
    /// The time of the first request of a shutdown.
    pub(in crate::session) shutdown_since: Option<Instant>,
}

pub(in crate::session) type Callback = Box<dyn FnOnce() + Send>;

/// The callbacks of a stage.
#[derive(Default)]
pub(in crate::session) struct Callbacks {
    pub(in crate::session) list: Vec<Callback>,
    /// The list was taken: a later callback runs at once.
    pub(in crate::session) told: bool,
}

impl Core {
    pub(in crate::session) fn new(options: SessionBuilder) -> Result<Arc<Self>> {
        let mut taken = Ok(());
        let core = Arc::new_cyclic(|this: &Weak<Core>| {
            let mut info = options.info;
            taken = info.symbols.add_unique([(SESSION_SYMBOL, address(this))]);
            let state = State {
                life: Life::new(),
                access: None,
                services: options.services,
                on_disconnect: options.on_disconnect,
                detached: Callbacks::default(),
                shut_down: Callbacks::default(),
                waits_for: None,
                shutdown_since: None,
            };
            Self {
                state: Mutex::new(state),
                changed: Condvar::new(),
                dispatch: options.dispatch,
                report: options.report,
                grace: options.grace,
                info,
                functions: options.functions,
                run: options.run,
                managed: TaskGroup::new(),
                this: this.clone(),
                origin: Origin::new(),
                #[cfg(shuttle)]
                fault: options.fault,
            }
        });
        taken.map(|()| core)
    }

    pub(in crate::session) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// The address that identifies the session.
    pub(in crate::session) fn address(&self) -> ExecutorAddr {
        address(&self.this)
    }

    fn handle(&self) -> Option<SessionHandle> {
        self.this.upgrade().map(|core| SessionHandle::new(&core))
    }

    pub(in crate::session) fn report(&self, error: Error) {
        if let Some(session) = self.handle() {
            (self.report)(&session, error);
        }
    }

    /// Runs code of the host; a panic in it is reported and does not spread.
    pub(in crate::session) fn guarded(&self, what: &str, work: impl FnOnce()) {
        #[cfg(model)]
        work();
        #[cfg(not(model))]
        if let Err(panic) = catch_unwind(AssertUnwindSafe(work)) {
            drop_panic(panic);
            self.report(Error::invalid(format!("{what} panicked")));
        }
    }

    /// Runs work for which the session's end waits.
    pub(in crate::session) fn inside<R>(&self, work: impl FnOnce() -> R) -> R {
        /// Removes the mark, also during a panic.
        struct Leave;
        impl Drop for Leave {
            fn drop(&mut self) {
                let _ = INSIDE.try_with(|inside| inside.borrow_mut().pop());
            }
        }
        // A thread that is ending has no thread-locals; it waits for no session either.
        let entered = INSIDE.try_with(|inside| inside.borrow_mut().push(self.mark())).is_ok();
        let _leave = entered.then_some(Leave);
        work()
    }

    /// True when this thread must not wait for the session's end.
    pub(in crate::session) fn is_inside(&self) -> bool {
        INSIDE.try_with(|inside| inside.borrow().contains(&self.mark())).unwrap_or(false)
    }

    fn mark(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    pub(in crate::session) fn set_waits_for(&self, service: Option<(Arc<dyn Service>, Told)>) {
        self.lock().waits_for = service;
    }

    /// Runs a call of the controller as a task. The task holds a token until the function returns.
    pub(in crate::session) fn handle_call(
        self: &Arc<Self>,
        function: ExecutorAddr,
        args: Vec<u8>,
        call: u64,
    ) {
        let token = {
            let state = self.lock();
            if !state.life.carries_calls() {
                return;
            }
            // The group is open while calls are carried.
            self.managed.acquire_what(What::Call { function: function.get(), number: call })
        };
        let core = Arc::clone(self);
        let reply = Reply::new(move |answer| core.send_result(call, answer));
        let core = Arc::clone(self);
        self.dispatch(Task::new(move || {
            core.inside(|| core.run(function, args, reply));
            drop(token);
        }));
    }

    fn run(self: &Arc<Self>, function: ExecutorAddr, args: Vec<u8>, reply: Reply) {
        let session = SessionHandle::new(self);
        self.guarded("a function", || match self.functions.get(&function.get()) {
            Some(host) => (host.0)(&session, args, reply),
            None => (self.run)(&session, function, args, reply),
        });
    }

    fn send_result(&self, call: u64, answer: Answer) {
        let access = self.lock().access.clone();
        if let Some(access) = access {
            access.send_result(call, answer);
        }
    }

    /// Calls the controller's handler.
    pub(in crate::session) fn call_controller(
        &self,
        tag: u64,
        args: Vec<u8>,
        mut completion: Completion,
    ) {
        if let Err(error) = self.origin.check() {
            return completion.complete(Err(error));
        }
        let access = {
            let state = self.lock();
            let access = state.access.clone().filter(|_| state.life.carries_calls());
            if access.is_some() {
                // The token is acquired before the call is sent, so that the completion is not refused at its end. A
                // pending call ends with the connection, so the token does not delay a shutdown.
                completion.token = self.managed.acquire("the completion of a call");
            }
            access
        };
        match access {
            Some(access) => access.call_controller(tag, args, completion),
            None => completion.complete(Err(Error::disconnected("no controller attached"))),
        }
    }

    /// A call of the controller's handler has ended.
    pub(in crate::session) fn complete(
        self: &Arc<Self>,
        completion: Completion,
        outcome: Result<Vec<u8>>,
    ) {
        if completion.is_waited_for() {
            completion.complete(outcome);
            return;
        }
        let core = Arc::clone(self);
        self.dispatch(Task::new(move || {
            core.inside(|| core.guarded("a completion", || completion.complete(outcome)));
        }));
    }

    /// Passes a task to the host's dispatch function. If the host loses the task, its call is answered with an error.
    pub(in crate::session) fn dispatch(&self, task: Task) {
        self.guarded("the dispatch function", || (self.dispatch)(task));
    }

    #[cfg(shuttle)]
    pub(in crate::session) fn has(&self, fault: Fault) -> bool {
        self.fault == Some(fault)
    }
}

fn address(core: &Weak<Core>) -> ExecutorAddr {
    ExecutorAddr::new(core.as_ptr() as u64)
}

impl fmt::Debug for Core {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.lock();
        f.debug_struct("Session")
            .field("life", &state.life)
            .field("services", &state.services.len())
            .field("managed", &self.managed)
            .finish_non_exhaustive()
    }
}
