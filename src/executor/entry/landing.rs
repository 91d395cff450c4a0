//! The way out of linked code when a call cannot go on.
//!
//! A call is *unwound* when it reaches a function that cannot be compiled (`lazy`). Its frames are unwound as those of a cancelled thread
//! are, destructors included, up to the innermost *landing*, the place where linked code was entered; there the call fails.
//! Between a landing and the code that it entered there are only that code's frames, so nothing of this library is skipped.
//! Wrapper functions have a landing once there is anything that could unwind them.
#![allow(unsafe_code, reason = "calls functions by address, and leaves their frames")]

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;

use crate::call::Lanes;
use crate::sync::{AtomicBool, Ordering};

#[cfg(target_arch = "x86_64")]
std::arch::global_asm!(
    ".pushsection .text.farcall_landing,\"ax\",@progbits",
    ".globl farcall_enter_landing",
    ".hidden farcall_enter_landing",
    ".type farcall_enter_landing,@function",
    "farcall_enter_landing:",
    "push rbp",
    "push rbx",
    "push r12",
    "push r13",
    "push r14",
    "push r15",
    "sub rsp, 8",
    "mov qword ptr [r8], rsp",
    "mov rax, rdi",
    "mov rdi, rsi",
    "mov rsi, rdx",
    "mov rdx, rcx",
    "call rax",
    "2:",
    "add rsp, 8",
    "pop r15",
    "pop r14",
    "pop r13",
    "pop r12",
    "pop rbx",
    "pop rbp",
    "ret",
    ".size farcall_enter_landing, . - farcall_enter_landing",
    ".globl farcall_land",
    ".hidden farcall_land",
    ".type farcall_land,@function",
    "farcall_land:",
    "mov rsp, rdi",
    "xor eax, eax",
    "xor edx, edx",
    "jmp 2b",
    ".size farcall_land, . - farcall_land",
    ".popsection",
);

#[cfg(target_arch = "aarch64")]
std::arch::global_asm!(
    ".pushsection .text.farcall_landing,\"ax\",@progbits",
    ".globl farcall_enter_landing",
    ".hidden farcall_enter_landing",
    ".type farcall_enter_landing,@function",
    "farcall_enter_landing:",
    "stp x29, x30, [sp, #-160]!",
    "stp x19, x20, [sp, #16]",
    "stp x21, x22, [sp, #32]",
    "stp x23, x24, [sp, #48]",
    "stp x25, x26, [sp, #64]",
    "stp x27, x28, [sp, #80]",
    "stp d8, d9, [sp, #96]",
    "stp d10, d11, [sp, #112]",
    "stp d12, d13, [sp, #128]",
    "stp d14, d15, [sp, #144]",
    "mov x9, sp",
    "str x9, [x4]",
    "mov x9, x0",
    "mov x0, x1",
    "mov x1, x2",
    "mov x2, x3",
    "blr x9",
    "2:",
    "ldp x19, x20, [sp, #16]",
    "ldp x21, x22, [sp, #32]",
    "ldp x23, x24, [sp, #48]",
    "ldp x25, x26, [sp, #64]",
    "ldp x27, x28, [sp, #80]",
    "ldp d8, d9, [sp, #96]",
    "ldp d10, d11, [sp, #112]",
    "ldp d12, d13, [sp, #128]",
    "ldp d14, d15, [sp, #144]",
    "ldp x29, x30, [sp], #160",
    "ret",
    ".size farcall_enter_landing, . - farcall_enter_landing",
    ".globl farcall_land",
    ".hidden farcall_land",
    ".type farcall_land,@function",
    "farcall_land:",
    "mov sp, x0",
    "mov x0, #0",
    "mov x1, #0",
    "b 2b",
    ".size farcall_land, . - farcall_land",
    ".popsection",
);

unsafe extern "C" {
    /// Calls its first argument with the three behind it, and keeps what callees keep on the stack; where that is goes to the word at the
    /// fifth.
    safe fn farcall_enter_landing();
    /// Returns from that one with zeroes, whatever was called since. Its argument is the word.
    fn farcall_land(stack: u64) -> !;
}

type Landed = unsafe extern "C" fn(*const c_void, usize, usize, usize, *mut u64) -> Registers;

/// What came back in the two registers of results; it may be less.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct Registers {
    pub(crate) first: usize,
    pub(crate) second: usize,
}

/// A place where a call fails that is unwound.
#[repr(C)]
struct Landing {
    /// Where the stack pointer was.
    stack: u64,
    /// How deep in calls the thread was, to be sure that nothing else was entered since.
    depth: u64,
    /// Why the call was unwound.
    why: Option<String>,
    exception: MaybeUninit<Exception>,
}

/// What the unwinder takes along: the largest object of that kind that any system has.
#[repr(C, align(16))]
struct Exception([u64; 8]);

thread_local! {
    /// The landing of the code that this thread entered last and has not left.
    static INNERMOST: Cell<*mut Landing> = const { Cell::new(std::ptr::null_mut()) };
    /// Why the call is being unwound.
    static WHY: Cell<Option<String>> = const { Cell::new(None) };
}

/// Something is there that may unwind calls.
static HAS_LANDINGS: AtomicBool = AtomicBool::new(false);

/// From now on calls of wrapper functions have a landing.
pub(crate) fn make() {
    // Relaxed: the calls that can reach what gives them up come after this one.
    HAS_LANDINGS.store(true, Ordering::Relaxed);
}

/// Whether calls of wrapper functions have one.
#[inline(always)]
pub(crate) fn are_there() -> bool {
    HAS_LANDINGS.load(Ordering::Relaxed)
}

/// Calls a function with a landing; the error is why the call was unwound.
///
/// # Safety
///
/// There must be a function at the address that takes such arguments, with a result in two words at most.
pub(crate) unsafe fn landing(
    function: *const c_void,
    arguments: [usize; 3],
) -> std::result::Result<Registers, String> {
    let (depth, exception) = (Lanes::depth(), MaybeUninit::uninit());
    let mut landing = Landing { stack: 0, depth, why: None, exception };
    let at = &raw mut landing;
    let before = INNERMOST.replace(at);
    // SAFETY: the function passes three arguments on, stores a word at the last one, and returns what the callee returns.
    let enter: Landed = unsafe { std::mem::transmute(farcall_enter_landing as *const c_void) };
    let [first, second, third] = arguments;
    // SAFETY: the caller vouches for the function; the word is there.
    let result = unsafe { enter(function, first, second, third, at.cast::<u64>()) };
    INNERMOST.set(before);
    match landing.why.take() {
        None => Ok(result),
        Some(why) => Err(why),
    }
}

const _: () = assert!(std::mem::offset_of!(Landing, stack) == 0);

/// Unwinds the call that this thread is in, as its innermost function: the destructors of its frames run, and it fails at
/// its landing. Without one the thread ends, as by `pthread_exit`, when it is one of the program's own; a call of the controller's
/// ends with the process.
pub(crate) fn unwind(why: String) -> ! {
    let (landing, depth) = (INNERMOST.get(), Lanes::depth());
    // SAFETY: a landing's frame is further up on this stack and has not been left.
    let is_here = !landing.is_null() && unsafe { (*landing).depth } == depth;
    if !is_here {
        eprintln!("farcall executor: {why}");
        drop(why);
        if landing.is_null() && depth == 0 {
            // SAFETY: nothing of this frame needs dropping.
            unsafe { pthread_exit(std::ptr::null_mut()) }
        }
        std::process::abort();
    }
    WHY.set(Some(why));
    // SAFETY: as above.
    let exception = unsafe { (&raw mut (*landing).exception).cast::<Exception>() };
    // SAFETY: the object is there. Its class is nobody's, and nobody has to be told when it is gone.
    unsafe { exception.write(Exception([0; 8])) };
    // SAFETY: the object stays until the landing is reached.
    unsafe { _Unwind_ForcedUnwind(exception.cast(), on_frame, landing.cast()) };
    // Frames without unwind information are left as they are.
    // SAFETY: as for the landing above.
    unsafe { land(landing) }
}

/// Asked by the unwinder at every frame.
unsafe extern "C-unwind" fn on_frame(
    _version: c_int,
    actions: c_int,
    _class: u64,
    _exception: *mut c_void,
    _context: *mut c_void,
    landing: *mut c_void,
) -> c_int {
    /// This is the last frame that has unwind information.
    const END_OF_STACK: c_int = 16;
    if actions & END_OF_STACK != 0 {
        // SAFETY: the argument is the one given to the unwinder.
        unsafe { land(landing.cast()) }
    }
    0
}

/// # Safety
///
/// The landing must be this thread's innermost one.
unsafe fn land(landing: *mut Landing) -> ! {
    let why = WHY.take();
    // SAFETY: the caller vouches for the landing.
    unsafe { (*landing).why = Some(why.unwrap_or_default()) };
    // SAFETY: as above.
    let stack = unsafe { (*landing).stack };
    // SAFETY: the frames from here to the landing are linked code's, the unwinder's, and some of this file in which nothing
    // needs dropping.
    unsafe { farcall_land(stack) }
}

unsafe extern "C-unwind" {
    fn _Unwind_ForcedUnwind(
        exception: *mut c_void,
        stop: unsafe extern "C-unwind" fn(
            c_int,
            c_int,
            u64,
            *mut c_void,
            *mut c_void,
            *mut c_void,
        ) -> c_int,
        argument: *mut c_void,
    ) -> c_int;
    fn pthread_exit(result: *mut c_void) -> !;
}
