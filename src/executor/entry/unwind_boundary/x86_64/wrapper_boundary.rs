//! The unwind boundary of wrapper functions, which costs their calls nothing.
//!
//! Nothing is noted at a call. The frame that has entered the wrapper function is the boundary. The unwinder finds the frame at the end
//! of the stack, and its registers. The unwound call returns an out-of-band error from there.
//!
//! So every function above has unwind information. The lane knows the number of the call, and [`ServedCalls`] the exceptions that it has
//! found. Code that may lack unwind information is entered by [`enter`](crate::executor::entry::unwind_boundary::enter).
#![allow(unsafe_code, reason = "enters linked code, and leaves its frames")]

use std::cell::Cell;
use std::ffi::{c_int, c_void};

use super::call_frame::AtCall;
use crate::ExecutorAddr;
use crate::executor::entry::address::pointer;
use crate::executor::entry::buffer::WrapperFunctionBuffer;
use crate::executor::entry::unwind_boundary::served_calls::ServedCalls;
use crate::executor::entry::unwind_boundary::{
    END_OF_STACK, Exception, Registers, force_unwind, tidy_up,
};

std::arch::global_asm!(
    ".pushsection .text.farcall_wrapper,\"ax\",@progbits",
    ".globl farcall_enter_wrapper",
    ".hidden farcall_enter_wrapper",
    ".type farcall_enter_wrapper,@function",
    "farcall_enter_wrapper:",
    // The address stays in the frame, and aligns it.
    "push rdi",
    "mov rax, rdi",
    "mov rdi, rsi",
    "mov rsi, rdx",
    "call rax",
    ".globl farcall_wrapper_returns",
    ".hidden farcall_wrapper_returns",
    "farcall_wrapper_returns:",
    "add rsp, 8",
    "ret",
    ".size farcall_enter_wrapper, . - farcall_enter_wrapper",
    ".globl farcall_return_from_wrapper",
    ".hidden farcall_return_from_wrapper",
    ".type farcall_return_from_wrapper,@function",
    "farcall_return_from_wrapper:",
    "mov rax, rsi",
    "mov rdx, rdi",
    "mov rbx, qword ptr [rdx]",
    "mov rbp, qword ptr [rdx + 8]",
    "mov r12, qword ptr [rdx + 16]",
    "mov r13, qword ptr [rdx + 24]",
    "mov r14, qword ptr [rdx + 32]",
    "mov r15, qword ptr [rdx + 40]",
    "mov rsp, qword ptr [rdx + 48]",
    // The size of an out-of-band error.
    "xor edx, edx",
    "jmp farcall_wrapper_returns",
    ".size farcall_return_from_wrapper, . - farcall_return_from_wrapper",
    ".popsection",
);

unsafe extern "C" {
    /// Calls its first argument with the next two, and leaves the callee's result registers alone.
    safe fn farcall_enter_wrapper();
    /// The instruction behind the call.
    safe fn farcall_wrapper_returns();
    /// Makes the call in the frame return this pointer and the size 0, from any deeper frame.
    fn farcall_return_from_wrapper(frame: *const AtCall, data: *mut c_void) -> !;
}

type Enter = unsafe extern "C" fn(*const c_void, *const u8, usize) -> Registers;

/// Calls a wrapper function, and returns the two words of its result.
///
/// # Safety
///
/// There must be a wrapper function at the address, and `bytes` bytes must be readable at `args` until it returns.
#[inline(always)]
pub(crate) unsafe fn enter(function: *const c_void, args: *const u8, bytes: usize) -> Registers {
    // SAFETY: the function passes two arguments on, and returns what the callee returns.
    let enter: Enter = unsafe { std::mem::transmute(farcall_enter_wrapper as *const c_void) };
    // SAFETY: the caller vouches for the function and its arguments.
    unsafe { enter(function, args, bytes) }
}

/// True for the address in a frame that has entered a wrapper function.
pub(super) fn is_at(address: u64) -> bool {
    address == farcall_wrapper_returns as *const c_void as u64
}

/// An unwinding to the frame with this stack pointer. The exception comes first, by whose address the unwinder names it.
#[repr(C)]
struct Unwinding {
    exception: Exception,
    stack: u64,
    why: String,
    /// The unwinding of a call further out, one of whose destructors has made this call.
    outer: *mut Self,
}

thread_local! {
    static INNERMOST: Cell<*mut Unwinding> = const { Cell::new(std::ptr::null_mut()) };
}

/// True if the call in the frame with this stack pointer is being unwound.
pub(super) fn is_unwinding(stack: u64) -> bool {
    let mut next = INNERMOST.get();
    // SAFETY: the list holds unwindings that go on.
    while let Some(unwinding) = unsafe { next.as_ref() } {
        if unwinding.stack == stack {
            return true;
        }
        next = unwinding.outer;
    }
    false
}

/// Unwinds the call in the frame with this stack pointer, which is the innermost one of [`enter`] on this stack.
pub(super) fn unwind(stack: u64, why: String) -> ! {
    let (exception, outer) = (Exception::caught_by(on_caught), INNERMOST.get());
    let unwinding = Box::into_raw(Box::new(Unwinding { exception, stack, why, outer }));
    INNERMOST.set(unwinding);
    // SAFETY: the object lives until the unwinding ends: `on_frame` or `on_caught` frees it.
    unsafe { force_unwind(unwinding.cast(), on_frame, unwinding.cast()) };
    // The search has found unwind information up to the frame, so the unwinder does not return.
    std::process::abort();
}

/// The unwinder calls this at every frame.
unsafe extern "C-unwind" fn on_frame(
    _version: c_int,
    actions: c_int,
    _class: u64,
    _exception: *mut c_void,
    context: *mut c_void,
    unwinding: *mut c_void,
) -> c_int {
    if actions & END_OF_STACK != 0 {
        // SAFETY: the argument is the one of `unwind`, and the unwinder does not use the object any more.
        let Unwinding { stack, why, outer, .. } =
            *unsafe { Box::from_raw(unwinding.cast::<Unwinding>()) };
        INNERMOST.set(outer);
        tidy_up(ServedCalls::exceptions_at_begin());
        // SAFETY: the context is valid inside of the callback.
        let frame = AtCall { stack, ..unsafe { AtCall::of(context) } };
        // SAFETY: the frame has the function's address in its innermost word.
        let function = unsafe { *pointer::<u64>(ExecutorAddr::new(stack)) };
        let error = WrapperFunctionBuffer::out_of_band(&why).for_code(ExecutorAddr::new(function));
        drop(why);
        let (data, _) = error.into_parts();
        // SAFETY: the frames in between belong to linked code, to the unwinder, and to this file, where nothing needs dropping any more.
        unsafe { farcall_return_from_wrapper(&frame, data.cast()) }
    }
    0
}

/// A handler for all exceptions has caught the unwinding, and does not let it go on. Linked code runs on.
unsafe extern "C" fn on_caught(_reason: c_int, exception: *mut c_void) {
    // SAFETY: the exception is the first field of what `unwind` has made, and nothing else frees it now.
    let unwinding = unsafe { Box::from_raw(exception.cast::<Unwinding>()) };
    INNERMOST.set(unwinding.outer);
}
