//! The options of an isolated function, as its attribute states them.

use std::time::Duration;

use super::program::{ISOLATED_VARIABLE, VERSION};
use crate::controller::confinement::{Confinement, ConfinementLevel};
use crate::controller::{ExecutorBuilder, RestartPolicy};
use crate::error::{Error, Result};

/// The options of isolated functions. The attribute makes them; its page says what each one does.
///
/// # Examples
///
/// ```
/// use farcall::isolate::Options;
///
/// const OPTIONS: Options = Options::new("my_crate").strict().memory_bytes(64 << 20).timeout_ms(500);
/// # let _ = OPTIONS;
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// The functions of a crate with equal options have one executor.
    crate_name: &'static str,
    level: ConfinementLevel,
    memory_bytes: Option<u64>,
    processes: usize,
    restarts_per_minute: Option<u32>,
    program: Option<&'static str>,
    /// Of a call, and not of the executor.
    timeout_ms: Option<u64>,
}

/// The path of the program that a process runs, whatever has become of its file. The child that starts the executor runs it until then.
const RUNNING_PROGRAM: &str = "/proc/self/exe";
/// The time in which restarts are counted.
const MINUTE: Duration = Duration::from_secs(60);
/// The pauses between restarts that follow each other, at first and at most: a function that always crashes at once takes no CPU.
const PAUSES: [Duration; 2] = [Duration::from_millis(1), Duration::from_millis(100)];

impl Options {
    /// The options of a function of this crate, with one process, restarts without limit, and all rights of the user.
    #[must_use]
    pub const fn new(crate_name: &'static str) -> Self {
        Self {
            crate_name,
            level: ConfinementLevel::Default,
            memory_bytes: None,
            processes: 1,
            restarts_per_minute: None,
            program: None,
            timeout_ms: None,
        }
    }

    /// [`Confinement::isolated`].
    #[must_use]
    pub const fn isolated(self) -> Self {
        Self { level: ConfinementLevel::Isolated, ..self }
    }

    /// [`Confinement::strict`].
    #[must_use]
    pub const fn strict(self) -> Self {
        Self { level: ConfinementLevel::Strict, ..self }
    }

    /// [`Confinement::memory_bytes_max`].
    #[must_use]
    pub const fn memory_bytes(self, bytes: u64) -> Self {
        Self { memory_bytes: Some(bytes), ..self }
    }

    /// [`ExecutorBuilder::processes`].
    #[must_use]
    pub const fn processes(self, processes: usize) -> Self {
        Self { processes, ..self }
    }

    /// [`RestartPolicy::at_most`] this number within a minute, after which all calls fail; 0 is [`RestartPolicy::never`].
    #[must_use]
    pub const fn restarts_per_minute(self, restarts: u32) -> Self {
        Self { restarts_per_minute: Some(restarts), ..self }
    }

    /// The path of a copy of this program.
    #[must_use]
    pub const fn executor(self, path: &'static str) -> Self {
        Self { program: Some(path), ..self }
    }

    /// The time after which a call has failed, and its process is killed.
    #[must_use]
    pub const fn timeout_ms(self, milliseconds: u64) -> Self {
        Self { timeout_ms: Some(milliseconds), ..self }
    }

    /// The timeout of a call.
    pub(crate) fn timeout(&self) -> Option<Duration> {
        self.timeout_ms.map(Duration::from_millis)
    }

    /// The number of processes.
    pub(crate) fn process_count(&self) -> usize {
        self.processes
    }

    /// The options that tell executors apart.
    pub(super) fn of_executor(self) -> Self {
        Self { timeout_ms: None, ..self }
    }

    /// Refuses a function with these options in an executor with those, which may do more than the function may.
    ///
    /// # Errors
    ///
    /// When the executor has more rights or more memory.
    pub(super) fn check_within(&self, executor: &Self) -> Result<()> {
        let bound = |options: &Self| options.memory_bytes.unwrap_or(u64::MAX);
        match self.level <= executor.level && bound(self) >= bound(executor) {
            true => Ok(()),
            false => Err(Error::invalid(
                "it was called by another isolated function, whose executor has more rights or memory than its options say: give both \
                 the same options, or call it in the host",
            )),
        }
    }

    /// The builder of the executor.
    pub(crate) fn builder(&self) -> ExecutorBuilder {
        let program = self.program.unwrap_or(RUNNING_PROGRAM);
        let confinement = match self.level {
            ConfinementLevel::Default => Confinement::new(),
            ConfinementLevel::Isolated => Confinement::isolated(),
            ConfinementLevel::Strict => Confinement::strict(),
        };
        let confinement = match self.memory_bytes {
            Some(bytes) => confinement.memory_bytes_max(bytes),
            None => confinement,
        };
        let restart = match self.restarts_per_minute {
            Some(0) => RestartPolicy::never(),
            Some(restarts) => RestartPolicy::new().at_most(restarts, MINUTE),
            None => RestartPolicy::new(),
        };
        let [first, most] = PAUSES;
        let builder = ExecutorBuilder::new().program(program).confine(confinement);
        let restart = restart.back_off(first, most).kill_on_timeout();
        builder.env(ISOLATED_VARIABLE, VERSION).processes(self.processes).restart(restart)
    }
}
