//! The pieces in which an image is stored: `link::apply::stripes`, and the passes that hand them over.

use std::num::NonZeroUsize;

use crate::Layout;
use crate::parallel::Threads;
use crate::sync::Mutex;
use crate::tests::*;
use crate::verify::WRONG_IMAGE;

/// Three stripes of several pieces each: code and data with relocations, and sections without any, which are cut.
const SOURCE: &str = "
    .globl main
    main: .rept 60000
    call far
    leaq word(%rip), %rax
    .endr
    .section .rodata
    .byte 1, 2, 3
    .fill 150000, 4, 0x12345678
    .section .data.plain,\"aw\"
    .fill 70001, 5, 0x55
    .section .data.last,\"aw\"
    word: .rept 40000
    .quad main, word
    .endr
    .bss
    .zero 100000
";

/// A stripe, an offset in it, and the bytes.
type Stored = (usize, u64, Vec<u8>);

fn layout(objects: &[&ObjectFile], threads: usize) -> Layout {
    let mut graph = graph(objects).unwrap();
    graph.threads = Threads { most: NonZeroUsize::new(threads), bytes_min: 1 };
    graph.define_external("far", ExecutorAddr::new(FAR));
    graph.layout().unwrap()
}

/// The pieces of a link, in the order of their places.
fn pieces(layout: Layout) -> Vec<Stored> {
    let pieces = Mutex::new(Vec::new());
    let store = |prot: Prot, offset, piece: &[u8]| {
        pieces.lock().push((prot.index(), offset, piece.to_vec()));
    };
    let image = layout.fixup_to(BASES.map(ExecutorAddr::new), THREAD_OFFSET, store).unwrap();
    assert!(image.stripes.iter().all(Vec::is_empty));
    let mut pieces = std::mem::take(&mut *pieces.lock());
    pieces.sort();
    pieces
}

#[test]
fn pieces_are_each_stored_byte_once_by_any_number_of_threads() {
    let object = compile("large.o", "-xassembler", SOURCE);
    let whole = link(&[&object], &[("far", FAR)]).unwrap();
    for threads in [1, 2, 8] {
        let layout = layout(&[&object], threads);
        let stored = layout.stored_bytes();
        let mut ends = [0; 3];
        let pieces = pieces(layout);
        for (stripe, offset, bytes) in &pieces {
            assert_eq!(*offset, ends[*stripe], "a gap, or bytes twice, in stripe {stripe}");
            assert_eq!(offset % 8, 0, "two threads would store to one word");
            ends[*stripe] += bytes.len() as u64;
            let at = usize::try_from(*offset).unwrap();
            let expected = &whole.stripes[*stripe][at..][..bytes.len()];
            assert!(bytes == expected, "{threads} threads: stripe {stripe} at {offset:#x}");
        }
        assert_eq!(ends, stored);
        let count = |stripe| pieces.iter().filter(|(other, ..)| *other == stripe).count();
        // Plain sections are cut; a section with relocations is a piece.
        assert!(count(1) >= 4 && count(2) >= 3, "{} and {}", count(1), count(2));
    }
}

#[test]
fn bytes_that_were_stored_wrong_fail_the_link_of_a_debug_build() {
    let object = compile("a.o", "", "long a = 7; long *b = &a;");
    let bases = BASES.map(ExecutorAddr::new);
    for spoiled in [None, Some(0), Some(9)] {
        let stripes = Mutex::new([const { Vec::new() }; 3]);
        let store = |prot: Prot, offset: u64, piece: &[u8]| {
            assert_eq!(offset, 0, "a small image is one piece");
            stripes.lock()[prot.index()] = piece.to_vec();
        };
        let load = || {
            let mut stored = std::mem::take(&mut *stripes.lock());
            spoiled.iter().for_each(|at| stored[Prot::Data.index()][*at] ^= 1);
            Ok(stored)
        };
        let outcome = layout(&[&object], 1).fixup_and_load(bases, 0, store, load);
        match spoiled {
            None => assert!(outcome.is_ok(), "{outcome:?}"),
            Some(_) => {
                let error = failure(outcome).to_string();
                assert!(error.contains(WRONG_IMAGE), "{error}");
            }
        }
    }
}
