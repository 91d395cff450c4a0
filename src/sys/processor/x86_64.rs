//! x86-64: instruction caches see every store. A processor serialises before it runs new code.

use std::ffi::c_void;

use libc::c_long;

use super::Registers;
use crate::addr::AddrRange;

/// The number of this processor in the header of an ELF file.
pub(crate) const ELF_MACHINE: u16 = libc::EM_X86_64;

/// The types of the relocations by which the dynamic linker stores addresses of symbols. The first is for data, the second for the table
/// of addresses, and the third for the words by which stubs jump.
pub(crate) const ELF_ADDRESS: u64 = 1;
pub(crate) const ELF_TABLE_ADDRESS: u64 = 6;
pub(crate) const ELF_JUMP_ADDRESS: u64 = 7;

/// The type of the relocation that stores a thread-local's distance from the thread pointer.
pub(crate) const ELF_THREAD_DISTANCE: u64 = 18;

/// The calling thread's thread pointer, the base of its thread-locals.
pub(crate) fn thread_pointer() -> u64 {
    let pointer: u64;
    // SAFETY: every thread's first word is its own address; that is how the C ABI reads the thread pointer.
    unsafe {
        std::arch::asm!("mov {}, qword ptr fs:[0]", out(reg) pointer, options(nostack, readonly, preserves_flags));
    }
    pointer
}

/// True for the thread pointer of a thread of this process, given the word there.
pub(crate) fn is_thread_pointer(pointer: u64, word: u64) -> bool {
    // The ABI demands it.
    word == pointer
}

/// True if new code has to be [published](publish_code).
pub(crate) fn publishes_code() -> bool {
    false
}

/// There is nothing to do.
pub(crate) fn publish_code(_: AddrRange) {}

/// The functions that compilers call, which a static linker adds to each program: none.
pub(crate) fn helpers() -> [(&'static str, *const c_void); 0] {
    []
}

/// From here on this thread executes the instructions that another processor wrote before the last acquired message.
///
/// The x86-64 manuals ask for a serializing instruction before a processor runs code that another one wrote. Which of these
/// user code may execute, and which is cheapest, differs; it is found out once.
#[inline]
pub(crate) fn serialize() {
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
}

/// True if code is better fetched ahead of [`serialize`].
///
/// That is so without the instruction `serialize`. With it a line that was fetched as data first comes later as code. It is also
/// written later the next time, by 10 % of a call.
#[inline]
pub(crate) fn fetches_ahead() -> bool {
    *SERIALIZER.get_or_init(Serializer::of_this_processor) != Serializer::Serialize
}

/// The means of serializing this processor.
static SERIALIZER: std::sync::OnceLock<Serializer> = std::sync::OnceLock::new();

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Serializer {
    /// The instruction `serialize`.
    Serialize,
    /// `mfence`, 19 ns. AMD's manual (volume 2, serializing instructions) lists it, Intel's does not.
    MemoryFence,
    /// `iretq`, 36 ns, on every processor (`cpuid` traps to the hypervisor of a virtual machine).
    Return,
}

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

/// As `fence` of the standard library, which here is a locked instruction and holds back loads only.
#[inline(always)]
pub(crate) fn fence() {
    // SAFETY: waits, and touches no memory.
    unsafe {
        std::arch::asm!("mfence", options(nostack, preserves_flags));
    }
}

/// Waits for `turns` multiplications, at least one, each dependent on the one before, of three cycles each.
///
/// A processor that predicts the end of the loop waits at the fence behind it until the multiplications are done. `pause` is not
/// used, since its length differs a lot between processors. Nor is a jump into a row of multiplications, which would have to be
/// fetched again after the processor was serialized.
#[inline(always)]
pub(crate) fn spin(turns: usize) {
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
}

/// Begins to fetch the line at `address`.
#[inline]
pub(crate) fn prefetch(address: u64) {
    // SAFETY: a prefetch does not fault, and changes only the caches.
    unsafe {
        std::arch::asm!("prefetcht0 [{}]", in(reg) address, options(nostack, preserves_flags));
    }
}

/// Begins to fetch the line at `address`, to be written.
#[inline]
pub(crate) fn prefetch_to_write(address: u64) {
    // SAFETY: a prefetch does not fault, and changes only the caches.
    unsafe {
        std::arch::asm!("prefetchw [{}]", in(reg) address, options(nostack, preserves_flags));
    }
}

/// The extended state that must be saved while compiled code runs in between: a bit mask for `xsave`, and the size in bytes.
/// The mask is 0 where there is only `fxsave`.
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

/// The features of this processor, by LLVM's names.
pub(crate) fn features() -> impl Iterator<Item = &'static str> {
    let known = crate::sys::processor::known!(is_x86_feature_detected:
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
    known.into_iter().filter(|(is_there, _)| *is_there).map(|(_, name)| name)
}

/// The last two words of `clone`, of which one is the address of the child's number.
pub(crate) fn words_of_clone<T>(child: T, threads: T) -> [T; 2] {
    [child, threads]
}

/// The registers that a signal has found.
pub(crate) fn registers(context: *const libc::ucontext_t) -> Registers {
    // SAFETY: the kernel passes a valid context to a handler installed with SA_SIGINFO.
    let registers = unsafe { (*context).uc_mcontext.gregs };
    let register = |index: libc::c_int| registers[index.unsigned_abs() as usize].cast_unsigned();
    // Bit 1 of a page fault's error code. Source: Intel SDM, volume 3, 4.7.
    let is_write = register(libc::REG_ERR) & 2 != 0;
    Registers { pc: register(libc::REG_RIP), sp: register(libc::REG_RSP), is_write }
}

/// System calls that only this processor has, and that confined code may make.
pub(crate) const OLD_CALLS: &[c_long] = &[
    libc::SYS_access,
    libc::SYS_arch_prctl,
    libc::SYS_lstat,
    libc::SYS_poll,
    libc::SYS_readlink,
    libc::SYS_stat,
    libc::SYS_time,
];

/// `open`, whose flags are the second argument.
pub(crate) const OPEN: Option<c_long> = Some(libc::SYS_open);

/// The first number of a second set of calls, x32. Source: `__X32_SYSCALL_BIT`.
pub(crate) const OTHER_CALLS: Option<u32> = Some(0x4000_0000);

/// True if the main thread's state can be kept: all that follows is there.
pub(crate) const KEEPS_STATE: bool = true;

/// `arch_prctl`: the base of the segment GS.
const SET_GS: c_long = 0x1001;
const GET_GS: c_long = 0x1004;

/// A word of the thread's that is in no register of the calling convention: the base of the segment GS.
pub(crate) fn segment() -> u64 {
    let mut base = 0_u64;
    // SAFETY: the kernel writes one word.
    unsafe { libc::syscall(libc::SYS_arch_prctl, GET_GS, &raw mut base) };
    base
}

/// Sets what [`segment`] returns.
///
/// # Safety
///
/// This thread's code expects that word.
pub(crate) unsafe fn set_segment(base: u64) {
    // SAFETY: the caller vouches for the base.
    unsafe { libc::syscall(libc::SYS_arch_prctl, SET_GS, base) };
}

/// Calls `function` with `argument` on another stack. Stores the registers that a function keeps on this one, and the stack pointer in
/// `saved`. Behind the call it loads the stack pointer from there, and the registers.
///
/// # Safety
///
/// `top` is the top of a stack. When the function returns, `saved` has a stack pointer that this function has stored there, and the stack
/// has the contents of then.
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn call_on_stack(
    saved: *mut u64,
    top: u64,
    function: *const c_void,
    argument: *mut c_void,
) -> u64 {
    std::arch::naked_asm!(
        "push rbp",
        "push rbx",
        "push r12",
        "push r13",
        "push r14",
        "push r15",
        "sub rsp, 8",
        "stmxcsr [rsp]",
        "fnstcw [rsp + 4]",
        "mov [rdi], rsp",
        "mov rsp, rsi",
        "push rdi",
        "push rdi",
        "mov rdi, rcx",
        "call rdx",
        "pop rdi",
        "mov rsp, [rdi]",
        "ldmxcsr [rsp]",
        "fldcw [rsp + 4]",
        "add rsp, 8",
        "pop r15",
        "pop r14",
        "pop r13",
        "pop r12",
        "pop rbx",
        "pop rbp",
        "ret",
    )
}

#[cfg(all(test, not(model)))]
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
    fn to_serialise_changes_nothing_else() {
        for _ in 0..3 {
            serialize();
            serialize_by_return();
        }
    }
}
