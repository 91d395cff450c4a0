//! Instructions for the processor: serialization, fences, prefetches, pauses; and what it can do.

#[cfg(not(all(target_arch = "x86_64", not(model))))]
use crate::sync::{Ordering, fence as fence_of_the_language};

/// From here on this thread executes the instructions that another processor wrote before the last acquired message.
///
/// The x86-64 manuals ask for a serializing instruction before a processor runs code that another one wrote. Which of these
/// user code may execute, and which is cheapest, differs; it is found out once.
#[inline]
pub(crate) fn serialize() {
    #[cfg(target_arch = "x86_64")]
    match *SERIALIZER.get_or_init(Serializer::of_this_processor) {
        // SAFETY: the processor reports this instruction, which touches no memory.
        Serializer::Serialize => unsafe {
            std::arch::asm!("serialize", options(nostack, preserves_flags));
        },
        // SAFETY: waits, and touches no memory.
        Serializer::MemoryFence => unsafe {
            std::arch::asm!("mfence", options(nostack, preserves_flags));
        },
        Serializer::Return => serialize_by_return(),
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: an instruction barrier has no other effect.
    unsafe {
        std::arch::asm!("isb");
    }
}

/// As [`serialize`], ahead of code at this address.
///
/// Prefetches the code meanwhile, except where the processor has the instruction `serialize`. There a line that was fetched as
/// data first comes later as code, and is written later the next time, by 10 % of a call.
#[inline]
pub(crate) fn serialize_for(code: u64) {
    #[cfg(target_arch = "x86_64")]
    let is_fetched =
        *SERIALIZER.get_or_init(Serializer::of_this_processor) != Serializer::Serialize;
    #[cfg(not(target_arch = "x86_64"))]
    let is_fetched = true;
    if is_fetched {
        prefetch(code);
    }
    serialize();
}

/// The means of serializing this processor.
#[cfg(target_arch = "x86_64")]
static SERIALIZER: std::sync::OnceLock<Serializer> = std::sync::OnceLock::new();

#[cfg(target_arch = "x86_64")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Serializer {
    /// The instruction `serialize`.
    Serialize,
    /// `mfence`, 19 ns. AMD's manual (volume 2, serializing instructions) lists it, Intel's does not.
    MemoryFence,
    /// `iretq`, 36 ns, on every processor (`cpuid` traps to the hypervisor of a virtual machine).
    Return,
}

#[cfg(target_arch = "x86_64")]
impl Serializer {
    fn of_this_processor() -> Self {
        use std::arch::x86_64::{__cpuid, __cpuid_count};
        let vendor = __cpuid(0);
        let features = if vendor.eax >= 7 { __cpuid_count(7, 0).edx } else { 0 };
        Self::of([vendor.ebx, vendor.edx, vendor.ecx], __cpuid(1).eax, features)
    }

    /// The choice for a processor by its `cpuid`: the words of the vendor's name, the signature, and EDX of leaf 7.
    fn of(vendor: [u32; 3], signature: u32, features: u32) -> Self {
        const HAS_SERIALIZE: u32 = 1 << 14;
        const AMD: [u32; 3] = [
            u32::from_le_bytes(*b"Auth"),
            u32::from_le_bytes(*b"enti"),
            u32::from_le_bytes(*b"cAMD"),
        ];
        /// Zen. Older manuals do not list `mfence`.
        const FAMILY_MIN: u32 = 0x17;
        let base = signature >> 8 & 0xf;
        let family = if base == 0xf { base + (signature >> 20 & 0xff) } else { base };
        if features & HAS_SERIALIZE != 0 {
            Self::Serialize
        } else if vendor == AMD && family >= FAMILY_MIN {
            Self::MemoryFence
        } else {
            Self::Return
        }
    }
}

/// Serializes every x86-64 processor.
#[cfg(target_arch = "x86_64")]
fn serialize_by_return() {
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
}

/// Orders this thread's stores before its later loads, and waits until the stores have left the processor: no later instruction
/// begins before.
///
/// The standard library's fence is a locked instruction on x86-64, which holds back loads only. A thread that measures time
/// behind that one starts its clock before other processors see the store.
#[inline(always)]
pub(crate) fn fence() {
    #[cfg(all(target_arch = "x86_64", not(model)))]
    // SAFETY: waits, and touches no memory.
    unsafe {
        std::arch::asm!("mfence", options(nostack, preserves_flags));
    }
    #[cfg(not(all(target_arch = "x86_64", not(model))))]
    fence_of_the_language(Ordering::SeqCst);
}

/// Waits for `turns` multiplications, at least one, each dependent on the one before, of three cycles each. No later instruction
/// begins before.
///
/// A processor that predicts the end of the loop waits at the fence behind it until the multiplications are done. `pause` is not
/// used, since its length differs a lot between processors. Nor is a jump into a row of multiplications, which would have to be
/// fetched again after the processor was serialized.
#[inline(always)]
pub(crate) fn spin(turns: usize) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: multiplies a register by itself in a loop and waits for it; touches no memory.
    unsafe {
        std::arch::asm!(
            "2:",
            "imul {register:e}, {register:e}",
            "dec {turns}",
            "jnz 2b",
            "lfence",
            turns = inout(reg) turns.max(1) => _,
            register = inout(reg) 1 => _,
            options(nostack),
        );
    }
    #[cfg(not(target_arch = "x86_64"))]
    for _ in 0..turns {
        std::hint::spin_loop();
    }
}

/// The extended state that must be saved while compiled code runs in between: a bit mask for `xsave`, and the size in bytes.
/// The mask is 0 where there is only `fxsave`.
#[cfg(target_arch = "x86_64")]
pub(crate) fn extended_state() -> (u64, u64) {
    use std::arch::x86_64::{__cpuid, __cpuid_count};
    const HAS_XSAVE: u32 = 1 << 27;
    /// x87, SSE, AVX, AVX-512, APX. A function uses the other components (tiles, protection keys) only on request.
    const COMPONENTS: u64 = 0b111 | 0b111 << 5 | 1 << 19;
    /// The part that every processor has: x87 and SSE, and the header of `xsave`.
    const LEGACY_BYTES: u64 = 512;
    const HEADER_BYTES: u64 = 64;
    if __cpuid(1).ecx & HAS_XSAVE == 0 {
        return (0, LEGACY_BYTES);
    }
    let (low, high): (u32, u32);
    // SAFETY: the system has enabled `xsave`, and with it this instruction, which reads a register.
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

/// LLVM's names of the features that this processor has and the system lets programs use.
pub(crate) fn features() -> impl Iterator<Item = &'static str> {
    macro_rules! known {
        ($detected:ident: $($feature:tt $name:literal),* $(,)?) => {
            [$((std::arch::$detected!($feature), $name)),*]
        };
    }
    #[cfg(target_arch = "x86_64")]
    let known = known!(is_x86_feature_detected:
        "sse" "sse", "sse2" "sse2", "sse3" "sse3", "ssse3" "ssse3", "sse4.1" "sse4.1",
        "sse4.2" "sse4.2", "sse4a" "sse4a", "avx" "avx", "avx2" "avx2", "fma" "fma", "f16c" "f16c",
        "bmi1" "bmi", "bmi2" "bmi2", "lzcnt" "lzcnt", "popcnt" "popcnt", "tbm" "tbm",
        "movbe" "movbe", "adx" "adx", "aes" "aes", "vaes" "vaes", "pclmulqdq" "pclmul",
        "vpclmulqdq" "vpclmulqdq", "gfni" "gfni", "sha" "sha", "rdrand" "rdrnd", "rdseed" "rdseed",
        "cmpxchg16b" "cx16", "fxsr" "fxsr", "xsave" "xsave", "xsaveopt" "xsaveopt",
        "xsavec" "xsavec", "xsaves" "xsaves",
        "avx512f" "avx512f", "avx512cd" "avx512cd", "avx512bw" "avx512bw", "avx512dq" "avx512dq",
        "avx512vl" "avx512vl", "avx512ifma" "avx512ifma", "avx512vbmi" "avx512vbmi",
        "avx512vbmi2" "avx512vbmi2", "avx512vnni" "avx512vnni", "avx512bitalg" "avx512bitalg",
        "avx512vpopcntdq" "avx512vpopcntdq", "avx512bf16" "avx512bf16",
        "avx512vp2intersect" "avx512vp2intersect",
    );
    #[cfg(target_arch = "aarch64")]
    let known = known!(is_aarch64_feature_detected:
        "neon" "neon", "fp16" "fullfp16", "aes" "aes", "sha2" "sha2", "sha3" "sha3", "crc" "crc",
        "lse" "lse", "rdm" "rdm", "rcpc" "rcpc", "dotprod" "dotprod", "bf16" "bf16", "i8mm" "i8mm",
        "sve" "sve", "sve2" "sve2",
    );
    known.into_iter().filter(|(is_there, _)| *is_there).map(|(_, name)| name)
}

/// The number of the CPU that this thread runs on, plus one; 0 when the system does not tell. Takes a few nanoseconds.
pub(crate) fn current() -> u64 {
    if cfg!(model) {
        return 0;
    }
    // SAFETY: takes no argument and touches no memory of ours.
    let number = unsafe { libc::sched_getcpu() };
    u64::try_from(i64::from(number) + 1).unwrap_or(0)
}

/// Moves this thread to another of the CPUs that it may use. False where it may use one only, or the kernel refuses.
///
/// The thread may use the same CPUs afterwards, and the kernel may move it back at any time.
pub(crate) fn leave() -> bool {
    let mut allowed = no_cpus();
    // SAFETY: the kernel writes at most the size of the set, which is a live variable.
    let got = unsafe { libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut allowed) };
    // SAFETY: reads a set that the kernel has filled, or that is empty.
    let count = unsafe { libc::CPU_COUNT(&allowed) };
    let Ok(number) = usize::try_from(current().wrapping_sub(1)) else { return false };
    if got != 0 || count < 2 || number >= 8 * size_of::<libc::cpu_set_t>() {
        return false;
    }
    let mut others = allowed;
    // SAFETY: the number is below the size of the set in bits.
    unsafe { libc::CPU_CLR(number, &mut others) };
    let moved = allow(&others);
    // A set without CPUs that the thread had is refused, and changes nothing. So is this one, where control groups changed since.
    allow(&allowed);
    moved
}

fn no_cpus() -> libc::cpu_set_t {
    // SAFETY: a set of CPUs is an array of integers, for which zeros are valid.
    unsafe { std::mem::zeroed() }
}

/// From now on this thread may use these CPUs. False when the kernel refuses.
fn allow(cpus: &libc::cpu_set_t) -> bool {
    // SAFETY: the kernel reads the set, which is a live reference.
    unsafe {
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), std::ptr::from_ref(cpus)) == 0
    }
}

/// Begins to fetch the line at `address` of this process, code or data. A hint: an unmapped address is ignored.
#[inline]
pub(crate) fn prefetch(address: u64) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch does not fault, and changes only the caches.
    unsafe {
        std::arch::asm!("prefetcht0 [{}]", in(reg) address, options(nostack, preserves_flags));
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: a prefetch does not fault, and changes only the caches.
    unsafe {
        std::arch::asm!("prfm pldl1keep, [{}]", in(reg) address, options(nostack, preserves_flags));
    }
}

/// Begins to fetch the line at `address` of this process, to be written. A hint, as [`prefetch`] is.
#[inline]
pub(crate) fn prefetch_to_write(address: u64) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch does not fault, and changes only the caches.
    unsafe {
        std::arch::asm!("prefetchw [{}]", in(reg) address, options(nostack, preserves_flags));
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: a prefetch does not fault, and changes only the caches.
    unsafe {
        std::arch::asm!("prfm pstl1keep, [{}]", in(reg) address, options(nostack, preserves_flags));
    }
}

#[cfg(all(test, target_arch = "x86_64", not(model)))]
mod tests {
    use super::*;

    #[test]
    fn each_processor_serialises_with_what_its_manual_names() {
        let name = |name: &[u8; 12]| {
            let (words, _) = name.as_chunks();
            [0, 1, 2].map(|at| u32::from_le_bytes(words[at]))
        };
        let (amd, intel) = (name(b"AuthenticAMD"), name(b"GenuineIntel"));
        // Zen 5, Zen, Bulldozer, Sapphire Rapids without and with the instruction.
        for (vendor, signature, features, expected) in [
            (amd, 0x00b0_0f21, 0, Serializer::MemoryFence),
            (amd, 0x0080_0f12, 0, Serializer::MemoryFence),
            (amd, 0x0060_0f12, 0, Serializer::Return),
            (intel, 0x0008_06f8, 0, Serializer::Return),
            (intel, 0x0008_06f8, 1 << 14, Serializer::Serialize),
            (amd, 0x00b0_0f21, 1 << 14, Serializer::Serialize),
        ] {
            assert_eq!(Serializer::of(vendor, signature, features), expected, "{signature:#x}");
        }
    }

    #[test]
    fn a_thread_that_leaves_its_cpu_may_use_the_same_cpus() {
        let allowed = || {
            let mut set = no_cpus();
            // SAFETY: the kernel writes at most the size of the set, which is a live variable.
            unsafe { libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut set) };
            set
        };
        std::thread::spawn(move || {
            let before = allowed();
            // SAFETY: reads a set that the kernel has filled.
            let count = unsafe { libc::CPU_COUNT(&before) };
            assert_eq!(leave(), count > 1);
            assert!(allowed() == before);
            let mut one = no_cpus();
            let number = usize::try_from(current() - 1).expect("a CPU");
            // SAFETY: the number names a CPU of this machine.
            unsafe { libc::CPU_SET(number, &mut one) };
            assert!(allow(&one));
            assert!(!leave());
            assert!(allowed() == one);
        })
        .join()
        .expect("no panic");
    }

    #[test]
    fn to_serialise_changes_nothing_else() {
        for _ in 0..3 {
            serialize();
            serialize_by_return();
        }
    }

    #[test]
    fn time_passes_for_any_number_of_turns() {
        for turns in 0..300 {
            spin(turns);
        }
    }
}
