//! Objects of machine code that a program makes itself.

use std::ffi::{c_char, c_void};

use farcall::link::{CalleeSaved, Frame, ObjectBuilder};

use super::buffer::{array, bytes, required_text};
use super::error::{Error, invalid};
use super::library::{Library, with};
use super::process::Protection;

/// How a field of a part refers to a symbol.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldKind {
    /// 4 bytes: the distance of a call or a jump.
    Call = 0,
    /// 4 bytes: the distance from the end of the field, as of [rip + symbol].
    Distance = 1,
    /// 4 bytes: the distance to an entry that has the symbol's address.
    GotEntry = 2,
    /// 8 bytes: the address.
    Address = 3,
}

/// A field of a part that refers to a symbol.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Field {
    /// The offset in the part.
    pub offset: u64,
    /// A farcall_field_kind.
    pub kind: u32,
    /// The name of the symbol.
    pub symbol: *const c_char,
    /// What is added to the symbol's address; 0 for calls and entries.
    pub addend: i64,
}

/// How an instruction changes a function's frame.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepKind {
    /// Pushes the register.
    Push = 0,
    /// Pops the register.
    Pop = 1,
    /// Moves the stack pointer down by the bytes.
    Grow = 2,
    /// Moves the stack pointer up by the bytes.
    Shrink = 3,
    /// Makes rbp the frame pointer.
    FramePointer = 4,
    /// leave
    Leave = 5,
    /// Stores the register, that many bytes below the caller's stack pointer.
    Save = 6,
    /// The frame is again as at this offset, given by bytes.
    Resume = 7,
}

/// A register that a function returns with its caller's value.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Register {
    /// rbx
    Rbx = 0,
    /// rbp
    Rbp = 1,
    /// r12
    R12 = 2,
    /// r13
    R13 = 3,
    /// r14
    R14 = 4,
    /// r15
    R15 = 5,
}

/// An instruction that changes a function's frame.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct FrameStep {
    /// The offset in the code of the byte behind the instruction.
    pub behind: u32,
    /// A farcall_step_kind.
    pub kind: u32,
    /// A farcall_register, for the kinds that name one.
    pub of: u32,
    /// See farcall_step_kind.
    pub bytes: u32,
}

/// A function, a constant or a variable.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct ObjectPart {
    /// Its name.
    pub name: *const c_char,
    /// A farcall_protection: a function, a constant or a variable.
    pub protection: u32,
    /// True if other objects do not see the name.
    pub is_local: bool,
    /// True if the function has a frame, through which exceptions and backtraces pass.
    pub has_frame: bool,
    /// Its bytes; NULL for a variable of zeroes.
    pub data: *const c_void,
    /// Their number.
    pub size: usize,
    /// A power of two; 0 is 16 for functions and 8 for others.
    pub alignment: u64,
    /// The fields that refer to symbols; may be NULL.
    pub fields: *const Field,
    /// Their number.
    pub field_count: usize,
    /// The instructions that change the frame, in the order of the code; may be NULL.
    pub steps: *const FrameStep,
    /// Their number.
    pub step_count: usize,
}

/// Adds an object of machine code and data that this program has made itself: a compiler that emits bytes needs neither ELF nor an
/// assembler. The name appears in messages. FARCALL_INVALID names a part that is wrong.
///
/// # Safety
///
/// The names must be texts, and the parts readable, with what they point to.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn farcall_library_add_parts(
    library: *mut Library,
    name: *const c_char,
    parts: *const ObjectPart,
    count: usize,
) -> *mut Error {
    with(library, |library| {
        // SAFETY: the caller vouches for the text.
        let mut object = ObjectBuilder::new(unsafe { required_text(name, "name") }?);
        // SAFETY: the caller vouches for the parts.
        for part in unsafe { array(parts, count) }? {
            // SAFETY: the caller vouches for what the part points to.
            unsafe { part.add(&mut object) }?;
        }
        library.add_object(&object.build()?)
    })
}

impl ObjectPart {
    /// # Safety
    ///
    /// What the part points to must be readable.
    unsafe fn add(&self, object: &mut ObjectBuilder) -> farcall::Result<()> {
        const CODE: u32 = Protection::Code as u32;
        const CONSTANTS: u32 = Protection::Constants as u32;
        const DATA: u32 = Protection::Data as u32;
        // SAFETY: the caller vouches for the text.
        let name = unsafe { required_text(self.name, "the name of a part") }?;
        let part = match self.protection {
            DATA if self.data.is_null() => object.zeroes(name, self.size as u64),
            kind => {
                // SAFETY: the caller vouches for the bytes.
                let content = unsafe { bytes(self.data, self.size) }?;
                match kind {
                    CODE => object.function(name, content),
                    CONSTANTS => object.constant(name, content),
                    DATA => object.data(name, content),
                    kind => return Err(invalid(format!("{name}: a protection {kind}"))),
                }
            }
        };
        if self.is_local {
            part.local();
        }
        if self.alignment > 0 {
            part.align(self.alignment);
        }
        // SAFETY: the caller vouches for the fields.
        for field in unsafe { array(self.fields, self.field_count) }? {
            // SAFETY: the caller vouches for the text.
            let symbol = unsafe { required_text(field.symbol, "the symbol of a field") }?;
            match field.kind {
                kind if kind == FieldKind::Call as u32 => part.call(field.offset, symbol),
                kind if kind == FieldKind::GotEntry as u32 => part.got_entry(field.offset, symbol),
                kind if kind == FieldKind::Distance as u32 => {
                    part.distance(field.offset, symbol, field.addend)
                }
                kind if kind == FieldKind::Address as u32 => {
                    part.address(field.offset, symbol, field.addend)
                }
                kind => return Err(invalid(format!("{name}: a field of the kind {kind}"))),
            };
        }
        if self.has_frame {
            // SAFETY: the caller vouches for the steps.
            let steps = unsafe { array(self.steps, self.step_count) }?;
            let frame = steps.iter().try_fold(Frame::new(), |frame, step| step.apply(frame))?;
            part.frame(frame);
        }
        Ok(())
    }
}

impl FrameStep {
    fn apply(self, frame: Frame) -> farcall::Result<Frame> {
        const REGISTERS: [CalleeSaved; 6] = [
            CalleeSaved::Rbx,
            CalleeSaved::Rbp,
            CalleeSaved::R12,
            CalleeSaved::R13,
            CalleeSaved::R14,
            CalleeSaved::R15,
        ];
        let Self { behind, kind, of, bytes } = self;
        let register = || {
            let found = usize::try_from(of).ok().and_then(|at| REGISTERS.get(at).copied());
            found.ok_or_else(|| invalid(format!("a register {of}")))
        };
        Ok(match kind {
            kind if kind == StepKind::Push as u32 => frame.push(behind, register()?),
            kind if kind == StepKind::Pop as u32 => frame.pop(behind, register()?),
            kind if kind == StepKind::Grow as u32 => frame.grow(behind, bytes),
            kind if kind == StepKind::Shrink as u32 => frame.shrink(behind, bytes),
            kind if kind == StepKind::FramePointer as u32 => frame.frame_pointer(behind),
            kind if kind == StepKind::Leave as u32 => frame.leave(behind),
            kind if kind == StepKind::Save as u32 => frame.save(behind, register()?, bytes),
            kind if kind == StepKind::Resume as u32 => frame.resume(behind, bytes),
            kind => return Err(invalid(format!("a frame step of the kind {kind}"))),
        })
    }
}
