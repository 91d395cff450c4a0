//! The one error type of the library: opaque, with a kind and a message that carries the numbers.
//!
//! Invariant: an `Error` never holds bytes of the peer that were not copied and bounded first.

mod death;
mod interruption;

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

pub use death::{Death, Fact};
pub use interruption::Interruption;

/// The result of every fallible function of farcall.
pub type Result<T> = std::result::Result<T, Error>;

/// Why an operation failed.
///
/// Its [kind](Error::kind) is for programs. The message is for people: it names the operation, the numbers and, where it is
/// known, what to do next.
///
/// # Examples
///
/// ```
/// # use farcall_base as farcall;
/// use farcall::ErrorKind;
/// use farcall::types::Signature;
///
/// let error = "union u f(void)".parse::<Signature>().expect_err("unions are not passed by value");
/// assert_eq!(error.kind(), ErrorKind::InvalidArgument);
/// assert!(error.to_string().contains("pass an address"), "{error}");
/// ```
#[derive(Clone)]
pub struct Error(Box<Repr>);

#[derive(Clone)]
struct Repr {
    kind: ErrorKind,
    message: String,
    symbols: Vec<String>,
    death: Option<Death>,
    interruption: Option<Interruption>,
    source: Option<Arc<dyn std::error::Error + Send + Sync>>,
}

/// The failure of a call that was cancelled before it began.
#[doc(hidden)]
pub const NOT_BEGUN: &str = "the call was cancelled before it began";

/// The message of a caught panic, as "panicked: ...", to follow the name of the code that panicked.
#[doc(hidden)]
pub fn panicked(panic: Box<dyn Any + Send>) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    let text = format!("panicked: {}", text.unwrap_or("no message"));
    drop_panic(panic);
    text
}

/// Drops the payload of a caught panic. Its type is unknown, so its destructor may panic too; that panic goes no further.
#[doc(hidden)]
pub fn drop_panic(panic: Box<dyn Any + Send>) {
    if let Err(another) = catch_unwind(AssertUnwindSafe(|| drop(panic))) {
        // Leaked, since its destructor may panic again, without end.
        std::mem::forget(another);
    }
}

/// The kind of error. More kinds may come.
///
/// # Examples
///
/// ```
/// # use farcall_base as farcall;
/// use farcall::{Error, ErrorKind};
///
/// fn is_worth_a_retry(error: &Error) -> bool {
///     matches!(error.kind(), ErrorKind::Timeout | ErrorKind::Exhausted)
/// }
/// # assert!(!is_worth_a_retry(&Error::other("only words")));
/// ```
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// An object or an archive cannot be linked: its bytes, a feature, a relocation, a duplicate. The message says what to change.
    Link,
    /// The [symbols](Error::symbols) are not defined. Add what defines them.
    SymbolsNotFound,
    /// The [symbols](Error::symbols) are defined already.
    DuplicateDefinition,
    /// The unit that should have supplied the [symbols](Error::symbols) failed, or a symbol that they depend on.
    FailedToMaterialize,
    /// A unit did not supply [symbols](Error::symbols) that it had promised.
    MissingSymbolDefinitions,
    /// A unit supplied [symbols](Error::symbols) that it had not promised.
    UnexpectedSymbolDefinitions,
    /// The [symbols](Error::symbols) are being supplied and so cannot be removed from their dylib. Wait until they are ready.
    SymbolsCouldNotBeRemoved,
    /// A unit supplied [symbols](Error::symbols) that depend on a symbol that failed or was removed.
    UnsatisfiedSymbolDependencies,
    /// The resource tracker was removed, or emptied into another one.
    TrackerDefunct,
    /// The dylib was removed, or its session is over.
    DylibDefunct,
    /// The peer broke the protocol; the session is over.
    Violation,
    /// The session ended before the call completed.
    Disconnected,
    /// The peer's thread that served the call has ended; perhaps its process with it.
    ThreadGone,
    /// The executor process ended; [`Error::death`] says how.
    Died,
    /// A call did not return before its deadline. It still runs; its result will be dropped.
    Timeout,
    /// The call was ended, and its process runs on; [`Error::interruption`] says where it was. There is none of a call that was cancelled
    /// before it began.
    Interrupted,
    /// A bounded resource (slab, lanes, payload size) is used up. The message names the limit.
    Exhausted,
    /// The caller's own arguments were refused.
    InvalidArgument,
    /// An argument has another type than the function's parameter, or the caller's prototype is not the function's. The message shows
    /// what was expected and what was given.
    TypeMismatch,
    /// The other side ran the request and answered with an error message.
    Remote,
    /// The operating system refused; [`Error::raw_os_error`] has its code.
    Os,
    /// [`Error::other`] made this error.
    Other,
}

/// Constructors from a message, one for each kind that needs no more.
macro_rules! constructors {
    ($($name:ident: $kind:ident,)*) => {$(
        #[doc(hidden)]
        pub fn $name(message: impl Into<String>) -> Self {
            Self::new(ErrorKind::$kind, message)
        }
    )*};
}

impl Error {
    /// An error of the caller's own, with its message: for hosts that implement traits of this library.
    /// [`Error::downcast_ref`] gives it back.
    ///
    /// Only the message crosses the border of a process or of the C ABI.
    #[must_use]
    pub fn other(source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        let source: Box<dyn std::error::Error + Send + Sync> = source.into();
        let mut error = Self::new(ErrorKind::Other, source.to_string());
        error.0.source = Some(Arc::from(source));
        error
    }

    /// An error of this kind: for layers over this library, such as its C ABI.
    ///
    /// # Examples
    ///
    /// ```
    /// # use farcall_base as farcall;
    /// use farcall::{Error, ErrorKind};
    ///
    /// let error = Error::new(ErrorKind::InvalidArgument, "a name is missing");
    /// assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    /// ```
    #[must_use]
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        let message = message.into();
        let (symbols, death, interruption, source) = (Vec::new(), None, None, None);
        Error(Box::new(Repr { kind, message, symbols, death, interruption, source }))
    }

    constructors! {
        link: Link,
        violation: Violation,
        disconnected: Disconnected,
        thread_gone: ThreadGone,
        timeout: Timeout,
        exhausted: Exhausted,
        invalid: InvalidArgument,
        remote: Remote,
    }

    /// The kind of error.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    #[doc(hidden)]
    pub fn symbols_not_found(symbols: Vec<String>) -> Self {
        Self::symbols_error(ErrorKind::SymbolsNotFound, "undefined symbols", symbols)
    }

    /// `what` goes in front of the names.
    #[doc(hidden)]
    pub fn symbols_error(
        kind: ErrorKind,
        what: impl fmt::Display,
        mut symbols: Vec<String>,
    ) -> Self {
        symbols.sort();
        symbols.dedup();
        let mut error = Self::new(kind, format!("{what}: {}", symbols.join(", ")));
        error.0.symbols = symbols;
        error
    }

    /// The symbols that failed for one `reason`, as pairs of a dylib's name and a symbol.
    #[doc(hidden)]
    pub fn failed_to_materialize<'a>(
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
        let message = format!("failed to materialize: {what} ({reason})");
        let mut error = Self::new(ErrorKind::FailedToMaterialize, message);
        error.0.symbols = symbols.into_iter().map(str::to_owned).collect();
        error
    }

    #[doc(hidden)]
    pub fn tracker_defunct() -> Self {
        Self::new(ErrorKind::TrackerDefunct, "the resource tracker was removed meanwhile")
    }

    #[doc(hidden)]
    pub fn dylib_defunct(name: &str) -> Self {
        Self::new(ErrorKind::DylibDefunct, format!("the dylib {name} was removed"))
    }

    #[doc(hidden)]
    pub fn died(death: Death) -> Self {
        let mut error = Self::new(ErrorKind::Died, death.to_string());
        error.0.death = Some(death);
        error
    }

    #[doc(hidden)]
    pub fn interrupted(interruption: Interruption) -> Self {
        let mut error = Self::new(ErrorKind::Interrupted, interruption.to_string());
        error.0.interruption = Some(interruption);
        error
    }

    /// The failure that the other side answered with this text.
    #[doc(hidden)]
    pub fn answered(text: String) -> Self {
        match text.parse() {
            Ok(interruption) => Self::interrupted(interruption),
            Err(_) if text == NOT_BEGUN => Self::new(ErrorKind::Interrupted, text),
            Err(_) => Self::remote(text),
        }
    }

    #[doc(hidden)]
    pub fn os(what: impl Into<String>, cause: impl Into<std::io::Error>) -> Self {
        let cause = cause.into();
        let mut error = Self::new(ErrorKind::Os, format!("{}: {cause}", what.into()));
        error.0.source = Some(Arc::new(cause));
        error
    }

    /// The same error with `what`, the operation under way, in front of its message.
    #[doc(hidden)]
    pub fn during(mut self, what: impl fmt::Display) -> Self {
        self.0.message = format!("{what}: {}", self.0.message);
        self
    }

    /// The same error with another one's message behind its own.
    #[doc(hidden)]
    pub fn and(mut self, other: &Error) -> Self {
        self.0.message = format!("{}; {}", self.0.message, other.0.message);
        self
    }

    /// The same error, with another one's message behind its own, and with the death that the other one reports.
    #[doc(hidden)]
    pub fn with_death_of(mut self, other: &Error) -> Self {
        self.0.death = other.0.death.clone();
        self.and(other)
    }

    /// Both outcomes as one.
    #[doc(hidden)]
    pub fn join(first: Result<()>, second: Result<()>) -> Result<()> {
        match (first, second) {
            (Err(first), Err(second)) => Err(first.and(&second)),
            (first, second) => first.and(second),
        }
    }

    /// True when an object, an archive or their combination cannot be linked (undefined symbols included).
    #[must_use]
    pub fn is_link(&self) -> bool {
        matches!(self.0.kind, ErrorKind::Link | ErrorKind::SymbolsNotFound)
    }

    /// True when no further call can complete: the session ended or the executor died.
    #[must_use]
    pub fn is_disconnected(&self) -> bool {
        use ErrorKind::{Died, Disconnected, ThreadGone, Violation};
        matches!(self.0.kind, Disconnected | ThreadGone | Died | Violation)
    }

    /// The symbols that the error is about, sorted and without repeats. Only kinds that mention symbols have any.
    #[must_use]
    pub fn symbols(&self) -> &[String] {
        &self.0.symbols
    }

    /// How the executor process ended, if the operation failed for that.
    #[must_use]
    pub fn death(&self) -> Option<&Death> {
        self.0.death.as_ref()
    }

    /// Where the call was, if it was interrupted.
    #[must_use]
    pub fn interruption(&self) -> Option<&Interruption> {
        self.0.interruption.as_ref()
    }

    /// The known facts about the [death](Error::death) or the [interruption](Error::interruption), by name.
    pub fn facts(&self) -> impl Iterator<Item = (&'static str, Fact<'_>)> {
        let death = self.death().into_iter().flat_map(Death::facts);
        death.chain(self.interruption().into_iter().flat_map(Interruption::facts))
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
        assert!(error.kind() == ErrorKind::Other);
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
    fn the_payload_of_a_panic_is_dropped_without_another_panic() {
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
        assert!(error.kind() == ErrorKind::Other && error.downcast_ref::<Busy>().is_none());
        assert!(std::error::Error::source(&error).is_some());
    }

    #[test]
    fn an_error_of_the_system_keeps_its_code() {
        const ENOENT: i32 = 2;
        let error = Error::os("reading", std::io::Error::from_raw_os_error(ENOENT));
        assert_eq!(error.raw_os_error(), Some(ENOENT));
        assert!(
            error.kind() == ErrorKind::Os && error.to_string().starts_with("reading: "),
            "{error}"
        );
    }
}
