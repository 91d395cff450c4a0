//! The C calling convention of this processor, and the state that unexpected calls must preserve.

#[cfg_attr(target_arch = "aarch64", path = "aarch64/mod.rs")]
#[cfg_attr(target_arch = "x86_64", path = "x86_64/mod.rs")]
pub(crate) mod native;

pub(crate) use native::processor_state::prepare;
pub(crate) use native::stubs::{handler_entry, lazy_resolver, thread_functions};

use crate::types::abi::RESULT_WORDS;
pub(crate) use crate::types::abi::{FLOATS, INTEGERS};

/// The registers that `farcall_call_typed` loads before the call and stores after it.
#[repr(C)]
pub(crate) struct Frame {
    /// The registers for integers and pointers; the assembler expects them first.
    pub(crate) integers: [u64; INTEGERS],
    pub(crate) floats: [[u64; 2]; FLOATS],
    pub(crate) function: u64,
    /// The number of floating-point registers in use.
    pub(crate) floats_used: u64,
    pub(crate) stack_words: u64,
    pub(crate) stack: *const u64,
    /// The words of the result registers.
    pub(crate) results: [u64; RESULT_WORDS],
    /// Where a result goes that registers cannot hold, on processors where that is no argument.
    pub(crate) result_memory: u64,
}
