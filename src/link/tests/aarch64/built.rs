//! Objects of machine code that a program has made itself.

use super::*;
use crate::{CalleeSaved, Frame, ObjectBuilder, ObjectPart};

/// The bytes of these instructions.
fn code(instructions: &[u32]) -> Vec<u8> {
    instructions.iter().flat_map(|one| one.to_le_bytes()).collect()
}

/// A program: it prints the sum of a variable, of a constant, and of what functions outside return.
fn built() -> ObjectFile {
    let mut object = ObjectBuilder::for_processor("built", Processor::Aarch64);
    let begin = object.function(
        "begin",
        code(&[
            0xa9be_7bfd, // stp x29, x30, [sp, #-32]!
            0x9100_03fd, // mov x29, sp
            0xf900_0bf3, // str x19, [sp, #16]
            0x9400_0000, // bl start_up
            0x9000_0013, // adrp x19, more
            0xf940_0273, // ldr x19, [x19, more]
            0x9000_0000, // adrp x0, little
            0x9100_0000, // add x0, x0, little
            0xb940_0000, // ldr w0, [x0]
            0x9400_0000, // bl distant
            0x8b00_0273, // add x19, x19, x0
            0x9000_0008, // adrp x8, entry of distant
            0xf940_0108, // ldr x8, [x8, entry of distant]
            0x5280_0020, // mov w0, #1
            0xd63f_0100, // blr x8
            0x8b13_0000, // add x0, x0, x19
            0x9400_0000, // bl put
            0x5800_0080, // ldr x0, 16 bytes further on
            0xf940_0bf3, // ldr x19, [sp, #16]
            0xa8c2_7bfd, // ldp x29, x30, [sp], #32
            0x1400_0000, // b finish
            0,
            0, // the address of `more`
        ]),
    );
    begin.call(12, "start_up").distance(16, "more", 0).distance(20, "more", 0);
    begin.distance(24, "little", 0).distance(28, "little", 0).call(36, "distant");
    begin.got_entry(44, "distant").got_entry(48, "distant").call(64, "put").call(80, "finish");
    begin.address(84, "more", 4);
    let frame = Frame::of_frame_record(32).save(12, CalleeSaved::X19, 16);
    begin.frame(frame.restore(76, CalleeSaved::X19).leave(80));
    object.data("more", 30_i64.to_le_bytes());
    object.constant("little", 5_u32.to_le_bytes()).local();
    object.constant("way", [0; 4]).distance(0, "begin", 0);
    object.build().unwrap()
}

#[test]
fn code_of_a_programs_own_runs() {
    if !is_here(GCC) || !is_here(QEMU) {
        return;
    }
    let support = arm("support.o", "-O2 -fPIC -ffreestanding", bare::SUPPORT);
    let (image, printed) = bare::output(&[&built(), &support], None);
    assert_eq!(printed, "42\n");
    assert!(image.eh_frame.is_some());
}

#[test]
fn gnu_readelf_sees_the_frames() {
    if !is_here(GCC) {
        return;
    }
    let mut object = ObjectBuilder::for_processor("framed", Processor::Aarch64);
    let frame = Frame::new().grow(4, 16).save(4, CalleeSaved::D9, 16).save(4, CalleeSaved::X30, 8);
    let frame = frame.restore(12, CalleeSaved::X30).restore(12, CalleeSaved::D9).shrink(12, 16);
    object.function("f", vec![0; 16]).frame(frame);
    let scratch = Scratch::new();
    let of_built = [
        "sp+0",
        "sp+0 u u u",
        "sp+32 u c-32 c-24",
        "x29+32 u c-32 c-24",
        "x29+32 c-16 c-32 c-24",
        "x29+32 u c-32 c-24",
        "sp+0 u u u",
    ];
    let of_framed = ["sp+0", "sp+0 u u", "sp+16 c-8 c-16", "sp+0 u u"];
    for (object, wanted) in [(built(), &of_built[..]), (object.build().unwrap(), &of_framed)] {
        std::fs::write(scratch.0.join("out.o"), object.bytes()).unwrap();
        let printed = succeed("aarch64-linux-gnu-readelf", &["-wF", "out.o"], &scratch.0);
        let rows: Vec<String> = printed
            .lines()
            .filter(|line| line.starts_with("0000000000000") && !line.contains("E "))
            .map(|line| line.split_whitespace().skip(1).collect::<Vec<_>>().join(" "))
            .collect();
        assert_eq!(rows, wanted, "{printed}");
    }
}

#[test]
fn fields_and_frames_of_another_processor_are_refused() {
    type Make = fn(&mut ObjectBuilder) -> &mut ObjectPart;
    let cases: [(Make, &str); 5] = [
        (
            |o| o.function("f", code(&[0xd503_201f])).call(0, "g"),
            "no instruction with a field for `g`",
        ),
        (|o| o.function("f", code(&[0x9140_0000])).distance(0, "g", 0), "are no instruction with"),
        (|o| framed(o, Frame::new().push(4, CalleeSaved::Rbx)), "AArch64 has no such register"),
        (
            |o| framed(o, Frame::new().push(4, CalleeSaved::X19)),
            "grow or shrink, and save or restore",
        ),
        (|o| framed(o, Frame::new().frame_pointer(4)), "x29 would be lost; save it first"),
    ];
    for (make, wanted) in cases {
        let mut object = ObjectBuilder::for_processor("made by hand", Processor::Aarch64);
        make(&mut object);
        let error = failure(object.build()).to_string();
        assert!(error.contains(wanted), "{error}");
    }
    let mut object = ObjectBuilder::for_processor("made by hand", Processor::X86_64);
    object.function("f", [0xc3]).frame(Frame::new().save(0, CalleeSaved::X19, 16));
    assert!(failure(object.build()).to_string().contains("x86-64 has no such register"));
}

fn framed(object: &mut ObjectBuilder, frame: Frame) -> &mut ObjectPart {
    object.function("f", [0; 8]).frame(frame)
}
