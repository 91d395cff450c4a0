//! Unwinding a call out of linked code that cannot continue.
//!
//! A call is *unwound* when it reaches a function that cannot be compiled (`services::lazy`). The unwinder runs the destructors
//! of its frames, as for a cancelled thread, up to the innermost *unwind boundary*. That is the frame through which linked code
//! was entered. The call fails there. So does a call that the controller interrupts (`interrupt`).
//!
//! Between a boundary and the code that it entered there are only frames of linked code, so no frame of this library
//! is skipped. `main`, initializers, handlers, resolvers, typed and nested calls have a boundary that notes what an unwinding needs.
//! LLVM 22's wrapper functions have a boundary of their own ([`native`]), and the other one from [`require`] on. Threads and
//! `WrapperFunction`s have none.
#![allow(unsafe_code, reason = "calls functions by address, and leaves their frames")]

pub(crate) mod cxx_exceptions;
pub(crate) mod direct_calls;
#[cfg_attr(target_arch = "aarch64", path = "unwind_boundary/aarch64.rs")]
#[cfg_attr(target_arch = "x86_64", path = "unwind_boundary/x86_64/mod.rs")]
pub(crate) mod native;
pub(crate) mod served_calls;
mod skips;
pub(crate) mod static_guards;

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;

use cxx_exceptions::Exceptions;
use served_calls::ServedCalls;

use crate::call::Lanes;
use crate::executor::log::{self, Level};
use crate::sync::{AtomicBool, Ordering};

unsafe extern "C" {
    /// Calls its first argument with the next three. It stores the callee-saved registers on the stack, and the stack
    /// pointer in the word that its fifth argument points to.
    safe fn farcall_enter_boundary();
    /// Returns from `farcall_enter_boundary` with two zero words, from any deeper frame. The argument is the word
    /// that it stored.
    fn farcall_return_to_boundary(stack: u64) -> !;
}

type Enter = unsafe extern "C" fn(*const c_void, usize, usize, usize, *mut u64) -> Registers;

/// The two result registers; the callee may have set fewer.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct Registers {
    pub(crate) first: usize,
    pub(crate) second: usize,
}

/// A frame where an unwound call fails.
#[repr(C)]
struct UnwindBoundary {
    /// The stack pointer in `farcall_enter_boundary`. The assembler stores to this word.
    stack: u64,
    /// The thread's call depth at entry. An equal depth at the unwinding proves that no other call was entered since.
    depth: u64,
    /// The boundary further up on this stack; null if there is none.
    outer: *mut UnwindBoundary,
    /// The exceptions of the thread at entry.
    exceptions: Exceptions,
    state: State,
    exception: MaybeUninit<Exception>,
}

/// The state of the call behind a boundary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Runs,
    IsUnwinding,
    /// Its reason is in [`WHY`].
    IsUnwound,
}

/// The unwinder's exception object. 64 bytes aligned to 16 are the largest that any supported system has.
#[repr(C, align(16))]
struct Exception([u64; 8]);

type OnCaught = unsafe extern "C" fn(c_int, *mut c_void);

impl Exception {
    /// The unwinder calls the function when linked code has caught the exception and does not throw it again.
    fn caught_by(on_caught: OnCaught) -> Self {
        // The exception class is 0; its cleanup function is the second word.
        Self([0, on_caught as usize as u64, 0, 0, 0, 0, 0, 0])
    }
}

thread_local! {
    /// The boundary of the linked code that this thread entered last and has not left; null if there is none.
    static INNERMOST: Cell<*mut UnwindBoundary> = const { Cell::new(std::ptr::null_mut()) };
    /// The reason of the newest unwinding, until its boundary takes it.
    static WHY: Cell<Option<String>> = const { Cell::new(None) };
}

/// True once wrapper functions need a boundary.
static REQUIRED: AtomicBool = AtomicBool::new(false);

/// Gives calls of wrapper functions a boundary from now on.
pub(crate) fn require() {
    // Relaxed: the calls that can be unwound come after this one in program order on their lane.
    REQUIRED.store(true, Ordering::Relaxed);
}

/// Whether calls of wrapper functions need a boundary.
#[inline(always)]
pub(crate) fn is_required() -> bool {
    REQUIRED.load(Ordering::Relaxed)
}

/// Calls a function behind an unwind boundary.
///
/// # Errors
///
/// The reason, if the call was unwound.
///
/// # Safety
///
/// There must be a function at the address that takes at most three words and returns at most two.
pub(crate) unsafe fn enter(
    function: *const c_void,
    arguments: [usize; 3],
) -> std::result::Result<Registers, String> {
    let (depth, outer) = (depth(), INNERMOST.get());
    let exceptions = Exceptions::of_thread();
    let (state, exception) = (State::Runs, MaybeUninit::uninit());
    let mut boundary = UnwindBoundary { stack: 0, depth, outer, exceptions, state, exception };
    let at = &raw mut boundary;
    INNERMOST.set(at);
    // SAFETY: the function passes three arguments on, stores a word at the fifth, and returns what the callee
    // returns.
    let enter: Enter = unsafe { std::mem::transmute(farcall_enter_boundary as *const c_void) };
    let [first, second, third] = arguments;
    // SAFETY: the caller vouches for the function; the word is the first field of the live `boundary`.
    let result = unsafe { enter(function, first, second, third, at.cast::<u64>()) };
    INNERMOST.set(outer);
    if boundary.state == State::IsUnwound { Err(take_why(exceptions)) } else { Ok(result) }
}

#[cold]
fn take_why(exceptions: Exceptions) -> String {
    tidy_up(exceptions);
    WHY.take().unwrap_or_default()
}

/// Makes the runtime of C++ forget what an unwound call had under way.
#[cold]
fn tidy_up(exceptions: Exceptions) {
    static_guards::take_back(call());
    // On another thread, the host's code may be in a `catch` block.
    if ServedCalls::of_thread().is_some() || direct_calls::depth() > 0 {
        exceptions.restore();
    }
}

/// The call that this thread runs: its depth, and its number, which is 0 for a posted call.
fn call() -> (u64, u64) {
    (depth(), ServedCalls::of_thread().map_or(0, |served| served.calls().running()))
}

/// The exceptions of the thread when it has entered the linked code that it runs.
pub(crate) fn exceptions_at_entry() -> Exceptions {
    let noted = innermost().filter(|boundary| boundary.depth == depth());
    noted.map_or_else(ServedCalls::exceptions_at_begin, |boundary| boundary.exceptions)
}

const _: () = assert!(std::mem::offset_of!(UnwindBoundary, stack) == 0);

/// How deep in calls this thread is.
#[inline]
fn depth() -> u64 {
    match direct_calls::depth() {
        0 => ServedCalls::of_thread().map_or_else(Lanes::depth, |served| served.calls().depth()),
        // The controller is in this process. No other depth is as large.
        direct => direct | 1 << 63,
    }
}

/// Unwinds the call that this thread runs; called by the innermost function of that call. The destructors of its
/// frames run, and it fails at its boundary.
///
/// Without a boundary, the reason is written to standard error. A thread that the program started ends then, as by
/// `pthread_exit`; on a thread that runs a call of the controller, the process aborts.
pub(crate) fn unwind(why: String) -> ! {
    let (boundary, depth) = (INNERMOST.get(), depth());
    // SAFETY: the boundary's frame is further up on this stack and has not been left.
    let is_here = !boundary.is_null() && unsafe { (*boundary).depth } == depth;
    if !is_here {
        log::write(Level::Error, format_args!("{why}"));
        drop(why);
        if boundary.is_null() && depth == 0 {
            // SAFETY: nothing of this frame needs dropping.
            unsafe { pthread_exit(std::ptr::null_mut()) }
        }
        std::process::abort();
    }
    WHY.set(Some(why));
    // SAFETY: as above.
    let exception = unsafe { (&raw mut (*boundary).exception).cast::<Exception>() };
    // SAFETY: the field is part of the live boundary.
    unsafe { exception.write(Exception::caught_by(on_caught)) };
    // SAFETY: the boundary is live, checked above.
    unsafe { (*boundary).state = State::IsUnwinding };
    // SAFETY: the exception object lives in the boundary's frame, which stays until the unwinding arrives there.
    unsafe { force_unwind(exception.cast(), on_frame, boundary.cast()) };
    // The unwinder returns if it meets a frame without unwind information; the remaining frames are skipped.
    // SAFETY: the boundary is this thread's innermost one, checked above.
    unsafe { return_to(boundary) }
}

/// The flag of the last frame that has unwind information.
const END_OF_STACK: c_int = 16;

/// The unwinder calls this at every frame.
unsafe extern "C-unwind" fn on_frame(
    _version: c_int,
    actions: c_int,
    _class: u64,
    _exception: *mut c_void,
    _context: *mut c_void,
    boundary: *mut c_void,
) -> c_int {
    if actions & END_OF_STACK != 0 {
        // SAFETY: the argument is the boundary that `unwind` gave the unwinder.
        unsafe { return_to(boundary.cast()) }
    }
    0
}

/// A handler for all exceptions has caught the unwinding, and does not let it go on. Linked code runs on.
unsafe extern "C" fn on_caught(_reason: c_int, _exception: *mut c_void) {
    WHY.take();
    if let Some(boundary) = std::ptr::NonNull::new(INNERMOST.get()) {
        // SAFETY: the boundary's frame is further up on this stack and has not been left.
        unsafe { (*boundary.as_ptr()).state = State::Runs };
    }
}

/// The boundary that this thread has noted last and not left.
fn innermost<'a>() -> Option<&'a UnwindBoundary> {
    // SAFETY: the boundary's frame is further up on this stack and has not been left.
    unsafe { INNERMOST.get().as_ref() }
}

/// # Safety
///
/// The boundary must be this thread's innermost one, and linked code that it entered must be running.
unsafe fn return_to(boundary: *mut UnwindBoundary) -> ! {
    // SAFETY: the caller vouches for the boundary.
    unsafe { (*boundary).state = State::IsUnwound };
    // SAFETY: as above.
    let stack = unsafe { (*boundary).stack };
    // SAFETY: the frames from here to the boundary belong to linked code, to the unwinder, and to this file, where nothing
    // needs dropping.
    unsafe { farcall_return_to_boundary(stack) }
}

type OnFrame =
    unsafe extern "C-unwind" fn(c_int, c_int, u64, *mut c_void, *mut c_void, *mut c_void) -> c_int;

unsafe extern "C-unwind" {
    #[link_name = "_Unwind_ForcedUnwind"]
    fn force_unwind(exception: *mut c_void, stop: OnFrame, argument: *mut c_void) -> c_int;
    fn pthread_exit(result: *mut c_void) -> !;
}
