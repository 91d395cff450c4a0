//! A function or a variable of an object that is being built.
//!
//! Invariant: a part that passes its check has fields that are inside and do not overlap.

use object::elf::{self, RelocationType};

use super::frame::Frame;
use crate::error::{Error, Result};
use crate::limits::ALIGNMENT_MAX;

/// A function or a variable of an [`ObjectBuilder`](crate::ObjectBuilder), which lends it to be described further.
///
/// A *field* is a few bytes that the linker fills in. Its place is an offset in the bytes of the part. Their first contents do not
/// matter. A field refers to a name of this object, of another object in the link, or of the executor's process. Functions of
/// the C library and handlers of the host are such names.
///
/// # Examples
///
/// ```
/// use farcall_link::ObjectBuilder;
/// let mut object = ObjectBuilder::new("made by hand");
/// // call table[rip]; ret
/// object.function("f", [0xff, 0x15, 0, 0, 0, 0, 0xc3]).distance(2, "table", 0).align(32);
/// object.constant("table", [0; 8]).address(0, "abort", 0).local();
/// assert_eq!(object.build()?.definitions().collect::<Vec<_>>(), ["f"]);
/// # Ok::<(), farcall_link::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct ObjectPart {
    pub(super) kind: PartKind,
    pub(super) name: String,
    pub(super) content: Vec<u8>,
    pub(super) alignment: u64,
    pub(super) is_local: bool,
    pub(super) fields: Vec<Field>,
    pub(super) frame: Option<Frame>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PartKind {
    Function,
    Data,
    Constant,
    /// With this many bytes.
    Zeroes(u64),
}

#[derive(Debug, Clone)]
pub(super) struct Field {
    pub(super) offset: u64,
    pub(super) kind: RelocationType,
    pub(super) symbol: String,
    pub(super) addend: i64,
}

impl Field {
    fn bytes(&self) -> u64 {
        if self.kind == elf::R_X86_64_64 { 8 } else { 4 }
    }
}

impl ObjectPart {
    pub(super) fn new(kind: PartKind, name: String, content: Vec<u8>) -> ObjectPart {
        let alignment = if kind == PartKind::Function { 16 } else { 8 };
        ObjectPart {
            kind,
            name,
            content,
            alignment,
            is_local: false,
            fields: Vec::new(),
            frame: None,
        }
    }

    /// The 4 bytes at `offset` are the operand of a `call` or `jmp` to a function. The function may be anywhere: the linker puts a
    /// jump between where it is out of reach.
    pub fn call(&mut self, offset: u64, function: &str) -> &mut ObjectPart {
        self.field(offset, elf::R_X86_64_PLT32, function, -4)
    }

    /// The 4 bytes at `offset` are the distance from their end to a symbol, plus `addend`: an operand relative to `rip`. An
    /// instruction with `n` bytes behind the field wants the addend `-n`. The symbol must be within 2 GiB, as everything in
    /// one link is, and as the executor's libraries are.
    pub fn distance(&mut self, offset: u64, symbol: &str, addend: i64) -> &mut ObjectPart {
        self.field(offset, elf::R_X86_64_PC32, symbol, addend.saturating_sub(4))
    }

    /// The 4 bytes at `offset` are the distance from their end to 8 bytes that hold the address of a symbol. The symbol may be
    /// anywhere. `mov rax, [rip + field]` loads its address, and `call [rip + field]` calls it. The field ends the instruction.
    pub fn got_entry(&mut self, offset: u64, symbol: &str) -> &mut ObjectPart {
        self.field(offset, elf::R_X86_64_GOTPCREL, symbol, -4)
    }

    /// The 8 bytes at `offset` are the address of a symbol, plus `addend`: in data, or the operand of `movabs`.
    pub fn address(&mut self, offset: u64, symbol: &str, addend: i64) -> &mut ObjectPart {
        self.field(offset, elf::R_X86_64_64, symbol, addend)
    }

    /// Its alignment in bytes, a power of two of at most 65,536. Without this a function is aligned to 16, and data to 8.
    pub fn align(&mut self, bytes: u64) -> &mut ObjectPart {
        self.alignment = bytes;
        self
    }

    /// Other objects do not see it, and may have the name for something else.
    pub fn local(&mut self) -> &mut ObjectPart {
        self.is_local = true;
        self
    }

    /// Exceptions and backtraces pass through this function. Without a frame an exception that reaches it ends the process.
    pub fn frame(&mut self, frame: Frame) -> &mut ObjectPart {
        self.frame = Some(frame);
        self
    }

    fn field(
        &mut self,
        offset: u64,
        kind: RelocationType,
        symbol: &str,
        addend: i64,
    ) -> &mut ObjectPart {
        self.fields.push(Field { offset, kind, symbol: symbol.to_owned(), addend });
        self
    }

    /// # Errors
    /// The part cannot be in an object; the message says why, without its name.
    pub(super) fn check(&self) -> Result<()> {
        let names = self.fields.iter().map(|field| &field.symbol).chain([&self.name]);
        if let Some(name) = names.into_iter().find(|name| name.is_empty() || name.contains('\0')) {
            return Err(Error::invalid(format!(
                "{name:?} is no name: give one that is not empty, without NUL"
            )));
        }
        if !self.alignment.is_power_of_two() || self.alignment > ALIGNMENT_MAX {
            return Err(Error::invalid(format!(
                "an alignment of {} bytes: give a power of two, at most {ALIGNMENT_MAX}",
                self.alignment
            )));
        }
        let is_variable = matches!(self.kind, PartKind::Data | PartKind::Zeroes(_));
        let is_relro = self
            .name
            .strip_prefix("rel.ro")
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
        if is_variable && is_relro {
            return Err(Error::invalid(
                "the section of a variable of this name is constant: give another name",
            ));
        }
        if self.frame.is_some() && self.kind != PartKind::Function {
            return Err(Error::invalid("data has no frame: describe that of a function"));
        }
        if self.kind == PartKind::Function && self.content.is_empty() {
            return Err(Error::invalid("a function without code: give its bytes"));
        }
        let mut fields: Vec<&Field> = self.fields.iter().collect();
        fields.sort_by_key(|field| field.offset);
        let mut end = 0;
        for field in fields {
            let (from, bytes) = (field.offset, self.content.len() as u64);
            let next = from.checked_add(field.bytes()).filter(|end| *end <= bytes);
            let next = next.ok_or_else(|| {
                Error::invalid(format!(
                    "the field for `{}`, {} bytes at offset {from}, is not inside of its {bytes} bytes: give the offset of its first byte, \
                     and data that is not zeroes",
                    field.symbol,
                    field.bytes()
                ))
            })?;
            if from < end {
                return Err(Error::invalid(format!(
                    "the field for `{}` at offset {from} overlaps the one before, which ends at {end}: give each its own bytes",
                    field.symbol
                )));
            }
            end = next;
        }
        Ok(())
    }
}
