//! Pages of stubs for functions that are replaced or compiled while a program runs.
//!
//! Each stub jumps through its *slot*, the word with the same number on a page of constants, which
//! only the controller can write. Behind the stubs lies a *trampoline* for each. While a function is not compiled, its slot
//! names its trampoline. All trampolines go to the page's entry, with a return address that tells which function was called. The
//! entry passes that and the page's tag on to the resolver:
//!
//! ```text
//! code       entry: resolver(tag, return address)      stub 2, stub 3, ...     trampolines: entry(return address)
//! constants  resolver, tag                             slot 2, slot 3, ...
//! ```
//!
//! On x86-64 both are on the stack, the tag last. On AArch64 the tag is in `x16`, and the return address in `x17`.
//!
//! Invariant: a stub, its slot and its trampoline have the same number.

use super::processor::Processor;
use crate::addr::ExecutorAddr;
use crate::limits::PAGE_BYTES;

/// Where the pages of stubs and of slots are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StubPage {
    processor: Processor,
    code: ExecutorAddr,
    constants: ExecutorAddr,
}

/// The words in front of the slots: the resolver's address, and the tag. The entry has the room of as many stubs.
const HEAD_WORDS: u64 = 2;
/// The size of a slot, and of a trampoline.
const WORD_BYTES: u64 = 8;

impl StubPage {
    /// The bytes of code and of constants.
    pub fn bytes(processor: Processor) -> [u64; 2] {
        let slots = PAGE_BYTES / WORD_BYTES;
        [slots * processor.facts().stub_bytes + PAGE_BYTES, PAGE_BYTES]
    }

    /// The pages at these addresses, for this processor; `None` when they are so far apart that code does not reach constants.
    pub fn new(processor: Processor, code: ExecutorAddr, constants: ExecutorAddr) -> Option<Self> {
        let [code_bytes, constants_bytes] = Self::bytes(processor);
        let ends = [code.checked_add(code_bytes)?, constants.checked_add(constants_bytes)?];
        let facts = processor.facts();
        let reaches = |from: ExecutorAddr, to: ExecutorAddr| {
            let mut stub = vec![0; size(facts.stub_bytes)];
            (facts.write_stub)(from.get(), to.get(), &mut stub)
        };
        let is_near = reaches(code, ends[1]) && reaches(ends[0], constants);
        is_near.then_some(Self { processor, code, constants })
    }

    /// The numbers of the stubs.
    pub fn numbers() -> std::ops::Range<u64> {
        HEAD_WORDS..PAGE_BYTES / WORD_BYTES
    }

    /// The address that callers use as the address of the function.
    pub fn stub(&self, number: u64) -> ExecutorAddr {
        ExecutorAddr::new(self.code.get() + number * self.processor.facts().stub_bytes)
    }

    /// The word that holds the address of the function's code.
    pub fn slot(&self, number: u64) -> ExecutorAddr {
        ExecutorAddr::new(self.constants.get() + number * WORD_BYTES)
    }

    /// The content of the slot while the function is not compiled.
    pub fn trampoline(&self, number: u64) -> ExecutorAddr {
        let [code_bytes, _] = Self::bytes(self.processor);
        ExecutorAddr::new(self.code.get() + code_bytes - PAGE_BYTES + number * WORD_BYTES)
    }

    /// The return address that a trampoline gives the resolver.
    pub fn return_address(&self, number: u64) -> ExecutorAddr {
        let offset = self.processor.facts().lazy.return_offset;
        ExecutorAddr::new(self.trampoline(number).get() + offset)
    }

    /// The code: stubs and trampolines.
    pub fn code(&self) -> Vec<u8> {
        let facts = self.processor.facts();
        let mut code = vec![facts.code_padding; size(Self::bytes(self.processor)[0])];
        let entry = self.code.get();
        let at = |address: ExecutorAddr| size(address.get() - entry);
        let entry_bytes = size(HEAD_WORDS * facts.stub_bytes);
        // All of it reaches: `new` has tried the ways that are longest.
        (facts.lazy.write_entry)(entry, self.constants.get(), &mut code[..entry_bytes]);
        for number in Self::numbers() {
            let (stub, slot) = (self.stub(number), self.slot(number));
            let bytes = &mut code[at(stub)..][..size(facts.stub_bytes)];
            (facts.write_stub)(stub.get(), slot.get(), bytes);
            let trampoline = self.trampoline(number);
            if let Some(bytes) = code[at(trampoline)..].first_chunk_mut() {
                (facts.lazy.write_trampoline)(trampoline.get(), entry, bytes);
            }
        }
        code
    }

    /// The constants of a new page: the resolver and the tag. Every slot is null.
    pub fn constants(&self, resolver: ExecutorAddr, tag: u64) -> Vec<u8> {
        [resolver.get().to_le_bytes(), tag.to_le_bytes()].concat()
    }
}

#[expect(clippy::cast_possible_truncation, reason = "a few pages are small")]
fn size(bytes: u64) -> usize {
    bytes as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stubs_slots_and_trampolines_find_each_other() {
        let (code, constants) = (0x7000_0000_0000, 0x7000_1000_0000);
        let page =
            StubPage::new(Processor::X86_64, ExecutorAddr::new(code), ExecutorAddr::new(constants));
        let page = page.expect("near");
        let bytes = page.code();
        assert_eq!(bytes.len() as u64, StubPage::bytes(Processor::X86_64)[0]);
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
        assert_eq!(StubPage::new(Processor::X86_64, ExecutorAddr::new(code), far), None);
    }

    /// The whole code of the first stub, of its trampoline and of the entry, as `objdump` prints it.
    #[test]
    fn aarch64_stubs_slots_and_trampolines_find_each_other() {
        let code = ExecutorAddr::new(0x7000_0000_0000);
        let at =
            |constants: u64| StubPage::new(Processor::Aarch64, code, ExecutorAddr::new(constants));
        let page = at(0x7000_1000_0000).expect("near");
        let bytes = page.code();
        assert_eq!(bytes.len() as u64, 3 * PAGE_BYTES);
        let words = |offset: usize| {
            let (words, _) = bytes[offset..].as_chunks();
            [0, 1, 2, 3].map(|word| u32::from_le_bytes(words[word]))
        };
        // adrp x16, 0x10000 pages on; ldr x9, [x16]; ldr x16, [x16, #8]; br x9
        assert_eq!(words(0), [0x9008_0010, 0xf940_0209, 0xf940_0610, 0xd61f_0120]);
        // bti c; adrp x16; ldr x17, [x16, #16]; br x17
        assert_eq!(words(32), [0xd503_245f, 0x9008_0010, 0xf940_0a11, 0xd61f_0220]);
        assert_eq!((page.stub(2).get(), page.slot(2).get()), (code.get() + 32, 0x7000_1000_0010));
        // adr x17, this; b 0x2014 bytes back; and the next one
        assert_eq!(words(0x2010), [0x1000_0011, 0x17ff_f7fb, 0x1000_0011, 0x17ff_f7f9]);
        assert_eq!(page.trampoline(2).get(), code.get() + 0x2010);
        assert_eq!(page.return_address(2), page.trampoline(2));
        assert_eq!(at(code.get() + (1 << 32)), None);
    }
}
