//! The rules that the kernel enforces.

use std::fmt;

use super::confinement::ConfinementLevel;

/// One thing that a confined executor cannot do.
///
/// # Examples
///
/// ```
/// use farcall::controller::confinement::{Enforced, Restriction};
///
/// assert_eq!(Restriction::FileWrites.to_string(), "file writes");
/// assert!(!Enforced::default().enforces(Restriction::FileWrites)); // an executor without confinement
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Restriction {
    /// Gain rights by running a program: no new privileges, and no capability.
    Privileges,
    /// Leave a core file.
    CoreFiles,
    /// Write, create, rename or remove files.
    FileWrites,
    /// Make sockets of TCP, or of any kind but UDP and Unix sockets.
    Tcp,
    /// Trace processes outside, or read and write their memory.
    Tracing,
    /// Send signals to processes outside.
    Signals,
    /// Connect to abstract Unix sockets of processes outside.
    AbstractSockets,
    /// Type into the terminal (`TIOCSTI`).
    TerminalInput,
    /// Leave processes that live on.
    Descendants,
    /// Read files outside of the system's folders for libraries.
    FileReads,
    /// Make system calls that no session needs, sockets and new processes included.
    SystemCalls,
}

impl Restriction {
    /// All of them, in the order of their numbers.
    pub(crate) const ALL: [Self; 11] = [
        Self::Privileges,
        Self::CoreFiles,
        Self::FileWrites,
        Self::Tcp,
        Self::Tracing,
        Self::Signals,
        Self::AbstractSockets,
        Self::TerminalInput,
        Self::Descendants,
        Self::FileReads,
        Self::SystemCalls,
    ];

    /// Those that a level consists of.
    pub(crate) fn of(level: ConfinementLevel) -> &'static [Self] {
        match level {
            ConfinementLevel::Default => &[],
            ConfinementLevel::Isolated => &Self::ALL[..9],
            ConfinementLevel::Strict => &Self::ALL,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Privileges => "privileges",
            Self::CoreFiles => "core files",
            Self::FileWrites => "file writes",
            Self::Tcp => "TCP",
            Self::Tracing => "tracing",
            Self::Signals => "signals",
            Self::AbstractSockets => "abstract sockets",
            Self::TerminalInput => "terminal input",
            Self::Descendants => "descendants",
            Self::FileReads => "file reads",
            Self::SystemCalls => "system calls",
        }
    }
}

impl fmt::Display for Restriction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The rules that the kernel enforces on an executor, as the executor reported it before it ran linked code.
///
/// # Examples
///
/// ```standalone_crate
/// # farcall::executor::run_if_spawned();
/// use farcall::controller::{Confinement, ExecutorBuilder};
/// use farcall::controller::confinement::{ConfinementLevel, Restriction};
///
/// let isolated = Confinement::isolated().allow_missing();
/// let process = ExecutorBuilder::new().this_program().confine(isolated).start()?.process()?;
/// let enforced = process.confinement();
/// assert!(enforced.level() == ConfinementLevel::Isolated && enforced.enforces(Restriction::Privileges));
/// for missing in enforced.missing() {
///     println!("this kernel cannot prevent {missing}; its Landlock ABI is {}", enforced.landlock_abi());
/// }
/// # Ok::<(), farcall::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Enforced {
    level: ConfinementLevel,
    landlock_abi: u32,
    /// A bit for each of [`Restriction::ALL`].
    set: u32,
}

impl Enforced {
    pub(crate) fn new(level: ConfinementLevel, landlock_abi: u32) -> Self {
        Self { level, landlock_abi, set: 0 }
    }

    /// The level that was requested.
    #[must_use]
    pub fn level(&self) -> ConfinementLevel {
        self.level
    }

    /// The version of Landlock that is used; 0 when the kernel has none, or the level needs none.
    #[must_use]
    pub fn landlock_abi(&self) -> u32 {
        self.landlock_abi
    }

    /// True when the kernel enforces this restriction.
    #[must_use]
    pub fn enforces(&self, restriction: Restriction) -> bool {
        self.set >> restriction as u32 & 1 != 0
    }

    /// The restrictions of the level that the kernel lacks.
    pub fn missing(&self) -> impl Iterator<Item = Restriction> + use<> {
        let enforced = *self;
        Restriction::of(self.level).iter().copied().filter(move |one| !enforced.enforces(*one))
    }

    /// The same for a forked copy, whose own processes end with the process that it is a copy of.
    pub(crate) fn of_copy(mut self) -> Self {
        self.set &= !(1 << Restriction::Descendants as u32);
        self
    }

    pub(crate) fn add(&mut self, restriction: Restriction) {
        self.set |= 1 << restriction as u32;
    }

    /// The form in which an executor reports it. The controller knows the level.
    pub(crate) fn to_number(self) -> i64 {
        i64::from(self.landlock_abi) << 32 | i64::from(self.set)
    }

    /// Reads that form.
    pub(crate) fn from_number(level: ConfinementLevel, number: i64) -> Self {
        let half = |shift: u32| u32::try_from(number >> shift & i64::from(u32::MAX)).unwrap_or(0);
        Self { level, landlock_abi: half(32), set: half(0) }
    }
}

impl fmt::Display for Enforced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.level)?;
        let mut list = |before: &str, all: &mut dyn Iterator<Item = Restriction>| {
            for (at, one) in all.enumerate() {
                write!(f, "{}{one}", if at == 0 { before } else { ", " })?;
            }
            Ok(())
        };
        let all = Restriction::ALL.into_iter();
        list(": no ", &mut all.filter(|one| self.enforces(*one)))?;
        list("; this kernel does not restrict: ", &mut self.missing())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn enforced_and_missing_rules_are_told_apart() {
        let mut enforced = Enforced::new(ConfinementLevel::Isolated, 3);
        for one in &Restriction::of(ConfinementLevel::Isolated)[..5] {
            enforced.add(*one);
        }
        enforced.add(Restriction::TerminalInput);
        let missing: Vec<_> = enforced.missing().collect();
        let expected =
            [Restriction::Signals, Restriction::AbstractSockets, Restriction::Descendants];
        assert_eq!(missing, expected);
        assert_eq!(
            enforced.to_string(),
            "isolated: no privileges, core files, file writes, TCP, tracing, terminal input; this kernel does not restrict: \
             signals, abstract sockets, descendants"
        );
        let sent = Enforced::from_number(ConfinementLevel::Isolated, enforced.to_number());
        assert_eq!(sent, enforced);
        assert_eq!(Enforced::default().to_string(), "default");
        for (number, one) in Restriction::ALL.into_iter().enumerate() {
            assert_eq!(one as usize, number, "{one}");
        }
    }
}
