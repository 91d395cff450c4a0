//! Facts of this processor that programs see, and machine code for it.

use std::path::{Path, PathBuf};

use farcall::link::Processor;
use nix::sys::signal::Signal;

/// The signal of `__builtin_trap`.
pub(crate) const TRAP: Signal = match Processor::HOST {
    Processor::Aarch64 => Signal::SIGTRAP,
    _ => Signal::SIGILL,
};

/// A part of the names of relocations by which code itself has constant offsets of thread-locals.
pub(crate) const LOCAL_EXEC: &str = match Processor::HOST {
    Processor::Aarch64 => "R_AARCH64_TLSLE_",
    _ => "R_X86_64_TPOFF32",
};

/// The same where the offsets are in a table.
pub(crate) const INITIAL_EXEC: &str = match Processor::HOST {
    Processor::Aarch64 => "R_AARCH64_TLSIE_",
    _ => "R_X86_64_GOTTPOFF",
};

/// The line of `/proc/cpuinfo` with the features of the processor, and some of them: by their names in LLVM, and by those there.
pub(crate) const FEATURES: (&str, [(&str, &str); 4]) = match Processor::HOST {
    Processor::Aarch64 => (
        "Features",
        [("neon", "asimd"), ("lse", "atomics"), ("crc", "crc32"), ("dotprod", "asimddp")],
    ),
    _ => ("flags", [("sse2", "sse2"), ("avx2", "avx2"), ("popcnt", "popcnt"), ("bmi", "bmi1")]),
};

/// A function that returns this number.
pub(crate) fn returning(number: u8) -> Vec<u8> {
    match Processor::HOST {
        // mov w0, number; ret
        Processor::Aarch64 => {
            [0x5280_0000 | u32::from(number) << 5, 0xd65f_03c0].map(u32::to_le_bytes).concat()
        }
        // mov eax, number; ret
        _ => vec![0xb8, number, 0, 0, 0, 0xc3],
    }
}

/// Where Debian has a library for this processor.
pub(crate) fn installed(library: &str) -> PathBuf {
    let folder = format!("/usr/lib/{}-linux-gnu", std::env::consts::ARCH);
    Path::new(&folder).join(library)
}
