//! The thread that starts an executor, sees it end, and tells whoever waits for it.

use std::ffi::CString;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::error::{Error, Result};
use crate::sys::process::{Child, Ended};
use crate::transport::Closer;

/// An executor process under supervision. Dropping it kills the process and waits for its end.
///
/// The process is started by the supervisor's own thread, and that thread lives until the process has ended: the
/// kernel kills an executor when the *thread* that started it ends.
#[derive(Debug)]
pub(super) struct Supervisor {
    process: Process,
    thread: Option<JoinHandle<()>>,
}

/// The process itself; can be given away to whoever may end it.
#[derive(Debug, Clone)]
pub(super) struct Process {
    child: Arc<Child>,
    end: Arc<End>,
}

#[derive(Debug, Default)]
struct End {
    how: Mutex<Option<Ended>>,
    came: Condvar,
}

impl Supervisor {
    /// Starts the process. When it ends, for whatever reason, its end is recorded and then `closer` called.
    ///
    /// # Errors
    ///
    /// When the process or the thread cannot be started.
    pub(super) fn start(
        program: PathBuf,
        args: Vec<CString>,
        env: Vec<CString>,
        socket: OwnedFd,
        at: i32,
        closer: Closer,
    ) -> Result<Self> {
        let (started, child) = mpsc::sync_channel(1);
        let end = Arc::new(End::default());
        let ours = Arc::clone(&end);
        let body = move || {
            let child = Child::spawn(&program, &args, &env, socket.as_fd(), at).map(Arc::new);
            // The executor's end of the socket is its own from here on.
            drop(socket);
            let ours_child = child.as_ref().ok().map(Arc::clone);
            let _ = started.send(child);
            if let Some(child) = ours_child {
                // Somebody else who collects this process's children leaves no status behind.
                let how = child.wait().unwrap_or(Ended::Exited(-1));
                *ours.lock() = Some(how);
                ours.came.notify_all();
                closer.close();
            }
        };
        let thread = std::thread::Builder::new().name("farcall-supervisor".to_owned()).spawn(body);
        let thread = thread.map_err(|error| Error::os("starting the supervisor thread", error))?;
        let child = child.recv().map_err(|_| Error::disconnected("the supervisor ended"))??;
        Ok(Self { process: Process { child, end }, thread: Some(thread) })
    }

    pub(super) fn process(&self) -> &Process {
        &self.process
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        self.process.kill();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Process {
    pub(super) fn pid(&self) -> i32 {
        self.child.pid()
    }

    /// Ends the process at once.
    pub(super) fn kill(&self) {
        if self.end.lock().is_none() {
            self.child.kill();
        }
    }

    /// Waits up to `patience` for the process to end.
    pub(super) fn wait(&self, patience: Duration) -> Option<Ended> {
        let deadline = Instant::now() + patience;
        let mut how = self.end.lock();
        while how.is_none() {
            let left = deadline.checked_duration_since(Instant::now())?;
            how = self.end.came.wait_timeout(how, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        *how
    }
}

impl End {
    fn lock(&self) -> MutexGuard<'_, Option<Ended>> {
        self.how.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
