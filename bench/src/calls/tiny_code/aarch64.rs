//! Wrapper functions for AArch64. They take bytes at `x0` (their count in `x1`) and return up to 8 bytes in `x0`, their count in
//! `x1`.

/// The bytes of instructions.
const fn bytes<const COUNT: usize, const BYTES: usize>(code: [u32; COUNT]) -> [u8; BYTES] {
    assert!(BYTES == 4 * COUNT);
    let mut bytes = [0; BYTES];
    let mut at = 0;
    while at < BYTES {
        bytes[at] = code[at / 4].to_le_bytes()[at % 4];
        at += 1;
    }
    bytes
}

/// Returns the first 8 bytes of its argument: `ldr x0, [x0]; mov x1, #8; ret`.
pub const NULL_CALL: &[u8] = &bytes::<3, 12>([0xf940_0000, 0xd280_0101, 0xd65f_03c0]);

/// Jumps to itself for ever: `b .`.
pub const SPIN: &[u8] = &bytes::<1, 4>([0x1400_0000]);

/// Jumps to the function whose address the host sets at [`JUMP_TARGET`]: `b target`.
pub const JUMP: &[u8] = SPIN;
/// Where in [`JUMP`] the target is.
pub const JUMP_TARGET: u64 = 0;

/// Calls the two functions that the host sets at [`CALLS_TARGETS`], for links that never run it: `bl first; bl second; ret`.
pub const CALLS: &[u8] = &bytes::<3, 12>([0x9400_0000, 0x9400_0000, 0xd65f_03c0]);
/// Where in [`CALLS`] the targets are.
pub const CALLS_TARGETS: [u64; 2] = [0, 4];

/// `long same(long)`: `ret`.
pub const SAME: &[u8] = &bytes::<1, 4>([0xd65f_03c0]);

/// `long next(long)`: `add x0, x0, #1; ret`.
pub const NEXT: &[u8] = &bytes::<2, 8>([0x9100_0400, 0xd65f_03c0]);

/// `long sum(long, long, long)`: `add x0, x0, x1; add x0, x0, x2; ret`.
pub const SUM: &[u8] = &bytes::<3, 12>([0x8b01_0000, 0x8b02_0000, 0xd65f_03c0]);

/// Returns its argument, of more than 8 bytes, in memory from `malloc`. The host must set the targets of the calls at
/// [`BOUNCE_MALLOC`] and [`BOUNCE_MEMCPY`]:
/// `stp x29, x30, [sp, #-32]!; mov x29, sp; stp x19, x20, [sp, #16]; mov x19, x0; mov x20, x1; mov x0, x1; bl malloc;
/// mov x1, x19; mov x2, x20; bl memcpy; mov x1, x20; ldp x19, x20, [sp, #16]; ldp x29, x30, [sp], #32; ret`.
pub const BOUNCE: &[u8] = &bytes::<14, 56>([
    0xa9be_7bfd,
    0x9100_03fd,
    0xa901_53f3,
    0xaa00_03f3,
    0xaa01_03f4,
    0xaa01_03e0,
    0x9400_0000,
    0xaa13_03e1,
    0xaa14_03e2,
    0x9400_0000,
    0xaa14_03e1,
    0xa941_53f3,
    0xa8c2_7bfd,
    0xd65f_03c0,
]);
/// Where in [`BOUNCE`] the call of `malloc` is.
pub const BOUNCE_MALLOC: u64 = 24;
/// Where in [`BOUNCE`] the call of `memcpy` is.
pub const BOUNCE_MEMCPY: u64 = 36;

/// Takes a handler's tag and a count. Calls that handler with each number from the count down to 1, and returns the sum of
/// its answers. The host must set the target of the call at [`CALL_BACK_CALL`] to `farcall_call_controller`:
/// `stp x29, x30, [sp, #-64]!; mov x29, sp; stp x19, x20, [sp, #16]; str x21, [sp, #32]; ldp x19, x20, [x0]; mov x21, #0;
/// again: str x20, [sp, #48]; mov x0, x19; add x1, sp, #48; mov x2, #8; bl farcall_call_controller; add x21, x21, x0;
/// subs x20, x20, #1; b.ne again; mov x0, x21; mov x1, #8; ldr x21, [sp, #32]; ldp x19, x20, [sp, #16];
/// ldp x29, x30, [sp], #64; ret`.
pub const CALL_BACK: &[u8] = &bytes::<20, 80>([
    0xa9bc_7bfd,
    0x9100_03fd,
    0xa901_53f3,
    0xf900_13f5,
    0xa940_5013,
    0xd280_0015,
    0xf900_1bf4,
    0xaa13_03e0,
    0x9100_c3e1,
    0xd280_0102,
    0x9400_0000,
    0x8b00_02b5,
    0xf100_0694,
    0x54ff_ff21,
    0xaa15_03e0,
    0xd280_0101,
    0xf940_13f5,
    0xa941_53f3,
    0xa8c4_7bfd,
    0xd65f_03c0,
]);
/// Where in [`CALL_BACK`] the call is.
pub const CALL_BACK_CALL: u64 = 40;

/// Takes a count. Calls a C function with each number from the count down to 1, and returns the sum of what it returns. The host
/// must set the target of the call at [`CALL_BY_NAME_CALL`]: `stp x29, x30, [sp, #-32]!; mov x29, sp; stp x19, x20, [sp, #16];
/// ldr x19, [x0]; mov x20, #0; again: mov x0, x19; bl function; add x20, x20, x0; subs x19, x19, #1; b.ne again; mov x0, x20;
/// mov x1, #8; ldp x19, x20, [sp, #16]; ldp x29, x30, [sp], #32; ret`.
pub const CALL_BY_NAME: &[u8] = &bytes::<15, 60>([
    0xa9be_7bfd,
    0x9100_03fd,
    0xa901_53f3,
    0xf940_0013,
    0xd280_0014,
    0xaa13_03e0,
    0x9400_0000,
    0x8b00_0294,
    0xf100_0673,
    0x54ff_ff81,
    0xaa14_03e0,
    0xd280_0101,
    0xa941_53f3,
    0xa8c2_7bfd,
    0xd65f_03c0,
]);
/// Where in [`CALL_BY_NAME`] the call is.
pub const CALL_BY_NAME_CALL: u64 = 24;

/// Returns the sum of the two u64 in its argument: `ldp x0, x1, [x0]; add x0, x0, x1; mov x1, #8; ret`.
pub const ADD: &[u8] = &bytes::<4, 16>([0xa940_0400, 0x8b01_0000, 0xd280_0101, 0xd65f_03c0]);

/// Returns this u64, whatever the argument: `ldr x0, value; mov x1, #8; ret`, and the value.
#[must_use]
pub fn constant(value: u64) -> Vec<u8> {
    let code: [u8; 12] = bytes([0x5800_0060, 0xd280_0101, 0xd65f_03c0]);
    [&code[..], &value.to_le_bytes()].concat()
}

/// Where [`constant`] has the value.
pub const CONSTANT: usize = 12;

/// Stores a zero byte at an address, to die of it; returns no bytes if it survives:
/// `mov w0, #low; movk w0, #high, lsl #16; strb wzr, [x0]; mov x0, #0; mov x1, #0; ret`.
#[must_use]
pub fn poke(address: u32) -> Vec<u8> {
    let (low, high) = ((address & 0xffff) << 5, (address >> 16) << 5);
    let code: [u8; 24] = bytes([
        0x5280_0000 | low,
        0x72a0_0000 | high,
        0x3900_001f,
        0xd280_0000,
        0xd280_0001,
        0xd65f_03c0,
    ]);
    code.to_vec()
}
