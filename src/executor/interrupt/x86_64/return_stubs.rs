//! The stubs to which libraries return when linked code is to be left: one for each thread at a time.
//!
//! A stub puts the true return address back and goes on at [`leave`](super::leave), as if linked code had called that. An exception
//! that a library throws meanwhile must find the frame of linked code behind the stub. So stubs have unwind information, which says that
//! the return address is in a word of [`ADDRESSES`].
//!
//! The frame of a stub is empty, and an unwinder knows frames by where they end. So the stub is described as the frame of a signal handler.
//! The unwinder takes the address in the next frame for an interrupted instruction. So it is told the address before.
#![allow(unsafe_code, reason = "defines functions in assembler")]

use std::ffi::c_void;

use super::leave::farcall_leave;
use crate::executor::interrupt::places;
use crate::executor::process::eh_frame;
use crate::sync::{AtomicU64, Ordering};
use crate::{AddrRange, ExecutorAddr};

/// Stubs of a process.
const STUBS: usize = 64;
/// Bytes of a stub, of which the first is in front of its entry.
const STUB_BYTES: u64 = 32;

/// The true return address behind each stub.
static ADDRESSES: [AtomicU64; STUBS] = [const { AtomicU64::new(0) }; STUBS];
/// A bit for each stub that a thread has.
static TAKEN: AtomicU64 = AtomicU64::new(0);

std::arch::global_asm!(
    ".pushsection .text.farcall_return_stubs,\"ax\",@progbits",
    ".p2align 5",
    ".globl farcall_return_stubs",
    ".hidden farcall_return_stubs",
    ".type farcall_return_stubs,@function",
    "farcall_return_stubs:",
    ".set farcall_stub, 0",
    ".rept 64",
    ".p2align 5",
    // An unwinder looks for the instruction in front of a return address.
    "nop",
    "sub rsp, 8",
    "push rax",
    "mov rax, qword ptr [rip + {addresses} + 8*farcall_stub]",
    "mov qword ptr [rsp + 8], rax",
    "pop rax",
    "jmp {leave}",
    ".set farcall_stub, farcall_stub + 1",
    ".endr",
    ".p2align 5",
    ".size farcall_return_stubs, . - farcall_return_stubs",
    ".popsection",
    addresses = sym ADDRESSES,
    leave = sym farcall_leave,
);

unsafe extern "C" {
    safe fn farcall_return_stubs();
}

fn start() -> u64 {
    (farcall_return_stubs as *const c_void).expose_provenance() as u64
}

/// Claims a free stub, and returns its place from 1 on; 0 if all are taken.
pub(super) fn claim() -> u64 {
    let mut taken = TAKEN.load(Ordering::Relaxed);
    loop {
        let free = taken.trailing_ones();
        if free as usize >= STUBS {
            return 0;
        }
        let with = taken | 1 << free;
        match TAKEN.compare_exchange(taken, with, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => return u64::from(free) + 1,
            Err(other) => taken = other,
        }
    }
}

/// Gives a stub back, to which nothing will return any more.
pub(super) fn give_back(place: u64) {
    if let Some(bit) = place.checked_sub(1) {
        TAKEN.fetch_and(!(1 << bit), Ordering::Relaxed);
    }
}

/// The entry of the stub at this place, which leads to `address` from now on. `None` for place 0.
pub(super) fn leading_to(place: u64, address: u64) -> Option<u64> {
    let index = place.checked_sub(1)?;
    ADDRESSES.get(usize::try_from(index).ok()?)?.store(address, Ordering::Relaxed);
    Some(start() + index * STUB_BYTES + 1)
}

/// Registers the unwind information of all stubs. The process keeps it.
///
/// # Errors
///
/// If the unwinder has no function for that.
pub(super) fn register() -> crate::error::Result<()> {
    let stubs = ExecutorAddr::new(start());
    let end = ExecutorAddr::new(start() + STUBS as u64 * STUB_BYTES);
    places::set_stubs(AddrRange { start: stubs, end });
    let frames: &'static [u8] = Vec::leak(unwind_information());
    let start = ExecutorAddr::new(frames.as_ptr().expose_provenance() as u64);
    let section = AddrRange { start, end: ExecutorAddr::new(start.get() + frames.len() as u64) };
    eh_frame::register_own(section)
}

/// An `.eh_frame` section, by "DWARF Debugging Information Format", version 4, section 6.4, and the "Linux Standard Base".
fn unwind_information() -> Vec<u8> {
    const RSP: u8 = 7;
    const RETURN_ADDRESS: u8 = 16;
    const DEF_CFA: u8 = 0x0c;
    const VAL_EXPRESSION: u8 = 0x16;
    const OP_ADDR: u8 = 0x03;
    const OP_DEREF: u8 = 0x06;
    const OP_LIT1: u8 = 0x31;
    const OP_MINUS: u8 = 0x1c;
    let mut section = Vec::new();
    let mut record = |words: &[u8]| {
        let mut bytes = words.to_vec();
        // The whole record, with its length, is a multiple of 8 bytes.
        bytes.resize((bytes.len() + 4).next_multiple_of(8) - 4, 0);
        let length = u32::try_from(bytes.len()).unwrap_or(0);
        section.extend_from_slice(&length.to_le_bytes());
        section.extend_from_slice(&bytes);
        section.len()
    };
    // Identifier 0, version 1, a signal handler. Code counts by 1 byte and data by -8. The frame is empty.
    let mut common = vec![0, 0, 0, 0, 1];
    common.extend(*b"zS\0");
    common.extend([1, 0x78, RETURN_ADDRESS, 0, DEF_CFA, RSP, 0]);
    let mut end = record(&common);
    for (index, word) in ADDRESSES.iter().enumerate() {
        // The distance back to the common record, from the word that holds it.
        let distance = u32::try_from(end + 4).unwrap_or(0);
        let mut bytes = distance.to_le_bytes().to_vec();
        bytes.extend((start() + index as u64 * STUB_BYTES).to_le_bytes());
        bytes.extend(STUB_BYTES.to_le_bytes());
        bytes.extend([0, VAL_EXPRESSION, RETURN_ADDRESS, 12, OP_ADDR]);
        bytes.extend((std::ptr::from_ref(word).expose_provenance() as u64).to_le_bytes());
        bytes.extend([OP_DEREF, OP_LIT1, OP_MINUS]);
        end = record(&bytes);
    }
    section.extend_from_slice(&[0; 4]);
    section
}
