//! The obstacles to interrupting a call: which there are, and how the controller is told.

use super::frames::Obstacle;
use crate::executor::entry::unwind_boundary::native::frame::NoBoundary;
use crate::executor::entry::unwind_boundary::served_calls::ServedCalls;

/// True if the thread runs a call that is to end.
pub(super) fn is_wanted(served: &ServedCalls) -> bool {
    served.calls().wanted().is_some_and(|wanted| served.runs_within(wanted))
}

const OWN: u64 = 1;
const UNWINDER: u64 = 2;
const NO_UNWIND_INFORMATION: u64 = 3;
const TOO_DEEP: u64 = 4;
const ENTERED_OTHERWISE: u64 = 5;
pub(super) const IN_LIBRARY: u64 = 6;
const UNWINDS: u64 = 7;
/// With the bytes in place of an address.
pub(super) const SMALL_STACK: u64 = 8;
const CATCHES: u64 = 9;

/// Notes what is in the way, for the controller.
pub(super) fn note(served: &ServedCalls, obstacle: Obstacle) {
    let (code, address) = match obstacle {
        Obstacle::Own(address) => (OWN, address),
        Obstacle::Unwinder(address) => (UNWINDER, address),
        // It was noted before.
        Obstacle::Returns(_) | Obstacle::Cleanups => return,
        Obstacle::Boundary(NoBoundary::IsUnwinding, address) => (UNWINDS, address),
        Obstacle::Boundary(NoBoundary::OtherEntry, address) => (ENTERED_OTHERWISE, address),
        Obstacle::NoUnwindInformation(address) => (NO_UNWIND_INFORMATION, address),
        Obstacle::TooDeep(address) => (TOO_DEEP, address),
        Obstacle::Catches(address) => (CATCHES, address),
    };
    served.note_obstacle(code, address);
}

/// The obstacle that was noted last, in words.
pub(super) fn told(served: &ServedCalls) -> String {
    let (code, address) = served.obstacle();
    let at = format!("0x{address:x}");
    match code {
        OWN => format!("its thread is in farcall or in the executor's program, at {at}"),
        UNWINDER => format!("its thread throws or catches an exception, at {at}"),
        NO_UNWIND_INFORMATION => format!("the code at {at} has no unwind information"),
        CATCHES => {
            format!(
                "the function {at} catches every exception, as Rust's catch_unwind, and may catch no interruption"
            )
        }
        TOO_DEEP => format!("too many functions are nested, at {at}"),
        ENTERED_OTHERWISE => {
            "its function was called by a way that cannot be interrupted".to_owned()
        }
        UNWINDS => "it is being unwound, and its cleanups do not end".to_owned(),
        SMALL_STACK => {
            format!("the stack for signal handlers, which it has set, has {address} bytes left")
        }
        IN_LIBRARY => format!("the library at {at} does not return"),
        _ => "its thread blocks SIGURG, or handles it itself".to_owned(),
    }
}
