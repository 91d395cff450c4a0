//! The options of an isolated function, as its attribute states them.

use std::path::PathBuf;
use std::time::Duration;

use crate::controller::{Confinement, ExecutorBuilder, RestartPolicy};
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Options {
    /// The functions of a crate with equal options have one executor.
    crate_name: &'static str,
    level: Level,
    memory_bytes: Option<u64>,
    processes: usize,
    restarts_per_minute: Option<u32>,
    program: Option<&'static str>,
    /// Of a call, and not of the executor.
    timeout_ms: Option<u64>,
}

/// The level of confinement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Level {
    Default,
    Isolated,
    Strict,
}

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
            level: Level::Default,
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
        Self { level: Level::Isolated, ..self }
    }

    /// [`Confinement::strict`].
    #[must_use]
    pub const fn strict(self) -> Self {
        Self { level: Level::Strict, ..self }
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

    /// [`RestartPolicy::at_most`] this number within a minute; 0 is [`RestartPolicy::never`].
    #[must_use]
    pub const fn restarts_per_minute(self, restarts: u32) -> Self {
        Self { restarts_per_minute: Some(restarts), ..self }
    }

    /// The path of a copy of this program.
    #[must_use]
    pub const fn executor(self, path: &'static str) -> Self {
        Self { program: Some(path), ..self }
    }

    /// The time after which a call is interrupted.
    #[must_use]
    pub const fn timeout_ms(self, milliseconds: u64) -> Self {
        Self { timeout_ms: Some(milliseconds), ..self }
    }

    /// The timeout of a call.
    pub(super) fn timeout(&self) -> Option<Duration> {
        self.timeout_ms.map(Duration::from_millis)
    }

    /// The options that tell executors apart.
    pub(super) fn of_executor(self) -> Self {
        Self { timeout_ms: None, ..self }
    }

    /// The builder of the executor.
    ///
    /// # Errors
    ///
    /// When the path of the program is not known.
    pub(super) fn builder(&self) -> Result<ExecutorBuilder> {
        let program = match self.program {
            Some(path) => PathBuf::from(path),
            None => own_program()?,
        };
        let confinement = match self.level {
            Level::Default => Confinement::new(),
            Level::Isolated => Confinement::isolated(),
            Level::Strict => Confinement::strict(),
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
        Ok(builder.processes(self.processes).restart(restart.back_off(first, most)))
    }
}

/// The path of the program that this process runs, also when the file has another name by now, or none.
fn own_program() -> Result<PathBuf> {
    const RUNNING: &str = "/proc/self/exe";
    let error = |error| Error::os("finding this program", error);
    let path = std::env::current_exe().map_err(error)?;
    let id = |path: &std::path::Path| {
        use std::os::unix::fs::MetadataExt;
        std::fs::metadata(path).map(|file| (file.dev(), file.ino()))
    };
    let running = PathBuf::from(RUNNING);
    // The child that starts it runs the same program until then.
    Ok(if id(&path).ok() == Some(id(&running).map_err(error)?) { path } else { running })
}
