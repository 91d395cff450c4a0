//! Leaving linked code: the function that an interrupted thread seems to have called.
#![allow(unsafe_code, reason = "defines a function in assembler, and unwinds linked code")]

use std::cell::Cell;

use super::frames::{self, Obstacle, Start, Way};
use super::obstacles;
use crate::error::Interruption;
use crate::executor::entry::unwind_boundary::native::call_frame::AtCall;
use crate::executor::entry::unwind_boundary::native::frame::BoundaryFrame;
use crate::executor::entry::unwind_boundary::served_calls::ServedCalls;

std::arch::global_asm!(
    ".pushsection .text.farcall_leave,\"ax\",@progbits",
    ".globl farcall_leave",
    ".hidden farcall_leave",
    ".type farcall_leave,@function",
    "farcall_leave:",
    ".cfi_startproc",
    "push rbp",
    ".cfi_def_cfa_offset 16",
    ".cfi_offset rbp, -16",
    "mov rbp, rsp",
    ".cfi_def_cfa_register rbp",
    // Functions that know each other need not keep the stack aligned.
    "and rsp, -16",
    "sub rsp, 48",
    // The result of a library, if the thread comes from it.
    "mov qword ptr [rsp], rax",
    "mov qword ptr [rsp + 8], rdx",
    "movaps xmmword ptr [rsp + 16], xmm0",
    "movaps xmmword ptr [rsp + 32], xmm1",
    "lea rdi, [rbp + 16]",
    "call {left}",
    "test rax, rax",
    "jnz 2f",
    "mov rax, qword ptr [rsp]",
    "mov rdx, qword ptr [rsp + 8]",
    "movaps xmm0, xmmword ptr [rsp + 16]",
    "movaps xmm1, xmmword ptr [rsp + 32]",
    "leave",
    ".cfi_def_cfa rsp, 8",
    "ret",
    ".cfi_endproc",
    // The frame of a caller further out, as `AtCall`.
    "2:",
    "mov rbx, qword ptr [rax]",
    "mov rbp, qword ptr [rax + 8]",
    "mov r12, qword ptr [rax + 16]",
    "mov r13, qword ptr [rax + 24]",
    "mov r14, qword ptr [rax + 32]",
    "mov r15, qword ptr [rax + 40]",
    "mov rsp, qword ptr [rax + 48]",
    "sub rsp, 8",
    "jmp farcall_leave",
    ".size farcall_leave, . - farcall_leave",
    ".popsection",
    left = sym left,
);

unsafe extern "C" {
    /// Leaves linked code from the frame that has called this, if that is still wanted; returns otherwise. Keeps the registers of
    /// results.
    pub(super) safe fn farcall_leave();
}

thread_local! {
    /// The frame from which this thread is about to leave.
    static FRAME: Cell<AtCall> = const { Cell::new(AtCall::NONE) };
    /// Where the interrupted call stood, and how many functions it has left without their cleanups.
    static LEFT: Cell<(u64, u64)> = const { Cell::new((0, 0)) };
    static IS_LEAVING: Cell<bool> = const { Cell::new(false) };
    static BEGUN: Cell<Begun> = const { Cell::new(Begun::No) };
}

/// Whether the thread has left a frame whose caller would take its return for a result.
#[derive(Debug, Default, Clone, Copy)]
enum Begun {
    #[default]
    No,
    Yes,
    /// Yes, and all frames up to the boundary can be unwound.
    To(BoundaryFrame),
}

/// True while this thread looks at its frames. It may hold a lock of the unwinder then.
pub(super) fn is_leaving() -> bool {
    IS_LEAVING.get()
}

/// Notes where the thread stands, for the error of its call.
pub(super) fn note(address: u64, skipped: u64) {
    LEFT.set((address, skipped));
}

/// Whether the call is to end that has called this library, and is about to go on at `address` with the stack pointer `stack`. Then
/// [`farcall_leave`] comes next. A call that asks the host again and again is hardly ever seen in linked code.
#[inline]
pub(crate) fn is_due(address: u64, stack: u64) -> bool {
    let served = ServedCalls::of_thread().filter(|served| served.calls().wanted().is_some());
    served.is_some_and(|served| can_leave(served, address, stack))
}

#[cold]
fn can_leave(served: &ServedCalls, address: u64, stack: u64) -> bool {
    if !served.is_here() || !obstacles::is_wanted(served) {
        return false;
    }
    match way_out(stack, served.calls().samples()) {
        Ok(Way::Unwind { .. } | Way::From { .. }) => {}
        Ok(Way::Return { .. }) => return false,
        Err(obstacle) => {
            obstacles::note(served, obstacle);
            return false;
        }
    }
    note(address, 0);
    true
}

fn way_out(stack: u64, looks: u64) -> Result<Way, Obstacle> {
    IS_LEAVING.set(true);
    let way = frames::way_out(Start::AtCall(stack), looks);
    IS_LEAVING.set(false);
    way
}

/// Says that the thread leaves a frame. From then on there is no way back. No further look is needed if the boundary is known.
pub(super) fn begin(boundary: Option<BoundaryFrame>) {
    BEGUN.set(boundary.map_or(Begun::Yes, Begun::To));
}

/// Unwinds the call of the thread, whose innermost frame has this stack pointer when this call has returned. Returns null if the call is
/// not to end any more, or cannot be left from here. Otherwise returns the frame from which it can be left.
unsafe extern "C-unwind" fn left(stack: u64) -> *const AtCall {
    let Some(served) = ServedCalls::of_thread() else { return std::ptr::null() };
    // A child that the call has forked returns to its copy of the stub.
    // A request that is over by now was not, when the thread has left a frame.
    let way = match BEGUN.take() {
        Begun::No if !served.is_here() || !obstacles::is_wanted(served) => return std::ptr::null(),
        // The handler has decided that functions may be left without their cleanups.
        Begun::No | Begun::Yes => way_out(stack, u64::MAX),
        Begun::To(boundary) => Ok(Way::Unwind { boundary }),
    };
    match way {
        Ok(Way::Unwind { boundary }) => {
            let (address, skipped) = LEFT.get();
            let told = Interruption::at(address, skipped, served.threads_started());
            boundary.unwind(told.to_string());
        }
        Ok(Way::From { frame, skipped, .. }) => {
            let (address, before) = LEFT.get();
            note(address, before + skipped);
            begin(None);
            FRAME.set(frame);
            FRAME.with(Cell::as_ptr)
        }
        Ok(Way::Return { .. }) => std::ptr::null(),
        Err(obstacle) => {
            obstacles::note(served, obstacle);
            std::ptr::null()
        }
    }
}
