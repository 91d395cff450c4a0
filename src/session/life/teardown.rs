//! Attaching a session, and its end.
//!
//! The end has this order, no matter which thread requests it:
//!
//! 1. No call passes any more. The access disconnects and fails all pending calls.
//! 2. The disconnect handler of the host receives the reason, once.
//! 3. The access is dropped.
//! 4. The services are notified of the detach, the last first; then the detach callbacks run. Without a shutdown the
//!    session stays here.
//! 5. No more spans of managed code start, and those that run end.
//! 6. The services are notified of the shutdown, the last first; then the shutdown callbacks run.
//! 7. The threads in `wait` return.
//!
//! Each step runs on the thread that completes the step before, with no lock held.

use std::sync::Arc;
use std::time::Instant;

#[cfg(shuttle)]
use super::core::Fault;
use super::core::{Callback, Core, State};
use super::service::{Done, Told};
use super::stage::{Next, Stage};
use crate::error::{Error, Result};
use crate::session::{Attachment, ControllerAccess, Service, SessionHandle};
use crate::sync::{Mutex, MutexGuard};

impl Core {
    /// Attaches a controller.
    ///
    /// # Errors
    ///
    /// As [`Life::attach`](super::stage::Life::attach).
    pub(in crate::session) fn attach(
        self: &Arc<Self>,
        access: Arc<dyn ControllerAccess>,
    ) -> Result<()> {
        {
            let mut state = self.lock();
            state.life.attach()?;
            state.access = Some(Arc::clone(&access));
        }
        match access.connect(Attachment::new(self), &self.info) {
            Ok(()) => {
                let mut state = self.lock();
                let next = state.life.connected();
                self.resume(state, next, Ok(()));
            }
            Err(error) => self.disconnected(Err(error.during("connecting"))),
        }
        Ok(())
    }

    /// Requests a stage, and calls `callback` when it is reached.
    pub(in crate::session) fn request(self: &Arc<Self>, goal: Stage, callback: Callback) {
        let mut state = self.lock();
        let waiting = match goal {
            Stage::Shutdown => &mut state.shut_down,
            _ => &mut state.detached,
        };
        let is_late = waiting.told;
        #[cfg(shuttle)]
        let is_late = is_late && !self.has(Fault::LateCallbackWaits);
        let late = if is_late {
            Some(callback)
        } else {
            waiting.list.push(callback);
            None
        };
        let next = state.life.request(goal);
        if goal == Stage::Shutdown && state.shutdown_since.is_none() {
            state.shutdown_since = Some(Instant::now());
            self.changed.notify_all();
        }
        self.resume(state, next, Ok(()));
        if let Some(callback) = late {
            callback();
        }
    }

    /// The controller is gone.
    pub(in crate::session) fn disconnected(self: &Arc<Self>, cause: Result<()>) {
        let mut state = self.lock();
        let next = state.life.disconnected();
        self.resume(state, next, cause);
    }

    fn resume(self: &Arc<Self>, mut state: MutexGuard<'_, State>, next: Next, cause: Result<()>) {
        match next {
            Next::Nothing => {}
            Next::Disconnect => {
                let access = state.access.clone();
                drop(state);
                if let Some(access) = access {
                    access.disconnect();
                }
            }
            Next::TearDown { shutdown_requested } => {
                let access = state.access.take();
                let handler = state.on_disconnect.take();
                // Services that are added from here on are notified by `add_service`.
                let services = state.services.clone();
                drop(state);
                self.inside(|| match (handler, cause) {
                    (Some(handler), cause) => self.guarded("the handler of the disconnect", || {
                        handler(&SessionHandle::new(self), cause);
                    }),
                    (None, Err(error)) => self.report(error),
                    (None, Ok(())) => {}
                });
                drop(access);
                let core = Arc::clone(self);
                let told = Told::Detached { shutdown_requested };
                Chain::run(Arc::clone(self), told, services, move || core.detached());
            }
            Next::Drain => {
                drop(state);
                self.drain();
            }
        }
    }

    /// Every service is detached.
    fn detached(self: &Arc<Self>) {
        self.tell_callbacks(Stage::Detached);
        let mut state = self.lock();
        let next = state.life.detached();
        self.resume(state, next, Ok(()));
    }

    /// Closes the group of managed code and waits for its end.
    fn drain(self: &Arc<Self>) {
        let core = Arc::clone(self);
        #[cfg(shuttle)]
        if self.has(Fault::DoesNotDrain) {
            return core.drained();
        }
        self.managed.add_on_complete(move || core.drained());
        self.managed.close();
    }

    /// No managed code runs.
    fn drained(self: &Arc<Self>) {
        let services = {
            let mut state = self.lock();
            state.life.drained();
            state.services.clone()
        };
        let core = Arc::clone(self);
        Chain::run(Arc::clone(self), Told::ShutDown, services, move || {
            core.tell_callbacks(Stage::Shutdown);
            let mut state = core.lock();
            state.life.finished();
            // Under the lock, so that no waiting thread misses it.
            core.changed.notify_all();
        });
    }

    /// Runs the callbacks of a stage, the last first. Callbacks that are registered later run at once.
    fn tell_callbacks(&self, stage: Stage) {
        let callbacks = {
            let mut state = self.lock();
            let waiting = match stage {
                Stage::Shutdown => &mut state.shut_down,
                _ => &mut state.detached,
            };
            waiting.told = true;
            std::mem::take(&mut waiting.list)
        };
        for callback in callbacks.into_iter().rev() {
            self.guarded("a callback", callback);
        }
    }

    /// Adds a service. If the session is detached or shut down, notifies the service at once.
    pub(in crate::session) fn add_service(self: &Arc<Self>, service: Arc<dyn Service>) {
        let token = {
            let mut state = self.lock();
            if state.life.current() < Stage::Detached {
                state.services.push(service);
                return;
            }
            // The token delays the shutdown until the service is detached and in the list that the shutdown notifies.
            self.managed.acquire("a service that is detached")
        };
        let core = Arc::clone(self);
        let added = Arc::clone(&service);
        let done = Done::new(move || {
            let is_late = {
                let mut state = core.lock();
                // The session keeps the service as all others, whether the shutdown notifies it here or there.
                state.services.push(Arc::clone(&added));
                state.life.current() == Stage::Shutdown
            };
            if is_late {
                tell(&core, &*added, Told::ShutDown, Done::new(|| {}));
            }
            drop(token);
        });
        tell(self, &*service, Told::Detached { shutdown_requested: false }, done);
    }

    /// Waits for the end.
    ///
    /// # Errors
    ///
    /// On a thread that the end waits for; after the grace period.
    pub(in crate::session) fn wait(&self) -> Result<()> {
        if self.is_inside() {
            return Err(Error::invalid(
                "a call or a callback of a session cannot wait for the session's end, which waits for it",
            ));
        }
        let mut state = self.lock();
        while !state.life.is_over() {
            let deadline = match (self.grace, state.shutdown_since) {
                (Some(grace), Some(since)) => since.checked_add(grace),
                _ => None,
            };
            let Some(deadline) = deadline else {
                state = self.changed.wait(state);
                continue;
            };
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(self.still_runs(state));
            }
            state = self.changed.wait_timeout(state, left).0;
        }
        Ok(())
    }

    /// The error that names what delays the end.
    fn still_runs(&self, state: MutexGuard<'_, State>) -> Error {
        let mut why = self.managed.running();
        if let Some((service, told)) = &state.waits_for {
            why.push(format!("service {} did not {told}", service.name()));
        }
        if state.access.is_some() {
            why.push("the controller access did not disconnect".to_owned());
        }
        let grace = self.grace.unwrap_or_default();
        Error::timeout(format!(
            "the session is not shut down {grace:?} after that was asked for: {}",
            why.join("; ")
        ))
    }
}

/// Notifies services, the last first, each when the one before is done, and then runs `then`.
///
/// The thread that completes a service notifies the next one, unless another thread is driving the chain. So services
/// that complete at once do not deepen the stack.
struct Chain {
    core: Arc<Core>,
    told: Told,
    state: Mutex<ChainState>,
}

struct ChainState {
    services: Vec<Arc<dyn Service>>,
    then: Option<Box<dyn FnOnce() + Send>>,
    /// A thread is driving the chain.
    is_driven: bool,
    /// The service that was notified last is done.
    is_done: bool,
}

impl Chain {
    /// Notifies all of `services`, then runs `then`: on this thread, or on the thread that completes the last
    /// service.
    fn run(
        core: Arc<Core>,
        told: Told,
        services: Vec<Arc<dyn Service>>,
        then: impl FnOnce() + Send + 'static,
    ) {
        let then: Box<dyn FnOnce() + Send> = Box::new(then);
        let state = ChainState { services, then: Some(then), is_driven: false, is_done: false };
        Arc::new(Self { core, told, state: Mutex::new(state) }).resume();
    }

    /// The service that was notified last is done, or there was none.
    fn resume(self: &Arc<Self>) {
        {
            let mut state = self.state.lock();
            state.is_done = true;
            if std::mem::replace(&mut state.is_driven, true) {
                return;
            }
        }
        self.core.inside(|| while self.step() {});
    }

    /// Notifies the next service. False if none is left, or the one before is not done.
    fn step(self: &Arc<Self>) -> bool {
        let mut state = self.state.lock();
        if !std::mem::replace(&mut state.is_done, false) {
            state.is_driven = false;
            return false;
        }
        let Some(service) = state.services.pop() else {
            let then = state.then.take();
            drop(state);
            self.core.set_waits_for(None);
            if let Some(then) = then {
                then();
            }
            return false;
        };
        drop(state);
        self.core.set_waits_for(Some((Arc::clone(&service), self.told)));
        let chain = Arc::clone(self);
        tell(&self.core, &*service, self.told, Done::new(move || chain.resume()));
        true
    }
}

/// Notifies one service. A service that panics is done.
fn tell(core: &Core, service: &dyn Service, told: Told, done: Done) {
    core.guarded(service.name(), || match told {
        Told::Detached { shutdown_requested } => service.on_detach(done, shutdown_requested),
        Told::ShutDown => service.on_shutdown(done),
    });
}
