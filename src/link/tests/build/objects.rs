//! The objects that a builder makes, and the parts that it refuses.

use crate::error::ErrorKind;
use crate::tests::*;
use crate::{CalleeSaved, Frame, ObjectBuilder, ObjectPart};

#[test]
fn parts_are_where_their_kinds_belong_and_fields_hold_addresses() {
    let mut object = ObjectBuilder::for_processor("built", Processor::X86_64);
    let function = object.function("f", [0x90; 24]);
    function.call(0, "far").distance(4, "word", 2).got_entry(8, "far").address(16, "text", -1);
    function.frame(Frame::new());
    object.data("word", [7; 8]).align(64).address(0, "f", 0);
    object.constant("text", *b"text");
    object.zeroes("zeroes", 100);
    object.function("own", [0xc3]).local();
    let object = object.build().unwrap();
    assert_eq!(object.definitions().collect::<Vec<_>>(), ["f", "word", "text", "zeroes"]);
    // The checker compares every field of every link of a debug build.
    let image = link(&[&object], &[("far", FAR)]).unwrap();
    let at = |name: &str| address_of(&image, name);
    let prots = ["f", "text", "word", "zeroes"].map(|name| stripe_of(&image, at(name)).unwrap());
    assert_eq!(prots, [Prot::Code, Prot::Constants, Prot::Data, Prot::Data]);
    assert_eq!((at("f") % 16, at("word") % 64), (0, 0));
    let distance = |offset: u64| {
        let end = at("f") + offset + 4;
        end.wrapping_add_signed(i32_at(&image, at("f") + offset).into())
    };
    assert_eq!(distance(4), at("word") + 2);
    assert_eq!(u64_at(&image, distance(8)), FAR);
    assert_eq!(u64_at(&image, at("f") + 16), at("text") - 1);
    assert_eq!(u64_at(&image, at("word")), at("f"));
    assert_eq!(bytes_at(&image, distance(0))[..2], [0xff, 0x25], "a jump through the GOT");
    assert!(image.eh_frame.is_some());
}

#[test]
fn an_object_of_nothing_is_an_object() {
    let object = ObjectBuilder::for_processor("nothing", Processor::X86_64).build().unwrap();
    assert_eq!(object.definitions().count(), 0);
    assert!(link(&[&object], &[]).is_ok());
}

#[test]
fn impossible_parts_are_refused_with_advice() {
    type Make = fn(&mut ObjectBuilder) -> &mut ObjectPart;
    let cases: [(Make, &str); 26] = [
        (
            |o| o.data("f", [1]),
            "\"f\": the name is there already: give each part a name of its own",
        ),
        (|o| o.data("", [1]), "\"\" is no name"),
        (|o| o.data("a\0b", [1]), "is no name"),
        (|o| o.data("d", [0; 8]).address(0, "", 0), "is no name"),
        (|o| o.function("g", []), "a function without code: give its bytes"),
        (
            |o| o.function("g", [0; 5]).call(2, "f"),
            "4 bytes at offset 2, is not inside of its 5 bytes: give the offset of its first byte",
        ),
        (|o| o.function("g", [0; 5]).call(u64::MAX, "f"), "is not inside of its 5 bytes"),
        (
            |o| o.data("d", [0; 8]).address(1, "f", 0),
            "8 bytes at offset 1, is not inside of its 8 bytes",
        ),
        (|o| o.zeroes("z", 8).address(0, "f", 0), "data that is not zeroes"),
        (
            |o| o.function("g", [0; 9]).call(4, "f").call(1, "f"),
            "at offset 4 overlaps the one before, which ends at 5",
        ),
        (|o| o.data("d", [0]).align(0), "an alignment of 0 bytes: give a power of two"),
        (|o| o.data("d", [0]).align(24), "an alignment of 24 bytes"),
        (|o| o.data("d", [0]).align(1 << 40), "at most 65536"),
        (|o| o.data("d", [0]).align(1 << 17), "at most 65536"),
        (|o| o.data("rel.ro.x", [0]), "is constant: give another name"),
        (|o| o.zeroes("rel.ro", 8), "is constant: give another name"),
        (|o| o.data("d", [0]).frame(Frame::new()), "data has no frame"),
        (|o| frame(o, Frame::new().push(9, CalleeSaved::Rbx)), "from offset 0 to 8"),
        (
            |o| frame(o, Frame::new().grow(4, 8).shrink(3, 8)),
            "in the order of the code, from offset 4",
        ),
        (
            |o| frame(o, Frame::new().grow(4, 8).shrink(5, 16)),
            "16 bytes are not in a frame of 8 bytes",
        ),
        (|o| frame(o, Frame::new().leave(5)), "call frame_pointer first"),
        (|o| frame(o, Frame::new().frame_pointer(3)), "rbp would be lost; push it first"),
        (
            |o| {
                frame(
                    o,
                    Frame::new()
                        .push(1, CalleeSaved::Rbp)
                        .push(2, CalleeSaved::Rbx)
                        .frame_pointer(5)
                        .leave(6),
                )
            },
            "not saved where it points; pop the registers",
        ),
        (
            |o| {
                frame(
                    o,
                    Frame::new().push(1, CalleeSaved::Rbx).grow(5, 24).pop(6, CalleeSaved::Rbx),
                )
            },
            "but 24 bytes above; shrink by as many",
        ),
        (|o| frame(o, Frame::new().grow(4, 4).push(6, CalleeSaved::Rbx)), "no multiple of 8"),
        (|o| frame(o, Frame::new().save(5, CalleeSaved::Rbx, 12)), "12 bytes below is no place"),
    ];
    for (make, expected) in cases {
        let mut object = ObjectBuilder::for_processor("made by hand", Processor::X86_64);
        object.function("f", [0xc3]);
        make(&mut object);
        let error = failure(object.build());
        let text = error.to_string();
        assert!(text.contains(expected) && text.contains("made by hand: "), "{text}");
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{text}");
    }
    for frame in [Frame::new().pop(1, CalleeSaved::Rbx), Frame::new().grow(1, u32::MAX)] {
        let mut object = ObjectBuilder::for_processor("made by hand", Processor::X86_64);
        object.function("f", [0xc3]).frame(frame);
        assert!(object.build().is_err());
    }
}

/// A function of 8 bytes with this frame.
fn frame(object: &mut ObjectBuilder, frame: Frame) -> &mut ObjectPart {
    object.function("g", [0x90; 8]).frame(frame)
}

#[test]
fn a_field_may_refer_to_a_name_that_is_missing_until_the_link() {
    let mut object = ObjectBuilder::for_processor("built", Processor::X86_64);
    object.function("f", [0xe8, 0, 0, 0, 0]).call(1, "nowhere");
    let error = failure(link(&[&object.build().unwrap()], &[]));
    assert_eq!(error.symbols(), ["nowhere"]);
}
