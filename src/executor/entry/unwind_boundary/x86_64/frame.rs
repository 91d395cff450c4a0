//! The frame where the unwinding of an interrupted call ends.

use super::wrapper_boundary;
use crate::executor::entry::unwind_boundary::{State, depth, innermost, unwind};

/// The frame that has entered linked code, as the unwinder finds it at the end of the stack.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BoundaryFrame {
    /// Where the frame goes on when linked code returns.
    pub(crate) address: u64,
    /// Its stack pointer then.
    pub(crate) stack: u64,
}

/// Why no unwinding to a frame may begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoBoundary {
    /// The frame has entered linked code by a way that cannot be unwound.
    OtherEntry,
    /// The call is being unwound already.
    IsUnwinding,
}

impl BoundaryFrame {
    /// Whether the call can be unwound to this frame.
    ///
    /// # Errors
    ///
    /// Why not.
    pub(crate) fn check(self) -> Result<(), NoBoundary> {
        let is_unwinding = if self.is_of_wrapper() {
            wrapper_boundary::is_unwinding(self.stack)
        } else {
            let boundary = innermost().filter(|boundary| boundary.depth == depth());
            boundary.ok_or(NoBoundary::OtherEntry)?.state == State::IsUnwinding
        };
        if is_unwinding { Err(NoBoundary::IsUnwinding) } else { Ok(()) }
    }

    /// Unwinds the call to this frame, which [`BoundaryFrame::check`] has accepted.
    pub(crate) fn unwind(self, why: String) -> ! {
        if self.is_of_wrapper() {
            wrapper_boundary::unwind(self.stack, why);
        }
        unwind(why)
    }

    /// True if the frame has entered a wrapper function. Any other frame belongs to the boundary that was noted last.
    fn is_of_wrapper(self) -> bool {
        wrapper_boundary::is_at(self.address)
    }
}
