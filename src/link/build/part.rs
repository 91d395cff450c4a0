//! A function or a variable of an object that is being built.
//!
//! Invariant: a part that passes its check has fields that are inside and do not overlap.

use super::frame::Frame;
use crate::arch::facts::{Facts, Field as Relocation, FieldForm};
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
    pub(super) form: FieldForm,
    pub(super) symbol: String,
    pub(super) addend: i64,
}

impl Field {
    fn bytes(&self) -> u64 {
        if self.form == FieldForm::Address { 8 } else { 4 }
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
    ///
    /// For AArch64 they are the instruction: `bl` or `b`; or a conditional branch, to what is near.
    pub fn call(&mut self, offset: u64, function: &str) -> &mut ObjectPart {
        self.field(offset, FieldForm::Call, function, 0)
    }

    /// The 4 bytes at `offset` are the distance from their end to a symbol, plus `addend`: an operand relative to `rip`. An
    /// instruction with `n` bytes behind the field wants the addend `-n`. The symbol must be within 2 GiB, as everything in
    /// one link is, and as the executor's libraries are.
    ///
    /// For AArch64 they are an instruction that makes a part of the address. `adrp` makes its page, and `add`, a load or a store
    /// adds the place in the page. `adr` and a load relative to the instruction make all of it, and reach 1 MiB.
    pub fn distance(&mut self, offset: u64, symbol: &str, addend: i64) -> &mut ObjectPart {
        self.field(offset, FieldForm::Distance, symbol, addend)
    }

    /// The 4 bytes at `offset` are the distance from their end to 8 bytes that hold the address of a symbol. The symbol may be
    /// anywhere. `mov rax, [rip + field]` loads its address, and `call [rip + field]` calls it. The field ends the instruction.
    ///
    /// For AArch64 they are an instruction, `adrp` or the `ldr` of 8 bytes that follows it.
    pub fn got_entry(&mut self, offset: u64, symbol: &str) -> &mut ObjectPart {
        self.field(offset, FieldForm::GotEntry, symbol, 0)
    }

    /// The 8 bytes at `offset` are the address of a symbol, plus `addend`: in data, or the operand of `movabs`. For AArch64 `ldr` may
    /// load it from behind the code.
    pub fn address(&mut self, offset: u64, symbol: &str, addend: i64) -> &mut ObjectPart {
        self.field(offset, FieldForm::Address, symbol, addend)
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
        form: FieldForm,
        symbol: &str,
        addend: i64,
    ) -> &mut ObjectPart {
        self.fields.push(Field { offset, form, symbol: symbol.to_owned(), addend });
        self
    }

    /// The relocation of a field that is inside.
    ///
    /// # Errors
    /// The instruction there has no such field.
    pub(super) fn relocation(&self, facts: &Facts, field: &Field) -> Result<Relocation> {
        let start = usize::try_from(field.offset).unwrap_or(usize::MAX);
        let bytes = self.content.get(start..).unwrap_or_default();
        (facts.field)(field.form, self.kind == PartKind::Function, bytes).ok_or_else(|| {
            Error::invalid(format!(
                "the bytes {:02x?} at offset {start} are no instruction with a field for `{}`: give the offset of the \
                 instruction, and its other bits",
                bytes.get(..4).unwrap_or_default(),
                field.symbol
            ))
        })
    }

    /// # Errors
    /// The part cannot be in an object; the message says why, without its name.
    pub(super) fn check(&self, facts: &Facts) -> Result<()> {
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
            self.relocation(facts, field)?;
            end = next;
        }
        Ok(())
    }
}
