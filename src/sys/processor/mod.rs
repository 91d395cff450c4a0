//! The processor: its instructions, its thread pointer, the way in which new code becomes visible, and the kernel's interface for it.
//!
//! Invariant: no other file of the room names a processor.

#[cfg_attr(target_arch = "aarch64", path = "aarch64.rs")]
#[cfg_attr(target_arch = "x86_64", path = "x86_64.rs")]
pub(crate) mod native;

pub(crate) use native::{
    ELF_ADDRESS, ELF_JUMP_ADDRESS, ELF_MACHINE, ELF_TABLE_ADDRESS, ELF_THREAD_DISTANCE,
    KEEPS_STATE, OLD_CALLS, OPEN, OTHER_CALLS, call_on_stack, helpers, is_thread_pointer,
    publish_code, publishes_code, registers, segment, set_segment, thread_pointer, words_of_clone,
};

/// The registers of a thread when a signal came.
pub(crate) struct Registers {
    pub(crate) pc: u64,
    pub(crate) sp: u64,
    /// The access that faulted was a write. False when the processor does not say so.
    pub(crate) is_write: bool,
}

/// The features in a list that this processor has, each with LLVM's name.
macro_rules! known {
    ($detected:ident: $($feature:tt $name:literal),* $(,)?) => {
        [$((std::arch::$detected!($feature), $name)),*]
    };
}
pub(crate) use known;
