//! AArch64: instruction caches do not see stores by themselves.
//!
//! The rules are in "Arm Architecture Reference Manual for A-profile", B2.7.4.2. The writer of code cleans the data caches. Then it
//! invalidates the instruction caches, by the addresses where the code runs. Both reach all processors of the process. `CTR_EL0`
//! tells which of the two the processor does by itself.

use crate::addr::AddrRange;

/// The bits of `CTR_EL0`: the caches need no clean, and no invalidation.
const CLEAN_BY_ITSELF: u64 = 1 << 28;
const INVALID_BY_ITSELF: u64 = 1 << 29;

/// The calling thread's thread pointer, the base of its thread-locals.
pub(crate) fn thread_pointer() -> u64 {
    let pointer: u64;
    // SAFETY: reads a register that user code may read.
    unsafe {
        std::arch::asm!("mrs {}, tpidr_el0", out(reg) pointer, options(nostack, nomem, preserves_flags));
    }
    pointer
}

/// True for the thread pointer of a thread of this process, given the word there.
pub(crate) fn is_thread_pointer(_: u64, word: u64) -> bool {
    // The ABI has the address of the thread's DTV there.
    word != 0
}

/// True if new code has to be [published](publish_code).
pub(crate) fn publishes_code() -> bool {
    cache_type() & (CLEAN_BY_ITSELF | INVALID_BY_ITSELF) != CLEAN_BY_ITSELF | INVALID_BY_ITSELF
}

/// Makes code in this range, which another thread or process has stored, visible to all processors. Each must serialise its
/// instructions before it runs the code. The range must be readable.
pub(crate) fn publish_code(range: AddrRange) {
    let caches = cache_type();
    // The sizes of lines are powers of two, in words of 4 bytes.
    let line = |shift: u32| 4_u64 << (caches >> shift & 0xf);
    if caches & CLEAN_BY_ITSELF == 0 {
        for address in lines(range, line(16)) {
            // SAFETY: the caller vouches for the range; a clean changes no memory.
            unsafe {
                std::arch::asm!("dc cvau, {}", in(reg) address, options(nostack, preserves_flags))
            };
        }
    }
    // SAFETY: a barrier waits, and changes no memory.
    unsafe { std::arch::asm!("dsb ish", options(nostack, preserves_flags)) };
    if caches & INVALID_BY_ITSELF == 0 {
        for address in lines(range, line(0)) {
            // SAFETY: as above; the next instruction that is fetched from there is the stored one.
            unsafe {
                std::arch::asm!("ic ivau, {}", in(reg) address, options(nostack, preserves_flags))
            };
        }
        // SAFETY: as above.
        unsafe { std::arch::asm!("dsb ish", options(nostack, preserves_flags)) };
    }
    // SAFETY: as above.
    unsafe { std::arch::asm!("isb", options(nostack, preserves_flags)) };
}

/// The addresses of the lines of a range.
fn lines(range: AddrRange, line_bytes: u64) -> impl Iterator<Item = u64> {
    let first = range.start.get() / line_bytes;
    (first..range.end.get().div_ceil(line_bytes)).map(move |line| line * line_bytes)
}

fn cache_type() -> u64 {
    let caches: u64;
    // SAFETY: reads a register that Linux lets user code read.
    unsafe {
        std::arch::asm!("mrs {}, ctr_el0", out(reg) caches, options(nostack, nomem, preserves_flags));
    }
    caches
}
