//! Random unwind records.
//!
//! Invariant: lengths, CIEs and relocations are sound; the other bytes are random.

use super::elf_file::{ALLOC, EXECUTE, ElfFile, PROGBITS, Relocation, Section};
use super::fields::forms;
use farcall_base::random::Random;

/// Adds an `.eh_frame` that describes the sections with code.
pub(super) fn add_records(random: &mut Random, file: &mut ElfFile) {
    let forms = forms(file.processor);
    let is_code = |section: &usize| file.sections[*section].flags & EXECUTE != 0;
    let code: Vec<usize> = (0..file.sections.len()).filter(is_code).collect();
    let (mut content, mut relocations) = (Vec::new(), Vec::new());
    let mut cies = Vec::new();
    let mut personality = 0;
    for (id, symbol) in file.symbols.iter().enumerate() {
        // The personality is one of the shared names; without one there is none.
        if symbol.binding != 0
            && symbol.name.starts_with('n')
            && symbol.kind != 6
            && random.one_in(4)
        {
            personality = id;
        }
    }
    for section in code {
        if cies.is_empty() || random.one_in(4) {
            cies.push(content.len());
            let body = 16 + random.index(9);
            start_record(&mut content, 4 + body, 0);
            // Behind the tag: version, augmentation and so on, which the linker does not read.
            let offset = content.len() as u64 + 8;
            let filling = random.bytes(body);
            content.extend_from_slice(&filling);
            if random.one_in(2) && file.symbols[personality].binding != 0 {
                relocations.push(Relocation {
                    offset,
                    kind: forms.pointer.kind,
                    symbol: personality,
                    addend: 0,
                });
            }
        }
        let functions = file.symbols.iter().enumerate().filter(|(_, symbol)| {
            symbol.home == super::elf_file::Home::Section(section) && !matches!(symbol.kind, 1 | 10)
        });
        let functions: Vec<usize> = functions.map(|(id, _)| id).collect();
        for symbol in functions {
            let cie = random.pick(&cies);
            let body = 8 + random.index(12);
            let distance = content.len() + 4 - cie;
            start_record(&mut content, 4 + body, distance);
            let offset = content.len() as u64;
            let filling = random.bytes(body);
            content.extend_from_slice(&filling);
            if !random.one_in(6) {
                relocations.push(Relocation { offset, kind: forms.pc_relative, symbol, addend: 0 });
            }
        }
        if random.one_in(6) {
            content.extend_from_slice(&[0; 4]);
        }
    }
    if !content.is_empty() && random.one_in(2) {
        content.extend_from_slice(&[0; 4]);
    }
    let kind = random.pick(&[PROGBITS, 0x7000_0001]);
    let (name, flags) = (".eh_frame".to_owned(), ALLOC);
    let section =
        Section { name, kind, flags, alignment: 8, content, relocations, ..Section::default() };
    file.sections.push(section);
}

/// Writes the length of a record and its distance to its CIE, which is 0 in a CIE.
fn start_record(content: &mut Vec<u8>, bytes: usize, distance: usize) {
    for word in [bytes, distance] {
        content.extend_from_slice(&u32::try_from(word).unwrap_or(0).to_le_bytes());
    }
}
