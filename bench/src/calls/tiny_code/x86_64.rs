//! Wrapper functions for x86-64. They take bytes at `rdi` (their count in `rsi`) and return up to 8 bytes in `rax`, their count in
//! `rdx`.

/// Returns the first 8 bytes of its argument: `mov rax, [rdi]; mov edx, 8; ret`.
pub const NULL_CALL: &[u8] = &[0x48, 0x8b, 0x07, 0xba, 8, 0, 0, 0, 0xc3];

/// Jumps to itself for ever: `spin: jmp spin`.
pub const SPIN: &[u8] = &[0xeb, 0xfe];

/// Jumps to the function whose address the host sets at [`JUMP_TARGET`]: `jmp target`.
pub const JUMP: &[u8] = &[0xe9, 0, 0, 0, 0];
/// Where in [`JUMP`] the target is.
pub const JUMP_TARGET: u64 = 1;

/// Calls the two functions that the host sets at [`CALLS_TARGETS`], for links that never run it: `call first; call second; ret`.
pub const CALLS: &[u8] = &[0xe8, 0, 0, 0, 0, 0xe8, 0, 0, 0, 0, 0xc3];
/// Where in [`CALLS`] the targets are.
pub const CALLS_TARGETS: [u64; 2] = [1, 6];

/// `long same(long)`: `mov rax, rdi; ret`.
pub const SAME: &[u8] = &[0x48, 0x89, 0xf8, 0xc3];

/// `long next(long)`: `lea rax, [rdi + 1]; ret`.
pub const NEXT: &[u8] = &[0x48, 0x8d, 0x47, 0x01, 0xc3];

/// `long sum(long, long, long)`: `lea rax, [rdi + rsi]; add rax, rdx; ret`.
pub const SUM: &[u8] = &[0x48, 0x8d, 0x04, 0x37, 0x48, 0x01, 0xd0, 0xc3];

/// Returns its argument, of more than 8 bytes, in memory from `malloc`. The host must set the targets of the calls at
/// [`BOUNCE_MALLOC`] and [`BOUNCE_MEMCPY`]:
/// `push rbx; push rbp; push rax; mov rbx, rdi; mov rbp, rsi; mov rdi, rsi; call malloc; mov rdi, rax; mov rsi, rbx;
/// mov rdx, rbp; call memcpy; mov rdx, rbp; pop rcx; pop rbp; pop rbx; ret`.
pub const BOUNCE: &[u8] = &[
    0x53, 0x55, 0x50, 0x48, 0x89, 0xfb, 0x48, 0x89, 0xf5, 0x48, 0x89, 0xf7, 0xe8, 0, 0, 0, 0, 0x48,
    0x89, 0xc7, 0x48, 0x89, 0xde, 0x48, 0x89, 0xea, 0xe8, 0, 0, 0, 0, 0x48, 0x89, 0xea, 0x59, 0x5d,
    0x5b, 0xc3,
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
    0x31, 0xe4, 0x48, 0x89, 0x2c, 0x24, 0x48, 0x89, 0xdf, 0x48, 0x89, 0xe6, 0xba, 8, 0, 0, 0, 0xe8,
    0, 0, 0, 0, 0x49, 0x01, 0xc4, 0x48, 0xff, 0xcd, 0x75, 0xe4, 0x4c, 0x89, 0xe0, 0xba, 8, 0, 0, 0,
    0x48, 0x83, 0xc4, 16, 0x41, 0x5c, 0x5d, 0x5b, 0xc3,
];
/// Where in [`CALL_BACK`] the operand of the call is.
pub const CALL_BACK_CALL: u64 = 34;

/// Takes a count. Calls a C function with each number from the count down to 1, and returns the sum of what it returns. The host
/// must set the target of the call at [`CALL_BY_NAME_CALL`]: `push rbx; push r12; push rax; mov rbx, [rdi]; xor r12d, r12d;
/// again: mov rdi, rbx; call function; add r12, rax; dec rbx; jnz again; mov rax, r12; mov edx, 8; pop rcx; pop r12; pop rbx;
/// ret`.
pub const CALL_BY_NAME: &[u8] = &[
    0x53, 0x41, 0x54, 0x50, 0x48, 0x8b, 0x1f, 0x45, 0x31, 0xe4, 0x48, 0x89, 0xdf, 0xe8, 0, 0, 0, 0,
    0x49, 0x01, 0xc4, 0x48, 0xff, 0xcb, 0x75, 0xf0, 0x4c, 0x89, 0xe0, 0xba, 8, 0, 0, 0, 0x59, 0x41,
    0x5c, 0x5b, 0xc3,
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

/// Where [`constant`] has the value.
pub const CONSTANT: usize = 2;

/// Stores a zero byte at an address, to die of it; returns no bytes if it survives:
/// `mov eax, address; mov byte ptr [rax], 0; xor eax, eax; xor edx, edx; ret`.
#[must_use]
pub fn poke(address: u32) -> Vec<u8> {
    let store = &[0xc6, 0x00, 0x00, 0x31, 0xc0, 0x31, 0xd2, 0xc3];
    [&[0xb8], &address.to_le_bytes()[..], store].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TinyObject;
    use farcall::link::ObjectFile;

    #[test]
    fn the_linker_reads_what_was_made() {
        let bytes = TinyObject::new()
            .function("echo", NULL_CALL)
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
        assert_eq!(constant(0x0102)[..10], [0x48, 0xb8, 2, 1, 0, 0, 0, 0, 0, 0]);
        assert_eq!(poke(0xdad_beef)[..5], [0xb8, 0xef, 0xbe, 0xad, 0x0d]);
        assert!(ADD.ends_with(&NULL_CALL[3..]));
    }
}
