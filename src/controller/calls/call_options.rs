//! What a call is made with, besides its arguments.

use std::fmt;
use std::time::Duration;

use crate::call::{Wait, Watch};
use crate::deadline::Deadline;
use crate::error::{Error, Result};

/// What a call is made with, besides its arguments: how long it may take, and what watches it.
///
/// # Examples
///
/// ```standalone_crate
/// # farcall::executor::run_if_spawned();
/// # let executor = farcall::controller::ExecutorBuilder::new().this_program().start()?;
/// # let process = executor.process()?;
/// use std::cell::Cell;
/// use std::time::Duration;
/// use farcall::controller::CallOptions;
/// use farcall::{Error, ErrorKind, PerProt, Prot};
/// // void hang(void): jmp hang
/// # let mut memory = process.allocate(PerProt { code: 2, ..PerProt::default() })?;
/// # memory.write(Prot::Code, &[0xeb, 0xfe]);
/// # let code = memory.finalize();
/// let hang = process.function::<extern "C" fn()>(code.address());
/// # std::mem::forget(code);
/// let brief = CallOptions::new().timeout(Duration::from_millis(5));
/// assert_eq!(hang.call_with(&brief, ()).unwrap_err().kind(), ErrorKind::Timeout);
///
/// let looks = Cell::new(0);
/// let watch = || match looks.replace(looks.get() + 1) {
///     0..5 => Ok(()),
///     _ => Err(Error::other("it was interrupted")),
/// };
/// let watched = CallOptions::new().watch(Duration::from_millis(1), &watch);
/// assert_eq!(hang.call_with(&watched, ()).unwrap_err().to_string(), "it was interrupted");
/// assert!(hang.call(()).unwrap_err().death().is_some());
/// # Ok::<(), farcall::Error>(())
/// ```
#[derive(Clone, Copy, Default)]
pub struct CallOptions<'a> {
    pub(in crate::controller) timeout: Option<Duration>,
    pub(in crate::controller) watch: Option<(Duration, &'a dyn Fn() -> Result<()>)>,
}

impl<'a> CallOptions<'a> {
    /// A call that takes as long as it takes.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The call takes at most `timeout`; then it fails ([`ErrorKind::Timeout`](crate::ErrorKind::Timeout)). By the restart policy
    /// ([`kill_on_timeout`](super::super::RestartPolicy::kill_on_timeout)) the process is killed then. Otherwise the function still
    /// runs, the controller still serves its calls back, and its result will be dropped ([`Stats::late`](super::super::Stats::late)).
    ///
    /// The time covers a wait for a free process, for another thread's start of a process, and the restart policy's pause. It covers
    /// linking the function's library, and opening a lane. It covers posted calls, the arguments, the answer, and answers to calls back.
    /// It does not interrupt a handler of the host: that runs to its end first. A start of a process by this thread has a timeout of its
    /// own ([`start_timeout`](super::super::ExecutorBuilder::start_timeout)). A call with a timeout does not remove
    /// [old code](super::super::hotswap::Redirectable::redirect_and_remove), which has no bound. Arguments, and answers to the executor,
    /// over 64 MiB travel in parts. If the time ends between two parts, the lane ends: calls back over it fail, and the next call takes
    /// another lane.
    #[must_use]
    pub fn timeout(self, timeout: Duration) -> Self {
        Self { timeout: Some(timeout), ..self }
    }

    /// `watch` runs on the calling thread when there is no result after the time `every`, and again each time that `every` has passed.
    /// It may end the call: its error becomes the call's, and the process is killed. A call that returns sooner costs as much as one
    /// without a watch, and a look at the clock.
    ///
    /// With a [timeout](CallOptions::timeout) as well, the process is killed at the timeout, at most `every` later.
    ///
    /// While a handler of the host runs on the thread, `watch` does not. While the call waits for a free process, `watch` runs as well,
    /// and its error kills no process. Each time the call goes to the end of the queue.
    #[must_use]
    pub fn watch(self, every: Duration, watch: &'a dyn Fn() -> Result<()>) -> Self {
        Self { watch: Some((every, watch)), ..self }
    }

    pub(in crate::controller) fn deadline(&self) -> Deadline {
        self.timeout.map_or(Deadline::SESSION_END, Deadline::after)
    }

    /// Makes `call` with these options, up to their deadline. `kill` gets the error of a watch that ends the call, and kills the process.
    pub(in crate::controller) fn apply<R>(
        &self,
        deadline: Deadline,
        kill: &dyn Fn(&Error),
        call: impl FnOnce(Wait<'_>) -> R,
    ) -> R {
        let Some((every, watch)) = self.watch else { return call(deadline.into()) };
        let every = self.timeout.map_or(every, |timeout| timeout.min(every));
        let ask = || match deadline.has_passed() {
            true => Err(Error::timeout("the watched call did not return in time")),
            false => watch(),
        };
        call((&Watch::new(every, &ask, kill)).into())
    }
}

impl fmt::Debug for CallOptions<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let every = self.watch.map(|(every, _)| every);
        f.debug_struct("CallOptions")
            .field("timeout", &self.timeout)
            .field("watch_every", &every)
            .finish()
    }
}
