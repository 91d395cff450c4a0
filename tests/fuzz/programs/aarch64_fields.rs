//! Fields of AArch64: instructions, and data.
//!
//! Invariant: every kind of relocation that objects have is here, but for loads of 16 bytes, whose targets few objects align.

use super::forms::Needs::{self, Address, Distance, Exact, Here, Nothing, Number, Own, Tiny};
use super::forms::{Form, Forms};

/// The fields of AArch64.
pub(super) static FORMS: Forms = Forms {
    code: &CODE,
    data: |random| random.pick(&DATA),
    pointer: number(257, 8, Nothing),
    thread_code: &THREAD_CODE,
    thread_data: &[],
    pc_relative: 261,
    unit: 16,
    step: 4,
};

static CODE: [Form; 43] = [
    code(&[0, 0, 0, 0x94], 283, Exact),
    code(&[0, 0, 0, 0x14], 282, Exact),
    code(&[0, 0, 0, 0x94], 283, Here),
    code(&[0x01, 0, 0, 0x54], 280, Here),
    code(&[0x03, 0, 0, 0xb4], 280, Here),
    code(&[0x05, 0, 0x18, 0x37], 279, Here),
    code(&[0x05, 0, 0, 0x90], 275, Distance),
    code(&[0x05, 0, 0, 0x90], 276, Nothing),
    code(&[0xa5, 0, 0, 0x91], 277, Nothing),
    code(&[0xa5, 0, 0x40, 0x39], 278, Nothing),
    code(&[0xa5, 0, 0x40, 0x79], 284, Nothing),
    code(&[0xa5, 0, 0x40, 0xb9], 285, Nothing),
    code(&[0xa5, 0, 0x40, 0xf9], 286, Nothing),
    code(&[0xa5, 0, 0, 0xfd], 286, Nothing),
    code(&[0x06, 0, 0, 0x18], 273, Here),
    code(&[0x06, 0, 0, 0x9c], 273, Here),
    code(&[0x06, 0, 0, 0x10], 274, Here),
    code(&[0x07, 0, 0x80, 0xd2], 263, Number),
    code(&[0x07, 0, 0x80, 0xf2], 264, Nothing),
    code(&[0x07, 0, 0xa0, 0xd2], 265, Address),
    code(&[0x07, 0, 0xa0, 0xf2], 266, Nothing),
    code(&[0x07, 0, 0xc0, 0xd2], 267, Nothing),
    code(&[0x07, 0, 0xc0, 0xf2], 268, Nothing),
    code(&[0x07, 0, 0xe0, 0xf2], 269, Nothing),
    code(&[0x07, 0, 0x80, 0x92], 270, Number),
    code(&[0x07, 0, 0xa0, 0xd2], 271, Address),
    code(&[0x07, 0, 0xc0, 0x92], 272, Nothing),
    code(&[0x08, 0, 0x80, 0x92], 287, Here),
    code(&[0x08, 0, 0x80, 0xf2], 288, Nothing),
    code(&[0x08, 0, 0xa0, 0xd2], 289, Distance),
    code(&[0x08, 0, 0xa0, 0xf2], 290, Nothing),
    code(&[0x08, 0, 0xc0, 0xd2], 291, Nothing),
    code(&[0x08, 0, 0xc0, 0xf2], 292, Nothing),
    code(&[0x08, 0, 0xe0, 0xd2], 293, Nothing),
    code(&[0x09, 0, 0, 0x90], 311, Exact),
    code(&[0x29, 0x01, 0x40, 0xf9], 312, Exact),
    code(&[0x29, 0x01, 0x40, 0xf9], 313, Exact),
    code(&[0x09, 0, 0, 0x58], 309, Tiny),
    code(&[0xa5, 0, 0, 0x39], 278, Nothing),
    code(&[0xa5, 0, 0, 0xf9], 286, Nothing),
    code(&[0xa5, 0, 0x80, 0xb9], 285, Nothing),
    code(&[0xa5, 0, 0, 0x11], 277, Nothing),
    code(&[0xa5, 0, 0, 0xb1], 277, Nothing),
];

static DATA: [Form; 11] = [
    number(0, 0, Nothing),
    number(257, 8, Nothing),
    number(258, 4, Address),
    number(259, 2, Number),
    number(260, 8, Nothing),
    number(261, 4, Distance),
    number(262, 2, Here),
    number(307, 8, Nothing),
    number(308, 4, Own),
    number(314, 4, Exact),
    number(315, 4, Nothing),
];

/// A call of `__tls_get_addr`: `adrp`, `add`, `bl`, `nop`.
const SEQUENCE: &[u8] = &[0, 0, 0, 0x90, 0, 0, 0, 0x91, 0, 0, 0, 0x94, 0x1f, 0x20, 0x03, 0xd5];

static THREAD_CODE: [Form; 35] = [
    Form { bytes: SEQUENCE, more: Some((4, 514)), call: Some((8, 283)), ..code(&[], 513, Exact) },
    code(&[0, 0, 0, 0x90], 562, Exact),
    code(&[0x01, 0, 0x40, 0xf9], 563, Exact),
    code(&[0, 0, 0, 0x91], 564, Exact),
    code(&[0x20, 0, 0x3f, 0xd6], 569, Exact),
    code(&[0x05, 0, 0, 0x90], 541, Exact),
    code(&[0xa5, 0, 0x40, 0xf9], 542, Exact),
    code(&[0x05, 0, 0, 0x58], 543, Tiny),
    code(&[0x06, 0, 0xc0, 0x92], 544, Nothing),
    code(&[0x06, 0, 0xa0, 0xd2], 545, Nothing),
    code(&[0x06, 0, 0xa0, 0xf2], 546, Nothing),
    code(&[0x06, 0, 0x80, 0xd2], 547, Own),
    code(&[0x06, 0, 0x80, 0xf2], 548, Nothing),
    code(&[0xc6, 0, 0x40, 0x91], 549, Nothing),
    code(&[0xc6, 0, 0, 0x91], 550, Own),
    code(&[0xc6, 0, 0, 0x91], 551, Nothing),
    code(&[0xc6, 0, 0x40, 0x39], 552, Own),
    code(&[0xc6, 0, 0x40, 0x39], 553, Nothing),
    code(&[0xc6, 0, 0x40, 0x79], 554, Own),
    code(&[0xc6, 0, 0x40, 0x79], 555, Nothing),
    code(&[0xc6, 0, 0x40, 0xb9], 556, Own),
    code(&[0xc6, 0, 0x40, 0xb9], 557, Nothing),
    code(&[0xc6, 0, 0x40, 0xf9], 558, Own),
    code(&[0xc6, 0, 0x40, 0xf9], 559, Nothing),
    code(&[0xe7, 0, 0x40, 0x91], 528, Own),
    code(&[0xe7, 0, 0, 0x91], 529, Own),
    code(&[0xe7, 0, 0, 0x91], 530, Own),
    code(&[0xe7, 0, 0x40, 0x39], 531, Own),
    code(&[0xe7, 0, 0x40, 0x39], 532, Own),
    code(&[0xe7, 0, 0x40, 0x79], 533, Own),
    code(&[0xe7, 0, 0x40, 0x79], 534, Own),
    code(&[0xe7, 0, 0x40, 0xb9], 535, Own),
    code(&[0xe7, 0, 0x40, 0xb9], 536, Own),
    code(&[0xe7, 0, 0x40, 0xf9], 537, Own),
    code(&[0xe7, 0, 0x40, 0xf9], 538, Own),
];

const fn code(bytes: &'static [u8], kind: u32, needs: Needs) -> Form {
    Form { bytes, field: 0, kind, addend: 0, needs, more: None, call: None }
}

/// A field of this many bytes that is a number.
const fn number(kind: u32, bytes: usize, needs: Needs) -> Form {
    const ZEROES: &[u8] = &[0; 8];
    code(ZEROES.split_at(bytes).0, kind, needs)
}
