//! Every formula, checked against addresses that were computed by hand.

use crate::tests::*;

/// The target of the `call` or `jmp` with a 32-bit displacement at an address.
fn branch_target(image: &Image, address: u64) -> u64 {
    assert!(matches!(bytes_at(image, address)[0], 0xe8 | 0xe9), "no branch at {address:#x}");
    (address + 5).wrapping_add_signed(i64::from(i32_at(image, address + 1)))
}

/// Links `field` (assembler, in a data section, at `place`) with `x` at an address outside.
fn link_field(field: &str, x: u64) -> Result<Image> {
    let source = format!(".data\n.globl place\nplace: {field}\n.zero 8\n");
    link(&[&compile("field.o", "-xassembler", &source)], &[("x", x)])
}

#[test]
fn every_formula_gives_its_value() {
    let object = compile(
        "formulas.o",
        "-xassembler",
        "
        .globl slots, target
        .data
        slots: .rept 24
        .quad 0
        .endr
        .macro slot number, type, symbol
        .reloc slots + 8 * \\number, \\type, \\symbol
        .endm
        slot 0, R_X86_64_NONE, target
        slot 1, R_X86_64_64, target+5
        slot 2, R_X86_64_PC64, target-3
        slot 3, R_X86_64_PC32, target+7
        slot 4, R_X86_64_PLT32, target
        slot 5, R_X86_64_64, _GLOBAL_OFFSET_TABLE_
        slot 6, R_X86_64_GOT64, target+16
        slot 7, R_X86_64_GOT32, target
        slot 8, R_X86_64_GOTPCREL, target-4
        slot 9, R_X86_64_GOTPCREL64, target+1
        slot 10, R_X86_64_GOTOFF64, target+2
        slot 11, R_X86_64_GOTPC32, _GLOBAL_OFFSET_TABLE_+3
        slot 12, R_X86_64_GOTPC64, _GLOBAL_OFFSET_TABLE_+4
        slot 13, R_X86_64_PLTOFF64, target+6
        slot 14, R_X86_64_SIZE32, target+1
        slot 15, R_X86_64_SIZE64, target
        slot 16, R_X86_64_GOTPCRELX, target-4
        slot 17, R_X86_64_REX_GOTPCRELX, target-4
        slot 18, R_X86_64_GOTPLT64, target
        slot 19, R_X86_64_PC16, slots+8*20
        slot 20, R_X86_64_PC8, slots+8*19
        slot 21, R_X86_64_64, .text+8
        .text
        .zero 32
        target: .zero 48
        .size target, 48
        ",
    );
    let image = link(&[&object], &[]).unwrap();
    let (slots, target) = (address_of(&image, "slots"), address_of(&image, "target"));
    let place = |slot: u64| slots + 8 * slot;
    let wide = |slot| u64_at(&image, place(slot));
    let narrow = |slot| i64::from(i32_at(&image, place(slot)));
    let delta = |to: u64, slot| to.wrapping_sub(place(slot)).cast_signed();

    assert_eq!(wide(0), 0);
    assert_eq!(wide(1), target + 5);
    assert_eq!(wide(2).cast_signed(), delta(target, 2) - 3);
    assert_eq!(narrow(3), delta(target, 3) + 7);
    assert_eq!(narrow(4), delta(target, 4));
    let got = wide(5);
    assert_eq!(stripe_of(&image, got), Some(Prot::Constants));
    let entry = got + wide(7);
    assert_eq!(u64_at(&image, entry), target);
    assert_eq!(wide(6), entry - got + 16);
    assert_eq!(narrow(8), delta(entry, 8) - 4);
    assert_eq!(wide(9).cast_signed(), delta(entry, 9) + 1);
    assert_eq!(wide(10), target.wrapping_sub(got).wrapping_add(2));
    assert_eq!(narrow(11), delta(got, 11) + 3);
    assert_eq!(wide(12).cast_signed(), delta(got, 12) + 4);
    assert_eq!(wide(13), target.wrapping_sub(got).wrapping_add(6));
    assert_eq!(wide(14), 49);
    assert_eq!(wide(15), 48);
    assert_eq!(narrow(16), delta(entry, 16) - 4, "no load instruction, so nothing is relaxed");
    assert_eq!(narrow(17), delta(entry, 17) - 4);
    assert_eq!(wide(18), entry - got);
    assert_eq!(i16::from_le_bytes(*bytes_at(&image, place(19)).first_chunk().unwrap()), 8);
    assert_eq!(bytes_at(&image, place(20))[0].cast_signed(), -8);
    assert_eq!(wide(21), target - 24);
    assert_eq!(image.stats.got_entries, 1, "one entry per symbol");
    assert_eq!(image.stats.relocations, 21);
}

#[test]
fn fields_hold_what_fits_and_nothing_else() {
    let negative = |value: i64| value.cast_unsigned();
    let cases = [
        ("R_X86_64_32", 4, 0, 0xffff_ffff, 0x1_0000_0000, negative(-1)),
        (
            "R_X86_64_32S",
            4,
            negative(-0x8000_0000),
            0x7fff_ffff,
            0x8000_0000,
            negative(-0x8000_0001),
        ),
        ("R_X86_64_16", 2, negative(-0x8000), 0xffff, 0x1_0000, negative(-0x8001)),
        ("R_X86_64_8", 1, negative(-0x80), 0xff, 0x100, negative(-0x81)),
    ];
    for (kind, size, least, most, above, below) in cases {
        let field = format!(".reloc place, {kind}, x");
        for fits in [least, most, 1] {
            let image = link_field(&field, fits).unwrap();
            let stored = &bytes_at(&image, address_of(&image, "place"))[..size];
            assert_eq!(stored, &fits.to_le_bytes()[..size], "{kind} {fits:#x}");
        }
        for too_far in [above, below] {
            let error = failure(link_field(&field, too_far)).to_string();
            assert!(error.contains(kind) && error.contains("field.o"), "{error}");
        }
    }
    let place = BASES[Prot::Data.index()];
    let far = [
        ("R_X86_64_PC32", i64::from(i32::MAX), i64::from(i32::MIN)),
        ("R_X86_64_PC16", i64::from(i16::MAX), i64::from(i16::MIN)),
        ("R_X86_64_PC8", i64::from(i8::MAX), i64::from(i8::MIN)),
    ];
    for (kind, most, least) in far {
        let field = format!(".reloc place, {kind}, x");
        for distance in [most, least, 0] {
            let image = link_field(&field, place.wrapping_add_signed(distance)).unwrap();
            assert_eq!(address_of(&image, "place"), place);
            let stored = bytes_at(&image, place)[0];
            assert_eq!(stored, distance.to_le_bytes()[0], "{kind} {distance}");
        }
        for distance in [most + 1, least - 1] {
            failure(link_field(&field, place.wrapping_add_signed(distance)));
        }
    }
}

#[test]
fn an_error_of_range_says_all_that_is_known() {
    let source = "extern int far_away; int a(void) { return far_away; }";
    let object = compile("near.o", "-O2 -fno-pic", source);
    let error = failure(link(&[&object], &[("far_away", FAR)])).to_string();
    let wanted = ["near.o", ".text", "R_X86_64_PC32", "`far_away`", "0x555500001230", "-fPIC"];
    for part in wanted {
        assert!(error.contains(part), "{part} is missing in: {error}");
    }
    assert!(error.contains("0x7f0000000"), "the place is missing in: {error}");
}

#[test]
fn calls_between_objects_are_direct() {
    let a = compile("a.o", "-O2", "int b(void); int a(void) { return b() + 1; }");
    let b = compile("b.o", "-O2", "int b(void) { return 41; }");
    let image = link(&[&a, &b], &[]).unwrap();
    let a = address_of(&image, "a");
    let call = bytes_at(&image, a).iter().position(|byte| *byte == 0xe8).unwrap() as u64;
    assert_eq!(branch_target(&image, a + call), address_of(&image, "b"));
    assert_eq!(image.stats.stubs, 0);
    assert_eq!(stripe_of(&image, a), Some(Prot::Code));
}

/// `jmp f` with the relocation of compilers, and with the one of some assemblers.
const JUMPS: [&str; 2] = [
    ".text\n.globl a\na: .byte 0xe9, 0, 0, 0, 0\n.reloc a + 1, R_X86_64_PLT32, f - 4\n",
    ".text\n.globl a\na: .byte 0xe9, 0, 0, 0, 0\n.reloc a + 1, R_X86_64_PC32, f - 4\n",
];

#[test]
fn far_calls_go_through_a_stub_and_near_ones_do_not() {
    for source in JUMPS {
        let object = compile("a.o", "-xassembler", source);
        let image = link(&[&object], &[("f", FAR)]).unwrap();
        let stub = branch_target(&image, address_of(&image, "a"));
        assert_eq!(stripe_of(&image, stub), Some(Prot::Code));
        assert_eq!(bytes_at(&image, stub)[..2], [0xff, 0x25]);
        let entry = (stub + 6).wrapping_add_signed(i64::from(i32_at(&image, stub + 2)));
        assert_eq!(stripe_of(&image, entry), Some(Prot::Constants));
        assert_eq!(u64_at(&image, entry), FAR);
        let place = image.symbols.locate(ExecutorAddr::new(stub + 1)).unwrap();
        assert_eq!(place, "f@plt+0x1 (linker stub)");

        let image = link(&[&object], &[("f", NEAR)]).unwrap();
        assert_eq!(branch_target(&image, address_of(&image, "a")), NEAR);
    }
}

#[test]
fn stubs_are_shared_and_keep_apart() {
    let source = "void f(void), g(void), h(void); void a(void) { f(); g(); f(); h(); g(); }";
    let externals = [("f", FAR), ("g", FAR + 0x100), ("h", FAR + 0x200)];
    let image = link(&[&compile("a.o", "-O0", source)], &externals).unwrap();
    assert_eq!((image.stats.stubs, image.stats.got_entries), (3, 3));
    let a = address_of(&image, "a");
    let code = bytes_at(&image, a);
    let calls = (0..30).filter(|at| code[*at] == 0xe8);
    let targets: Vec<u64> = calls
        .map(|at| {
            let stub = branch_target(&image, a + at as u64);
            u64_at(&image, (stub + 6).wrapping_add_signed(i64::from(i32_at(&image, stub + 2))))
        })
        .collect();
    assert_eq!(targets, [FAR, FAR + 0x100, FAR, FAR + 0x200, FAR + 0x100]);
}

/// A load, a call and a jump through the GOT, each followed by room.
const GOT_USERS: &str = "
    .text
    .globl load, load32, call, jump, compare
    load: movq x@GOTPCREL(%rip), %r9
    load32: movl x@GOTPCREL(%rip), %eax
    call: call *x@GOTPCREL(%rip)
    jump: jmp *x@GOTPCREL(%rip)
    compare: cmpq x@GOTPCREL(%rip), %rax
";

#[test]
fn loads_from_the_got_are_relaxed_when_the_target_is_near() {
    let object = compile("got.o", "-xassembler", GOT_USERS);
    let image = link(&[&object], &[("x", NEAR)]).unwrap();
    let target = |end: u64| end.wrapping_add_signed(i64::from(i32_at(&image, end - 4)));

    let load = address_of(&image, "load");
    assert_eq!(bytes_at(&image, load)[..3], [0x4c, 0x8d, 0x0d], "lea x(%rip), %r9");
    assert_eq!(target(load + 7), NEAR);

    let load32 = address_of(&image, "load32");
    assert_eq!(bytes_at(&image, load32)[..2], [0x8d, 0x05], "lea x(%rip), %eax");
    assert_eq!(target(load32 + 6), NEAR);

    let call = address_of(&image, "call");
    assert_eq!(bytes_at(&image, call)[..2], [0x67, 0xe8], "addr32 call x");
    assert_eq!(target(call + 6), NEAR);

    let jump = address_of(&image, "jump");
    assert_eq!(branch_target(&image, jump), NEAR);
    assert_eq!(bytes_at(&image, jump)[5], 0x90, "jmp x; nop");

    let compare = address_of(&image, "compare");
    assert_eq!(bytes_at(&image, compare)[..3], [0x48, 0x3b, 0x05]);
    assert_eq!(u64_at(&image, target(compare + 7)), NEAR, "a comparison stays unchanged");
    assert_eq!(image.stats.loads_relaxed, 4);
}

/// `mov x@GOTPCREL(%rip), %r16` has a prefix of two bytes, and a relocation that older assemblers do not know.
#[test]
fn a_load_with_a_rex2_prefix_is_relaxed_too() {
    let source = ".text\n.globl a\na: .byte 0xd5, 0x48, 0x8b, 0x05\n.long 0\n\
        .reloc a+4, R_X86_64_GOTPCREL, x-4\n";
    let mut object = compile_bytes("a.o", "-xassembler", source);
    // The record begins with the offset 4 and the number 9.
    let record = [4, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0];
    let at = object.windows(record.len()).position(|bytes| bytes == record).unwrap();
    object[at + 8] = 43;
    let object = ObjectFile::parse("a.o", object).unwrap();
    for (x, opcode) in [(NEAR, 0x8d), (FAR, 0x8b)] {
        let image = link(&[&object], &[("x", x)]).unwrap();
        let a = address_of(&image, "a");
        assert_eq!(bytes_at(&image, a)[..4], [0xd5, 0x48, opcode, 0x05]);
        let loaded = (a + 8).wrapping_add_signed(i64::from(i32_at(&image, a + 4)));
        assert_eq!(if opcode == 0x8d { loaded } else { u64_at(&image, loaded) }, x);
    }
}

#[test]
fn data_that_looks_like_a_load_is_left_alone() {
    let source =
        ".data\n.globl a\na: .byte 0x8b, 0x05\n.long 0\n.reloc a+2, R_X86_64_GOTPCRELX, x-4\n";
    let image = link(&[&compile("a.o", "-xassembler", source)], &[("x", NEAR)]).unwrap();
    let a = address_of(&image, "a");
    assert_eq!(bytes_at(&image, a)[..2], [0x8b, 0x05]);
    let entry = (a + 6).wrapping_add_signed(i64::from(i32_at(&image, a + 2)));
    assert_eq!(u64_at(&image, entry), NEAR);
}

#[test]
fn loads_from_the_got_stay_when_the_target_is_far() {
    let object = compile("got.o", "-xassembler", GOT_USERS);
    let image = link(&[&object], &[("x", FAR)]).unwrap();
    let bytes = [
        ("load", &[0x4c, 0x8b, 0x0d][..]),
        ("load32", &[0x8b, 0x05]),
        ("call", &[0xff, 0x15]),
        ("jump", &[0xff, 0x25]),
        ("compare", &[0x48, 0x3b, 0x05]),
    ];
    for (name, opcode) in bytes {
        let at = address_of(&image, name);
        assert_eq!(&bytes_at(&image, at)[..opcode.len()], opcode, "{name}");
        let end = at + opcode.len() as u64 + 4;
        let entry = end.wrapping_add_signed(i64::from(i32_at(&image, end - 4)));
        assert_eq!(u64_at(&image, entry), FAR, "{name}");
    }
    assert_eq!(image.stats.loads_relaxed, 0);
}

#[test]
fn relaxation_reaches_exactly_two_gib() {
    // The call's displacement counts from its end; the shorter jump ends one byte earlier.
    let cases = [("call *x@GOTPCREL(%rip)", 6, 0x67), ("jmp *x@GOTPCREL(%rip)", 5, 0xe9)];
    for (instruction, end, relaxed) in cases {
        let source = format!(".text\n.globl a\na: {instruction}\n");
        let object = compile("a.o", "-xassembler", &source);
        let opcode = |distance: i64| {
            let a = BASES[0] + 16;
            let x = (a + end).wrapping_add_signed(distance);
            let image = link(&[&object], &[("x", x)]).unwrap();
            assert_eq!(address_of(&image, "a"), a);
            bytes_at(&image, a)[0]
        };
        assert_eq!(opcode(i64::from(i32::MAX)), relaxed, "{instruction}");
        assert_eq!(opcode(i64::from(i32::MAX) + 1), 0xff, "{instruction}");
        assert_eq!(opcode(i64::from(i32::MIN) - 1), 0xff, "{instruction}");
    }
}

#[test]
fn undefined_names_are_listed() {
    let source = "int f(void); extern int v; extern int w __attribute__((weak)); int a(void) { return f() + v + w; }";
    let a = compile("a.o", "-O2", source);
    let graph = graph(&[&a]).unwrap();
    let names: Vec<String> = graph.undefined().iter().map(|need| need.name.to_string()).collect();
    assert_eq!(names, ["f", "v", "w"]);
    let need = &graph.undefined()[0];
    assert_eq!((&*need.used_by, need.weak), ("a.o", false));
    let weak: Vec<bool> = graph.undefined().iter().map(|need| need.weak).collect();
    assert_eq!(weak, [false, false, true]);
    assert_eq!(failure(finish(graph, &[])).symbols(), ["f", "v"]);
}

#[test]
fn a_weak_name_that_is_missing_has_address_zero() {
    let source = "extern int v __attribute__((weak)); void f(void) __attribute__((weak));
        int *data = &v; void call(void) { if (f) f(); }";
    let image = link(&[&compile("a.o", "-O2 -fPIC", source)], &[]).unwrap();
    assert_eq!(u64_at(&image, address_of(&image, "data")), 0);
}

#[test]
fn only_code_with_32_bit_addresses_asks_for_low_memory() {
    let source =
        "extern int v[]; int f(long i) { return v[i]; } int w[9]; int g(long i) { return w[i]; }";
    let needs = |flags| graph(&[&compile("a.o", flags, source)]).unwrap().needs_low_addresses();
    assert!(needs("-O2 -fno-pic"));
    assert!(!needs("-O2 -fPIC -g"), "debug information does not count");
    assert!(!needs("-O2 -fno-pic -mcmodel=large"));
}
