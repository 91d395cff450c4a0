//! Functions that are compiled when they are called first: such a call asks the controller where the function is.
//!
//! The caller knows nothing of it, so all registers in which arguments can be are saved meanwhile, those of vectors included.
//! The controller has stored the function's address where the stub finds it before it answers, so that this is the one
//! round trip. A call whose function cannot be compiled is unwound (`unwind_boundary`): it fails where the program was entered, for the reason
//! that the controller gives; a thread of the program's own ends.
#![allow(unsafe_code, reason = "is jumped to by code")]

use std::cell::Cell;

use crate::ExecutorAddr;
#[cfg(target_arch = "x86_64")]
use crate::call::contract::LAZY_RESOLVER;
use crate::call::contract::LazyPrepare;
use crate::error::{Error, Result};
use crate::executor::context::controller_access;
use crate::executor::entry::unwind_boundary;
use crate::executor::entry::wrapper::Serve;
#[cfg(target_arch = "x86_64")]
use crate::executor::tls::processor_state;

thread_local! {
    /// Why there is no function for the call that is about to be unwound.
    static WHY: Cell<Option<String>> = const { Cell::new(None) };
}

impl Serve for LazyPrepare {
    fn serve((): ()) -> Result<()> {
        unwind_boundary::require();
        Ok(())
    }
}

/// The resolver, under the name by which it is offered.
#[cfg(target_arch = "x86_64")]
pub(crate) fn resolver() -> Option<(String, ExecutorAddr)> {
    processor_state::prepare();
    let address = farcall_lazy_resolver as *const () as u64;
    Some((LAZY_RESOLVER.to_owned(), ExecutorAddr::new(address)))
}

/// Nothing is linked for other processors yet.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn resolver() -> Option<(String, ExecutorAddr)> {
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
    // In place of the trampoline, to return there.
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

/// Where the function is to which a trampoline belongs, or the one that unwinds the call.
#[cfg_attr(not(target_arch = "x86_64"), expect(dead_code, reason = "called by code for x86-64"))]
extern "C" fn resolve(tag: u64, return_address: u64) -> u64 {
    match ask(tag, return_address) {
        Ok(function) => function.get(),
        Err(error) => {
            // Where a thread is about to end there is no reason to be had.
            let _ = WHY.try_with(|why| why.set(Some(error.to_string())));
            fail as *const () as u64
        }
    }
}

fn ask(tag: u64, return_address: u64) -> Result<ExecutorAddr> {
    let result = controller_access::call(tag, &return_address.to_le_bytes())?;
    match result.as_bytes().try_into() {
        Ok(address) => Ok(ExecutorAddr::new(u64::from_le_bytes(address))),
        Err(_) => Err(Error::violation(format!("{} bytes for an address", result.len()))),
    }
}

/// What is called in place of a function that cannot be compiled.
extern "C-unwind" fn fail() {
    let why = WHY.try_with(Cell::take).ok().flatten().unwrap_or_default();
    unwind_boundary::unwind(why)
}
