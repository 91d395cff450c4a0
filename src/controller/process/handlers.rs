//! The handlers that linked code can call in the controller.

use std::collections::HashSet;
use std::error::Error as StdError;
use std::fmt;
use std::sync::{LazyLock, OnceLock};

use crate::call::direct::DIRECT_TAG;
use crate::concurrent::hazard::HazardTable;
use crate::error::{Error, Result};
use crate::sync::Mutex;

/// The number of a handler in calls from the executor, never 0. It means nothing to other sessions. Dropping it keeps the handler.
///
/// # Examples
///
/// ```standalone_crate
/// # farcall::executor::run_if_spawned();
/// # let process = farcall::controller::ExecutorBuilder::new().this_program().start()?.process()?;
/// let tag = process.register_handler(|args, result| {
///     result.extend(args.iter().rev());
///     Ok(())
/// });
/// // Linked code calls farcall_call_controller(tag, data, size) with this number.
/// assert_ne!(tag.get(), 0);
/// process.remove_handler(tag);
/// # Ok::<(), farcall::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct HandlerTag(u64);

impl HandlerTag {
    /// The number to pass to linked code, for `farcall_call_controller`.
    #[must_use]
    pub fn get(self) -> u64 {
        self.0
    }
}

/// What a handler of bytes returns: its result is appended, or there is a reason for having none. Any error will do; the executor
/// receives its text.
///
/// # Examples
///
/// ```
/// use farcall::controller::handler::HandlerResult;
///
/// fn parse(args: &[u8], result: &mut Vec<u8>) -> HandlerResult {
///     let number: u64 = std::str::from_utf8(args)?.parse()?;
///     result.extend_from_slice(&number.to_le_bytes());
///     Ok(())
/// }
/// # assert!(parse(b"x", &mut Vec::new()).is_err());
/// ```
pub type HandlerResult = std::result::Result<(), Box<dyn StdError + Send + Sync>>;

pub(crate) type Function = dyn Fn(&[u8], &mut Vec<u8>) -> HandlerResult + Send + Sync + 'static;

/// A handler of all tags without one of their own, which it receives.
pub(crate) type OtherFunction =
    dyn Fn(u64, &[u8], &mut Vec<u8>) -> HandlerResult + Send + Sync + 'static;

/// The registered handlers of a session.
pub(crate) struct Handlers {
    by_tag: HazardTable<Box<Function>>,
    other: OnceLock<Box<OtherFunction>>,
    /// The tags in [`DIRECT`], if the executor is in this process.
    direct: Option<Mutex<HashSet<u64>>>,
}

/// The handlers of all sessions within this process, by their tags without [`DIRECT_TAG`]. So code that was called by a pointer finds
/// its handler, whosever it is.
static DIRECT: LazyLock<HazardTable<Box<Function>>> = LazyLock::new(HazardTable::new);

impl Default for Handlers {
    fn default() -> Self {
        Self::with(HazardTable::new(), None)
    }
}

impl Handlers {
    fn with(by_tag: HazardTable<Box<Function>>, direct: Option<Mutex<HashSet<u64>>>) -> Self {
        Self { by_tag, other: OnceLock::new(), direct }
    }

    /// No handlers, none of whose tags will be one of `snapshot`'s.
    pub(super) fn beyond(snapshot: &Handlers) -> Self {
        Self::with(HazardTable::beyond(&snapshot.by_tag), None)
    }

    /// The handlers of a session within this process.
    pub(super) fn direct() -> Self {
        Self::with(HazardTable::new(), Some(Mutex::default()))
    }

    pub(crate) fn add(&self, function: Box<Function>) -> HandlerTag {
        let Some(direct) = &self.direct else { return HandlerTag(self.by_tag.add(function)) };
        let tag = DIRECT.add(function);
        direct.lock().insert(tag);
        HandlerTag(tag | DIRECT_TAG)
    }

    pub(crate) fn remove(&self, tag: HandlerTag) {
        let Some(direct) = &self.direct else { return self.by_tag.remove(tag.0) };
        let tag = tag.0 & !DIRECT_TAG;
        if direct.lock().remove(&tag) {
            DIRECT.remove(tag);
        }
    }

    /// As [`run`](Handlers::run), for the handlers of all sessions within this process.
    #[inline]
    pub(super) fn run_direct(
        tag: u64,
        args: &[u8],
        result: &mut Vec<u8>,
    ) -> Option<std::result::Result<(), String>> {
        let tag = (tag & DIRECT_TAG != 0).then_some(tag & !DIRECT_TAG)?;
        DIRECT.with(tag, |function| function(args, result).map_err(|error| error.to_string()))
    }

    /// Sets the handler of all tags without one of their own.
    ///
    /// # Errors
    ///
    /// When there is one.
    pub(crate) fn set_other(&self, function: Box<OtherFunction>) -> Result<()> {
        let refused = |_| Error::invalid("the session has a handler of other tags already");
        self.other.set(function).map_err(refused)
    }

    /// Runs the handler with this tag, to its end also when it is removed meanwhile. `None` when no handler has the tag. An error
    /// becomes its text here, where the caller catches a panic of it.
    #[inline(always)]
    pub(super) fn run(
        &self,
        tag: u64,
        args: &[u8],
        result: &mut Vec<u8>,
    ) -> Option<std::result::Result<(), String>> {
        self.by_tag.with(tag, |function| function(args, result).map_err(|error| error.to_string()))
    }

    /// The same for a session that is a copy of this one.
    ///
    /// It has a closure of its own. A second use of that in [`run`](Handlers::run) would keep the compiler from inlining it there, which
    /// costs each call back 25 ns.
    #[cold]
    pub(super) fn run_for_copy(
        &self,
        tag: u64,
        args: &[u8],
        result: &mut Vec<u8>,
    ) -> Option<std::result::Result<(), String>> {
        self.by_tag.with(tag, |function| function(args, result).map_err(|error| error.to_string()))
    }

    /// Runs the handler of other tags, as [`run`](Handlers::run) runs one.
    #[cold]
    pub(super) fn run_other(
        &self,
        tag: u64,
        args: &[u8],
        result: &mut Vec<u8>,
    ) -> Option<std::result::Result<(), String>> {
        let function = self.other.get()?;
        Some(function(tag, args, result).map_err(|error| error.to_string()))
    }
}

impl Drop for Handlers {
    fn drop(&mut self) {
        let direct = self.direct.take().map(|tags| std::mem::take(&mut *tags.lock()));
        direct.into_iter().flatten().for_each(|tag| DIRECT.remove(tag));
    }
}

impl fmt::Debug for Handlers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { by_tag, other, .. } = self;
        f.debug_struct("Handlers")
            .field("by_tag", by_tag)
            .field("other", &other.get().is_some())
            .finish()
    }
}
