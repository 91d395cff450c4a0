//! The one error type of the library: opaque, with predicates and a message that carries the numbers.
//!
//! Invariant: an `Error` never holds bytes of the peer that were not copied and bounded first.

mod death;

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

pub use death::Death;

/// What every fallible function of farcall returns.
pub type Result<T> = std::result::Result<T, Error>;

/// Why an operation failed.
///
/// The kind is private: ask with the `is_*` predicates, [`Error::symbols`] and [`Error::death`]. The
/// message names the operation, the numbers and, where it is known, what to do next.
///
/// # Examples
///
/// ```
/// use farcall::link::ObjectFile;
///
/// let error = ObjectFile::parse("a.o", b"text".to_vec()).expect_err("this is no object");
/// assert!(error.is_link());
/// assert!(error.to_string().starts_with("a.o: not an ELF file"));
/// ```
pub struct Error(Box<Repr>);

struct Repr {
    kind: Kind,
    message: String,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

/// The message of a caught panic, as "panicked: ...", to follow the name of the code that panicked.
pub(crate) fn panicked(panic: Box<dyn Any + Send>) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    let text = format!("panicked: {}", text.unwrap_or("no message"));
    drop_panic(panic);
    text
}

/// Drops the payload of a caught panic. Its type is unknown, so its destructor may panic too; that panic goes no further.
pub(crate) fn drop_panic(panic: Box<dyn Any + Send>) {
    if let Err(another) = catch_unwind(AssertUnwindSafe(|| drop(panic))) {
        // Leaked, since its destructor may panic again, without end.
        std::mem::forget(another);
    }
}

/// The kinds of errors, for the rooms that make them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Kind {
    /// An object cannot be linked: its bytes, a feature, a relocation, a duplicate.
    Link,
    /// All symbols that are not defined.
    SymbolsNotFound(Vec<String>),
    /// Symbols of a dylib, and what is wrong with them.
    Symbols(SymbolsError, Vec<String>),
    /// A resource tracker was removed or emptied into another one.
    TrackerDefunct,
    /// A dylib was removed, or its session is over.
    DylibDefunct,
    /// The peer sent something that the protocol does not allow.
    Violation,
    /// The session ended before the call completed.
    Disconnected,
    /// The peer's thread that served a call has ended; perhaps its process with it.
    ThreadGone,
    /// The executor process ended.
    Died(Death),
    /// The call did not return in time. It still runs.
    Timeout,
    /// A bounded resource is used up.
    Exhausted,
    /// The caller's arguments cannot be used.
    InvalidArgument,
    /// The other side ran the request and answered with an error.
    Remote,
    /// The operating system refused.
    Os,
    /// An error of the host's own.
    Other,
}

/// What is wrong with symbols of a dylib.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SymbolsError {
    /// Defined twice.
    Duplicate,
    /// The unit that should have supplied them failed.
    FailedToMaterialize,
    /// Promised, and not supplied.
    Missing,
    /// Supplied, and never promised.
    Unexpected,
    /// Being supplied at the moment, so they cannot be removed.
    CouldNotBeRemoved,
    /// Supplied, but a symbol that they depend on failed or was removed.
    Unsatisfied,
}

impl Error {
    /// An error of the caller's own, with its message: for hosts that implement traits of this library.
    /// [`Error::downcast_ref`] gives it back.
    ///
    /// Only the message crosses the border of a process or of the C ABI.
    #[must_use]
    pub fn other(source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        let source = source.into();
        let mut error = Self::new(Kind::Other, source.to_string());
        error.0.source = Some(source);
        error
    }

    pub(crate) fn new(kind: Kind, message: impl Into<String>) -> Self {
        Error(Box::new(Repr { kind, message: message.into(), source: None }))
    }

    pub(crate) fn kind(&self) -> &Kind {
        &self.0.kind
    }

    pub(crate) fn link(message: impl Into<String>) -> Self {
        Self::new(Kind::Link, message)
    }

    pub(crate) fn violation(message: impl Into<String>) -> Self {
        Self::new(Kind::Violation, message)
    }

    pub(crate) fn disconnected(message: impl Into<String>) -> Self {
        Self::new(Kind::Disconnected, message)
    }

    pub(crate) fn thread_gone(message: impl Into<String>) -> Self {
        Self::new(Kind::ThreadGone, message)
    }

    pub(crate) fn timeout(message: impl Into<String>) -> Self {
        Self::new(Kind::Timeout, message)
    }

    pub(crate) fn exhausted(message: impl Into<String>) -> Self {
        Self::new(Kind::Exhausted, message)
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(Kind::InvalidArgument, message)
    }

    pub(crate) fn remote(message: impl Into<String>) -> Self {
        Self::new(Kind::Remote, message)
    }

    pub(crate) fn symbols_not_found(mut symbols: Vec<String>) -> Self {
        symbols.sort();
        symbols.dedup();
        let message = format!("undefined symbols: {}", symbols.join(", "));
        Self::new(Kind::SymbolsNotFound(symbols), message)
    }

    /// `what` goes in front of the names.
    pub(crate) fn symbols_error(
        kind: SymbolsError,
        what: impl fmt::Display,
        mut symbols: Vec<String>,
    ) -> Self {
        symbols.sort();
        symbols.dedup();
        let message = format!("{what}: {}", symbols.join(", "));
        Self::new(Kind::Symbols(kind, symbols), message)
    }

    /// The symbols that failed for one `reason`, as pairs of a dylib's name and a symbol.
    pub(crate) fn failed_to_materialize<'a>(
        reason: &str,
        symbols: impl Iterator<Item = (&'a str, &'a str)>,
    ) -> Self {
        let mut by_dylib = BTreeMap::<&str, BTreeSet<&str>>::new();
        for (dylib, symbol) in symbols {
            by_dylib.entry(dylib).or_default().insert(symbol);
        }
        let names = |names: &BTreeSet<&str>| Vec::from_iter(names.iter().copied()).join(", ");
        let dylibs = by_dylib.iter().map(|(dylib, all)| format!("{} in {dylib}", names(all)));
        let what = dylibs.collect::<Vec<_>>().join("; ");
        let symbols: BTreeSet<&str> = by_dylib.into_values().flatten().collect();
        let symbols = symbols.into_iter().map(str::to_owned).collect();
        let message = format!("failed to materialize: {what} ({reason})");
        Self::new(Kind::Symbols(SymbolsError::FailedToMaterialize, symbols), message)
    }

    pub(crate) fn tracker_defunct() -> Self {
        Self::new(Kind::TrackerDefunct, "the resource tracker was removed meanwhile")
    }

    pub(crate) fn dylib_defunct(name: &str) -> Self {
        Self::new(Kind::DylibDefunct, format!("the dylib {name} was removed"))
    }

    pub(crate) fn died(death: Death) -> Self {
        let message = death.to_string();
        Self::new(Kind::Died(death), message)
    }

    pub(crate) fn os(what: impl Into<String>, cause: impl Into<std::io::Error>) -> Self {
        let cause = cause.into();
        let mut error = Self::new(Kind::Os, format!("{}: {cause}", what.into()));
        error.0.source = Some(Box::new(cause));
        error
    }

    /// The same error with `what`, the operation under way, in front of its message.
    pub(crate) fn during(mut self, what: impl fmt::Display) -> Self {
        self.0.message = format!("{what}: {}", self.0.message);
        self
    }

    /// The same error with another one's message behind its own.
    pub(crate) fn and(mut self, other: &Error) -> Self {
        self.0.message = format!("{}; {}", self.0.message, other.0.message);
        self
    }

    /// Both outcomes as one.
    pub(crate) fn join(first: Result<()>, second: Result<()>) -> Result<()> {
        match (first, second) {
            (Err(first), Err(second)) => Err(first.and(&second)),
            (first, second) => first.and(second),
        }
    }

    /// True when an object, an archive or their combination cannot be linked (undefined symbols included).
    #[must_use]
    pub fn is_link(&self) -> bool {
        matches!(self.0.kind, Kind::Link | Kind::SymbolsNotFound(_))
    }

    /// The symbols that the error is about, sorted and without repeats: the undefined ones, or those of one of the errors
    /// below. Empty for every other error.
    #[must_use]
    pub fn symbols(&self) -> &[String] {
        match &self.0.kind {
            Kind::SymbolsNotFound(symbols) | Kind::Symbols(_, symbols) => symbols,
            _ => &[],
        }
    }

    /// True when the [symbols](Self::symbols) are not defined.
    #[must_use]
    pub fn is_symbols_not_found(&self) -> bool {
        matches!(self.0.kind, Kind::SymbolsNotFound(_))
    }

    /// True when the [symbols](Self::symbols) are defined already.
    #[must_use]
    pub fn is_duplicate_definition(&self) -> bool {
        self.is_symbols(SymbolsError::Duplicate)
    }

    /// True when the unit that should have supplied the [symbols](Self::symbols) failed, or a symbol that they depend on.
    #[must_use]
    pub fn is_failed_to_materialize(&self) -> bool {
        self.is_symbols(SymbolsError::FailedToMaterialize)
    }

    /// True when a unit did not supply [symbols](Self::symbols) that it had promised.
    #[must_use]
    pub fn is_missing_symbol_definitions(&self) -> bool {
        self.is_symbols(SymbolsError::Missing)
    }

    /// True when a unit supplied [symbols](Self::symbols) that it had not promised.
    #[must_use]
    pub fn is_unexpected_symbol_definitions(&self) -> bool {
        self.is_symbols(SymbolsError::Unexpected)
    }

    /// True when the [symbols](Self::symbols) are being supplied and so cannot be removed from their dylib.
    #[must_use]
    pub fn is_symbols_could_not_be_removed(&self) -> bool {
        self.is_symbols(SymbolsError::CouldNotBeRemoved)
    }

    /// True when a unit supplied [symbols](Self::symbols) that depend on a symbol that failed or was removed.
    #[must_use]
    pub fn is_unsatisfied_symbol_dependencies(&self) -> bool {
        self.is_symbols(SymbolsError::Unsatisfied)
    }

    /// True when the resource tracker was removed, or emptied into another one.
    #[must_use]
    pub fn is_tracker_defunct(&self) -> bool {
        self.0.kind == Kind::TrackerDefunct
    }

    /// True when the dylib was removed, or its session is over.
    #[must_use]
    pub fn is_dylib_defunct(&self) -> bool {
        self.0.kind == Kind::DylibDefunct
    }

    fn is_symbols(&self, kind: SymbolsError) -> bool {
        matches!(&self.0.kind, Kind::Symbols(is, _) if *is == kind)
    }

    /// True when the peer broke the protocol; the session is over.
    #[must_use]
    pub fn is_violation(&self) -> bool {
        self.0.kind == Kind::Violation
    }

    /// True when the peer's thread that served the call has ended.
    pub(crate) fn is_thread_gone(&self) -> bool {
        self.0.kind == Kind::ThreadGone
    }

    /// True when no further call can complete: the session ended or the executor died.
    #[must_use]
    pub fn is_disconnected(&self) -> bool {
        matches!(
            self.0.kind,
            Kind::Disconnected | Kind::ThreadGone | Kind::Died(_) | Kind::Violation
        )
    }

    /// True when a call did not return before its deadline. It still runs; its result will be dropped.
    #[must_use]
    pub fn is_timeout(&self) -> bool {
        self.0.kind == Kind::Timeout
    }

    /// How the executor process ended, if the operation failed for that.
    #[must_use]
    pub fn death(&self) -> Option<&Death> {
        match &self.0.kind {
            Kind::Died(death) => Some(death),
            _ => None,
        }
    }

    /// True when a bounded resource (slab, lanes, payload size) is used up.
    #[must_use]
    pub fn is_exhausted(&self) -> bool {
        self.0.kind == Kind::Exhausted
    }

    /// True when the caller's own arguments were refused.
    #[must_use]
    pub fn is_invalid_argument(&self) -> bool {
        self.0.kind == Kind::InvalidArgument
    }

    /// True when the other side ran the request and answered with an error message.
    #[must_use]
    pub fn is_remote(&self) -> bool {
        self.0.kind == Kind::Remote
    }

    /// True when [`Error::other`] made this error.
    #[must_use]
    pub fn is_other(&self) -> bool {
        self.0.kind == Kind::Other
    }

    /// The error behind this one, if it is a `T`.
    #[must_use]
    pub fn downcast_ref<T: std::error::Error + 'static>(&self) -> Option<&T> {
        self.0.source.as_ref()?.downcast_ref()
    }

    /// The operating system's error code, when the operating system refused.
    #[must_use]
    pub fn raw_os_error(&self) -> Option<i32> {
        self.downcast_ref::<std::io::Error>()?.raw_os_error()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.0.kind, self.0.message)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_ref().map(|source| &**source as &(dyn std::error::Error + 'static))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An error type of a host.
    #[derive(Debug, PartialEq)]
    struct Busy(u32);

    impl fmt::Display for Busy {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "busy for {} ms", self.0)
        }
    }

    impl std::error::Error for Busy {}

    #[test]
    fn an_error_of_the_hosts_own_comes_back() {
        let error = Error::other(Busy(7)).during("attaching");
        assert_eq!(error.to_string(), "attaching: busy for 7 ms");
        assert!(error.is_other() && !error.is_remote());
        assert_eq!(error.downcast_ref::<Busy>(), Some(&Busy(7)));
        assert!(error.downcast_ref::<std::io::Error>().is_none());
    }

    /// Panics when it is dropped, with another `Bomb`.
    struct Bomb(u32);

    impl Drop for Bomb {
        fn drop(&mut self) {
            std::panic::panic_any(Bomb(self.0 + 1));
        }
    }

    #[test]
    fn what_a_panic_carries_is_dropped_without_another_panic() {
        let caught = catch_unwind(|| std::panic::panic_any(Bomb(0))).expect_err("a panic");
        assert_eq!(panicked(caught), "panicked: no message");
        let caught = catch_unwind(|| panic!("number {}", 7)).expect_err("a panic");
        assert_eq!(panicked(caught), "panicked: number 7");
        let caught = catch_unwind(|| panic!("only words")).expect_err("a panic");
        assert_eq!(panicked(caught), "panicked: only words");
    }

    #[test]
    fn string_error() {
        let error = Error::other("only words");
        assert_eq!(error.to_string(), "only words");
        assert!(error.is_other() && error.downcast_ref::<Busy>().is_none());
        assert!(std::error::Error::source(&error).is_some());
    }

    #[test]
    fn an_error_of_the_system_keeps_its_code() {
        let error = Error::os("reading", std::io::Error::from_raw_os_error(libc::ENOENT));
        assert_eq!(error.raw_os_error(), Some(libc::ENOENT));
        assert!(!error.is_other() && error.to_string().starts_with("reading: "), "{error}");
    }
}
