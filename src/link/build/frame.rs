//! The frame of a function, and how the function's instructions change it.
//!
//! Invariant: a frame whose rows are computed has an address of the caller's frame behind every instruction.

use crate::arch::facts::Facts;
use crate::arch::processor::Processor;
use crate::error::{Error, Result};

/// A register that a function returns with its caller's value.
///
/// # Examples
///
/// ```
/// use farcall_link::{CalleeSaved, Frame};
/// // push rbx
/// let frame = Frame::new().push(1, CalleeSaved::Rbx);
/// // stp x19, x30, [sp, #-16]!
/// let other = Frame::new().grow(4, 16).save(4, CalleeSaved::X19, 16).save(4, CalleeSaved::X30, 8);
/// # let _ = (frame, other);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "they have the processor's names")]
pub enum CalleeSaved {
    Rbx,
    Rbp,
    R12,
    R13,
    R14,
    R15,
    X19,
    X20,
    X21,
    X22,
    X23,
    X24,
    X25,
    X26,
    X27,
    X28,
    X29,
    X30,
    D8,
    D9,
    D10,
    D11,
    D12,
    D13,
    D14,
    D15,
}

/// Where a function keeps what belongs to its caller: the return address, and the values of registers. Exceptions and backtraces
/// pass through functions that have a frame.
///
/// A frame is told instruction by instruction. Each method names the instruction that changes it, by the offset in the
/// function's code of the byte *behind* that instruction. Methods come in the order of the code. Only instructions that move
/// the stack pointer or save a register matter. Behind [`frame_pointer`](Frame::frame_pointer) the stack pointer matters only
/// to a push that saves a register: tell each move ahead of one.
///
/// AArch64 has no pushes: there a function saves registers where it has grown the frame. `X30` has the return address.
///
/// A function that never moves the stack pointer has the frame [`Frame::new`]. Mistakes are errors of
/// [`ObjectBuilder::build`](crate::ObjectBuilder::build).
///
/// # Examples
///
/// ```
/// use farcall_link::{CalleeSaved, Frame};
/// // 0: push rbp      1: mov rbp, rsp      4: push rbx      5: sub rsp, 24
/// // 9: ...           20: mov rbx, [rbp - 8]      24: leave      25: ret
/// let frame = Frame::of_frame_pointer().push(5, CalleeSaved::Rbx).leave(25);
/// # let _ = frame;
/// ```
#[derive(Debug, Clone, Default)]
pub struct Frame {
    steps: Vec<(u32, Step)>,
}

#[derive(Debug, Clone, Copy)]
enum Step {
    Push(CalleeSaved),
    Pop(CalleeSaved),
    Grow(u32),
    Shrink(u32),
    FramePointer,
    Leave,
    Save(CalleeSaved, u32),
    Restore(CalleeSaved),
    Resume(u32),
}

/// The frame behind an instruction. Distances are in bytes below the stack pointer that the caller had before its call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Row {
    /// Where the stack pointer is.
    pub(super) stack: u32,
    /// Where the frame pointer is, `rbp` or `x29`, if it is in use.
    pub(super) pointer: Option<u32>,
    /// Where each register of [`REGISTERS`] is saved.
    pub(super) saved: [Option<u32>; REGISTERS.len()],
}

/// The frame behind each instruction that changes it, by the offset behind the instruction. The first row is [`Row::entry`].
pub(super) type Rows = Vec<(u32, Row)>;

/// The registers, in the order of the enumeration, with their numbers in unwind information.
pub(super) const REGISTERS: [(CalleeSaved, Processor, u8); 26] = {
    use CalleeSaved::*;
    use Processor::{Aarch64, X86_64};
    [
        (Rbx, X86_64, 3),
        (Rbp, X86_64, 6),
        (R12, X86_64, 12),
        (R13, X86_64, 13),
        (R14, X86_64, 14),
        (R15, X86_64, 15),
        (X19, Aarch64, 19),
        (X20, Aarch64, 20),
        (X21, Aarch64, 21),
        (X22, Aarch64, 22),
        (X23, Aarch64, 23),
        (X24, Aarch64, 24),
        (X25, Aarch64, 25),
        (X26, Aarch64, 26),
        (X27, Aarch64, 27),
        (X28, Aarch64, 28),
        (X29, Aarch64, 29),
        (X30, Aarch64, 30),
        (D8, Aarch64, 72),
        (D9, Aarch64, 73),
        (D10, Aarch64, 74),
        (D11, Aarch64, 75),
        (D12, Aarch64, 76),
        (D13, Aarch64, 77),
        (D14, Aarch64, 78),
        (D15, Aarch64, 79),
    ]
};

/// The largest frame, so that no distance overflows.
const FRAME_BYTES_MAX: u32 = 1 << 30;

impl Frame {
    /// The frame of a function at its first instruction.
    #[must_use]
    pub fn new() -> Frame {
        Frame::default()
    }

    /// The frame of a function that begins with `push rbp; mov rbp, rsp`, in the usual 4 bytes.
    #[must_use]
    pub fn of_frame_pointer() -> Frame {
        Frame::new().push(1, CalleeSaved::Rbp).frame_pointer(4)
    }

    /// The frame of a function that begins with `stp x29, x30, [sp, #-bytes]!` and `mov x29, sp`, for AArch64.
    #[must_use]
    pub fn of_frame_record(bytes: u32) -> Frame {
        let frame = Frame::new().grow(4, bytes).save(4, CalleeSaved::X29, bytes);
        frame.save(4, CalleeSaved::X30, bytes.saturating_sub(8)).frame_pointer(8)
    }

    /// `push register`, with its caller's value.
    #[must_use]
    pub fn push(self, behind: u32, register: CalleeSaved) -> Frame {
        self.step(behind, Step::Push(register))
    }

    /// `pop register`, which has its caller's value again.
    #[must_use]
    pub fn pop(self, behind: u32, register: CalleeSaved) -> Frame {
        self.step(behind, Step::Pop(register))
    }

    /// The stack pointer moves down by this many bytes: `sub rsp, bytes`, or the push of another value (8).
    #[must_use]
    pub fn grow(self, behind: u32, bytes: u32) -> Frame {
        self.step(behind, Step::Grow(bytes))
    }

    /// The stack pointer moves up by this many bytes: `add rsp, bytes`, or the pop of another value (8).
    #[must_use]
    pub fn shrink(self, behind: u32, bytes: u32) -> Frame {
        self.step(behind, Step::Shrink(bytes))
    }

    /// `mov rbp, rsp`, or `mov x29, sp`: from here on this register tells where the frame is, wherever the stack pointer moves.
    #[must_use]
    pub fn frame_pointer(self, behind: u32) -> Frame {
        self.step(behind, Step::FramePointer)
    }

    /// `leave`, of a function with a frame pointer. For AArch64 it is `ldp x29, x30, [sp], #bytes`, behind which no frame is left.
    #[must_use]
    pub fn leave(self, behind: u32) -> Frame {
        self.step(behind, Step::Leave)
    }

    /// A register's value is stored, without a push, `below` bytes below the stack pointer that the caller had before its call.
    /// For x86-64 the return address is 8 bytes below that, and a pushed `rbp` mostly 16.
    #[must_use]
    pub fn save(self, behind: u32, register: CalleeSaved, below: u32) -> Frame {
        self.step(behind, Step::Save(register, below))
    }

    /// A load gives a register its caller's value again.
    #[must_use]
    pub fn restore(self, behind: u32, register: CalleeSaved) -> Frame {
        self.step(behind, Step::Restore(register))
    }

    /// The frame is as it was behind the instruction that ends at `as_at`. So code goes on behind a return in its midst.
    #[must_use]
    pub fn resume(self, behind: u32, as_at: u32) -> Frame {
        self.step(behind, Step::Resume(as_at))
    }

    fn step(mut self, behind: u32, step: Step) -> Frame {
        self.steps.push((behind, step));
        self
    }

    /// The frame behind each instruction that changes it.
    ///
    /// # Errors
    /// A step is impossible, or outside of the function's `bytes` bytes.
    pub(super) fn rows(&self, bytes: u32, processor: Processor) -> Result<Rows> {
        let mut rows = vec![(0, Row::entry(processor.facts()))];
        for (behind, step) in &self.steps {
            let (last, row) = rows[rows.len() - 1];
            if *behind < last || *behind > bytes {
                return Err(Error::invalid(format!(
                    "{step:?} is said of offset {behind}: tell a frame in the order of the code, from offset {last} to {bytes}"
                )));
            }
            let next = row.step(*step, &rows, processor).map_err(|why| {
                Error::invalid(format!(
                    "{step:?} behind the instruction that ends at {behind}: {why}"
                ))
            })?;
            rows.push((*behind, next));
        }
        Ok(rows)
    }
}

impl Row {
    /// The frame at the first instruction. A call may have stored its return address.
    pub(super) fn entry(facts: &Facts) -> Row {
        Row { stack: facts.frames.call_bytes, pointer: None, saved: [None; REGISTERS.len()] }
    }

    fn step(
        mut self,
        step: Step,
        rows: &[(u32, Row)],
        processor: Processor,
    ) -> std::result::Result<Row, String> {
        let least = processor.facts().frames.call_bytes;
        if let Step::Push(register)
        | Step::Pop(register)
        | Step::Save(register, _)
        | Step::Restore(register) = step
            && REGISTERS[register as usize].1 != processor
        {
            return Err(format!("{processor} has no such register; name one of its own"));
        }
        let pointer = frame_pointer(processor);
        match step {
            Step::Push(_) | Step::Pop(_) if processor == Processor::Aarch64 => {
                return Err("AArch64 has no such instruction; grow or shrink, and save or restore"
                    .to_owned());
            }
            Step::Push(register) => {
                if !self.stack.is_multiple_of(8) {
                    return Err(format!(
                        "a push to a frame of {} bytes, no multiple of 8; grow it by such multiples",
                        self.stack - least
                    ));
                }
                self.grow(8)?;
                self.saved[register as usize] = Some(self.stack);
            }
            Step::Pop(register) => {
                let saved = self.saved[register as usize].take();
                let saved =
                    saved.ok_or("the register was not saved; shrink by 8 for another value")?;
                if self.pointer.is_none() && saved != self.stack {
                    return Err(format!(
                        "the register is not at the stack pointer, but {} bytes above; shrink by as many before",
                        i64::from(self.stack) - i64::from(saved)
                    ));
                }
                self.stack = saved;
                if register == pointer {
                    self.pointer = None;
                }
                self.shrink(8, least)?;
            }
            Step::Grow(bytes) => self.grow(bytes)?,
            Step::Shrink(bytes) => self.shrink(bytes, least)?,
            Step::FramePointer => {
                if self.saved[pointer as usize].is_none() {
                    return Err(match processor {
                        Processor::X86_64 => "the caller's rbp would be lost; push it first",
                        Processor::Aarch64 => "the caller's x29 would be lost; save it first",
                    }
                    .to_owned());
                }
                self.pointer = Some(self.stack);
            }
            Step::Leave => {
                let at = self.pointer.take();
                self.stack =
                    at.ok_or("there is no frame pointer to leave by; call frame_pointer first")?;
                if self.saved[pointer as usize].take() != at {
                    return Err(match processor {
                        Processor::X86_64 => "rbp is not saved where it points; pop the registers",
                        Processor::Aarch64 => {
                            "x29 is not saved where it points; shrink, and restore the registers"
                        }
                    }
                    .to_owned());
                }
                match processor {
                    Processor::X86_64 => self.shrink(8, least)?,
                    Processor::Aarch64 => {
                        self.saved[CalleeSaved::X30 as usize] = None;
                        self.stack = 0;
                    }
                }
            }
            Step::Save(register, below) => {
                let first = least + 8;
                if below < first || below % 8 != 0 || below > FRAME_BYTES_MAX {
                    let next = first + 8;
                    return Err(format!(
                        "{below} bytes below is no place: {first}, {next} and so on are"
                    ));
                }
                self.saved[register as usize] = Some(below);
            }
            Step::Restore(register) => {
                self.saved[register as usize].take().ok_or("the register was not saved")?;
                if register == pointer {
                    self.pointer = None;
                }
            }
            Step::Resume(as_at) => {
                let known = rows.iter().rev().find(|(behind, _)| *behind <= as_at);
                self = known.map_or(Row::entry(processor.facts()), |(_, row)| *row);
            }
        }
        Ok(self)
    }

    fn grow(&mut self, bytes: u32) -> std::result::Result<(), String> {
        let grown = self.stack.checked_add(bytes).filter(|stack| *stack <= FRAME_BYTES_MAX);
        self.stack = grown.ok_or_else(|| format!("a frame has at most {FRAME_BYTES_MAX} bytes"))?;
        Ok(())
    }

    fn shrink(&mut self, bytes: u32, least: u32) -> std::result::Result<(), String> {
        // The return address stays.
        let shrunk = self.stack.checked_sub(bytes).filter(|stack| *stack >= least);
        self.stack = shrunk.ok_or_else(|| {
            format!("{bytes} bytes are not in a frame of {} bytes", self.stack - least)
        })?;
        Ok(())
    }
}

/// The register that may be the frame pointer.
fn frame_pointer(processor: Processor) -> CalleeSaved {
    match processor {
        Processor::X86_64 => CalleeSaved::Rbp,
        Processor::Aarch64 => CalleeSaved::X29,
    }
}
