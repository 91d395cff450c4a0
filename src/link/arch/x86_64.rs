//! The relocations of x86-64, its stubs, and the instruction rewrites that save a load.
//!
//! Invariant: a field that is written lies in the bytes that are given, and nothing else is written.

use super::edge::{Edge, EdgeKind, Formula, Range, ThreadModel, kind};
use super::facts::{Facts, Field, FieldForm, Frames, HandlerStub, LazyCode, store};
use Formula::{
    Absolute, Branch, Delta, Dynamic, FromGot, GotBaseDelta, GotDelta, GotLoad, GotOffset, Nothing,
    Size, Thread,
};
use Range::{Any, Either, Signed, Unsigned};

/// The filler of gaps between functions: `int3`.
const CODE_PADDING: u8 = 0xcc;

/// The code and the sizes that the linker writes.
pub(crate) static FACTS: Facts = Facts {
    code_padding: CODE_PADDING,
    nop: &[0x90],
    // sub $8, %rsp, which aligns the stack for the calls of the fragments
    routine_start: &[0x48, 0x83, 0xec, 0x08],
    // add $8, %rsp; ret
    routine_end: &[0x48, 0x83, 0xc4, 0x08, 0xc3],
    stub_bytes: STUB.len() as u64,
    write_stub,
    frames: Frames { stack_pointer: 7, frame_pointer: 6, return_address: 16, call_bytes: 8 },
    field,
    far_jump: None,
    handler_stub: HandlerStub {
        // lea 0(%rip),%r11; jmp 0
        code: &[0x4c, 0x8d, 0x1d, 0, 0, 0, 0, 0xe9, 0, 0, 0, 0],
        constants_fields: &[3],
        target_field: 8,
    },
    lazy: LazyCode { return_offset: TRAMPOLINE_CALL_BYTES, write_trampoline, write_entry },
};

/// `jmp *entry(%rip)`, its displacement zero, and padding.
const STUB: [u8; 8] = [0xff, 0x25, 0, 0, 0, 0, CODE_PADDING, CODE_PADDING];

/// The kind of the relocation with this number; `None` when the processor supplement does not define it.
pub(crate) fn edge_kind(number: u32) -> Option<&'static EdgeKind> {
    KINDS.get(usize::try_from(number).ok()?)
}

/// The kind of a relocation, given the code around it.
///
/// Some assemblers mark calls and jumps as plain 32-bit differences. In executable bytes, a field right behind the opcode of
/// a near `call` or `jmp` must be a branch. So it may go through a stub as well.
pub(crate) fn refine(
    kind: &'static EdgeKind,
    code: &[u8],
    offset: u32,
    addend: i64,
) -> &'static EdgeKind {
    let opcode = usize::try_from(offset).ok().and_then(|at| code.get(at.checked_sub(1)?));
    match (kind.number, opcode) {
        (R_X86_64_PC32, Some(0xe8 | 0xe9)) if addend == -4 => &KINDS[R_X86_64_PLT32 as usize],
        _ => kind,
    }
}

/// Writes the stub at `stub` that jumps to the address in the word at `entry`. Returns false when they are more than 2 GiB apart.
fn write_stub(stub: u64, entry: u64, bytes: &mut [u8]) -> bool {
    let displacement = entry.wrapping_sub(stub.wrapping_add(6));
    bytes.copy_from_slice(&STUB);
    store(&mut bytes[2..6], displacement);
    Signed.holds(displacement, 4)
}

/// The relocation of a field: distances count from its end.
#[expect(clippy::unnecessary_wraps, reason = "bytes of other processors may be no field")]
fn field(form: FieldForm, _: bool, _: &[u8]) -> Option<Field> {
    let (number, base) = match form {
        FieldForm::Call => (R_X86_64_PLT32, -4),
        FieldForm::Distance => (R_X86_64_PC32, -4),
        FieldForm::GotEntry => (R_X86_64_GOTPCREL, -4),
        FieldForm::Address => (R_X86_64_64, 0),
    };
    Some(Field { number, base })
}

/// The size of the call in a trampoline.
const TRAMPOLINE_CALL_BYTES: u64 = 5;

/// `call entry`, and padding. Both are in the same mapping of a few pages.
fn write_trampoline(trampoline: u64, entry: u64, bytes: &mut [u8; 8]) -> bool {
    *bytes = [0xe8, 0, 0, 0, 0, CODE_PADDING, CODE_PADDING, CODE_PADDING];
    let distance = entry.wrapping_sub(trampoline + TRAMPOLINE_CALL_BYTES);
    store(&mut bytes[1..5], distance);
    Signed.holds(distance, 4)
}

/// `push tag(%rip); jmp *resolver(%rip)`, and padding.
fn write_entry(entry: u64, constants: u64, bytes: &mut [u8]) -> bool {
    let tag = (constants + 8).wrapping_sub(entry + 6);
    let resolver = constants.wrapping_sub(entry + 12);
    bytes.fill(CODE_PADDING);
    bytes[..2].copy_from_slice(&[0xff, 0x35]);
    store(&mut bytes[2..6], tag);
    bytes[6..8].copy_from_slice(&[0xff, 0x25]);
    store(&mut bytes[8..12], resolver);
    Signed.holds(tag, 4) && Signed.holds(resolver, 4)
}

/// Rewrites the instruction of a [`Formula::GotLoad`] edge so that it needs no GOT entry. Returns whether it was
/// rewritten. `place` is the address of the field, `target` the address of the symbol.
///
/// - `mov f@GOTPCREL(%rip), %reg` becomes `lea f(%rip), %reg`.
/// - `call *f@GOTPCREL(%rip)` becomes `addr32 call f`, which has the same length.
/// - `jmp *f@GOTPCREL(%rip)` becomes `jmp f; nop`: its field moves one byte towards the opcode.
///
/// A prefix, REX or REX2, names the same registers of `lea`, so it stays. Other instructions, and those with targets more than 2 GiB
/// away, stay as they are.
pub(crate) fn relax_got_load(section: &mut [u8], edge: &Edge, place: u64, target: u64) -> bool {
    let Ok(offset) = usize::try_from(edge.offset) else { return false };
    let Some(start) = offset.checked_sub(2) else { return false };
    let Some(window) = section.get_mut(start..offset + 4) else { return false };
    let displacement = target.wrapping_sub(place.wrapping_add(4));
    if edge.addend != -4 || !Signed.holds(displacement, 4) {
        return false;
    }
    match (window[0], window[1], edge.kind.number) {
        (0x8b, modrm, _) if modrm & 0xc7 == 0x05 => {
            window[0] = 0x8d;
            store(&mut window[2..], displacement);
        }
        (0xff, 0x15, R_X86_64_GOTPCRELX) => {
            window[..2].copy_from_slice(&[0x67, 0xe8]);
            store(&mut window[2..], displacement);
        }
        (0xff, 0x25, R_X86_64_GOTPCRELX) => {
            let displacement = displacement.wrapping_add(1);
            if !Signed.holds(displacement, 4) {
                return false;
            }
            window[0] = 0xe9;
            store(&mut window[1..5], displacement);
            window[5] = 0x90;
        }
        _ => return false,
    }
    true
}

const R_X86_64_64: u32 = 1;
const R_X86_64_PC32: u32 = 2;
const R_X86_64_PLT32: u32 = 4;
const R_X86_64_GOTPCREL: u32 = 9;
const R_X86_64_GOTPCRELX: u32 = 41;

/// The relocations of the processor supplement up to 43, each at the index that is its number.
pub static KINDS: [EdgeKind; 44] = [
    kind(0, "R_X86_64_NONE", Nothing, 0, Any),
    kind(1, "R_X86_64_64", Absolute, 8, Any),
    kind(2, "R_X86_64_PC32", Delta, 4, Signed),
    kind(3, "R_X86_64_GOT32", GotOffset, 4, Signed),
    kind(4, "R_X86_64_PLT32", Branch, 4, Signed),
    kind(5, "R_X86_64_COPY", Dynamic, 0, Any),
    kind(6, "R_X86_64_GLOB_DAT", Dynamic, 0, Any),
    kind(7, "R_X86_64_JUMP_SLOT", Dynamic, 0, Any),
    kind(8, "R_X86_64_RELATIVE", Dynamic, 0, Any),
    kind(9, "R_X86_64_GOTPCREL", GotDelta, 4, Signed),
    kind(10, "R_X86_64_32", Absolute, 4, Unsigned),
    kind(11, "R_X86_64_32S", Absolute, 4, Signed),
    kind(12, "R_X86_64_16", Absolute, 2, Either),
    kind(13, "R_X86_64_PC16", Delta, 2, Signed),
    kind(14, "R_X86_64_8", Absolute, 1, Either),
    kind(15, "R_X86_64_PC8", Delta, 1, Signed),
    kind(16, "R_X86_64_DTPMOD64", Dynamic, 0, Any),
    kind(17, "R_X86_64_DTPOFF64", Thread(ThreadModel::LocalOffset), 8, Any),
    kind(18, "R_X86_64_TPOFF64", Thread(ThreadModel::Exec), 8, Any),
    kind(19, "R_X86_64_TLSGD", Thread(ThreadModel::General), 4, Signed),
    kind(20, "R_X86_64_TLSLD", Thread(ThreadModel::LocalBase), 4, Signed),
    kind(21, "R_X86_64_DTPOFF32", Thread(ThreadModel::LocalOffset), 4, Signed),
    kind(22, "R_X86_64_GOTTPOFF", Thread(ThreadModel::Initial), 4, Signed),
    kind(23, "R_X86_64_TPOFF32", Thread(ThreadModel::Exec), 4, Signed),
    kind(24, "R_X86_64_PC64", Delta, 8, Any),
    kind(25, "R_X86_64_GOTOFF64", FromGot, 8, Any),
    kind(26, "R_X86_64_GOTPC32", GotBaseDelta, 4, Signed),
    kind(27, "R_X86_64_GOT64", GotOffset, 8, Any),
    kind(28, "R_X86_64_GOTPCREL64", GotDelta, 8, Any),
    kind(29, "R_X86_64_GOTPC64", GotBaseDelta, 8, Any),
    kind(30, "R_X86_64_GOTPLT64", GotOffset, 8, Any),
    // L - GOT + A in the supplement, but a field of 64 bits reaches the symbol without a stub.
    kind(31, "R_X86_64_PLTOFF64", FromGot, 8, Any),
    kind(32, "R_X86_64_SIZE32", Size, 4, Unsigned),
    kind(33, "R_X86_64_SIZE64", Size, 8, Any),
    kind(34, "R_X86_64_GOTPC32_TLSDESC", Thread(ThreadModel::Descriptor), 4, Signed),
    kind(35, "R_X86_64_TLSDESC_CALL", Thread(ThreadModel::DescriptorCall), 0, Any),
    kind(36, "R_X86_64_TLSDESC", Dynamic, 0, Any),
    kind(37, "R_X86_64_IRELATIVE", Dynamic, 0, Any),
    kind(38, "R_X86_64_RELATIVE64", Dynamic, 0, Any),
    kind(39, "R_X86_64_PC32_BND", Delta, 4, Signed),
    kind(40, "R_X86_64_PLT32_BND", Branch, 4, Signed),
    kind(41, "R_X86_64_GOTPCRELX", GotLoad, 4, Signed),
    kind(42, "R_X86_64_REX_GOTPCRELX", GotLoad, 4, Signed),
    kind(43, "R_X86_64_CODE_4_GOTPCRELX", GotLoad, 4, Signed),
];
