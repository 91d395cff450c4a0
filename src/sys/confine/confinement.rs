//! The caller's request.

use std::fmt;

/// How much an executor may do.
///
/// # Examples
///
/// ```
/// use farcall::controller::Confinement;
/// use farcall::controller::confinement::ConfinementLevel;
///
/// assert_eq!(Confinement::new().level(), ConfinementLevel::Default);
/// assert!(Confinement::strict().level() > Confinement::isolated().level());
/// assert_eq!(ConfinementLevel::Strict.to_string(), "strict");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
#[non_exhaustive]
pub enum ConfinementLevel {
    /// All that the user may do. Only descriptors of the controller are closed.
    #[default]
    Default,
    /// No file is written. No sockets are made but UDP's and Unix sockets. No other process is signaled, traced, written,
    /// limited or slowed by a system call. Privileges and capabilities are gone. Processes that the executor has started end with it.
    Isolated,
    /// As [`ConfinementLevel::Isolated`], and only the system calls that a session needs. Files are read in the system's folders
    /// for libraries only. No process is started.
    Strict,
}

/// The limits of an executor's deeds and resources: a level, and numbers.
///
/// The executor confines itself before it runs a byte of linked code, and nothing loosens it again. Calls cost the same at every
/// level. [`Process::confinement`](crate::controller::Process::confinement) tells what the kernel enforces. The page
/// [trust](crate::_docs::trust) has a table of attacks and what becomes of them.
///
/// A limit holds at every level. Code evades the limit on memory at every level but [`ConfinementLevel::Strict`], which refuses
/// the kinds of memory that do not count.
///
/// # Examples
///
/// ```standalone_crate
/// # farcall::executor::run_if_spawned();
/// use farcall::controller::{Confinement, ExecutorBuilder};
///
/// let confinement = Confinement::strict().memory_bytes_max(256 << 20).cpu_seconds_max(2).allow_missing();
/// let process = ExecutorBuilder::new().this_program().confine(confinement).start()?.process()?;
/// println!("{}", process.confinement());
/// # Ok::<(), farcall::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Confinement {
    pub(crate) level: ConfinementLevel,
    pub(crate) memory_bytes_max: Option<u64>,
    pub(crate) cpu_seconds_max: Option<u64>,
    pub(crate) descriptors_max: Option<u64>,
    pub(crate) file_bytes_max: Option<u64>,
    pub(crate) is_background: bool,
    pub(crate) allows_missing: bool,
}

impl Confinement {
    /// The user's own rights, which limits may narrow.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// [`ConfinementLevel::Isolated`], without limits.
    #[must_use]
    pub fn isolated() -> Self {
        Self { level: ConfinementLevel::Isolated, ..Self::default() }
    }

    /// [`ConfinementLevel::Strict`], without limits.
    #[must_use]
    pub fn strict() -> Self {
        Self { level: ConfinementLevel::Strict, ..Self::default() }
    }

    /// Sets how many bytes of private memory the executor may have. Heaps count, and 8 MiB for the stack of each calling thread.
    /// Beyond that, `malloc` and `mmap` fail. Memory for linked code and regions is the controller's, and does not count.
    ///
    /// At [`ConfinementLevel::Strict`], code with this limit makes no memory files (`memfd_create`), whose bytes would not count. Then
    /// backtraces lack names of linked functions, and code cannot use thread-locals of shared libraries.
    #[must_use]
    pub fn memory_bytes_max(mut self, bytes: u64) -> Self {
        self.memory_bytes_max = Some(bytes);
        self
    }

    /// Sets how many seconds of CPU time all threads of the executor may use together. Then SIGXCPU ends it; a program that handles
    /// that signal ends by SIGKILL a second later. Threads that poll for calls use CPU time as well.
    #[must_use]
    pub fn cpu_seconds_max(mut self, seconds: u64) -> Self {
        self.cpu_seconds_max = Some(seconds);
        self
    }

    /// Sets how many descriptors the executor may have. Beyond that, opening fails. A session needs about 10, and one for each lane
    /// while it is opened.
    #[must_use]
    pub fn descriptors_max(mut self, count: u64) -> Self {
        self.descriptors_max = Some(count);
        self
    }

    /// Sets how large a file may become by the executor's writes, standard output included if that is a file. SIGXFSZ ends an
    /// executor that writes more.
    #[must_use]
    pub fn file_bytes_max(mut self, bytes: u64) -> Self {
        self.file_bytes_max = Some(bytes);
        self
    }

    /// Runs the executor on CPUs that nothing else wants (`SCHED_IDLE`). Other executors and programs go on as if it were not
    /// there. On a busy machine its start and its calls take long. Linked code without privileges cannot undo that.
    #[must_use]
    pub fn background(mut self) -> Self {
        self.is_background = true;
        self
    }

    /// Leaves out the restrictions that this kernel lacks. Otherwise the start fails and names them.
    #[must_use]
    pub fn allow_missing(mut self) -> Self {
        self.allows_missing = true;
        self
    }

    /// The level.
    #[must_use]
    pub fn level(&self) -> ConfinementLevel {
        self.level
    }

    /// The limit that ends a process by this signal.
    pub(crate) fn of_signal(&self, signal: i32) -> Option<String> {
        match signal {
            libc::SIGXCPU => Some(format!("CPU limit of {} s", self.cpu_seconds_max?)),
            libc::SIGXFSZ => Some(format!("file limit of {} bytes", self.file_bytes_max?)),
            _ => None,
        }
    }

    /// The limit on memory.
    pub(crate) fn of_memory(&self) -> Option<String> {
        Some(format!("memory limit of {} bytes", self.memory_bytes_max?))
    }

    fn numbers(&mut self) -> [(&'static str, &mut Option<u64>); 4] {
        [
            ("memory", &mut self.memory_bytes_max),
            ("cpu", &mut self.cpu_seconds_max),
            ("descriptors", &mut self.descriptors_max),
            ("file", &mut self.file_bytes_max),
        ]
    }

    /// The form in which an executor gets it.
    pub(crate) fn to_word(mut self) -> String {
        let mut word = self.level.to_string();
        for (name, number) in self.numbers() {
            if let Some(number) = number {
                word.push_str(&format!(";{name}={number}"));
            }
        }
        if self.is_background {
            word.push_str(";background");
        }
        if self.allows_missing {
            word.push_str(";lenient");
        }
        word
    }

    /// Reads that form; `None` when it is another.
    pub(crate) fn from_word(word: &str) -> Option<Self> {
        let mut parts = word.split(';');
        let level = parts.next()?;
        let levels =
            [ConfinementLevel::Default, ConfinementLevel::Isolated, ConfinementLevel::Strict];
        let level = levels.into_iter().find(|one| one.to_string() == level)?;
        let mut confinement = Self { level, ..Self::default() };
        for part in parts {
            match part.split_once('=') {
                None if part == "background" => confinement.is_background = true,
                None if part == "lenient" => confinement.allows_missing = true,
                None => return None,
                Some((name, number)) => {
                    let number = number.parse().ok()?;
                    let mut numbers = confinement.numbers().into_iter();
                    *numbers.find(|(one, _)| *one == name)?.1 = Some(number);
                }
            }
        }
        Some(confinement)
    }
}

impl fmt::Display for ConfinementLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Default => "default",
            Self::Isolated => "isolated",
            Self::Strict => "strict",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_confinement_arrives_as_it_was_sent() {
        let limited = Confinement::strict()
            .memory_bytes_max(1 << 40)
            .cpu_seconds_max(2)
            .descriptors_max(64)
            .file_bytes_max(0);
        for sent in [
            Confinement::new(),
            Confinement::isolated().allow_missing(),
            limited,
            limited.allow_missing(),
            Confinement::new().background(),
            limited.background().allow_missing(),
        ] {
            assert_eq!(Confinement::from_word(&sent.to_word()), Some(sent), "{}", sent.to_word());
        }
        for wrong in ["", "loose", "strict;memory", "strict;memory=x", "strict;lanes=1"] {
            assert_eq!(Confinement::from_word(wrong), None, "{wrong}");
        }
    }
}
