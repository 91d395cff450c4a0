//! The stub of a handler: an ordinary object, whose code finds its constants and the executor's function.

use crate::ErrorKind;
use crate::addr::ExecutorAddr;
use crate::build::handler_stub::handler_object;
use crate::{LinkGraph, Processor};

#[test]
fn a_stub_finds_its_constants_and_its_target() {
    let object =
        handler_object(Processor::X86_64, "log", b"sixteen bytes...", "entry").expect("made");
    assert_eq!(object.definitions().collect::<Vec<_>>(), ["log"]);
    let mut graph = LinkGraph::for_processor(Processor::X86_64);
    graph.add_object(&object).expect("added");
    graph.define_external("entry", ExecutorAddr::new(0x50_0000));
    let starts = [0x40_0000, 0x41_0000, 0x42_0000].map(ExecutorAddr::new);
    let image = graph.layout().expect("laid out").fixup(starts, 0).expect("linked");
    let log = image.symbols.address_of("log").expect("defined").get();
    let code = &image.stripes[0][usize::try_from(log - 0x40_0000).expect("inside")..];
    let to = |field: usize| {
        let distance = i32::from_le_bytes(code[field..field + 4].try_into().expect("four"));
        log.wrapping_add_signed(field as i64 + 4 + i64::from(distance))
    };
    let constants = usize::try_from(to(3) - 0x41_0000).expect("inside");
    assert_eq!(&image.stripes[1][constants..constants + 16], b"sixteen bytes...");
    assert_eq!(to(8), 0x50_0000);
    assert!(image.eh_frame.is_some(), "exceptions pass");
}

/// The same on AArch64, whose jump goes through a stub of the linker's: the target is too far for it.
#[test]
fn an_aarch64_stub_finds_its_constants_and_its_target() {
    let constants = b"sixteen bytes...";
    let object = handler_object(Processor::Aarch64, "log", constants, "entry").expect("made");
    let mut graph = LinkGraph::for_processor(Processor::Aarch64);
    graph.add_object(&object).expect("added");
    graph.define_external("entry", ExecutorAddr::new(0x7000_0050_0000));
    let starts = [0x40_0000, 0x41_0000, 0x42_0000].map(ExecutorAddr::new);
    let image = graph.layout().expect("laid out").fixup(starts, 0).expect("linked");
    let log = image.symbols.address_of("log").expect("defined").get();
    let code = &image.stripes[0][usize::try_from(log - 0x40_0000).expect("inside")..];
    let word = |at: usize| u32::from_le_bytes(code[at..at + 4].try_into().expect("four"));
    // adrp x9, 16 pages on; add x9, x9, #offset
    assert_eq!((word(4), word(8) & 0xffc0_03ff), (0x9000_0089, 0x9100_0129));
    let offset = (word(8) >> 10 & 0xfff) as usize;
    assert_eq!(&image.stripes[1][offset..offset + 16], constants);
    // b stub: the next code that the linker makes
    let stub = 12 + 4 * (word(12) & 0x03ff_ffff) as usize;
    assert_eq!((word(12) >> 26, word(stub + 12)), (0b101, 0xd61f_0220), "{:#x}", word(12));
    assert!(image.eh_frame.is_some(), "exceptions pass");
}

/// T1. A linker that is told nothing takes the stack for executable, or warns.
#[test]
fn a_stub_says_that_its_stack_holds_no_code() {
    let object = handler_object(Processor::X86_64, "log", b"", "entry").expect("made");
    let note = b"\0.note.GNU-stack\0";
    assert!(object.bytes().windows(note.len()).any(|window| window == note));
}

#[test]
fn a_name_that_c_cannot_have_is_refused() {
    for name in ["", "a\0b"] {
        let error = handler_object(Processor::HOST, name, b"", "entry").expect_err("no name");
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    }
}
