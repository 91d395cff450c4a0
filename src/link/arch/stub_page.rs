//! Pages of stubs for functions that are replaced or compiled while a program runs, in the code of x86-64.
//!
//! Each stub is one word of code. It jumps through its *slot*, the word with the same number on a page of constants, which
//! only the controller can write. Behind the stubs lies a *trampoline* for each. While a function is not compiled, its slot
//! names its trampoline. All trampolines call the page's entry, so the return address tells which function was called. The
//! entry pushes the page's tag and jumps to the resolver:
//!
//! ```text
//! code       entry: push tag; jmp *resolver     stub 2, stub 3, ...     trampolines, a page further on: call entry
//! constants  resolver, tag                      slot 2, slot 3, ...
//! ```
//!
//! Invariant: a stub, its slot and its trampoline have the same number.

use super::x86_64;
use crate::addr::ExecutorAddr;
use crate::limits::PAGE_BYTES;

/// Where the pages of stubs and of slots are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StubPage {
    code: ExecutorAddr,
    constants: ExecutorAddr,
}

/// The words in front of the slots: the resolver's address, and the tag.
const HEAD_WORDS: u64 = 2;
const WORD_BYTES: u64 = 8;

impl StubPage {
    /// The bytes of code and of constants.
    pub const BYTES: [u64; 2] = [2 * PAGE_BYTES, PAGE_BYTES];

    /// The pages at these addresses; `None` when they are more than 2 GiB apart.
    pub fn new(code: ExecutorAddr, constants: ExecutorAddr) -> Option<Self> {
        let ends = [code.checked_add(2 * PAGE_BYTES)?, constants.checked_add(PAGE_BYTES)?];
        let reaches =
            |from: ExecutorAddr, to: ExecutorAddr| x86_64::stub(from.get(), to.get()).is_some();
        let is_near = reaches(code, ends[1]) && reaches(ends[0], constants);
        is_near.then_some(Self { code, constants })
    }

    /// The numbers of the stubs.
    pub fn numbers() -> std::ops::Range<u64> {
        HEAD_WORDS..PAGE_BYTES / WORD_BYTES
    }

    /// The address that callers use as the address of the function.
    pub fn stub(&self, number: u64) -> ExecutorAddr {
        ExecutorAddr::new(self.code.get() + number * WORD_BYTES)
    }

    /// The word that holds the address of the function's code.
    pub fn slot(&self, number: u64) -> ExecutorAddr {
        ExecutorAddr::new(self.constants.get() + number * WORD_BYTES)
    }

    /// The content of the slot while the function is not compiled.
    pub fn trampoline(&self, number: u64) -> ExecutorAddr {
        ExecutorAddr::new(self.code.get() + PAGE_BYTES + number * WORD_BYTES)
    }

    /// The return address that a trampoline's call pushes.
    pub fn return_address(&self, number: u64) -> ExecutorAddr {
        ExecutorAddr::new(self.trampoline(number).get() + x86_64::TRAMPOLINE_CALL_BYTES)
    }

    /// The code: stubs and trampolines.
    #[expect(clippy::cast_possible_truncation, reason = "a page is small")]
    pub fn code(&self) -> Vec<u8> {
        let tag = self.constants.get() + WORD_BYTES;
        let entry = x86_64::lazy_entry(self.code.get(), tag, self.constants.get());
        let mut code = Vec::from(entry);
        for number in Self::numbers() {
            let stub = x86_64::stub(self.stub(number).get(), self.slot(number).get());
            code.extend(stub.unwrap_or_default());
        }
        // The numbers of the head words have no trampoline.
        code.resize(code.len() + (HEAD_WORDS * WORD_BYTES) as usize, x86_64::CODE_PADDING);
        for number in Self::numbers() {
            code.extend(x86_64::trampoline(self.trampoline(number).get(), self.code.get()));
        }
        code
    }

    /// The constants of a new page: the resolver and the tag. Every slot is null.
    pub fn constants(&self, resolver: ExecutorAddr, tag: u64) -> Vec<u8> {
        [resolver.get().to_le_bytes(), tag.to_le_bytes()].concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stubs_slots_and_trampolines_find_each_other() {
        let (code, constants) = (0x7000_0000_0000, 0x7000_1000_0000);
        let page = StubPage::new(ExecutorAddr::new(code), ExecutorAddr::new(constants));
        let page = page.expect("near");
        let bytes = page.code();
        assert_eq!(bytes.len() as u64, StubPage::BYTES[0]);
        let at = |address: u64| &bytes[usize::try_from(address - code).expect("inside")..];
        let distance =
            |bytes: &[u8]| i64::from(i32::from_le_bytes(bytes[..4].try_into().expect("four")));
        for number in [2, 3, 511] {
            let stub = page.stub(number).get();
            assert_eq!(at(stub)[..2], [0xff, 0x25]);
            let slot = stub.wrapping_add_signed(6 + distance(&at(stub)[2..]));
            assert_eq!(slot, page.slot(number).get());
            let trampoline = page.trampoline(number).get();
            assert_eq!(at(trampoline)[0], 0xe8);
            let back = page.return_address(number).get();
            assert_eq!(
                (back, distance(&at(trampoline)[1..])),
                (trampoline + 5, code.wrapping_sub(back).cast_signed())
            );
        }
        assert_eq!(at(code)[..2], [0xff, 0x35]);
        assert_eq!(code.wrapping_add_signed(6 + distance(&at(code)[2..])), constants + 8);
        assert_eq!(at(code + 6)[..2], [0xff, 0x25]);
        assert_eq!((code + 12).wrapping_add_signed(distance(at(code + 8))), constants);
        let words = page.constants(ExecutorAddr::new(0x1234), 7);
        assert_eq!(words, [0x34, 0x12, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0]);
        let far = ExecutorAddr::new(code + (1 << 31));
        assert_eq!(StubPage::new(ExecutorAddr::new(code), far), None);
    }
}
