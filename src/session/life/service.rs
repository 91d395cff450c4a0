//! Services: what a session owns for linked code. The end of the session notifies them one after the other.

use std::fmt;

/// A resource that a session owns on behalf of linked code: memory, libraries, registrations.
///
/// The session calls each function once: [`on_detach`](Service::on_detach), then
/// [`on_shutdown`](Service::on_shutdown), also if no controller was ever attached. It notifies the services in
/// reverse order of addition, each after the one before is [`Done`].
///
/// # Examples
///
/// ```
/// use farcall::session::{Done, Service, SessionBuilder};
///
/// struct Log;
///
/// impl Service for Log {
///     fn on_shutdown(&self, done: Done) {
///         println!("linked code has ended");
///         done.complete();
///     }
/// }
///
/// let session = SessionBuilder::new(|task| drop(std::thread::spawn(|| task.run()))).service(Log).build()?;
/// # Ok::<(), farcall::Error>(())
/// ```
pub trait Service: Send + Sync {
    /// The service's name in the error that says what delays a shutdown.
    fn name(&self) -> &str {
        std::any::type_name::<Self>()
    }

    /// The controller is gone, and no more requests will come; managed code may still run. A service can drop what it
    /// kept for requests. With `shutdown_requested` the shutdown follows, so there is nothing to do here.
    fn on_detach(&self, done: Done, shutdown_requested: bool) {
        let _ = (done, shutdown_requested);
    }

    /// No managed code runs any more, and none will: the service releases everything. It reports its errors itself
    /// ([`SessionHandle::report_error`](crate::session::SessionHandle::report_error)).
    fn on_shutdown(&self, done: Done);
}

/// Marks the notification of a service as done when it is dropped, on any thread.
///
/// # Examples
///
/// ```
/// use farcall::session::{Done, Service};
///
/// struct Slow;
///
/// impl Service for Slow {
///     fn on_shutdown(&self, done: Done) {
///         // The next service is notified when this thread is done.
///         std::thread::spawn(move || done.complete());
///     }
/// }
/// # let session = farcall::session::SessionBuilder::new(|task| drop(std::thread::spawn(|| task.run())));
/// # session.service(Slow).build()?;
/// # Ok::<(), farcall::Error>(())
/// ```
#[must_use = "dropped, it says that the service is done"]
pub struct Done(Option<Box<dyn FnOnce() + Send>>);

impl Done {
    pub(in crate::session) fn new(then: impl FnOnce() + Send + 'static) -> Self {
        Self(Some(Box::new(then)))
    }

    /// Marks the notification as done, as dropping does.
    pub fn complete(self) {}
}

impl Drop for Done {
    fn drop(&mut self) {
        if let Some(then) = self.0.take() {
            then();
        }
    }
}

/// A notification of services.
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
