//! The C calling convention of 64-bit Arm: which register or place on the stack an argument is in.
//!
//! The first eight integers and pointers are in registers, as are the first eight floating-point numbers; the others lie on the
//! stack in the order of the arguments, eight bytes each, the first at the lowest address, which is a multiple of 16.
//!
//! Invariant: everything that this library knows about passing arguments to C functions is in this file, for this processor.
#![allow(
    unsafe_code,
    reason = "calls functions by address, with arguments that are known at run time only"
)]

use super::enter;
use crate::call::typed::Shape;
use crate::limits::TYPED_ARGUMENTS_MAX;

const REGISTERS: usize = 8;

/// What `farcall_call_typed` loads before it calls, and stores afterwards.
#[repr(C)]
struct Frame {
    integers: [u64; REGISTERS],
    floats: [u64; REGISTERS],
    function: u64,
    stack_words: u64,
    integer_result: u64,
    float_result: u64,
    stack: [u64; TYPED_ARGUMENTS_MAX],
}

// Like `farcall_enter`, this has no unwind information: the search of unwinders for a handler ends here.
std::arch::global_asm!(
    ".pushsection .text.farcall_enter,\"ax\",@progbits",
    ".globl farcall_call_typed",
    ".hidden farcall_call_typed",
    ".type farcall_call_typed,@function",
    ".balign 16",
    "farcall_call_typed:",
    "stp x29, x30, [sp, #-32]!",
    "mov x29, sp",
    "str x19, [sp, #16]",
    "mov x19, x0",
    "ldr x9, [x19, #{stack_words}]",
    "cbz x9, 3f",
    "add x10, x9, #1",
    "and x10, x10, #-2",
    "sub sp, sp, x10, lsl #3",
    "add x11, x19, #{stack}",
    "mov x12, sp",
    "2:",
    "ldr x13, [x11], #8",
    "str x13, [x12], #8",
    "subs x9, x9, #1",
    "b.ne 2b",
    "3:",
    "ldp d0, d1, [x19, #{floats}]",
    "ldp d2, d3, [x19, #{floats} + 16]",
    "ldp d4, d5, [x19, #{floats} + 32]",
    "ldp d6, d7, [x19, #{floats} + 48]",
    "ldr x9, [x19, #{function}]",
    "ldp x0, x1, [x19]",
    "ldp x2, x3, [x19, #16]",
    "ldp x4, x5, [x19, #32]",
    "ldp x6, x7, [x19, #48]",
    "blr x9",
    "str x0, [x19, #{integer_result}]",
    "str d0, [x19, #{float_result}]",
    "mov sp, x29",
    "ldr x19, [sp, #16]",
    "ldp x29, x30, [sp], #32",
    "ret",
    ".size farcall_call_typed, . - farcall_call_typed",
    ".popsection",
    floats = const std::mem::offset_of!(Frame, floats),
    function = const std::mem::offset_of!(Frame, function),
    stack_words = const std::mem::offset_of!(Frame, stack_words),
    integer_result = const std::mem::offset_of!(Frame, integer_result),
    float_result = const std::mem::offset_of!(Frame, float_result),
    stack = const std::mem::offset_of!(Frame, stack),
);

unsafe extern "C" {
    /// Loads the registers from a frame, copies its stack, calls its function, and stores both registers of results.
    fn farcall_call_typed(frame: *mut Frame);
}

/// Calls a function and returns its result, the low bytes of a word.
///
/// # Errors
///
/// Why the call was given up.
///
/// # Safety
///
/// There must be a function of this shape at the address, and the arguments must be what it takes.
#[inline]
pub(super) unsafe fn call(shape: Shape, arguments: &[[u8; 8]]) -> std::result::Result<u64, String> {
    let mut frame = Frame {
        integers: [0; REGISTERS],
        floats: [0; REGISTERS],
        function: shape.function.get(),
        stack_words: 0,
        integer_result: 0,
        float_result: 0,
        stack: [0; TYPED_ARGUMENTS_MAX],
    };
    let (mut integers, mut floats, mut stack) = (0, 0, 0);
    for (index, word) in arguments.iter().enumerate() {
        let is_float = shape.floats >> index & 1 == 1;
        let (used, places) = match is_float {
            true => (&mut floats, &mut frame.floats[..]),
            false => (&mut integers, &mut frame.integers[..]),
        };
        let (used, places) = match *used < places.len() {
            true => (used, places),
            false => (&mut stack, &mut frame.stack[..]),
        };
        places[*used] = u64::from_le_bytes(*word);
        *used += 1;
    }
    frame.stack_words = stack as u64;
    // SAFETY: the caller vouches for the function and its arguments; the frame is alive, and as large as it says.
    unsafe { enter::caller(farcall_call_typed, &raw mut frame) }?;
    Ok(if shape.returns_float { frame.float_result } else { frame.integer_result })
}
