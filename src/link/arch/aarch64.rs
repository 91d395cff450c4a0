//! The relocations of AArch64, and its stubs.
//!
//! The names and numbers come from "ELF for the Arm 64-bit Architecture (AArch64)". A kind whose number is in the table and that the
//! linker does not compute is refused by its name.
//!
//! Invariant: the table is sorted by number.

use super::edge::{EdgeKind, Formula, Range, ThreadModel, kind};
use super::facts::{Facts, FarJump, Field, FieldForm, Frames, HandlerStub, LazyCode};
use super::operand::{Class, Limit, Operand};
use Class::{
    Add, AddHigh, Adr, Adrp, Branch14, Branch19, Branch26, Literal19, Load, LoadFar, Move,
    MoveSigned,
};
use Formula::{
    Absolute, Branch, Delta, Dynamic, FromGot, GotAddress, GotDelta, GotFromPage, Nothing, Thread,
    Unsupported,
};
use Limit::{None as Unlimited, Signed, Unsigned};
use Range::{Any, Either};

/// The code and the sizes that the linker writes.
pub(crate) static FACTS: Facts = Facts {
    // `udf #0`
    code_padding: 0,
    nop: &NOP,
    // stp x29, x30, [sp, #-16]!; mov x29, sp
    routine_start: &[0xfd, 0x7b, 0xbf, 0xa9, 0xfd, 0x03, 0x00, 0x91],
    // ldp x29, x30, [sp], #16; ret
    routine_end: &[0xfd, 0x7b, 0xc1, 0xa8, 0xc0, 0x03, 0x5f, 0xd6],
    stub_bytes: 16,
    write_stub,
    frames: Frames { stack_pointer: 31, frame_pointer: 29, return_address: 30, call_bytes: 0 },
    field,
    far_jump: Some(FarJump {
        reach_bytes: 1 << 27,
        thread_call: CALL_OFFSET,
        write: write_far_jump,
    }),
    handler_stub: HandlerStub {
        // bti c; adrp x9, constants; add x9, x9, constants; b target
        code: &[
            0x5f, 0x24, 0x03, 0xd5, 0x09, 0x00, 0x00, 0x90, 0x29, 0x01, 0x00, 0x91, 0x00, 0x00,
            0x00, 0x14,
        ],
        constants_fields: &[4, 8],
        target_field: 12,
    },
    lazy: LazyCode { return_offset: 0, write_trampoline, write_entry },
};

/// `nop`
pub(crate) const NOP: [u8; 4] = [0x1f, 0x20, 0x03, 0xd5];

/// `bti c; adrp x16, entry; ldr x17, [x16, entry]; br x17`, without its operands. Calls may change both registers.
const STUB: [u8; 16] = [
    0x5f, 0x24, 0x03, 0xd5, 0x10, 0x00, 0x00, 0x90, 0x11, 0x02, 0x40, 0xf9, 0x20, 0x02, 0x1f, 0xd6,
];

/// Writes the stub at `stub` that jumps to the address in the word at `entry`. Returns false when they are more than 4 GiB apart.
fn write_stub(stub: u64, entry: u64, bytes: &mut [u8]) -> bool {
    let page = Operand { class: Adrp, limit: Signed(33) };
    let distance = page.distance(entry, stub.wrapping_add(4));
    if !page.holds(distance) {
        return false;
    }
    bytes.copy_from_slice(&STUB);
    page.store(&mut bytes[4..], distance);
    Operand { class: Load(3), limit: Unlimited }.store(&mut bytes[8..], entry);
    true
}

/// `bti c; adrp x16, to; add x16, x16, to; br x16`, without its operands. Calls may change the register.
const FAR_JUMP: [u8; 16] = [
    0x5f, 0x24, 0x03, 0xd5, 0x10, 0x00, 0x00, 0x90, 0x10, 0x02, 0x00, 0x91, 0x00, 0x02, 0x1f, 0xd6,
];

/// Writes the stub at `stub` that goes to `to`. Returns false when they are more than 4 GiB apart.
fn write_far_jump(stub: u64, to: u64, bytes: &mut [u8]) -> bool {
    let page = Operand { class: Adrp, limit: Signed(33) };
    let distance = page.distance(to, stub.wrapping_add(4));
    if !page.holds(distance) {
        return false;
    }
    bytes.copy_from_slice(&FAR_JUMP);
    page.store(&mut bytes[4..], distance);
    Operand { class: Add, limit: Unlimited }.store(&mut bytes[8..], to);
    true
}

/// `adr x17, this; b entry`. Calls may change the register, so the trampoline's own address is there.
fn write_trampoline(trampoline: u64, entry: u64, bytes: &mut [u8; 8]) -> bool {
    let branch = Operand { class: Branch26, limit: Signed(28) };
    let distance = branch.distance(entry, trampoline.wrapping_add(4));
    *bytes = [0x11, 0x00, 0x00, 0x10, 0x00, 0x00, 0x00, 0x14];
    branch.store(&mut bytes[4..], distance);
    branch.holds(distance)
}

/// `adrp x16, constants; ldr x9, [x16, constants]; ldr x16, [x16, constants + 8]; br x9`, without its operands. So the tag is in
/// `x16`.
const ENTRY: [u8; 16] = [
    0x10, 0x00, 0x00, 0x90, 0x09, 0x02, 0x40, 0xf9, 0x10, 0x02, 0x40, 0xf9, 0x20, 0x01, 0x1f, 0xd6,
];

/// Writes the entry of trampolines. Returns false when it is more than 4 GiB from its constants, which are in one page.
fn write_entry(entry: u64, constants: u64, bytes: &mut [u8]) -> bool {
    let page = Operand { class: Adrp, limit: Signed(33) };
    let load = Operand { class: Load(3), limit: Unlimited };
    let distance = page.distance(constants, entry);
    bytes.fill(0);
    bytes[..ENTRY.len()].copy_from_slice(&ENTRY);
    page.store(bytes, distance);
    load.store(&mut bytes[4..], constants);
    load.store(&mut bytes[8..], constants.wrapping_add(8));
    page.holds(distance)
}

/// The relocation of a field. In code it is the first of its form whose instruction `bytes` start with. In data, distances
/// count from the end of the field.
fn field(form: FieldForm, is_code: bool, bytes: &[u8]) -> Option<Field> {
    let in_code: &[u32] = match form {
        FieldForm::Call if bytes.get(3)? & 0x80 != 0 => &[CALL26, 280, 279],
        FieldForm::Call => &[282, 280, 279],
        FieldForm::Distance => &[275, 277, 278, 284, 285, 286, 299, 274, 273],
        FieldForm::GotEntry => &[311, 312, 309],
        FieldForm::Address => return Some(Field { number: 257, base: 0 }),
    };
    if is_code {
        let is_it = |number: &&u32| {
            let operand = edge_kind(**number).and_then(|kind| kind.operand);
            operand.is_some_and(|operand| operand.is_of(bytes))
        };
        return in_code.iter().find(is_it).map(|number| Field { number: *number, base: 0 });
    }
    let number = match form {
        FieldForm::Call => 314,
        FieldForm::Distance => 261,
        _ => 315,
    };
    Some(Field { number, base: -4 })
}

/// The kind of the relocation with this number; `None` when the supplement does not define it.
pub(crate) fn edge_kind(number: u32) -> Option<&'static EdgeKind> {
    let index = KINDS.binary_search_by_key(&number, |kind| kind.number).ok()?;
    KINDS.get(index)
}

/// How to compile code without a relocation that is [`Formula::Unsupported`].
pub(crate) fn advice(number: u32) -> &'static str {
    match number {
        512..=538 => "compile with -mtls-dialect=desc",
        539..=573 => "compile thread-locals with -mcmodel=small",
        _ => "compile with -mcmodel=small",
    }
}

pub(super) const TLSDESC_ADR_PAGE21: u32 = 562;
pub(super) const TLSDESC_LD64_LO12: u32 = 563;
pub(super) const TLSDESC_ADD_LO12: u32 = 564;
pub(super) const TLSDESC_CALL: u32 = 569;

/// Where the call of `__tls_get_addr` is in its sequence, and the kinds of the sequence's relocations.
pub(super) const CALL_OFFSET: u64 = 8;
pub(super) const TLSGD_ADR_PAGE21: u32 = 513;
pub(super) const TLSGD_ADD_LO12_NC: u32 = 514;
pub(super) const CALL26: u32 = 283;

const GENERAL: Formula = Thread(ThreadModel::General);
const IN_BLOCK: Formula = Thread(ThreadModel::LocalInCode);
const EXEC: Formula = Thread(ThreadModel::Exec);
const INITIAL_ENTRY: Formula = Thread(ThreadModel::InitialEntry);
const INITIAL_ADDRESS: Formula = Thread(ThreadModel::InitialAddress);
const DESCRIPTOR: Formula = Thread(ThreadModel::Descriptor);
const DESCRIPTOR_CALL: Formula = Thread(ThreadModel::DescriptorCall);

/// The relocations of the supplement.
pub static KINDS: [EdgeKind; 126] = [
    other(0, "R_AARCH64_NONE", Nothing),
    other(256, "R_AARCH64_NONE", Nothing),
    kind(257, "R_AARCH64_ABS64", Absolute, 8, Any),
    kind(258, "R_AARCH64_ABS32", Absolute, 4, Either),
    kind(259, "R_AARCH64_ABS16", Absolute, 2, Either),
    kind(260, "R_AARCH64_PREL64", Delta, 8, Any),
    kind(261, "R_AARCH64_PREL32", Delta, 4, Range::Signed),
    kind(262, "R_AARCH64_PREL16", Delta, 2, Range::Signed),
    code(263, "R_AARCH64_MOVW_UABS_G0", Absolute, Move(0), Unsigned(16)),
    code(264, "R_AARCH64_MOVW_UABS_G0_NC", Absolute, Move(0), Unlimited),
    code(265, "R_AARCH64_MOVW_UABS_G1", Absolute, Move(1), Unsigned(32)),
    code(266, "R_AARCH64_MOVW_UABS_G1_NC", Absolute, Move(1), Unlimited),
    code(267, "R_AARCH64_MOVW_UABS_G2", Absolute, Move(2), Unsigned(48)),
    code(268, "R_AARCH64_MOVW_UABS_G2_NC", Absolute, Move(2), Unlimited),
    code(269, "R_AARCH64_MOVW_UABS_G3", Absolute, Move(3), Unlimited),
    code(270, "R_AARCH64_MOVW_SABS_G0", Absolute, MoveSigned(0), Signed(17)),
    code(271, "R_AARCH64_MOVW_SABS_G1", Absolute, MoveSigned(1), Signed(33)),
    code(272, "R_AARCH64_MOVW_SABS_G2", Absolute, MoveSigned(2), Signed(49)),
    code(273, "R_AARCH64_LD_PREL_LO19", Delta, Literal19, Signed(21)),
    code(274, "R_AARCH64_ADR_PREL_LO21", Delta, Adr, Signed(21)),
    code(275, "R_AARCH64_ADR_PREL_PG_HI21", Delta, Adrp, Signed(33)),
    code(276, "R_AARCH64_ADR_PREL_PG_HI21_NC", Delta, Adrp, Unlimited),
    code(277, "R_AARCH64_ADD_ABS_LO12_NC", Absolute, Add, Unlimited),
    code(278, "R_AARCH64_LDST8_ABS_LO12_NC", Absolute, Load(0), Unlimited),
    code(279, "R_AARCH64_TSTBR14", Branch, Branch14, Signed(16)),
    code(280, "R_AARCH64_CONDBR19", Branch, Branch19, Signed(21)),
    code(282, "R_AARCH64_JUMP26", Branch, Branch26, Signed(28)),
    code(CALL26, "R_AARCH64_CALL26", Branch, Branch26, Signed(28)),
    code(284, "R_AARCH64_LDST16_ABS_LO12_NC", Absolute, Load(1), Unlimited),
    code(285, "R_AARCH64_LDST32_ABS_LO12_NC", Absolute, Load(2), Unlimited),
    code(286, "R_AARCH64_LDST64_ABS_LO12_NC", Absolute, Load(3), Unlimited),
    code(287, "R_AARCH64_MOVW_PREL_G0", Delta, MoveSigned(0), Signed(17)),
    code(288, "R_AARCH64_MOVW_PREL_G0_NC", Delta, Move(0), Unlimited),
    code(289, "R_AARCH64_MOVW_PREL_G1", Delta, MoveSigned(1), Signed(33)),
    code(290, "R_AARCH64_MOVW_PREL_G1_NC", Delta, Move(1), Unlimited),
    code(291, "R_AARCH64_MOVW_PREL_G2", Delta, MoveSigned(2), Signed(49)),
    code(292, "R_AARCH64_MOVW_PREL_G2_NC", Delta, Move(2), Unlimited),
    code(293, "R_AARCH64_MOVW_PREL_G3", Delta, Move(3), Unlimited),
    code(299, "R_AARCH64_LDST128_ABS_LO12_NC", Absolute, Load(4), Unlimited),
    other(300, "R_AARCH64_MOVW_GOTOFF_G0", Unsupported),
    other(301, "R_AARCH64_MOVW_GOTOFF_G0_NC", Unsupported),
    other(302, "R_AARCH64_MOVW_GOTOFF_G1", Unsupported),
    other(303, "R_AARCH64_MOVW_GOTOFF_G1_NC", Unsupported),
    other(304, "R_AARCH64_MOVW_GOTOFF_G2", Unsupported),
    other(305, "R_AARCH64_MOVW_GOTOFF_G2_NC", Unsupported),
    other(306, "R_AARCH64_MOVW_GOTOFF_G3", Unsupported),
    kind(307, "R_AARCH64_GOTREL64", FromGot, 8, Any),
    kind(308, "R_AARCH64_GOTREL32", FromGot, 4, Range::Signed),
    code(309, "R_AARCH64_GOT_LD_PREL19", GotDelta, Literal19, Signed(21)),
    other(310, "R_AARCH64_LD64_GOTOFF_LO15", Unsupported),
    code(311, "R_AARCH64_ADR_GOT_PAGE", GotDelta, Adrp, Signed(33)),
    code(312, "R_AARCH64_LD64_GOT_LO12_NC", GotAddress, Load(3), Unlimited),
    code(313, "R_AARCH64_LD64_GOTPAGE_LO15", GotFromPage, LoadFar, Unsigned(15)),
    kind(314, "R_AARCH64_PLT32", Branch, 4, Range::Signed),
    kind(315, "R_AARCH64_GOTPCREL32", GotDelta, 4, Range::Signed),
    other(512, "R_AARCH64_TLSGD_ADR_PREL21", Unsupported),
    code(TLSGD_ADR_PAGE21, "R_AARCH64_TLSGD_ADR_PAGE21", GENERAL, Adrp, Signed(33)),
    code(TLSGD_ADD_LO12_NC, "R_AARCH64_TLSGD_ADD_LO12_NC", GENERAL, Add, Unlimited),
    other(515, "R_AARCH64_TLSGD_MOVW_G1", Unsupported),
    other(516, "R_AARCH64_TLSGD_MOVW_G0_NC", Unsupported),
    other(517, "R_AARCH64_TLSLD_ADR_PREL21", Unsupported),
    other(518, "R_AARCH64_TLSLD_ADR_PAGE21", Unsupported),
    other(519, "R_AARCH64_TLSLD_ADD_LO12_NC", Unsupported),
    other(520, "R_AARCH64_TLSLD_MOVW_G1", Unsupported),
    other(521, "R_AARCH64_TLSLD_MOVW_G0_NC", Unsupported),
    other(522, "R_AARCH64_TLSLD_LD_PREL19", Unsupported),
    other(523, "R_AARCH64_TLSLD_MOVW_DTPREL_G2", Unsupported),
    other(524, "R_AARCH64_TLSLD_MOVW_DTPREL_G1", Unsupported),
    other(525, "R_AARCH64_TLSLD_MOVW_DTPREL_G1_NC", Unsupported),
    other(526, "R_AARCH64_TLSLD_MOVW_DTPREL_G0", Unsupported),
    other(527, "R_AARCH64_TLSLD_MOVW_DTPREL_G0_NC", Unsupported),
    code(528, "R_AARCH64_TLSLD_ADD_DTPREL_HI12", IN_BLOCK, AddHigh, Unsigned(24)),
    code(529, "R_AARCH64_TLSLD_ADD_DTPREL_LO12", IN_BLOCK, Add, Unsigned(12)),
    code(530, "R_AARCH64_TLSLD_ADD_DTPREL_LO12_NC", IN_BLOCK, Add, Unlimited),
    code(531, "R_AARCH64_TLSLD_LDST8_DTPREL_LO12", IN_BLOCK, Load(0), Unsigned(12)),
    code(532, "R_AARCH64_TLSLD_LDST8_DTPREL_LO12_NC", IN_BLOCK, Load(0), Unlimited),
    code(533, "R_AARCH64_TLSLD_LDST16_DTPREL_LO12", IN_BLOCK, Load(1), Unsigned(12)),
    code(534, "R_AARCH64_TLSLD_LDST16_DTPREL_LO12_NC", IN_BLOCK, Load(1), Unlimited),
    code(535, "R_AARCH64_TLSLD_LDST32_DTPREL_LO12", IN_BLOCK, Load(2), Unsigned(12)),
    code(536, "R_AARCH64_TLSLD_LDST32_DTPREL_LO12_NC", IN_BLOCK, Load(2), Unlimited),
    code(537, "R_AARCH64_TLSLD_LDST64_DTPREL_LO12", IN_BLOCK, Load(3), Unsigned(12)),
    code(538, "R_AARCH64_TLSLD_LDST64_DTPREL_LO12_NC", IN_BLOCK, Load(3), Unlimited),
    other(539, "R_AARCH64_TLSIE_MOVW_GOTTPREL_G1", Unsupported),
    other(540, "R_AARCH64_TLSIE_MOVW_GOTTPREL_G0_NC", Unsupported),
    code(541, "R_AARCH64_TLSIE_ADR_GOTTPREL_PAGE21", INITIAL_ENTRY, Adrp, Signed(33)),
    code(542, "R_AARCH64_TLSIE_LD64_GOTTPREL_LO12_NC", INITIAL_ADDRESS, Load(3), Unlimited),
    code(543, "R_AARCH64_TLSIE_LD_GOTTPREL_PREL19", INITIAL_ENTRY, Literal19, Signed(21)),
    code(544, "R_AARCH64_TLSLE_MOVW_TPREL_G2", EXEC, MoveSigned(2), Signed(49)),
    code(545, "R_AARCH64_TLSLE_MOVW_TPREL_G1", EXEC, MoveSigned(1), Signed(33)),
    code(546, "R_AARCH64_TLSLE_MOVW_TPREL_G1_NC", EXEC, Move(1), Unlimited),
    code(547, "R_AARCH64_TLSLE_MOVW_TPREL_G0", EXEC, MoveSigned(0), Signed(17)),
    code(548, "R_AARCH64_TLSLE_MOVW_TPREL_G0_NC", EXEC, Move(0), Unlimited),
    code(549, "R_AARCH64_TLSLE_ADD_TPREL_HI12", EXEC, AddHigh, Unsigned(24)),
    code(550, "R_AARCH64_TLSLE_ADD_TPREL_LO12", EXEC, Add, Unsigned(12)),
    code(551, "R_AARCH64_TLSLE_ADD_TPREL_LO12_NC", EXEC, Add, Unlimited),
    code(552, "R_AARCH64_TLSLE_LDST8_TPREL_LO12", EXEC, Load(0), Unsigned(12)),
    code(553, "R_AARCH64_TLSLE_LDST8_TPREL_LO12_NC", EXEC, Load(0), Unlimited),
    code(554, "R_AARCH64_TLSLE_LDST16_TPREL_LO12", EXEC, Load(1), Unsigned(12)),
    code(555, "R_AARCH64_TLSLE_LDST16_TPREL_LO12_NC", EXEC, Load(1), Unlimited),
    code(556, "R_AARCH64_TLSLE_LDST32_TPREL_LO12", EXEC, Load(2), Unsigned(12)),
    code(557, "R_AARCH64_TLSLE_LDST32_TPREL_LO12_NC", EXEC, Load(2), Unlimited),
    code(558, "R_AARCH64_TLSLE_LDST64_TPREL_LO12", EXEC, Load(3), Unsigned(12)),
    code(559, "R_AARCH64_TLSLE_LDST64_TPREL_LO12_NC", EXEC, Load(3), Unlimited),
    other(560, "R_AARCH64_TLSDESC_LD_PREL19", Unsupported),
    other(561, "R_AARCH64_TLSDESC_ADR_PREL21", Unsupported),
    code(TLSDESC_ADR_PAGE21, "R_AARCH64_TLSDESC_ADR_PAGE21", DESCRIPTOR, Adrp, Signed(33)),
    code(TLSDESC_LD64_LO12, "R_AARCH64_TLSDESC_LD64_LO12", DESCRIPTOR, Load(3), Unlimited),
    code(TLSDESC_ADD_LO12, "R_AARCH64_TLSDESC_ADD_LO12", DESCRIPTOR, Add, Unlimited),
    other(565, "R_AARCH64_TLSDESC_OFF_G1", Unsupported),
    other(566, "R_AARCH64_TLSDESC_OFF_G0_NC", Unsupported),
    other(567, "R_AARCH64_TLSDESC_LDR", Unsupported),
    other(568, "R_AARCH64_TLSDESC_ADD", Unsupported),
    kind(TLSDESC_CALL, "R_AARCH64_TLSDESC_CALL", DESCRIPTOR_CALL, 4, Any),
    code(570, "R_AARCH64_TLSLE_LDST128_TPREL_LO12", EXEC, Load(4), Unsigned(12)),
    code(571, "R_AARCH64_TLSLE_LDST128_TPREL_LO12_NC", EXEC, Load(4), Unlimited),
    code(572, "R_AARCH64_TLSLD_LDST128_DTPREL_LO12", IN_BLOCK, Load(4), Unsigned(12)),
    code(573, "R_AARCH64_TLSLD_LDST128_DTPREL_LO12_NC", IN_BLOCK, Load(4), Unlimited),
    other(1024, "R_AARCH64_COPY", Dynamic),
    other(1025, "R_AARCH64_GLOB_DAT", Dynamic),
    other(1026, "R_AARCH64_JUMP_SLOT", Dynamic),
    other(1027, "R_AARCH64_RELATIVE", Dynamic),
    other(1028, "R_AARCH64_TLS_DTPMOD", Dynamic),
    other(1029, "R_AARCH64_TLS_DTPREL", Dynamic),
    other(1030, "R_AARCH64_TLS_TPREL", Dynamic),
    other(1031, "R_AARCH64_TLSDESC", Dynamic),
    other(1032, "R_AARCH64_IRELATIVE", Dynamic),
];

const fn code(
    number: u32,
    name: &'static str,
    formula: Formula,
    class: Class,
    limit: Limit,
) -> EdgeKind {
    let operand = Some(Operand { class, limit });
    EdgeKind { number, name, formula, field_bytes: 4, range: Any, operand }
}

const fn other(number: u32, name: &'static str, formula: Formula) -> EdgeKind {
    kind(number, name, formula, 0, Any)
}
