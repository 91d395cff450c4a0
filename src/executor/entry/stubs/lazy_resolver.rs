//! The entry point to which the first call of a lazily compiled function jumps.
//!
//! The caller does not know of it, so it saves all registers that can hold arguments, vector registers included. The
//! controller stores the function's address where the stub finds it before it answers, so there is one round trip. If the
//! function cannot be compiled, the call is unwound ([`unwind_boundary`]) with the reason that the controller gives.
#![allow(unsafe_code, reason = "is jumped to by code")]
#![cfg_attr(
    not(target_arch = "x86_64"),
    expect(dead_code, reason = "the linker supports x86-64 only")
)]

use std::cell::Cell;
use std::sync::OnceLock;

use crate::ExecutorAddr;
use crate::error::{Error, Result};
use crate::executor::entry::unwind_boundary;
#[cfg(target_arch = "x86_64")]
use {crate::call::contract::LAZY_RESOLVER, crate::executor::entry::abi::processor_state};

/// Asks the controller for the address of the function with this tag, whose call returns to `return_address`.
pub(crate) type Ask = fn(tag: u64, return_address: u64) -> Result<ExecutorAddr>;

static ASK: OnceLock<Ask> = OnceLock::new();

thread_local! {
    /// The reason for which the call is about to be unwound.
    static WHY: Cell<Option<String>> = const { Cell::new(None) };
}

/// The name and address of the resolver, which calls `ask`.
#[cfg(target_arch = "x86_64")]
pub(crate) fn offer(ask: Ask) -> Option<(String, ExecutorAddr)> {
    processor_state::prepare();
    ASK.get_or_init(|| ask);
    let address = farcall_lazy_resolver as *const () as u64;
    Some((LAZY_RESOLVER.to_owned(), ExecutorAddr::new(address)))
}

/// None: the linker supports x86-64 only.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn offer(_: Ask) -> Option<(String, ExecutorAddr)> {
    None
}

#[cfg(target_arch = "x86_64")]
std::arch::global_asm!(
    ".pushsection .text.farcall_lazy,\"ax\",@progbits",
    ".globl farcall_lazy_resolver",
    ".hidden farcall_lazy_resolver",
    ".type farcall_lazy_resolver,@function",
    ".balign 16",
    "farcall_lazy_resolver:",
    "push rbp",
    "mov rbp, rsp",
    "push rax",
    "push rdi",
    "push rsi",
    "push rdx",
    "push rcx",
    "push r8",
    "push r9",
    "push r10",
    "push r11",
    processor_state::save!(),
    "mov rdi, qword ptr [rbp + 8]",
    "mov rsi, qword ptr [rbp + 16]",
    "call {resolve}",
    // Replaces the trampoline's address, so that `ret` jumps to the function.
    "mov qword ptr [rbp + 16], rax",
    processor_state::restore!(),
    "lea rsp, [rbp - 72]",
    "pop r11",
    "pop r10",
    "pop r9",
    "pop r8",
    "pop rcx",
    "pop rdx",
    "pop rsi",
    "pop rdi",
    "pop rax",
    "pop rbp",
    "lea rsp, [rsp + 8]",
    "ret",
    ".size farcall_lazy_resolver, . - farcall_lazy_resolver",
    ".popsection",
    mask = sym processor_state::MASK,
    bytes = sym processor_state::BYTES,
    resolve = sym resolve,
);

#[cfg(target_arch = "x86_64")]
unsafe extern "C" {
    /// See [`LAZY_RESOLVER`].
    safe fn farcall_lazy_resolver();
}

/// The address to jump to: the function of a trampoline, or [`fail`].
extern "C" fn resolve(tag: u64, return_address: u64) -> u64 {
    let ask = ASK.get().ok_or_else(|| Error::invalid("no function was to be compiled later"));
    match ask.and_then(|ask| ask(tag, return_address)) {
        Ok(function) => function.get(),
        Err(error) => {
            // A thread that is ending has no such variable, and the reason is lost.
            let _ = WHY.try_with(|why| why.set(Some(error.to_string())));
            fail as *const () as u64
        }
    }
}

/// Runs in place of a function that cannot be compiled.
extern "C-unwind" fn fail() {
    let why = WHY.try_with(Cell::take).ok().flatten().unwrap_or_default();
    unwind_boundary::unwind(why)
}
