//! The shapes of fields: an instruction or a piece of data around each, and the targets that it reaches.
//!
//! Invariant: plain data.

use farcall_base::random::Random;

/// An instruction or a piece of data: its bytes, and the offset of the field in them.
#[derive(Clone, Copy)]
pub(super) struct Form {
    pub(super) bytes: &'static [u8],
    pub(super) field: u64,
    pub(super) kind: u32,
    /// The addend that makes the field count from the right place.
    pub(super) addend: i64,
    pub(super) needs: Needs,
    /// The offset of a second field for the same target, and its relocation.
    pub(super) more: Option<(u64, u32)>,
    /// The offset of the field of a call of `__tls_get_addr`, and its relocation.
    pub(super) call: Option<(u64, u32)>,
}

/// The fields of one processor.
pub(super) struct Forms {
    pub(super) code: &'static [Form],
    /// Any data, but for thread-locals.
    pub(super) data: fn(&mut Random) -> Form,
    /// An address, as in an array of functions.
    pub(super) pointer: Form,
    pub(super) thread_code: &'static [Form],
    pub(super) thread_data: &'static [Form],
    /// The relocation of a distance of 32 bits.
    pub(super) pc_relative: u32,
    /// Addends are multiples of it.
    pub(super) unit: i64,
    /// Fields begin at multiples of it.
    pub(super) step: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Needs {
    Nothing,
    /// A 32-bit distance.
    Distance,
    /// A 32-bit address.
    Address,
    /// A field of 16 or 8 bits.
    Number,
    /// A place in the same section.
    Here,
    /// The target itself, without an addend.
    Exact,
    /// The same in a program whose parts are near each other.
    Tiny,
    /// A place that an object of the program defines.
    Own,
}
