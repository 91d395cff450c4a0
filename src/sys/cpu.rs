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
