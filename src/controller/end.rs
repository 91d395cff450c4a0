//! The end of a session: the host closes it, or the executor dies.

use super::session::Process;
use crate::error::{Error, Result};

impl Process {
    /// Ends the session now, also while other threads call. Each call under way fails
    /// ([`ErrorKind::Disconnected`](crate::ErrorKind::Disconnected)), as do all later ones. A handler that runs goes to its end before its
    /// call fails.
    ///
    /// The executor has ended when this returns: it runs the dealloc actions that are left and exits, or is killed after two
    /// seconds. If it runs a call that the host has abandoned, it is killed after a tenth of a second. Does nothing when the session
    /// is over.
    ///
    /// # Examples
    ///
    /// ```standalone_crate
    /// # farcall::executor::run_if_spawned();
    /// # let process = farcall::controller::ExecutorBuilder::new().this_program().start()?.process()?;
    /// use farcall::ErrorKind;
    ///
    /// process.close();
    /// let error = process.process_info().expect_err("the session is over");
    /// assert_eq!(error.kind(), ErrorKind::Disconnected);
    /// # Ok::<(), farcall::Error>(())
    /// ```
    pub fn close(&self) {
        self.session.remote().close();
    }

    /// True when no further call can complete: the executor has died, or the session was closed.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        !self.session.remote().is_open()
    }

    /// How the executor died: an error with its [death](Error::death), as calls return it. `None` while the executor runs, and when
    /// the session was [closed](Process::close). Sends no message.
    #[must_use]
    pub fn death(&self) -> Option<Error> {
        self.session.remote().death()
    }

    /// Calls `notify`, once, when the executor has died, on a thread of its own. It is not called when the session was
    /// [closed](Process::close) or dropped before. `notify` does not keep the session alive.
    ///
    /// # Errors
    ///
    /// When it has died already, and the thread cannot be started.
    ///
    /// # Examples
    ///
    /// ```standalone_crate
    /// # farcall::executor::run_if_spawned();
    /// # let process = farcall::controller::ExecutorBuilder::new().this_program().start()?.process()?;
    /// let (sender, receiver) = std::sync::mpsc::channel();
    /// process.on_death(move |error| _ = sender.send(error))?;
    /// process.kill();
    /// let error = receiver.recv().expect("the executor has died");
    /// assert_eq!(error.to_string(), "executor died by SIGKILL");
    /// # Ok::<(), farcall::Error>(())
    /// ```
    pub fn on_death(&self, notify: impl FnOnce(Error) + Send + 'static) -> Result<()> {
        let weak = self.downgrade();
        self.session.remote().supervisor().process().at_end(move || {
            if let Some(death) = weak.upgrade().and_then(|process| process.death()) {
                notify(death);
            }
        })
    }
}
