//! What a call is made with, besides its arguments.

use std::fmt;
use std::time::Duration;

use crate::deadline::Deadline;
use crate::error::Result;

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
///     _ => Err(Error::other("it was stopped")),
/// };
/// let watched = CallOptions::new().watch(Duration::from_millis(1), &watch);
/// // This code has no unwind information, so it costs its process.
/// let error = hang.call_with(&watched, ()).unwrap_err().to_string();
/// assert!(error.starts_with("it was stopped; not interrupted in 10ms: "), "{error}");
/// assert!(hang.call(()).unwrap_err().death().is_some());
/// # Ok::<(), farcall::Error>(())
/// ```
#[derive(Clone, Copy, Default)]
pub struct CallOptions<'a> {
    pub(in crate::controller) timeout: Option<Duration>,
    pub(in crate::controller) watch: Option<(Duration, &'a dyn Fn() -> Result<()>)>,
    pub(in crate::controller) on_deadline: OnDeadline,
    /// How long an interruption may take; `None` for [`GRACE`].
    grace: Option<Duration>,
}

/// How long an interruption may take, unless told otherwise.
pub(super) const GRACE: Duration = Duration::from_millis(10);

/// What happens to a call that has not returned by its deadline, or that its watch ends.
///
/// | choice | the call | the process |
/// |---|---|---|
/// | [`Interrupt`](OnDeadline::Interrupt) | ends; if it cannot be ended in the [grace time](CallOptions::grace), it is abandoned | lives |
/// | [`InterruptOrKill`](OnDeadline::InterruptOrKill) | ends | is killed if the call cannot be ended in the grace time |
/// | [`Abandon`](OnDeadline::Abandon) | runs on, and its result is dropped | lives |
/// | [`Kill`](OnDeadline::Kill) | ends with the process | is killed |
///
/// A call with a [watch](CallOptions::watch) is not abandoned: its process is killed instead.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use farcall::controller::{CallOptions, OnDeadline};
///
/// let options = CallOptions::new()
///     .timeout(Duration::from_millis(100))
///     .on_deadline(OnDeadline::InterruptOrKill)
///     .grace(Duration::from_millis(50));
/// # let _ = options;
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum OnDeadline {
    /// The call is interrupted, and abandoned if that is not possible.
    #[default]
    Interrupt,
    /// The call is interrupted, and the process is killed if that is not possible.
    InterruptOrKill,
    /// The call runs on, and its result is dropped.
    Abandon,
    /// The process is killed.
    Kill,
}

impl<'a> CallOptions<'a> {
    /// A call that takes as long as it takes.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The call takes at most `timeout`. Then it is interrupted: it fails with [`ErrorKind::Interrupted`](crate::ErrorKind::Interrupted),
    /// and its process lives on with its variables ([`on_deadline`](CallOptions::on_deadline) chooses otherwise).
    ///
    /// Code that cannot be interrupted is abandoned ([`ErrorKind::Timeout`](crate::ErrorKind::Timeout)). By the restart policy
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
    /// It may end the call by an error. Then the call is interrupted: it fails with
    /// [`ErrorKind::Interrupted`](crate::ErrorKind::Interrupted), and says the words of that error first. Where that is not possible, the
    /// process is killed, and the call fails with that error, which says why as well. A call that returns sooner costs as much as one
    /// without a watch, and a look at the clock.
    ///
    /// With a [timeout](CallOptions::timeout) as well, the same happens at the timeout.
    ///
    /// While a handler of the host runs on the thread, `watch` does not. While the call waits for a free process, `watch` runs as well,
    /// and its error kills no process. Each time the call goes to the end of the queue.
    #[must_use]
    pub fn watch(self, every: Duration, watch: &'a dyn Fn() -> Result<()>) -> Self {
        Self { watch: Some((every, watch)), ..self }
    }

    /// What happens to the call at its deadline, and when its watch ends it.
    #[must_use]
    pub fn on_deadline(self, on_deadline: OnDeadline) -> Self {
        Self { on_deadline, ..self }
    }

    /// How long the executor may try to interrupt the call: 10 ms unless told. It looks at the call's thread every 20 µs to 1 ms, until
    /// that stands where the call can be left.
    #[must_use]
    pub fn grace(self, grace: Duration) -> Self {
        Self { grace: Some(grace), ..self }
    }

    pub(in crate::controller) fn grace_time(&self) -> Duration {
        self.grace.unwrap_or(GRACE)
    }

    pub(in crate::controller) fn deadline(&self) -> Deadline {
        self.timeout.into()
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
