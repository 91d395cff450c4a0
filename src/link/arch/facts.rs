//! The code and the sizes that the linker itself writes.
//!
//! Invariant: all processors have addresses of 64 bits, and store the lowest byte first.

/// The code and the sizes of a processor that the linker itself writes.
pub(crate) struct Facts {
    /// The filler of gaps between functions, which traps.
    pub(crate) code_padding: u8,
    /// An instruction that does nothing.
    pub(crate) nop: &'static [u8],
    /// The start of `_init` and `_fini`.
    pub(crate) routine_start: &'static [u8],
    /// The end of `_init` and `_fini`.
    pub(crate) routine_end: &'static [u8],
    /// The size of one stub.
    pub(crate) stub_bytes: u64,
    /// Writes the stub at an address that jumps to the address in the word at another. Returns false when they are too far from
    /// each other.
    pub(crate) write_stub: fn(stub: u64, entry: u64, bytes: &mut [u8]) -> bool,
    /// The registers and the stack of calls, in the numbers of unwind information.
    pub(crate) frames: Frames,
    /// The relocation of a field that a program describes. `None` when its bytes are no instruction with such a field.
    pub(crate) field: fn(form: FieldForm, is_code: bool, bytes: &[u8]) -> Option<Field>,
    /// Stubs for calls that do not reach all code of an image. `None` where calls reach it.
    pub(crate) far_jump: Option<FarJump>,
    /// The stub of a handler.
    pub(crate) handler_stub: HandlerStub,
    /// The code of functions that are compiled at their first call.
    pub(crate) lazy: LazyCode,
}

/// A function that loads an address, and jumps to a function with all arguments as they are.
pub(crate) struct HandlerStub {
    pub(crate) code: &'static [u8],
    /// The fields of the address.
    pub(crate) constants_fields: &'static [u64],
    /// The field of the jump.
    pub(crate) target_field: u64,
}

/// Code that tells the function behind it where it was called.
pub(crate) struct LazyCode {
    /// How far behind its start a trampoline's return address is.
    pub(crate) return_offset: u64,
    /// Writes the trampoline that goes to the entry. Returns false when they are too far from each other.
    pub(crate) write_trampoline: fn(trampoline: u64, entry: u64, bytes: &mut [u8; 8]) -> bool,
    /// Writes the entry, with padding. Its constants are the resolver's address, and the tag behind it. It has the size of two
    /// stubs.
    pub(crate) write_entry: fn(entry: u64, constants: u64, bytes: &mut [u8]) -> bool,
}

/// The registers of unwind information that have a meaning for frames.
pub(crate) struct Frames {
    pub(crate) stack_pointer: u8,
    pub(crate) frame_pointer: u8,
    pub(crate) return_address: u8,
    /// The bytes that a call pushes: its return address, or none.
    pub(crate) call_bytes: u32,
}

/// The meaning of a field in the words of programs that make code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FieldForm {
    /// A call of a function, or a jump to it.
    Call,
    /// The way to a symbol.
    Distance,
    /// The way to an entry of the GOT.
    GotEntry,
    /// 8 bytes that hold an address.
    Address,
}

/// The relocation of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Field {
    pub(crate) number: u32,
    /// Where distances count from, as an addend.
    pub(crate) base: i64,
}

/// Stubs that go to an address without a word that holds it.
pub(crate) struct FarJump {
    /// Calls reach less than this many bytes, to both sides.
    pub(crate) reach_bytes: u64,
    /// Where the call is in the code for a thread-local that calls `__tls_get_addr`, from its first relocation on.
    pub(crate) thread_call: u64,
    /// Writes the stub at an address that goes to another. Returns false when they are too far from each other. It has the
    /// size of the other stubs.
    pub(crate) write: fn(stub: u64, to: u64, bytes: &mut [u8]) -> bool,
}

/// The size of one entry of the GOT.
pub(crate) const GOT_ENTRY_BYTES: u64 = 8;

/// The size of a function's address.
pub(crate) const CODE_POINTER_BYTES: u64 = 8;

/// Stores `value` in `field`, lowest byte first. The value fits (see [`Range::holds`](super::edge::Range::holds)).
pub(crate) fn store(field: &mut [u8], value: u64) {
    for (byte, new) in field.iter_mut().zip(value.to_le_bytes()) {
        *byte = new;
    }
}
