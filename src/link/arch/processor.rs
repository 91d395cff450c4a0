//! The processors that objects are for, and what the linker must know of each.
//!
//! Invariant: all of them have addresses of 64 bits, and store the lowest byte first.

use std::fmt;

use super::edge::{Edge, EdgeKind};
use super::facts::Facts;
use super::{aarch64, aarch64_threads, thread_code, x86_64};

/// A processor that objects are for.
///
/// # Examples
///
/// ```
/// use farcall_link::Processor;
///
/// assert_eq!(Processor::Aarch64.to_string(), "AArch64");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Processor {
    /// The 64-bit processors of AMD and Intel.
    X86_64,
    /// The 64-bit processors of Arm.
    Aarch64,
}

impl Processor {
    /// The processor that this program runs on.
    pub const HOST: Processor = match std::env::consts::ARCH.as_bytes() {
        b"aarch64" => Processor::Aarch64,
        _ => Processor::X86_64,
    };

    /// The processor of a target triple, by its first word; `None` if the linker does not know that processor.
    ///
    /// # Examples
    ///
    /// ```
    /// use farcall_link::Processor;
    ///
    /// assert_eq!(Processor::of_triple("aarch64-unknown-linux-gnu"), Some(Processor::Aarch64));
    /// assert_eq!(Processor::of_triple("riscv64-unknown-linux-gnu"), None);
    /// ```
    #[must_use]
    pub fn of_triple(triple: &str) -> Option<Processor> {
        match triple.split('-').next() {
            Some("x86_64") => Some(Processor::X86_64),
            Some("aarch64" | "arm64") => Some(Processor::Aarch64),
            _ => None,
        }
    }

    /// The processor with this number in the header of an ELF file.
    pub(crate) fn of_elf(machine: u16) -> Option<Processor> {
        [Processor::X86_64, Processor::Aarch64].into_iter().find(|one| one.elf_machine() == machine)
    }

    /// The number of the processor in the header of an ELF file.
    #[doc(hidden)]
    #[must_use]
    pub fn elf_machine(self) -> u16 {
        match self {
            Processor::X86_64 => 62,
            Processor::Aarch64 => 183,
        }
    }

    pub(crate) fn facts(self) -> &'static Facts {
        match self {
            Processor::X86_64 => &x86_64::FACTS,
            Processor::Aarch64 => &aarch64::FACTS,
        }
    }

    /// The kind of the relocation with this number; `None` when the processor supplement does not define it.
    pub(crate) fn edge_kind(self, number: u32) -> Option<&'static EdgeKind> {
        match self {
            Processor::X86_64 => x86_64::edge_kind(number),
            Processor::Aarch64 => aarch64::edge_kind(number),
        }
    }

    /// The size of the field of a relocation of debug information that holds an address; `None` for other relocations.
    pub(crate) fn address_bytes(self, number: u32) -> Option<usize> {
        match (self, number) {
            (Processor::X86_64, 1) | (Processor::Aarch64, 257) => Some(8),
            (Processor::X86_64, 10 | 11) | (Processor::Aarch64, 258) => Some(4),
            _ => None,
        }
    }

    /// Checks the relocations of one section that refer to thread-locals against the code around them.
    ///
    /// # Errors
    /// The code is not what the processor supplement prescribes; says what is wrong.
    pub(crate) fn accept_threads(
        self,
        code: &[u8],
        edges: Vec<Edge>,
        is_tls_get_addr: impl Fn(&Edge) -> bool,
    ) -> Result<Vec<Edge>, (Edge, &'static str)> {
        match self {
            Processor::X86_64 => thread_code::accept(code, edges, is_tls_get_addr),
            Processor::Aarch64 => aarch64_threads::accept(code, edges, is_tls_get_addr),
        }
    }
}

impl Default for Processor {
    fn default() -> Self {
        Self::HOST
    }
}

impl fmt::Display for Processor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Processor::X86_64 => "x86-64",
            Processor::Aarch64 => "AArch64",
        })
    }
}
