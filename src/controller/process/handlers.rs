//! The handlers that linked code can call in the controller.

use std::error::Error as StdError;

use crate::concurrent::hazard::HazardTable;

/// The number of a handler in calls from the executor, never 0. It means nothing to other sessions. Dropping it keeps the handler.
///
/// # Examples
///
/// ```standalone_crate
/// # farcall::executor::run_if_spawned();
/// # let controller = farcall::controller::ExecutorBuilder::new().this_program().start()?;
/// let tag = controller.register_handler(|args, result| {
///     result.extend(args.iter().rev());
///     Ok(())
/// });
/// // Linked code calls farcall_call_controller(tag, data, size) with this number.
/// assert_ne!(tag.get(), 0);
/// controller.remove_handler(tag);
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
/// use farcall::controller::HandlerResult;
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

/// The registered handlers of a session.
#[derive(Debug)]
pub(crate) struct Handlers(HazardTable<Box<Function>>);

impl Default for Handlers {
    fn default() -> Self {
        Self(HazardTable::new())
    }
}

impl Handlers {
    pub(crate) fn add(&self, function: Box<Function>) -> HandlerTag {
        HandlerTag(self.0.add(function))
    }

    pub(crate) fn remove(&self, tag: HandlerTag) {
        self.0.remove(tag.0);
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
        self.0.with(tag, |function| function(args, result).map_err(|error| error.to_string()))
    }
}
