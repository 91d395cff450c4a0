//! Small relocatable objects, made without a compiler: machine code in, ELF x86-64 out.
//!
//! Invariant: what is made is an ordinary object; no linker can tell it from a compiler's.

use object::write::{
    Object, Relocation, SectionId, StandardSection, Symbol, SymbolId, SymbolSection,
};
use object::{
    Architecture, BinaryFormat, Endianness, RelocationFlags, SectionKind, SymbolFlags, SymbolKind,
    SymbolScope, elf,
};

/// An object under construction: functions in `.text`, variables in `.data`, fields that refer to
/// symbols of this object or of others.
///
/// # Examples
/// ```
/// use farcall_bench::{TinyObject, tiny_code};
/// let object = TinyObject::new().function("echo", tiny_code::NULL_CALL).bytes();
/// assert_eq!(object[..4], *b"\x7fELF");
/// ```
#[derive(Debug)]
pub struct TinyObject {
    object: Object<'static>,
    /// Where the symbol that was added last begins.
    last: Option<(SectionId, u64)>,
}

impl TinyObject {
    /// An object that defines nothing.
    #[must_use]
    pub fn new() -> TinyObject {
        let mut object = Object::new(BinaryFormat::Elf, Architecture::X86_64, Endianness::Little);
        // Says that no code goes onto the stack: without it, GNU ld warns.
        object.add_section(Vec::new(), b".note.GNU-stack".to_vec(), SectionKind::Linker);
        TinyObject { object, last: None }
    }

    /// Adds a global function with this machine code, which must not depend on its address except
    /// through [`call_at`](Self::call_at) and [`data_at`](Self::data_at).
    #[must_use]
    pub fn function(self, name: &str, code: &[u8]) -> TinyObject {
        self.define(name, StandardSection::Text, SymbolKind::Text, code)
    }

    /// Adds a global variable with this first value, aligned to 8.
    #[must_use]
    pub fn variable(self, name: &str, value: &[u8]) -> TinyObject {
        self.define(name, StandardSection::Data, SymbolKind::Data, value)
    }

    /// Makes the four bytes at `offset` of the newest function the operand of a `call` or `jmp` to `symbol`, which need not be
    /// defined here.
    ///
    /// # Panics
    /// When nothing was added yet.
    #[must_use]
    pub fn call_at(self, offset: u64, symbol: &str) -> TinyObject {
        self.distance_at(offset, symbol, elf::R_X86_64_PLT32)
    }

    /// Makes the four bytes at `offset` of the newest function the distance from their end to the variable `symbol`, which need
    /// not be defined here. The instruction must end with them.
    ///
    /// # Panics
    /// When nothing was added yet.
    #[must_use]
    pub fn data_at(self, offset: u64, symbol: &str) -> TinyObject {
        self.distance_at(offset, symbol, elf::R_X86_64_PC32)
    }

    /// Adds unwind information for the functions added so far, as of code that never moves the stack pointer.
    ///
    /// # Panics
    /// When there is no function.
    #[must_use]
    pub fn unwound(mut self) -> TinyObject {
        /// A common entry: addresses relative to themselves, the caller's frame at `rsp + 8`, its return address below.
        const COMMON: [u8; 24] = [
            20, 0, 0, 0, 0, 0, 0, 0, 1, b'z', b'R', 0, 1, 0x78, 16, 1, 0x1b, 0x0c, 7, 8, 0x90, 1,
            0, 0,
        ];
        let text = self.object.section_id(StandardSection::Text);
        let bytes = u32::try_from(self.object.section(text).data().len()).expect("a tiny object");
        assert!(bytes > 0, "there is no function");
        let frames = self.object.section_id(StandardSection::EhFrame);
        let start = self.object.append_section_data(frames, &COMMON, 8);
        let mut entry = [0; 24];
        entry[0] = 20;
        // From here to the common entry.
        entry[4] = 28;
        entry[12..16].copy_from_slice(&bytes.to_le_bytes());
        self.object.append_section_data(frames, &entry, 8);
        let symbol = self.object.section_symbol(text);
        let flags = RelocationFlags::Elf { r_type: elf::R_X86_64_PC32 };
        let field = Relocation { offset: start + 24 + 8, symbol, addend: 0, flags };
        self.object.add_relocation(frames, field).expect("ELF has every relocation type");
        self
    }

    /// The object file.
    ///
    /// # Panics
    /// When a name contains a NUL byte.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        self.object.write().expect("names of an object have no NUL byte")
    }

    fn define(
        mut self,
        name: &str,
        section: StandardSection,
        kind: SymbolKind,
        bytes: &[u8],
    ) -> TinyObject {
        let alignment = if kind == SymbolKind::Text { 16 } else { 8 };
        let section = self.object.section_id(section);
        let symbol = self.symbol(name);
        let start = self.object.add_symbol_data(symbol, section, bytes, alignment);
        self.object.symbol_mut(symbol).kind = kind;
        self.last = Some((section, start));
        self
    }

    fn distance_at(mut self, offset: u64, symbol: &str, r_type: elf::RelocationType) -> TinyObject {
        let (section, start) = self.last.expect("a function is added before its fields");
        let symbol = self.symbol(symbol);
        let flags = RelocationFlags::Elf { r_type };
        let field = Relocation { offset: start + offset, symbol, addend: -4, flags };
        self.object.add_relocation(section, field).expect("ELF has every relocation type");
        self
    }

    /// The symbol of this name, made undefined where it does not exist.
    fn symbol(&mut self, name: &str) -> SymbolId {
        let known = self.object.symbol_id(name.as_bytes());
        known.unwrap_or_else(|| {
            self.object.add_symbol(Symbol {
                name: name.as_bytes().to_vec(),
                value: 0,
                size: 0,
                kind: SymbolKind::Unknown,
                scope: SymbolScope::Dynamic,
                weak: false,
                section: SymbolSection::Undefined,
                flags: SymbolFlags::None,
            })
        })
    }
}

impl Default for TinyObject {
    fn default() -> TinyObject {
        TinyObject::new()
    }
}

/// Machine code for [`TinyObject::function`]: wrapper functions. They take bytes at `rdi` (their count in `rsi`) and return up
/// to 8 bytes in `rax`, their count in `rdx`.
pub mod tiny_code {
    /// Returns the first 8 bytes of its argument: `mov rax, [rdi]; mov edx, 8; ret`.
    pub const NULL_CALL: &[u8] = &[0x48, 0x8b, 0x07, 0xba, 8, 0, 0, 0, 0xc3];

    /// `long same(long)`: `mov rax, rdi; ret`.
    pub const SAME: &[u8] = &[0x48, 0x89, 0xf8, 0xc3];

    /// `long sum(long, long, long)`: `lea rax, [rdi + rsi]; add rax, rdx; ret`.
    pub const SUM: &[u8] = &[0x48, 0x8d, 0x04, 0x37, 0x48, 0x01, 0xd0, 0xc3];

    /// Returns its argument, of more than 8 bytes, in memory from `malloc`. The host must set the targets of the calls at
    /// [`BOUNCE_MALLOC`] and [`BOUNCE_MEMCPY`]:
    /// `push rbx; push rbp; push rax; mov rbx, rdi; mov rbp, rsi; mov rdi, rsi; call malloc; mov rdi, rax; mov rsi, rbx;
    /// mov rdx, rbp; call memcpy; mov rdx, rbp; pop rcx; pop rbp; pop rbx; ret`.
    pub const BOUNCE: &[u8] = &[
        0x53, 0x55, 0x50, 0x48, 0x89, 0xfb, 0x48, 0x89, 0xf5, 0x48, 0x89, 0xf7, 0xe8, 0, 0, 0, 0,
        0x48, 0x89, 0xc7, 0x48, 0x89, 0xde, 0x48, 0x89, 0xea, 0xe8, 0, 0, 0, 0, 0x48, 0x89, 0xea,
        0x59, 0x5d, 0x5b, 0xc3,
    ];
    /// Where in [`BOUNCE`] the operand of the call of `malloc` is.
    pub const BOUNCE_MALLOC: u64 = 13;
    /// Where in [`BOUNCE`] the operand of the call of `memcpy` is.
    pub const BOUNCE_MEMCPY: u64 = 27;

    /// Takes a handler's tag and a count. Calls that handler with each number from the count down to 1, and returns the sum of
    /// its answers. The host must set the target of the call at [`CALL_BACK_CALL`] to `farcall_call_controller`: `push rbx;
    /// push rbp; push r12; sub rsp, 16; mov rbx, [rdi]; mov rbp, [rdi + 8]; xor r12d, r12d; again: mov [rsp], rbp; mov rdi,
    /// rbx; mov rsi, rsp; mov edx, 8; call farcall_call_controller; add r12, rax; dec rbp; jnz again; mov rax, r12; mov edx, 8;
    /// add rsp, 16; pop r12; pop rbp; pop rbx; ret`.
    pub const CALL_BACK: &[u8] = &[
        0x53, 0x55, 0x41, 0x54, 0x48, 0x83, 0xec, 16, 0x48, 0x8b, 0x1f, 0x48, 0x8b, 0x6f, 8, 0x45,
        0x31, 0xe4, 0x48, 0x89, 0x2c, 0x24, 0x48, 0x89, 0xdf, 0x48, 0x89, 0xe6, 0xba, 8, 0, 0, 0,
        0xe8, 0, 0, 0, 0, 0x49, 0x01, 0xc4, 0x48, 0xff, 0xcd, 0x75, 0xe4, 0x4c, 0x89, 0xe0, 0xba,
        8, 0, 0, 0, 0x48, 0x83, 0xc4, 16, 0x41, 0x5c, 0x5d, 0x5b, 0xc3,
    ];
    /// Where in [`CALL_BACK`] the operand of the call is.
    pub const CALL_BACK_CALL: u64 = 34;

    /// Takes a count. Calls a C function with each number from the count down to 1, and returns the sum of what it returns. The host
    /// must set the target of the call at [`CALL_BY_NAME_CALL`]: `push rbx; push r12; push rax; mov rbx, [rdi]; xor r12d, r12d;
    /// again: mov rdi, rbx; call function; add r12, rax; dec rbx; jnz again; mov rax, r12; mov edx, 8; pop rcx; pop r12; pop rbx;
    /// ret`.
    pub const CALL_BY_NAME: &[u8] = &[
        0x53, 0x41, 0x54, 0x50, 0x48, 0x8b, 0x1f, 0x45, 0x31, 0xe4, 0x48, 0x89, 0xdf, 0xe8, 0, 0,
        0, 0, 0x49, 0x01, 0xc4, 0x48, 0xff, 0xcb, 0x75, 0xf0, 0x4c, 0x89, 0xe0, 0xba, 8, 0, 0, 0,
        0x59, 0x41, 0x5c, 0x5b, 0xc3,
    ];
    /// Where in [`CALL_BY_NAME`] the operand of the call is.
    pub const CALL_BY_NAME_CALL: u64 = 14;

    /// Returns the sum of the two u64 in its argument:
    /// `mov rax, [rdi]; add rax, [rdi + 8]; mov edx, 8; ret`.
    pub const ADD: &[u8] = &[0x48, 0x8b, 0x07, 0x48, 0x03, 0x47, 8, 0xba, 8, 0, 0, 0, 0xc3];

    /// Returns this u64, whatever the argument: `mov rax, value; mov edx, 8; ret`.
    #[must_use]
    pub fn constant(value: u64) -> Vec<u8> {
        [&[0x48, 0xb8], &value.to_le_bytes()[..], &[0xba, 8, 0, 0, 0, 0xc3]].concat()
    }

    /// Stores a zero byte at an address, to die of it; returns no bytes if it survives:
    /// `mov eax, address; mov byte ptr [rax], 0; xor eax, eax; xor edx, edx; ret`.
    #[must_use]
    pub fn poke(address: u32) -> Vec<u8> {
        let store = &[0xc6, 0x00, 0x00, 0x31, 0xc0, 0x31, 0xd2, 0xc3];
        [&[0xb8], &address.to_le_bytes()[..], store].concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use farcall::link::ObjectFile;

    #[test]
    fn the_linker_reads_what_was_made() {
        let bytes = TinyObject::new()
            .function("echo", tiny_code::NULL_CALL)
            .variable("counter", &7_u64.to_le_bytes())
            // inc qword ptr [rip + counter]; jmp elsewhere
            .function("count", &[0x48, 0xff, 0x05, 0, 0, 0, 0, 0xe9, 0, 0, 0, 0])
            .data_at(3, "counter")
            .call_at(8, "elsewhere")
            .bytes();
        let object = ObjectFile::parse("tiny.o", bytes).unwrap();
        let defined: Vec<_> = object.definitions().collect();
        assert_eq!(defined, ["echo", "counter", "count"]);

        let mut graph = farcall::link::LinkGraph::default();
        graph.add_object(&object).unwrap();
        let missing: Vec<_> = graph.undefined().iter().map(|one| one.name.to_string()).collect();
        assert_eq!(missing, ["elsewhere"]);
        graph.define_external("elsewhere", farcall::ExecutorAddr::new(0x50_0000));
        let starts = [0x40_0000, 0x41_0000, 0x42_0000].map(farcall::ExecutorAddr::new);
        let image = graph.layout().unwrap().fixup(starts, 0).unwrap();
        let count = image.symbols.address_of("count").unwrap().get();
        let counter = image.symbols.address_of("counter").unwrap().get();
        let code = &image.stripes[0][usize::try_from(count - 0x40_0000).unwrap()..];
        let field = |at: usize| i32::from_le_bytes(code[at..at + 4].try_into().unwrap());
        assert_eq!(count.wrapping_add_signed(i64::from(field(3)) + 7), counter);
        assert_eq!(count.wrapping_add_signed(i64::from(field(8)) + 12), 0x50_0000);
    }

    #[test]
    fn code_is_what_its_comment_says() {
        assert_eq!(tiny_code::constant(0x0102)[..10], [0x48, 0xb8, 2, 1, 0, 0, 0, 0, 0, 0]);
        assert_eq!(tiny_code::poke(0xdad_beef)[..5], [0xb8, 0xef, 0xbe, 0xad, 0x0d]);
        assert!(tiny_code::ADD.ends_with(&tiny_code::NULL_CALL[3..]));
    }
}
