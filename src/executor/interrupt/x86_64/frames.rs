//! The frames of an interrupted thread, from the innermost to its unwind boundary, and how the thread can leave them.
//!
//! The process's unwinder walks them. The search runs in a signal handler too: then it begins only where the thread holds no lock of
//! the unwinder ([`Place::Unwinder`]).
#![allow(unsafe_code, reason = "calls the unwinder")]

use std::ffi::{c_int, c_void};

use super::unwind_tables::call_sites::{self, CallSite};
use super::unwind_tables::personalities;
use crate::executor::entry::enter;
use crate::executor::entry::unwind_boundary;
use crate::executor::entry::unwind_boundary::cxx_exceptions::Exceptions;
use crate::executor::entry::unwind_boundary::native::call_frame::AtCall;
use crate::executor::entry::unwind_boundary::native::frame::{BoundaryFrame, NoBoundary};
use crate::executor::interrupt::places::{self, Place};

/// The looks at a thread before it leaves a function without its cleanups at any instruction.
const LOOKS_AT_INSTRUCTION: u64 = 8;
/// The same at the call of a library that throws nothing. There the function may be in the midst of a change, as when it frees memory. Most
/// functions come to a call that may throw before long.
const LOOKS_AT_CALL: u64 = 40;
/// The most frames of libraries between linked code and the thread's place.
const LIBRARY_FRAMES_MAX: usize = 256;
/// The most frames up to the boundary.
const FRAMES_MAX: usize = 1 << 18;

/// How an interrupted thread can leave linked code.
#[derive(Debug, Clone, Copy)]
pub(super) enum Way {
    /// Unwinding to the boundary may begin in the innermost frame, which stands at a call.
    Unwind { boundary: BoundaryFrame },
    /// As if this frame had called. `skipped` functions with cleanups are left without them. Linked code stands at the address. Unwinding
    /// to the boundary may begin in the frame, unless a second look is needed: then there is none.
    From { frame: AtCall, skipped: u64, address: u64, boundary: Option<BoundaryFrame> },
    /// When the library returns to linked code: the frame that it returns to, and the address there.
    Return { frame: AtCall, address: u64 },
}

/// Why a thread cannot leave linked code where it stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Obstacle {
    /// It runs code of this library or of its program at this address.
    Own(u64),
    /// It is in the unwinder.
    Unwinder(u64),
    /// The library that it is in returns to [`leave`](super::leave) already.
    Returns(u64),
    /// The frame with this address has no unwind information.
    NoUnwindInformation(u64),
    /// Too many frames.
    TooDeep(u64),
    /// Functions with cleanups would be left without them. After more looks that is no obstacle.
    Cleanups,
    /// The frame with this address has entered linked code, and no unwinding to it may begin.
    Boundary(NoBoundary, u64),
    /// The function with this address catches every exception, and ends the process if it catches an interruption.
    Catches(u64),
}

/// Where a walk begins.
#[derive(Debug, Clone, Copy)]
pub(super) enum Start {
    /// At the frame that a signal has interrupted at this address.
    Interrupted(u64),
    /// At the frame that has this stack pointer when its callee has returned.
    AtCall(u64),
}

/// Finds how the calling thread can leave linked code. `looks` is the number of looks at the thread so far.
///
/// # Errors
///
/// The obstacle.
pub(super) fn way_out(start: Start, looks: u64) -> Result<Way, Obstacle> {
    if let Start::Interrupted(address) = start {
        match Place::of(address) {
            Place::Stub => return Err(Obstacle::Returns(address)),
            Place::Own => return Err(Obstacle::Own(address)),
            Place::Unwinder => return Err(Obstacle::Unwinder(address)),
            Place::Linked | Place::Library => {}
        }
    }
    let mut walk = Walk::new(start, looks);
    // SAFETY: the callback has the expected form, and `walk` outlives the call.
    unsafe { _Unwind_Backtrace(on_frame, (&raw mut walk).cast()) };
    walk.finish()
}

struct Walk {
    start: Start,
    looks: u64,
    /// Frames from the start on.
    frames: usize,
    /// The innermost frame is in a function that holds nothing.
    is_leaf: bool,
    /// The innermost frame of linked code, and how many frames lie above it.
    linked: Option<(usize, Linked)>,
    /// Functions with a table of call sites, from the innermost one of linked code on.
    tables: u64,
    /// The last frame stands where an unwinding must not arrive.
    refuses: bool,
    /// A function catches every exception.
    catches_all: bool,
    /// The caller of the outermost frame that cannot be unwound, and the functions with a table that lie above it.
    passable: Option<(AtCall, u64)>,
    last: (Place, BoundaryFrame),
    obstacle: Option<Obstacle>,
}

/// The innermost frame of linked code.
#[derive(Clone, Copy)]
struct Linked {
    /// Where it goes on when its callee returns.
    address: u64,
    frame: AtCall,
}

impl Walk {
    fn new(start: Start, looks: u64) -> Self {
        let (linked, passable, obstacle) = (None, None, None);
        let (frames, tables) = (0, 0);
        let (is_leaf, refuses, catches_all) = (false, false, false);
        let last = (Place::Library, BoundaryFrame { address: 0, stack: 0 });
        Self {
            start,
            looks,
            frames,
            is_leaf,
            linked,
            tables,
            refuses,
            catches_all,
            passable,
            last,
            obstacle,
        }
    }

    /// Adds the next frame. False when the walk is over.
    fn add(&mut self, frame: &Frame) -> bool {
        if self.frames == 0 && !self.begins_at(frame) {
            return true;
        }
        let depth = self.frames;
        let is_exact = depth == 0 && matches!(self.start, Start::Interrupted(_));
        // A caller's address is behind its call, perhaps in the next function.
        let address = if is_exact { frame.address() } else { frame.address().wrapping_sub(1) };
        let place = Place::of(address);
        self.frames += 1;
        if self.linked.is_none() && place == Place::Linked {
            let linked = Linked { address: frame.address(), frame: frame.at_call() };
            self.linked = Some((depth, linked));
        }
        self.obstacle = match self.linked {
            None => self.add_inner(frame, place, address, depth),
            Some(_) => self.add_outer(frame, place, address, is_exact),
        };
        self.last = (place, BoundaryFrame { address: frame.address(), stack: frame.stack() });
        self.obstacle.is_none()
    }

    fn begins_at(&self, frame: &Frame) -> bool {
        match self.start {
            Start::Interrupted(address) => frame.address() == address,
            Start::AtCall(stack) => frame.stack() == stack,
        }
    }

    /// A frame above linked code.
    fn add_inner(
        &mut self,
        frame: &Frame,
        place: Place,
        address: u64,
        depth: usize,
    ) -> Option<Obstacle> {
        match place {
            Place::Stub => Some(Obstacle::Returns(address)),
            // The frame that has entered linked code; the walk ends here.
            Place::Own if depth == 0 => None,
            Place::Own => Some(Obstacle::Own(address)),
            // It has seen the frames as they are, and must see the same again.
            Place::Unwinder => Some(Obstacle::Unwinder(address)),
            _ if depth >= LIBRARY_FRAMES_MAX => Some(Obstacle::TooDeep(address)),
            Place::Library | Place::Linked => {
                self.is_leaf |= depth == 0 && places::is_leaf(frame.function());
                None
            }
        }
    }

    /// A frame of linked code, or further out.
    fn add_outer(
        &mut self,
        frame: &Frame,
        place: Place,
        address: u64,
        is_exact: bool,
    ) -> Option<Obstacle> {
        if self.frames > FRAMES_MAX {
            return Some(Obstacle::TooDeep(address));
        }
        if self.last.0 == Place::Own && self.frames > 1 {
            // The function that has entered linked code has no unwind information, so it is the last frame.
            return Some(Obstacle::Own(self.last.1.address));
        }
        if self.refuses {
            self.passable = Some((frame.at_call(), self.tables));
            // A long walk in vain would take most of the time between two looks.
            if self.tables > 0 && !self.may_skip() {
                return Some(Obstacle::Cleanups);
            }
        }
        self.refuses = false;
        if !matches!(place, Place::Own | Place::Stub) {
            let (site, catches_all) = call_sites::at(frame.table(), frame.function(), address);
            // In the midst of a function, it may be in a cleanup of what the function catches.
            let catches_all = catches_all || is_exact && call_sites::catches_all(frame.table());
            if catches_all && !personalities::are_known(address) {
                return Some(Obstacle::Catches(address));
            }
            self.catches_all |= catches_all;
            let catches_none = catches_all && !is_exact && self.has_caught();
            let site = if catches_none { CallSite::Refused } else { site };
            self.tables += u64::from(site != CallSite::NoTable);
            // An unwinding may begin at a call only.
            self.refuses = site == CallSite::Refused || is_exact;
        }
        None
    }

    /// True if functions may be left without their cleanups by now.
    fn may_skip(&self) -> bool {
        let at_call = matches!(self.start, Start::AtCall(_)) || self.is_in_library();
        self.looks > if at_call { LOOKS_AT_CALL } else { LOOKS_AT_INSTRUCTION }
    }

    /// True if linked code has called a library, but for a function that can be left at any instruction.
    fn is_in_library(&self) -> bool {
        self.linked.is_none_or(|(depth, _)| depth > 0 && !(self.is_leaf && depth == 1))
    }

    /// True if the thread is in a `catch` block. Then C++ ends the process as it catches an interruption. The handler of a signal cannot
    /// look.
    fn has_caught(&self) -> bool {
        matches!(self.start, Start::AtCall(_))
            && Exceptions::of_thread().caught_more_than(unwind_boundary::exceptions_at_entry())
    }

    /// The result of the whole walk.
    fn finish(self) -> Result<Way, Obstacle> {
        if let Some(obstacle) = self.obstacle {
            return Err(obstacle);
        }
        let (place, boundary) = self.last;
        if place != Place::Own || self.refuses {
            return Err(Obstacle::NoUnwindInformation(boundary.address));
        }
        let entered = if enter::is_at(boundary.address) {
            Err(NoBoundary::OtherEntry)
        } else {
            boundary.check()
        };
        entered.map_err(|why| Obstacle::Boundary(why, boundary.address))?;
        let in_library = self.is_in_library();
        let Some((_, Linked { address, frame })) = self.linked else {
            // Nothing but the frame that has entered linked code.
            return Ok(Way::Unwind { boundary });
        };
        let is_interrupted = matches!(self.start, Start::Interrupted(_));
        // A function that catches everything may be in a `catch` block, which a signal's handler cannot see.
        let unwinds_to = (!self.catches_all).then_some(boundary);
        let from = |frame, skipped| Way::From { frame, skipped, address, boundary: unwinds_to };
        Ok(match self.passable {
            _ if is_interrupted && in_library => Way::Return { frame, address },
            Some((frame, skipped)) => from(frame, skipped),
            None if is_interrupted => from(frame, 0),
            None => Way::Unwind { boundary },
        })
    }
}

/// A frame, inside of the unwinder's callback.
struct Frame(*mut c_void);

impl Frame {
    fn address(&self) -> u64 {
        // SAFETY: the context is valid inside of the callback.
        unsafe { _Unwind_GetIP(self.0) as u64 }
    }

    /// The stack pointer when the callee has returned.
    fn stack(&self) -> u64 {
        // SAFETY: as above.
        unsafe { _Unwind_GetCFA(self.0) as u64 }
    }

    /// The start of the function.
    fn function(&self) -> u64 {
        // SAFETY: as above.
        unsafe { _Unwind_GetRegionStart(self.0) as u64 }
    }

    /// The function's table of call sites; 0 if it has none.
    fn table(&self) -> u64 {
        // SAFETY: as above.
        unsafe { _Unwind_GetLanguageSpecificData(self.0) }.expose_provenance() as u64
    }

    fn at_call(&self) -> AtCall {
        // SAFETY: as above.
        unsafe { AtCall::of(self.0) }
    }
}

extern "C" fn on_frame(context: *mut c_void, walk: *mut c_void) -> c_int {
    /// Any code but 0 ends the walk.
    const END: c_int = 5;
    // SAFETY: the unwinder passes back the pointer given to it, to a live `Walk`.
    let walk = unsafe { &mut *walk.cast::<Walk>() };
    if walk.add(&Frame(context)) { 0 } else { END }
}

unsafe extern "C" {
    fn _Unwind_Backtrace(
        callback: extern "C" fn(*mut c_void, *mut c_void) -> c_int,
        argument: *mut c_void,
    ) -> c_int;
    fn _Unwind_GetIP(context: *mut c_void) -> usize;
    fn _Unwind_GetCFA(context: *mut c_void) -> usize;
    fn _Unwind_GetRegionStart(context: *mut c_void) -> usize;
    fn _Unwind_GetLanguageSpecificData(context: *mut c_void) -> *mut c_void;
}
