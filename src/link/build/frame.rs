//! The frame of a function, and how the function's instructions change it.
//!
//! Invariant: a frame whose rows are computed has an address of the caller's frame behind every instruction.

use crate::error::{Error, Result};

/// A register that a function returns with its caller's value.
///
/// # Examples
///
/// ```
/// use farcall_link::{CalleeSaved, Frame};
/// // push rbx
/// let frame = Frame::new().push(1, CalleeSaved::Rbx);
/// # let _ = frame;
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
}

/// Where a function keeps what belongs to its caller: the return address, and the values of registers. Exceptions and backtraces
/// pass through functions that have a frame.
///
/// A frame is told instruction by instruction. Each method names the instruction that changes it, by the offset in the
/// function's code of the byte *behind* that instruction. Methods come in the order of the code. Only instructions that move
/// the stack pointer or save a register matter. Behind [`frame_pointer`](Frame::frame_pointer) the stack pointer matters only
/// to a push that saves a register: tell each move ahead of one.
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
    Resume(u32),
}

/// The frame behind an instruction. Distances are in bytes below the stack pointer that the caller had before its call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Row {
    /// Where the stack pointer is.
    pub(super) stack: u32,
    /// Where `rbp` is, if it is the frame pointer.
    pub(super) pointer: Option<u32>,
    /// Where each register of [`REGISTERS`] is saved.
    pub(super) saved: [Option<u32>; REGISTERS.len()],
}

/// The frame behind each instruction that changes it, by the offset behind the instruction. The first row is [`ENTRY`].
pub(super) type Rows = Vec<(u32, Row)>;

/// The registers, in the order of the enumeration, with their numbers in unwind information.
pub(super) const REGISTERS: [(CalleeSaved, u8); 6] = [
    (CalleeSaved::Rbx, 3),
    (CalleeSaved::Rbp, 6),
    (CalleeSaved::R12, 12),
    (CalleeSaved::R13, 13),
    (CalleeSaved::R14, 14),
    (CalleeSaved::R15, 15),
];

/// The frame at the first instruction: the call has stored its return address.
pub(super) const ENTRY: Row = Row { stack: 8, pointer: None, saved: [None; REGISTERS.len()] };

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

    /// `mov rbp, rsp`: from here on `rbp` tells where the frame is, wherever the stack pointer moves.
    #[must_use]
    pub fn frame_pointer(self, behind: u32) -> Frame {
        self.step(behind, Step::FramePointer)
    }

    /// `leave`, of a function with a frame pointer.
    #[must_use]
    pub fn leave(self, behind: u32) -> Frame {
        self.step(behind, Step::Leave)
    }

    /// A register's value is stored, without a push, `below` bytes below the stack pointer that the caller had before its call.
    /// The return address is 8 bytes below that, and a pushed `rbp` mostly 16.
    #[must_use]
    pub fn save(self, behind: u32, register: CalleeSaved, below: u32) -> Frame {
        self.step(behind, Step::Save(register, below))
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
    pub(super) fn rows(&self, bytes: u32) -> Result<Rows> {
        let mut rows = vec![(0, ENTRY)];
        for (behind, step) in &self.steps {
            let (last, row) = rows[rows.len() - 1];
            if *behind < last || *behind > bytes {
                return Err(Error::invalid(format!(
                    "{step:?} is said of offset {behind}: tell a frame in the order of the code, from offset {last} to {bytes}"
                )));
            }
            let next = row.step(*step, &rows).map_err(|why| {
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
    fn step(mut self, step: Step, rows: &[(u32, Row)]) -> std::result::Result<Row, String> {
        match step {
            Step::Push(register) => {
                if !self.stack.is_multiple_of(8) {
                    return Err(format!(
                        "a push to a frame of {} bytes, no multiple of 8; grow it by such multiples",
                        self.stack - ENTRY.stack
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
                if register == CalleeSaved::Rbp {
                    self.pointer = None;
                }
                self.shrink(8)?;
            }
            Step::Grow(bytes) => self.grow(bytes)?,
            Step::Shrink(bytes) => self.shrink(bytes)?,
            Step::FramePointer => {
                if self.saved[CalleeSaved::Rbp as usize].is_none() {
                    return Err("the caller's rbp would be lost; push it first".to_owned());
                }
                self.pointer = Some(self.stack);
            }
            Step::Leave => {
                let pointer = self.pointer.take();
                self.stack = pointer
                    .ok_or("there is no frame pointer to leave by; call frame_pointer first")?;
                if self.saved[CalleeSaved::Rbp as usize].take() != pointer {
                    return Err("rbp is not saved where it points; pop the registers".to_owned());
                }
                self.shrink(8)?;
            }
            Step::Save(register, below) => {
                if below < 16 || below % 8 != 0 || below > FRAME_BYTES_MAX {
                    return Err(format!("{below} bytes below is no place: 16, 24 and so on are"));
                }
                self.saved[register as usize] = Some(below);
            }
            Step::Resume(as_at) => {
                let known = rows.iter().rev().find(|(behind, _)| *behind <= as_at);
                self = known.map_or(ENTRY, |(_, row)| *row);
            }
        }
        Ok(self)
    }

    fn grow(&mut self, bytes: u32) -> std::result::Result<(), String> {
        let grown = self.stack.checked_add(bytes).filter(|stack| *stack <= FRAME_BYTES_MAX);
        self.stack = grown.ok_or_else(|| format!("a frame has at most {FRAME_BYTES_MAX} bytes"))?;
        Ok(())
    }

    fn shrink(&mut self, bytes: u32) -> std::result::Result<(), String> {
        // The return address stays.
        let shrunk = self.stack.checked_sub(bytes).filter(|stack| *stack >= ENTRY.stack);
        self.stack = shrunk.ok_or_else(|| {
            format!("{bytes} bytes are not in a frame of {} bytes", self.stack - ENTRY.stack)
        })?;
        Ok(())
    }
}
