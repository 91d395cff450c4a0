//! The functions that run at start and at the end. The arrays hold the functions of all objects, in the order in which a native program
//! would run them. Where objects have fragments of `_init` or `_fini`, that function is one of them. It comes in
//! front of the initializers, which run first to last, or of the finalizers, which run last to first.
//!
//! Invariant: the order follows from names, types and the order of the objects only.

use super::aarch64;
use super::fields::{Field, Fields};
use super::raw::ArrayKind;
use super::windows::Windows;
use super::{Fault, Verified, say};

/// The code around the fragments of a routine.
struct Routine {
    /// It aligns the stack, or saves registers.
    start: &'static [u8],
    /// An instruction that does nothing.
    nop: &'static [u8],
    /// It undoes the start and returns.
    end: &'static [u8],
}

static X86_64: Routine = Routine {
    // sub $8, %rsp
    start: &[0x48, 0x83, 0xec, 0x08],
    nop: &[0x90],
    // add $8, %rsp; ret
    end: &[0x48, 0x83, 0xc4, 0x08, 0xc3],
};

static AARCH64: Routine = Routine {
    // stp x29, x30, [sp, #-16]!; mov x29, sp
    start: &[0xfd, 0x7b, 0xbf, 0xa9, 0xfd, 0x03, 0x00, 0x91],
    nop: &aarch64::NOP.to_le_bytes(),
    // ldp x29, x30, [sp], #16; ret
    end: &[0xfd, 0x7b, 0xc1, 0xa8, 0xc0, 0x03, 0x5f, 0xd6],
};

impl Fields<'_, '_> {
    /// Checks that the array for the start, or the one for the end, is at `range`.
    pub(super) fn check_arrays(
        &self,
        is_fini: bool,
        range: Option<(u64, u64)>,
        verified: &mut Verified,
    ) -> Result<(), Fault> {
        let (mut at, end) = range.unwrap_or_default();
        let mut fragments = Some(self.fragments(is_fini));
        for (kind, object, section) in self.arrays(is_fini) {
            if kind.order > 0
                && let Some(fragments) = fragments.take()
            {
                at = self.check_routine(&fragments, at, verified)?;
            }
            let checked = self.check_array(kind, object, section, at, verified);
            at = checked.map_err(|what| {
                let object = &self.objects[object];
                let name = say(object.raw.sections[section].name);
                format!("{}: section {name}, in the array at {at:#x}: {what}", object.name)
            })?;
        }
        if let Some(fragments) = fragments {
            at = self.check_routine(&fragments, at, verified)?;
        }
        if at != end {
            return Err(format!("the array of functions ends at {end:#x} instead of {at:#x}"));
        }
        Ok(())
    }

    /// Where each fragment of a routine starts and ends, in the order that they should have.
    fn fragments(&self, is_fini: bool) -> Vec<(u64, u64)> {
        let mut fragments = Vec::new();
        for object in self.objects {
            let sections = object.raw.sections.iter().zip(&object.at);
            let wanted = sections.filter(|(section, _)| section.is_fragment(is_fini));
            fragments.extend(wanted.filter_map(|(section, at)| {
                let start = (*at)?;
                Some((start, start.saturating_add(section.bytes)))
            }));
        }
        fragments
    }

    /// True when all bytes from `start` to `end` are instructions that do nothing.
    fn is_idle(&self, start: u64, end: u64, nop: &[u8]) -> bool {
        let gap = end.checked_sub(start).and_then(|bytes| self.memory.stored(start, bytes));
        let phase = usize::try_from(start % nop.len() as u64).unwrap_or(0);
        let nops = nop.iter().cycle().skip(phase);
        gap.is_some_and(|gap| gap.iter().zip(nops).all(|(byte, nop)| byte == nop))
    }

    fn has_code(&self, at: u64, code: &[u8]) -> bool {
        self.memory.stored(at, code.len() as u64) == Some(code)
    }

    /// Checks that the word at `at` is the address of a function that runs all fragments, if there are any. Returns the
    /// address behind the word.
    fn check_routine(
        &self,
        fragments: &[(u64, u64)],
        at: u64,
        verified: &mut Verified,
    ) -> Result<u64, Fault> {
        if fragments.is_empty() {
            return Ok(at);
        }
        let mut code = self.memory.u64_at(at).ok_or("no address of a routine is in the image")?;
        let Routine { start, nop, end } =
            if self.machine == aarch64::MACHINE { &AARCH64 } else { &X86_64 };
        if !self.has_code(code, start) {
            return Err(format!("the routine at {code:#x} does not align the stack"));
        }
        code += start.len() as u64;
        for (start, end) in fragments {
            if !self.is_idle(code, *start, nop) {
                return Err(format!("the routine does not get from {code:#x} to {start:#x}"));
            }
            code = *end;
        }
        // A damaged fragment may end in the midst of an instruction.
        let whole = code.next_multiple_of(nop.len() as u64);
        if self.is_idle(code, whole, nop) {
            code = whole;
        }
        while self.has_code(code, nop) {
            code += nop.len() as u64;
        }
        if !self.has_code(code, end) {
            return Err(format!("the routine does not return at {code:#x}"));
        }
        verified.functions += 1;
        Ok(at + 8)
    }

    /// The arrays, in the order that they should have.
    fn arrays(&self, is_fini: bool) -> Vec<(ArrayKind, usize, usize)> {
        let mut arrays = Vec::new();
        for (number, object) in self.objects.iter().enumerate() {
            for (index, section) in object.raw.sections.iter().enumerate() {
                let kind = section.array_kind().filter(|kind| kind.is_fini == is_fini);
                if let (Some(kind), Some(_)) = (kind, object.at[index]) {
                    arrays.push((kind, number, index));
                }
            }
        }
        arrays.sort_by_key(|(kind, object, section)| (kind.order, *object, *section));
        arrays
    }

    /// Checks that the words of one object's array are at `at`. Returns the address behind them.
    fn check_array(
        &self,
        kind: ArrayKind,
        number: usize,
        index: usize,
        mut at: u64,
        verified: &mut Verified,
    ) -> Result<u64, Fault> {
        let object = &self.objects[number];
        let section = &object.raw.sections[index];
        if object.at[index] != Some(at) && section.bytes > 0 {
            return Err("its section lies elsewhere".to_owned());
        }
        let relocations = object.raw.relocations(index);
        let words = section.content.chunks_exact(8).zip((0..).step_by(8));
        let words: Vec<(&[u8], u64)> = if kind.is_reversed {
            let count = section.content.len() / 8;
            let last_first = section.content.rchunks_exact(8).zip((0..count as u64).rev());
            last_first.map(|(word, number)| (word, 8 * number)).collect()
        } else {
            words.collect()
        };
        for (word, offset) in words {
            let first = relocations.partition_point(|one| one.offset < offset);
            let last = relocations.partition_point(|one| one.offset < offset + 8);
            let fields = &relocations[first..last];
            let windows = Windows::new(fields, &[], offset, 8)?;
            for (id, relocation) in fields.iter().enumerate() {
                if windows.is_entangled(id) {
                    verified.entangled += 1;
                    continue;
                }
                let (relocation, place) = (*relocation, at + (relocation.offset - offset));
                let code = &[];
                self.check(&Field { object: number, relocation, place, code, is_tolerant: false })?;
                verified.fields += 1;
            }
            let found = self.memory.read::<8>(at).ok_or("a word is not in the image")?;
            if windows.difference(word, &found).is_some() {
                return Err(format!("the word at {at:#x} is not that of the file"));
            }
            verified.functions += 1;
            at += 8;
        }
        Ok(at)
    }
}
