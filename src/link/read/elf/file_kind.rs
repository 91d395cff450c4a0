//! The kinds of files that are no objects for this linker, with what the user can do about each.
//!
//! Invariant: looks at magic numbers, the ELF header and program headers only, and never outside of the file.

use crate::arch::processor::Processor;

/// The processor for which these bytes may be a relocatable object.
///
/// # Errors
/// Why they cannot be one.
pub(super) fn processor(bytes: &[u8]) -> Result<Processor, String> {
    if let Some(objection) = objection(bytes) {
        return Err(objection);
    }
    let machine = u16::from_le_bytes([bytes[18], bytes[19]]);
    Processor::of_elf(machine).ok_or_else(|| objection_to_machine(machine))
}

fn objection_to_machine(machine: u16) -> String {
    let name = machine_name(machine).map(|name| format!("{name} (machine {machine})"));
    let name = name.unwrap_or_else(|| format!("machine {machine}"));
    let known = [Processor::X86_64, Processor::Aarch64].map(|one| one.to_string()).join(" or ");
    format!("an object for {name}, not for {known}; recompile it")
}

fn objection(bytes: &[u8]) -> Option<String> {
    let refused = |what: &str| Some(what.to_owned());
    match bytes {
        [] => return refused("the file is empty"),
        [b'!', b'<', b'a', b'r', b'c', b'h', b'>', ..]
        | [b'!', b'<', b't', b'h', b'i', b'n', b'>', ..] => {
            return refused("this is an archive; load it as an archive, not as an object");
        }
        [b'B', b'C', 0xc0, 0xde, ..] | [0xde, 0xc0, 0x17, 0x0b, ..] => {
            return refused(
                "LLVM bitcode and no machine code; recompile without -flto and -emit-llvm, or compile it with clang -c",
            );
        }
        [0x7f, b'E', b'L', b'F', ..] => {}
        [b'M', b'Z', ..] => return refused("this is a Windows program, not an ELF object"),
        [0xcf | 0xce, 0xfa, 0xed, 0xfe, ..] => {
            return refused("this is a Mach-O file, not an ELF object");
        }
        [0, b'a', b's', b'm', ..] => {
            return refused("this is a WebAssembly module, not an ELF object");
        }
        _ => {
            let start: Vec<String> = bytes.iter().take(4).map(|b| format!("{b:02x}")).collect();
            return Some(format!("not an ELF file (starts with bytes {})", start.join(" ")));
        }
    }
    header_objection(bytes)
}

/// The objection to objects that hold a compiler's intermediate code and no machine code.
pub(super) const LTO: &str =
    "holds LTO bitcode and no machine code; recompile with -fno-lto or -ffat-lto-objects";

const HEADER_BYTES: usize = 64;

fn header_objection(bytes: &[u8]) -> Option<String> {
    if bytes.len() < HEADER_BYTES {
        return Some(format!(
            "truncated: {} bytes, and an ELF header alone has {HEADER_BYTES}",
            bytes.len()
        ));
    }
    match bytes[4] {
        2 => {}
        1 => {
            return Some(
                "32-bit ELF (class 1); only 64-bit objects can be linked: recompile without -m32"
                    .to_owned(),
            );
        }
        class => return Some(format!("unknown ELF class {class}")),
    }
    match bytes[5] {
        1 => {}
        2 => return Some("big-endian ELF; only little-endian objects can be linked".to_owned()),
        order => return Some(format!("unknown ELF byte order {order}")),
    }
    if bytes[6] != 1 {
        return Some(format!("unknown ELF version {}", bytes[6]));
    }
    let machine = u16::from_le_bytes([bytes[18], bytes[19]]);
    if Processor::of_elf(machine).is_none() {
        return Some(objection_to_machine(machine));
    }
    match u16::from_le_bytes([bytes[16], bytes[17]]) {
        1 => None,
        2 => Some(EXECUTABLE.to_owned()),
        3 if has_interpreter(bytes) => Some(EXECUTABLE.to_owned()),
        3 => Some("a shared library, not an object; link it with -L FOLDER -l NAME".to_owned()),
        4 => Some("a core dump, not an object".to_owned()),
        kind => Some(format!("ELF file of unknown type {kind}, not an object")),
    }
}

const EXECUTABLE: &str =
    "an executable, not an object; run it directly, or link the objects it was made of";

/// True if a program header names a dynamic linker: a position-independent executable has the type of a shared library.
fn has_interpreter(bytes: &[u8]) -> bool {
    const PT_INTERP: [u8; 4] = 3_u32.to_le_bytes();
    const ENTRY_BYTES: usize = 56;
    let start = bytes[32..40].iter().rev().fold(0, |start, byte| start << 8 | u64::from(*byte));
    let count = usize::from(u16::from_le_bytes([bytes[56], bytes[57]]));
    let table = usize::try_from(start).ok().and_then(|start| bytes.get(start..));
    let mut entries = table.unwrap_or_default().chunks_exact(ENTRY_BYTES).take(count);
    entries.any(|entry| entry.starts_with(&PT_INTERP))
}

fn machine_name(machine: u16) -> Option<&'static str> {
    Some(match machine {
        3 => "i386",
        8 => "MIPS",
        20 => "PowerPC",
        21 => "PowerPC64",
        22 => "S/390",
        40 => "ARM",
        43 => "SPARC",
        243 => "RISC-V",
        247 => "BPF",
        258 => "LoongArch",
        _ => return None,
    })
}
