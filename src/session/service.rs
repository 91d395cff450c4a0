//! Services: what a session owns for linked code, and how they are told of its end, one after the other.

use std::fmt;
use std::sync::Arc;

use super::core::Core;
use crate::sync::Mutex;

/// Something that a session owns on behalf of linked code: memory, libraries, registrations.
///
/// The session calls each function once, [`on_detach`](Service::on_detach) always before
/// [`on_shutdown`](Service::on_shutdown), also if no controller was ever attached; in the reverse of the order in which
/// services were added, the next one when the one before is done.
pub trait Service: Send + Sync {
    /// The name by which an error tells of this service when it does not get done.
    fn name(&self) -> &str {
        std::any::type_name::<Self>()
    }

    /// The controller is gone, and there will be no more requests; managed code may still run. A service can drop what
    /// it kept for requests. When the session is to be shut down anyway, `shutdown_requested` says so and there is
    /// nothing to do.
    fn on_detach(&self, done: Done, shutdown_requested: bool) {
        let _ = (done, shutdown_requested);
    }

    /// No managed code runs any more, and none will: release everything. Errors are the service's own business
    /// ([`SessionRef::report_error`](super::SessionRef::report_error)).
    fn on_shutdown(&self, done: Done);
}

/// Says that a service is done: by being dropped, now or later, on any thread.
#[must_use = "dropped, it says that the service is done"]
pub struct Done(Option<Box<dyn FnOnce() + Send>>);

impl Done {
    pub(super) fn new(then: impl FnOnce() + Send + 'static) -> Self {
        Self(Some(Box::new(then)))
    }

    /// The same as dropping it.
    pub fn complete(self) {}
}

impl Drop for Done {
    fn drop(&mut self) {
        if let Some(then) = self.0.take() {
            then();
        }
    }
}

/// What services are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Told {
    Detached { shutdown_requested: bool },
    ShutDown,
}

/// Tells services, last first, each when the one before is done, and then goes on.
///
/// Whoever gets done goes on with the next one, unless a thread is at it already: so one that gets done at once makes
/// no deeper stack, however many there are.
pub(super) struct Chain {
    core: Arc<Core>,
    told: Told,
    state: Mutex<State>,
}

struct State {
    services: Vec<Arc<dyn Service>>,
    then: Option<Box<dyn FnOnce() + Send>>,
    /// A thread goes on.
    is_driven: bool,
    /// The service that was told last is done.
    is_done: bool,
}

impl Chain {
    /// Tells all of `services`, then runs `then`: on this thread, or on the one that the last service gets done on.
    pub(super) fn run(
        core: Arc<Core>,
        told: Told,
        services: Vec<Arc<dyn Service>>,
        then: impl FnOnce() + Send + 'static,
    ) {
        let then: Box<dyn FnOnce() + Send> = Box::new(then);
        let state = State { services, then: Some(then), is_driven: false, is_done: false };
        Arc::new(Self { core, told, state: Mutex::new(state) }).go_on();
    }

    /// The service that was told last is done, or there was none.
    fn go_on(self: &Arc<Self>) {
        {
            let mut state = self.state.lock();
            state.is_done = true;
            if std::mem::replace(&mut state.is_driven, true) {
                return;
            }
        }
        self.core.inside(|| while self.step() {});
    }

    /// Tells the next service; false when none is left, or the one before is not done yet.
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
        tell(&self.core, &*service, self.told, Done::new(move || chain.go_on()));
        true
    }
}

/// Tells one service. If it panics it is done.
pub(super) fn tell(core: &Core, service: &dyn Service, told: Told, done: Done) {
    core.guarded(service.name(), || match told {
        Told::Detached { shutdown_requested } => service.on_detach(done, shutdown_requested),
        Told::ShutDown => service.on_shutdown(done),
    });
}

impl fmt::Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Told::Detached { .. } => "detach",
            Told::ShutDown => "shut down",
        })
    }
}

impl fmt::Debug for Done {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Done").finish_non_exhaustive()
    }
}
