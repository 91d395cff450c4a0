//! Services: what a session owns for linked code, and how they are told of its end, one after the other.

use std::fmt;

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
    /// ([`SessionHandle::report_error`](crate::session::SessionHandle::report_error)).
    fn on_shutdown(&self, done: Done);
}

/// Says that a service is done: by being dropped, now or later, on any thread.
#[must_use = "dropped, it says that the service is done"]
pub struct Done(Option<Box<dyn FnOnce() + Send>>);

impl Done {
    pub(in crate::session) fn new(then: impl FnOnce() + Send + 'static) -> Self {
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
pub(in crate::session) enum Told {
    Detached { shutdown_requested: bool },
    ShutDown,
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
