//! Edges: relocations, in words that belong to no architecture.
//!
//! Invariant: an edge's field lies inside its section. The reader checks that before it makes an [`Edge`].

use super::operand::Operand;

/// One field of a section that holds a value computed from the address of a symbol.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Edge {
    /// Where the field starts, in bytes from the start of its section.
    pub(crate) offset: u32,
    /// The symbol that it refers to, as an index into the symbols of its object.
    pub(crate) target: u32,
    /// A in the formula.
    pub(crate) addend: i64,
    /// The computation, and how its result is stored.
    pub(crate) kind: &'static EdgeKind,
}

/// One row of an architecture's relocation table.
#[derive(Debug)]
pub struct EdgeKind {
    /// The ELF relocation number.
    pub number: u32,
    /// The name in the processor supplement, for messages.
    pub name: &'static str,
    /// The computation.
    pub formula: Formula,
    /// The size of the field.
    pub field_bytes: u8,
    /// Which values the field can hold.
    pub(crate) range: Range,
    /// The operand that holds a part of the value; `None` when the whole field is a number.
    pub(crate) operand: Option<Operand>,
}

/// The computation of a relocated field.
///
/// An `Operand` takes its part of the result. Where it counts pages, it takes the difference of the pages of both.
///
/// | letter | value |
/// |---|---|
/// | S | the address of the symbol, or of its canonical PLT entry; for an ifunc always the address of its stub |
/// | S of a thread-local | its offset from the thread pointer; for a dynamic one, from the start of its TLS block |
/// | A | the addend |
/// | P | the address of the field |
/// | G | the address of the symbol's GOT entry |
/// | GOT | the address of the table |
/// | L | the address of the symbol, or of its stub when the symbol is far |
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Formula {
    /// No field at all.
    Nothing,
    /// S + A
    Absolute,
    /// S + A - P
    Delta,
    /// L + A - P
    Branch,
    /// G + A - P
    GotDelta,
    /// G + A - P, or the instruction is rewritten to use S itself when S is near.
    GotLoad,
    /// G + A - GOT
    GotOffset,
    /// G + A
    GotAddress,
    /// G + A - the page of GOT
    GotFromPage,
    /// S + A - GOT
    FromGot,
    /// GOT + A - P
    GotBaseDelta,
    /// The size of the symbol + A
    Size,
    /// See `ThreadModel`.
    Thread(ThreadModel),
    /// Only dynamic linkers apply it; no object may contain it.
    Dynamic,
    /// The linker knows its name only, and refuses it.
    Unsupported,
}

/// How an access to a thread-local was compiled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ThreadModel {
    /// Code that asks `__tls_get_addr` for one symbol. It is rewritten to use S, or to ask the executor.
    General,
    /// Code that asks `__tls_get_addr` for the TLS block. It is rewritten to use the thread pointer, or to ask the
    /// executor.
    LocalBase,
    /// S + A - offset of the TLS block
    LocalOffset,
    /// The same in code, which adds it to the result of `LocalBase`, the thread pointer or the TLS block: S + A.
    LocalInCode,
    /// Code that loads an offset from the GOT. It is rewritten to use S.
    Initial,
    /// G + A - P
    InitialEntry,
    /// G + A
    InitialAddress,
    /// S + A
    Exec,
    /// Code that loads the address of a descriptor. It is rewritten to use S, unless there is a descriptor.
    Descriptor,
    /// A call through a descriptor. It is rewritten to do nothing, unless there is a descriptor.
    DescriptorCall,
}

/// Which values a field can hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Range {
    /// Every 64-bit value.
    Any,
    /// Values that the field holds when the processor extends its sign.
    Signed,
    /// Values that the field holds when the processor extends it with zeroes.
    Unsigned,
    /// Either of the two.
    Either,
}

/// The kind of a relocation whose whole field is a number.
pub(super) const fn kind(
    number: u32,
    name: &'static str,
    formula: Formula,
    field_bytes: u8,
    range: Range,
) -> EdgeKind {
    EdgeKind { number, name, formula, field_bytes, range, operand: None }
}

impl EdgeKind {
    /// True when the field holds an address, or the distance to one, in less than 64 bits. Calls do not count,
    /// because they may go through a stub.
    pub(crate) fn is_narrow(&self) -> bool {
        let is_address = matches!(self.formula, Formula::Absolute | Formula::Delta);
        // `adrp` reaches a part of the addresses; a part of a `movz` holds all of them.
        is_address
            && self.field_bytes < 8
            && self.operand.is_none_or(|operand| operand.bits() <= 33)
    }

    /// How many bits of the value the field can tell apart.
    pub(crate) fn bits(&self) -> u32 {
        self.operand.map_or(u32::from(self.field_bytes) * 8, Operand::bits)
    }
}

impl Range {
    /// True when a field of `field_bytes` bytes holds `value` without loss.
    pub(crate) fn holds(self, value: u64, field_bytes: u8) -> bool {
        if field_bytes >= 8 {
            return true;
        }
        let free_bits = 64 - 8 * u32::from(field_bytes);
        let signed = ((value << free_bits).cast_signed() >> free_bits).cast_unsigned() == value;
        let unsigned = (value << free_bits) >> free_bits == value;
        match self {
            Range::Any => true,
            Range::Signed => signed,
            Range::Unsigned => unsigned,
            Range::Either => signed || unsigned,
        }
    }
}

impl Formula {
    /// True when the value refers to the symbol's GOT entry.
    pub(crate) fn needs_got_entry(self) -> bool {
        matches!(
            self,
            Formula::GotDelta
                | Formula::GotLoad
                | Formula::GotOffset
                | Formula::GotAddress
                | Formula::GotFromPage
                | Formula::Thread(ThreadModel::InitialEntry | ThreadModel::InitialAddress)
        )
    }

    /// True when the value refers to the GOT itself.
    pub(crate) fn needs_got(self) -> bool {
        matches!(
            self,
            Formula::GotOffset | Formula::GotFromPage | Formula::FromGot | Formula::GotBaseDelta
        )
    }
}
