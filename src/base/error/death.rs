//! The controller's knowledge of the end of an executor process.

use std::fmt;

/// How an executor process ended, as far as the controller knows.
///
/// `exit_status` comes from the kernel. So does `signal`, unless the crash handler of the dying process told it first. That saves
/// the wait for the kernel, which frees the process's memory before it reports.
///
/// The dying process itself wrote everything else. Take it as a hint: hostile code in the executor can write all that its crash
/// handler writes.
///
/// [`facts`](Death::facts) lists what is known by name. C, C++ and Python show that list, so a new fact is there in each of them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Death {
    /// The status given to `exit`, when the process ended by itself.
    pub exit_status: Option<i32>,
    /// The signal that ended the process, as the kernel or the process's own crash handler tells it.
    pub signal: Option<i32>,
    /// True when the kernel could not say how the process ended, because another part of the controller's process collected it.
    /// That part ignores SIGCHLD, or waits for any child. Then `signal` too was written by the dying process.
    pub status_unknown: bool,
    /// The address whose access faulted.
    pub fault_address: Option<u64>,
    /// The instruction that was executing.
    pub program_counter: Option<u64>,
    /// The place of that instruction, as "function+0x12 (object.o)"; the innermost linked function first.
    pub location: Option<String>,
    /// The linked functions that had not returned, the innermost first, each as in [`location`](Death::location). At most 16 frames
    /// are walked. Frames of the crash handler and of libraries count, and are left out.
    pub backtrace: Vec<String>,
    /// True when the fault lies at the end of the thread's stack.
    pub stack_overflow: bool,
    /// True when the access that faulted was a write to memory that is there, and that may not be written, as a constant.
    pub write_protected: bool,
    /// The limit of the executor's `Confinement` that ended the process: "CPU limit of 2 s". For
    /// memory it means that less than an eighth of the limit was left at the crash.
    pub limit: Option<String>,
}

/// The value of a fact about a [`Death`], or about an [`Interruption`](super::Interruption).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fact<'a> {
    /// It is so.
    Flag,
    /// A number or an address.
    Number(u64),
    /// A text.
    Text(&'a str),
    /// Texts, at least one.
    List(&'a [String]),
}

impl Death {
    /// The known facts, by the names of the fields. A fact that is unknown, or not so, is left out.
    ///
    /// # Examples
    ///
    /// ```
    /// use farcall_base::error::{Death, Fact};
    ///
    /// let mut death = Death::default();
    /// (death.signal, death.limit) = (Some(24), Some("CPU limit of 2 s".to_owned()));
    /// let facts: Vec<_> = death.facts().collect();
    /// assert_eq!(facts, [("signal", Fact::Number(24)), ("limit", Fact::Text("CPU limit of 2 s"))]);
    /// ```
    pub fn facts(&self) -> impl Iterator<Item = (&'static str, Fact<'_>)> {
        // Each field is named, so that the compiler finds a field that is missing below.
        let Self {
            exit_status,
            signal,
            status_unknown,
            fault_address,
            program_counter,
            location,
            backtrace,
            stack_overflow,
            write_protected,
            limit,
        } = self;
        let number = |value: &Option<i32>| {
            value.and_then(|value| Some(Fact::Number(u64::try_from(value).ok()?)))
        };
        let flag = |value: bool| value.then_some(Fact::Flag);
        [
            ("exit_status", number(exit_status)),
            ("signal", number(signal)),
            ("status_unknown", flag(*status_unknown)),
            ("fault_address", fault_address.map(Fact::Number)),
            ("program_counter", program_counter.map(Fact::Number)),
            ("location", location.as_deref().map(Fact::Text)),
            ("backtrace", Some(Fact::List(backtrace)).filter(|_| !backtrace.is_empty())),
            ("stack_overflow", flag(*stack_overflow)),
            ("write_protected", flag(*write_protected)),
            ("limit", limit.as_deref().map(Fact::Text)),
        ]
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)))
    }
}

impl fmt::Display for Death {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.signal, self.exit_status) {
            (Some(signal), _) => {
                f.write_str("executor died by ")?;
                write_signal(f, signal)?;
            }
            (None, Some(status)) => write!(f, "executor exited with status {status}")?,
            (None, None) => f.write_str("executor is gone")?,
        }
        if let Some(limit) = &self.limit {
            write!(f, ", {limit}")?;
        }
        if self.stack_overflow {
            f.write_str(", stack overflow")?;
        }
        if let Some(address) = self.fault_address {
            write!(f, ", fault address {address:#x}")?;
        }
        if self.write_protected {
            f.write_str(", which is write-protected")?;
        }
        match (&self.location, self.program_counter) {
            (Some(location), _) => write!(f, ", in {location}")?,
            (None, Some(pc)) => write!(f, ", at pc {pc:#x}")?,
            (None, None) => {}
        }
        if self.status_unknown {
            f.write_str("; the exit status is unknown: another part of this process collected it")?;
        }
        Ok(())
    }
}

/// The names of Linux's signals, from 1. No library is named for them: the linker depends on this package.
const SIGNALS: [&str; 31] = [
    "SIGHUP",
    "SIGINT",
    "SIGQUIT",
    "SIGILL",
    "SIGTRAP",
    "SIGABRT",
    "SIGBUS",
    "SIGFPE",
    "SIGKILL",
    "SIGUSR1",
    "SIGSEGV",
    "SIGUSR2",
    "SIGPIPE",
    "SIGALRM",
    "SIGTERM",
    "SIGSTKFLT",
    "SIGCHLD",
    "SIGCONT",
    "SIGSTOP",
    "SIGTSTP",
    "SIGTTIN",
    "SIGTTOU",
    "SIGURG",
    "SIGXCPU",
    "SIGXFSZ",
    "SIGVTALRM",
    "SIGPROF",
    "SIGWINCH",
    "SIGIO",
    "SIGPWR",
    "SIGSYS",
];

/// Writes the name of a signal, "SIGSEGV", or "signal 47" for one without a name. Allocates nothing.
fn write_signal(f: &mut fmt::Formatter<'_>, signal: i32) -> fmt::Result {
    let index = usize::try_from(signal).ok().and_then(|number| number.checked_sub(1));
    match index.and_then(|index| SIGNALS.get(index)) {
        Some(name) => f.write_str(name),
        None => write!(f, "signal {signal}"),
    }
}
