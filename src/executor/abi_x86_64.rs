//! The C calling convention of x86-64 outside of Windows (System V): which register or place on the stack an argument is in.
//!
//! The first six integers and pointers are in registers, as are the first eight floating-point numbers; the others lie on the
//! stack in the order of the arguments, eight bytes each, the first at the lowest address, which is a multiple of 16. The number
//! of vector registers used is in `%al`, for functions of variable arguments.
//!
//! Invariant: everything that this library knows about passing arguments to C functions is in this file, for this processor.
#![allow(
    unsafe_code,
    reason = "calls functions by address, with arguments that are known at run time only"
)]

use super::enter;
use crate::call::typed::Shape;
use crate::limits::TYPED_ARGUMENTS_MAX;

const INTEGERS: usize = 6;
const FLOATS: usize = 8;

/// What `farcall_call_typed` loads before it calls, and stores afterwards.
#[repr(C)]
struct Frame {
    integers: [u64; INTEGERS],
    floats: [u64; FLOATS],
    function: u64,
    floats_used: u64,
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
    "push rbp",
    "mov rbp, rsp",
    "push rbx",
    "sub rsp, 8",
    "mov rbx, rdi",
    "mov rcx, qword ptr [rbx + {stack_words}]",
    "test rcx, rcx",
    "jz 2f",
    "lea rax, [8*rcx + 8]",
    "and rax, -16",
    "sub rsp, rax",
    "lea rsi, [rbx + {stack}]",
    "mov rdi, rsp",
    "cld",
    "rep movsq",
    "2:",
    "mov rax, qword ptr [rbx + {floats_used}]",
    "test eax, eax",
    "jz 3f",
    "movsd xmm0, qword ptr [rbx + {floats}]",
    "movsd xmm1, qword ptr [rbx + {floats} + 8]",
    "movsd xmm2, qword ptr [rbx + {floats} + 16]",
    "movsd xmm3, qword ptr [rbx + {floats} + 24]",
    "movsd xmm4, qword ptr [rbx + {floats} + 32]",
    "movsd xmm5, qword ptr [rbx + {floats} + 40]",
    "movsd xmm6, qword ptr [rbx + {floats} + 48]",
    "movsd xmm7, qword ptr [rbx + {floats} + 56]",
    "3:",
    "mov rdi, qword ptr [rbx]",
    "mov rsi, qword ptr [rbx + 8]",
    "mov rdx, qword ptr [rbx + 16]",
    "mov rcx, qword ptr [rbx + 24]",
    "mov r8, qword ptr [rbx + 32]",
    "mov r9, qword ptr [rbx + 40]",
    "call qword ptr [rbx + {function}]",
    "mov qword ptr [rbx + {integer_result}], rax",
    "movsd qword ptr [rbx + {float_result}], xmm0",
    "lea rsp, [rbp - 8]",
    "pop rbx",
    "pop rbp",
    "ret",
    ".size farcall_call_typed, . - farcall_call_typed",
    ".popsection",
    floats = const std::mem::offset_of!(Frame, floats),
    function = const std::mem::offset_of!(Frame, function),
    floats_used = const std::mem::offset_of!(Frame, floats_used),
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
        integers: [0; INTEGERS],
        floats: [0; FLOATS],
        function: shape.function.get(),
        floats_used: 0,
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
    (frame.floats_used, frame.stack_words) = (floats as u64, stack as u64);
    // SAFETY: the caller vouches for the function and its arguments; the frame is alive, and as large as it says.
    unsafe { enter::caller(farcall_call_typed, &raw mut frame) }?;
    Ok(if shape.returns_float { frame.float_result } else { frame.integer_result })
}
