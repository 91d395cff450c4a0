//! AArch64: instruction caches do not see stores by themselves.
//!
//! The rules are in "Arm Architecture Reference Manual for A-profile", B2.7.4.2. The writer of code cleans the data caches. Then it
//! invalidates the instruction caches, by the addresses where the code runs. Both reach all processors of the process. `CTR_EL0`
//! tells which of the two the processor does by itself.

use std::ffi::c_void;

use libc::c_long;

use super::Registers;
use crate::addr::AddrRange;

/// The bits of `CTR_EL0`: the caches need no clean, and no invalidation.
const CLEAN_BY_ITSELF: u64 = 1 << 28;
const INVALID_BY_ITSELF: u64 = 1 << 29;

/// The number of this processor in the header of an ELF file.
pub(crate) const ELF_MACHINE: u16 = libc::EM_AARCH64;

/// The types of the relocations by which the dynamic linker stores addresses of symbols. The first is for data, the second for the table
/// of addresses, and the third for the words by which stubs jump.
pub(crate) const ELF_ADDRESS: u64 = 257;
pub(crate) const ELF_TABLE_ADDRESS: u64 = 1025;
pub(crate) const ELF_JUMP_ADDRESS: u64 = 1026;

/// The type of the relocation that stores a thread-local's distance from the thread pointer.
pub(crate) const ELF_THREAD_DISTANCE: u64 = 1030;

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

/// From here on this thread executes the instructions that were published before the last acquired message.
#[inline]
pub(crate) fn serialize() {
    // SAFETY: an instruction barrier has no other effect.
    unsafe {
        std::arch::asm!("isb");
    }
}

/// True: code is better fetched ahead of [`serialize`].
#[inline]
pub(crate) fn fetches_ahead() -> bool {
    true
}

/// As `fence` of the standard library.
#[inline(always)]
pub(crate) fn fence() {
    crate::sync::fence(crate::sync::Ordering::SeqCst);
}

/// Waits for `turns` hints that this thread spins.
#[inline(always)]
pub(crate) fn spin(turns: usize) {
    for _ in 0..turns {
        std::hint::spin_loop();
    }
}

/// Begins to fetch the line at `address`.
#[inline]
pub(crate) fn prefetch(address: u64) {
    // SAFETY: a prefetch does not fault, and changes only the caches.
    unsafe {
        std::arch::asm!("prfm pldl1keep, [{}]", in(reg) address, options(nostack, preserves_flags));
    }
}

/// Begins to fetch the line at `address`, to be written.
#[inline]
pub(crate) fn prefetch_to_write(address: u64) {
    // SAFETY: a prefetch does not fault, and changes only the caches.
    unsafe {
        std::arch::asm!("prfm pstl1keep, [{}]", in(reg) address, options(nostack, preserves_flags));
    }
}

/// The features of this processor, by LLVM's names.
pub(crate) fn features() -> impl Iterator<Item = &'static str> {
    let known = crate::sys::processor::known!(is_aarch64_feature_detected:
        "neon" "neon", "fp16" "fullfp16", "aes" "aes", "sha2" "sha2", "sha3" "sha3", "crc" "crc",
        "lse" "lse", "rdm" "rdm", "rcpc" "rcpc", "dotprod" "dotprod", "bf16" "bf16", "i8mm" "i8mm",
        "sve" "sve", "sve2" "sve2",
    );
    known.into_iter().filter(|(is_there, _)| *is_there).map(|(_, name)| name)
}

/// The last two words of `clone`, of which one is the address of the child's number.
pub(crate) fn words_of_clone<T>(child: T, threads: T) -> [T; 2] {
    [threads, child]
}

/// The registers that a signal has found.
pub(crate) fn registers(context: *const libc::ucontext_t) -> Registers {
    // SAFETY: the kernel passes a valid context to a handler installed with SA_SIGINFO.
    let machine = unsafe { &(*context).uc_mcontext };
    let records = (&raw const *machine).cast::<u8>().wrapping_add(RECORDS_OFFSET);
    // SAFETY: the kernel's records are the rest of that structure, which begins at a multiple of 16 bytes.
    let records = unsafe { &*records.cast::<[u64; RECORDS_WORDS]>() };
    Registers { pc: machine.pc, sp: machine.sp, is_write: is_store(records) }
}

/// Where the kernel's records are in the context of a machine, and how many words they have.
const RECORDS_OFFSET: usize = 288;
const RECORDS_WORDS: usize = 512;

/// The record with the register `ESR_EL1`. Source: Linux, `asm/sigcontext.h`.
const ESR_MAGIC: u64 = 0x4553_5201;

/// True when that register says that a store of user code has faulted: the class of data aborts, and the bit `WnR`.
fn is_store(records: &[u64]) -> bool {
    const CLASS_SHIFT: u32 = 26;
    const DATA_ABORT: u64 = 0x24;
    const WRITE_NOT_READ: u64 = 1 << 6;
    let mut rest = records;
    while let [header, register, ..] = rest {
        // A record begins with its number and its size in bytes, each of 32 bits. The last one has the number 0.
        match header & u64::from(u32::MAX) {
            0 => return false,
            ESR_MAGIC => {
                let class = register >> CLASS_SHIFT & 0x3f;
                return class == DATA_ABORT && register & WRITE_NOT_READ != 0;
            }
            _ => rest = rest.get(((header >> 32) as usize / 8).max(1)..).unwrap_or_default(),
        }
    }
    false
}

/// There are no older system calls, and no second set of them.
pub(crate) const OLD_CALLS: &[c_long] = &[];
pub(crate) const OPEN: Option<c_long> = None;
pub(crate) const OTHER_CALLS: Option<u32> = None;

/// False: states are not kept, and what follows does nothing.
pub(crate) const KEEPS_STATE: bool = false;

pub(crate) fn segment() -> u64 {
    0
}

/// # Safety
///
/// None is needed.
pub(crate) unsafe fn set_segment(_: u64) {}

/// # Safety
///
/// It must not be called.
pub(crate) unsafe fn call_on_stack(
    _saved: *mut u64,
    _top: u64,
    _function: *const c_void,
    _argument: *mut c_void,
) -> u64 {
    std::process::abort()
}

macro_rules! helpers {
    ($($name:ident)*) => {
        // The runtime of the Rust compiler has them, as libgcc does.
        unsafe extern "C" {
            $(fn $name();)*
        }

        /// The functions that compilers call for atomic operations, as of `-moutline-atomics`, the default of gcc. They use the
        /// instructions of a processor that has them. No shared library has these functions: a static linker adds them to each
        /// program.
        pub(crate) fn helpers() -> [(&'static str, *const c_void); 100] {
            [$((stringify!($name), $name as *const c_void),)*]
        }
    };
}

#[rustfmt::skip]
helpers! {
    __aarch64_cas1_relax __aarch64_cas1_acq __aarch64_cas1_rel __aarch64_cas1_acq_rel
    __aarch64_cas2_relax __aarch64_cas2_acq __aarch64_cas2_rel __aarch64_cas2_acq_rel
    __aarch64_cas4_relax __aarch64_cas4_acq __aarch64_cas4_rel __aarch64_cas4_acq_rel
    __aarch64_cas8_relax __aarch64_cas8_acq __aarch64_cas8_rel __aarch64_cas8_acq_rel
    __aarch64_cas16_relax __aarch64_cas16_acq __aarch64_cas16_rel __aarch64_cas16_acq_rel
    __aarch64_swp1_relax __aarch64_swp1_acq __aarch64_swp1_rel __aarch64_swp1_acq_rel
    __aarch64_swp2_relax __aarch64_swp2_acq __aarch64_swp2_rel __aarch64_swp2_acq_rel
    __aarch64_swp4_relax __aarch64_swp4_acq __aarch64_swp4_rel __aarch64_swp4_acq_rel
    __aarch64_swp8_relax __aarch64_swp8_acq __aarch64_swp8_rel __aarch64_swp8_acq_rel
    __aarch64_ldadd1_relax __aarch64_ldadd1_acq __aarch64_ldadd1_rel __aarch64_ldadd1_acq_rel
    __aarch64_ldadd2_relax __aarch64_ldadd2_acq __aarch64_ldadd2_rel __aarch64_ldadd2_acq_rel
    __aarch64_ldadd4_relax __aarch64_ldadd4_acq __aarch64_ldadd4_rel __aarch64_ldadd4_acq_rel
    __aarch64_ldadd8_relax __aarch64_ldadd8_acq __aarch64_ldadd8_rel __aarch64_ldadd8_acq_rel
    __aarch64_ldclr1_relax __aarch64_ldclr1_acq __aarch64_ldclr1_rel __aarch64_ldclr1_acq_rel
    __aarch64_ldclr2_relax __aarch64_ldclr2_acq __aarch64_ldclr2_rel __aarch64_ldclr2_acq_rel
    __aarch64_ldclr4_relax __aarch64_ldclr4_acq __aarch64_ldclr4_rel __aarch64_ldclr4_acq_rel
    __aarch64_ldclr8_relax __aarch64_ldclr8_acq __aarch64_ldclr8_rel __aarch64_ldclr8_acq_rel
    __aarch64_ldeor1_relax __aarch64_ldeor1_acq __aarch64_ldeor1_rel __aarch64_ldeor1_acq_rel
    __aarch64_ldeor2_relax __aarch64_ldeor2_acq __aarch64_ldeor2_rel __aarch64_ldeor2_acq_rel
    __aarch64_ldeor4_relax __aarch64_ldeor4_acq __aarch64_ldeor4_rel __aarch64_ldeor4_acq_rel
    __aarch64_ldeor8_relax __aarch64_ldeor8_acq __aarch64_ldeor8_rel __aarch64_ldeor8_acq_rel
    __aarch64_ldset1_relax __aarch64_ldset1_acq __aarch64_ldset1_rel __aarch64_ldset1_acq_rel
    __aarch64_ldset2_relax __aarch64_ldset2_acq __aarch64_ldset2_rel __aarch64_ldset2_acq_rel
    __aarch64_ldset4_relax __aarch64_ldset4_acq __aarch64_ldset4_rel __aarch64_ldset4_acq_rel
    __aarch64_ldset8_relax __aarch64_ldset8_acq __aarch64_ldset8_rel __aarch64_ldset8_acq_rel
}

#[cfg(test)]
mod tests {
    use super::is_store;

    #[test]
    fn the_record_of_a_fault_says_whether_it_was_a_store() {
        let other = [0x10_4650_8001, 0, 0x20_4650_8002, 0, 0, 0];
        let fault = |register: u64| [&other[..], &[0x10_4553_5201, register, 0, 0]].concat();
        let [store, load, of_code] = [0x9200_004f, 0x9200_000f, 0x8200_004f];
        assert_eq!([store, load, of_code].map(|one| is_store(&fault(one))), [true, false, false]);
        // Nothing behind the last record counts, nor a record without its end.
        assert!(!is_store(&[0, 0, 0x10_4553_5201, store]));
        assert!(!is_store(&[0x10_4553_5201]));
        assert!(!is_store(&[0x4650_8001, 0x4650_8001]));
    }
}
