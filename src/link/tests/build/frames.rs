//! The unwind information of frames, as an unwinder reads it.

use gimli::{
    BaseAddresses, CfaRule, EhFrame, LittleEndian, Register, RegisterRule, UnwindContext,
    UnwindSection,
};

use crate::tests::*;
use crate::{CalleeSaved, Frame, ObjectBuilder};

/// The offset behind which a row holds. Then the register that tells where the caller's stack pointer was, and the distance from
/// there. Then the registers that are saved, and how many bytes below.
type Row = (u64, (u16, i64), Vec<(u16, i64)>);

/// The rows of the only function of an image.
fn rows(frame: Frame, bytes: usize) -> Vec<Row> {
    let mut object = ObjectBuilder::for_processor("framed", Processor::X86_64);
    object.function("f", vec![0x90; bytes]).frame(frame);
    let image = link(&[&object.build().unwrap()], &[]).unwrap();
    let section = image.eh_frame.unwrap();
    let bytes = bytes_at(&image, section.start.get());
    let frames = EhFrame::new(bytes, LittleEndian);
    let bases = BaseAddresses::default().set_eh_frame(section.start.get());
    let mut entries = frames.entries(&bases);
    let mut rows = Vec::new();
    while let Some(entry) = entries.next().unwrap() {
        let gimli::CieOrFde::Fde(entry) = entry else { continue };
        let entry = entry.parse(EhFrame::cie_from_offset).unwrap();
        let start = address_of(&image, "f");
        assert_eq!(entry.initial_address(), start);
        let mut context = UnwindContext::new();
        let mut table = entry.rows(&frames, &bases, &mut context).unwrap();
        while let Some(row) = table.next_row().unwrap() {
            let CfaRule::RegisterAndOffset { register, offset } = *row.cfa() else {
                panic!("{row:?}")
            };
            assert_eq!(
                row.register(Register(16)),
                Some(RegisterRule::Offset(-8)),
                "the return address"
            );
            let saved = [3, 6, 12, 13, 14, 15].into_iter().filter_map(|number| {
                match row.register(Register(number)) {
                    Some(RegisterRule::Offset(offset)) => Some((number, -offset)),
                    _ => None,
                }
            });
            rows.push((row.start_address() - start, (register.0, offset), saved.collect()));
        }
    }
    rows
}

const RSP: u16 = 7;
const RBP: u16 = 6;

#[test]
fn code_that_never_moves_the_stack_pointer_has_one_row() {
    assert_eq!(rows(Frame::new(), 5), [(0, (RSP, 8), vec![])]);
}

#[test]
fn pushes_and_pops_move_the_stack_pointer() {
    let frame = Frame::new().push(1, CalleeSaved::Rbx).push(3, CalleeSaved::R15).grow(7, 0x100);
    let frame = frame.shrink(20, 0x100).pop(22, CalleeSaved::R15).pop(23, CalleeSaved::Rbx);
    let both = vec![(3, 16), (15, 24)];
    let expected = [
        (0, (RSP, 8), vec![]),
        (1, (RSP, 16), vec![(3, 16)]),
        (3, (RSP, 24), both.clone()),
        (7, (RSP, 280), both.clone()),
        (20, (RSP, 24), both),
        (22, (RSP, 16), vec![(3, 16)]),
        (23, (RSP, 8), vec![]),
    ];
    assert_eq!(rows(frame, 24), expected);
}

#[test]
fn behind_a_frame_pointer_the_stack_pointer_is_free() {
    let frame = Frame::of_frame_pointer().push(6, CalleeSaved::R12).grow(10, 40);
    let frame = frame.save(14, CalleeSaved::R13, 48).leave(30);
    let expected = [
        (0, (RSP, 8), vec![]),
        (1, (RSP, 16), vec![(6, 16)]),
        (4, (RBP, 16), vec![(6, 16)]),
        (6, (RBP, 16), vec![(6, 16), (12, 24)]),
        (14, (RBP, 16), vec![(6, 16), (12, 24), (13, 48)]),
        (30, (RSP, 8), vec![(12, 24), (13, 48)]),
    ];
    assert_eq!(rows(frame, 31), expected);
}

#[test]
fn code_behind_a_return_has_the_frame_of_an_earlier_place() {
    let frame = Frame::of_frame_pointer().pop(10, CalleeSaved::Rbp).resume(11, 9).leave(400);
    let with_pointer = ((RBP, 16), vec![(6, 16)]);
    let expected = [
        (0, (RSP, 8), vec![]),
        (1, (RSP, 16), vec![(6, 16)]),
        (4, with_pointer.0, with_pointer.1.clone()),
        (10, (RSP, 8), vec![]),
        (11, with_pointer.0, with_pointer.1),
        (400, (RSP, 8), vec![]),
    ];
    assert_eq!(rows(frame, 401), expected);
}

#[test]
fn registers_pushed_ahead_of_a_frame_pointer_are_popped_last() {
    let frame = Frame::new().push(1, CalleeSaved::Rbp).push(2, CalleeSaved::Rbx).frame_pointer(5);
    let frame = frame.pop(10, CalleeSaved::Rbx).pop(11, CalleeSaved::Rbp);
    let expected = [
        (0, (RSP, 8), vec![]),
        (1, (RSP, 16), vec![(6, 16)]),
        (2, (RSP, 24), vec![(3, 24), (6, 16)]),
        (5, (RBP, 24), vec![(3, 24), (6, 16)]),
        (10, (RBP, 24), vec![(6, 16)]),
        (11, (RSP, 8), vec![]),
    ];
    assert_eq!(rows(frame, 12), expected);
}
