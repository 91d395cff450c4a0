//! What the processor itself must be told.

/// Makes sure that instructions written by another processor before the last acquired message are what this thread
/// executes from here on.
///
/// The x86-64 manuals ask for a serialising instruction before code that another processor wrote is run. `iretq` is the
/// cheapest that user code may execute (34 ns; `cpuid` traps to the hypervisor of a virtual machine).
#[inline]
pub(crate) fn serialize() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: returns to the next instruction with flags, stack and segments as they are; the assembler block may use
    // the stack.
    unsafe {
        std::arch::asm!(
            "mov {scratch:e}, ss",
            "mov {stack}, rsp",
            "push {scratch}",
            "push {stack}",
            "pushfq",
            "mov {scratch:e}, cs",
            "push {scratch}",
            "lea {scratch}, [rip + 2f]",
            "push {scratch}",
            "iretq",
            "2:",
            scratch = out(reg) _,
            stack = out(reg) _,
        );
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: an instruction barrier has no other effect.
    unsafe {
        std::arch::asm!("isb");
    }
}

/// Which components of its extended state the processor has to save so that compiled code may run in between, as a
/// bit mask for `xsave`, and how many bytes that takes. The mask is 0 where there is `fxsave` only.
#[cfg(target_arch = "x86_64")]
pub(crate) fn extended_state() -> (u64, u64) {
    use std::arch::x86_64::{__cpuid, __cpuid_count};
    const HAS_XSAVE: u32 = 1 << 27;
    /// x87, SSE, AVX, AVX-512, APX. What else there is (tiles, protection keys) no function uses unasked.
    const COMPONENTS: u64 = 0b111 | 0b111 << 5 | 1 << 19;
    /// The part that is the same everywhere: x87 and SSE, and the header of `xsave`.
    const LEGACY_BYTES: u64 = 512;
    const HEADER_BYTES: u64 = 64;
    if __cpuid(1).ecx & HAS_XSAVE == 0 {
        return (0, LEGACY_BYTES);
    }
    let (low, high): (u32, u32);
    // SAFETY: the system has switched on `xsave`, and with it this instruction, which reads a register.
    unsafe {
        std::arch::asm!(
            "xgetbv",
            in("ecx") 0,
            out("eax") low,
            out("edx") high,
            options(nomem, nostack, preserves_flags)
        );
    }
    let mask = (u64::from(high) << 32 | u64::from(low)) & COMPONENTS;
    let others = (2..64_u32).filter(|component| mask >> component & 1 == 1).map(|component| {
        let found = __cpuid_count(0xd, component);
        u64::from(found.eax) + u64::from(found.ebx)
    });
    (mask, others.max().unwrap_or(0).max(LEGACY_BYTES + HEADER_BYTES))
}

/// Begins to fetch what is at `address` of this process, code or data. A hint: an address that is not mapped is ignored.
#[inline]
pub(crate) fn prefetch(address: u64) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch neither faults nor changes anything but what is cached.
    unsafe {
        std::arch::asm!("prefetcht0 [{}]", in(reg) address, options(nostack, preserves_flags));
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: a prefetch neither faults nor changes anything but what is cached.
    unsafe {
        std::arch::asm!("prfm pldl1keep, [{}]", in(reg) address, options(nostack, preserves_flags));
    }
}

/// As [`prefetch`], to be written: the line is taken away from the processor that has it.
#[inline]
pub(crate) fn prefetch_to_write(address: u64) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch neither faults nor changes anything but what is cached.
    unsafe {
        std::arch::asm!("prefetchw [{}]", in(reg) address, options(nostack, preserves_flags));
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: a prefetch neither faults nor changes anything but what is cached.
    unsafe {
        std::arch::asm!("prfm pstl1keep, [{}]", in(reg) address, options(nostack, preserves_flags));
    }
}
