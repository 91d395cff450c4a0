//! `.eh_frame`: the records of an image, walked as an unwinder walks them.

use crate::tests::*;

/// The functions that the unwind records of an image cover, as (start, end), in order of the records.
fn covered(image: &Image) -> Vec<(u64, u64)> {
    let range = image.eh_frame.expect("the image has unwind records");
    let (start, end) = (range.start.get(), range.end.get());
    assert_eq!(start % 8, 0);
    let word = |at: u64| i32_at(image, at);
    let mut cies = Vec::new();
    let mut functions = Vec::new();
    let mut at = start;
    while word(at) != 0 {
        let next = at + 4 + u64::try_from(word(at)).unwrap();
        assert!(next <= end - 4, "record at {at:#x} passes the end");
        match word(at + 4) {
            0 => cies.push(at),
            distance => {
                let cie = at + 4 - u64::try_from(distance).unwrap();
                assert!(cies.contains(&cie), "the record at {at:#x} has no CIE at {cie:#x}");
                // Compilers encode both as 32 bits, the start relative to itself.
                let function = (at + 8).wrapping_add_signed(i64::from(word(at + 8)));
                let bytes = u64::try_from(word(at + 12)).unwrap();
                assert_eq!(stripe_of(image, function), Some(Prot::Code));
                functions.push((function, function + bytes));
            }
        }
        at = next;
    }
    assert_eq!(at, end - 4, "the only zero word is the last one");
    functions
}

const SHARED: &str = "
    struct E { int code; };
    inline int shared(int x) { if (x > 5) throw E{x}; return x; }
    struct Odd { Odd(); char c[3]; };
";

fn throwing(name: &str, flags: &str) -> ObjectFile {
    let body = format!(
        "{SHARED} int {name}(int x) {{ try {{ return shared(x); }} catch (E e) {{ return e.code; }} }}"
    );
    compile(&format!("{name}.o"), &format!("-xc++ {flags}"), &body)
}

const RUNTIME: [(&str, u64); 7] = [
    ("__cxa_allocate_exception", FAR),
    ("__cxa_throw", FAR + 16),
    ("__cxa_begin_catch", FAR + 32),
    ("__cxa_end_catch", FAR + 48),
    ("_Unwind_Resume", FAR + 64),
    ("__gxx_personality_v0", FAR + 80),
    ("_ZTVN10__cxxabiv117__class_type_infoE", FAR + 96),
];

#[test]
fn every_function_is_covered_once() {
    for flags in ["-O0", "-O2", "-O2 -fPIC -ffunction-sections", "-O0 -mcmodel=large"] {
        let flags = format!("{flags} -fno-asynchronous-unwind-tables -fexceptions");
        let objects = [throwing("one", &flags), throwing("two", &flags), throwing("three", &flags)];
        let objects: Vec<&ObjectFile> = objects.iter().collect();
        if flags.contains("large") {
            // Its records hold 64-bit addresses. Only their presence and their end are checked.
            let image = link(&objects, &RUNTIME).unwrap();
            assert!(image.eh_frame.is_some());
            continue;
        }
        let image = link(&objects, &RUNTIME).unwrap();
        let covered = covered(&image);
        for name in ["_Z3onei", "_Z3twoi", "_Z5threei"] {
            let start = address_of(&image, name);
            let found = covered.iter().filter(|(from, _)| *from == start).count();
            assert_eq!(found, 1, "{name} with {flags}");
        }
        let mut starts: Vec<u64> = covered.iter().map(|(start, _)| *start).collect();
        starts.sort_unstable();
        starts.dedup();
        assert_eq!(starts.len(), covered.len(), "a function is covered twice with {flags}");
        for pair in starts.windows(2) {
            let (_, end) = covered.iter().find(|(start, _)| *start == pair[0]).unwrap();
            assert!(*end <= pair[1], "records overlap with {flags}");
        }
    }
}

#[test]
fn records_of_dropped_copies_go() {
    let (one, two) = (throwing("one", "-O0"), throwing("two", "-O0"));
    let count = |objects: &[&ObjectFile]| covered(&link(objects, &RUNTIME).unwrap()).len();
    // `shared` is in both, and its second copy with its record is dropped.
    assert_eq!(count(&[&one, &two]), count(&[&one]) + count(&[&two]) - 1);
}

#[test]
fn records_are_packed_whatever_their_size() {
    // Two records whose size is no multiple of 8, around a dropped record.
    let object = |name: &str| {
        let source = format!(
            "
            .section .text.gone,\"axG\",@progbits,gone,comdat
            .weak gone
            .type gone, @function
            gone: ret
            .text
            .globl {name}
            .type {name}, @function
            {name}: nop
            ret
            .section .eh_frame,\"a\",@unwind
            .balign 4
            cie: .long cie_end - cie - 4, 0
            .byte 1
            .asciz \"zR\"
            .byte 1, 0x78, 16, 1, 0x1b, 12, 7, 8, 0x90, 1
            .balign 4
            cie_end:
            fde1: .long fde1_end - fde1 - 4, . - cie
            .long gone - ., 1
            .byte 0, 0x0e, 16, 0
            fde1_end:
            fde2: .long fde2_end - fde2 - 4, . - cie
            .long {name} - ., 2
            .byte 0, 0x0e, 16, 0
            fde2_end:
            .long 0
            "
        );
        compile(&format!("{name}.o"), "-xassembler", &source)
    };
    let image = link(&[&object("one"), &object("two")], &[]).unwrap();
    let (gone, one, two) =
        (address_of(&image, "gone"), address_of(&image, "one"), address_of(&image, "two"));
    assert_eq!(covered(&image), [(gone, gone + 1), (one, one + 2), (two, two + 2)]);
}

#[test]
fn both_section_types_are_unwind_records() {
    for kind in ["@progbits", "@unwind"] {
        let source = format!(
            ".text\n.globl f\nf: ret\n.section .eh_frame,\"a\",{kind}\n
            cie: .long 16, 0\n.byte 1\n.asciz \"zR\"\n.byte 1, 0x78, 16, 1, 0x1b, 0, 0, 0\n
            .long 12, . - cie\n.long f - ., 1\n.long 0\n"
        );
        let image = link(&[&compile("f.o", "-xassembler", &source)], &[]).unwrap();
        let f = address_of(&image, "f");
        assert_eq!(covered(&image), [(f, f + 1)]);
    }
}

#[test]
fn executable_records_are_refused() {
    let source = ".section .eh_frame,\"ax\",@progbits\n.long 0\n";
    let bytes = compile_bytes("bad.o", "-xassembler", source);
    let error = failure(ObjectFile::parse("bad.o", bytes)).to_string();
    assert!(error.contains("executable") && error.contains("bad.o"), "{error}");
}

#[test]
fn damaged_records_are_refused() {
    let broken = [
        (".long 100, 0", "length 0x64"),
        (".long 2, 0", "length 0x2"),
        (".long 4, 77", "no CIE"),
        (".long 0xffffffff, 0, 0, 0", "64-bit format"),
        (".long 8, 0, 0\n.byte 1, 2, 3", "cut off"),
        ("x: .long 4, 0\n.reloc x + 4, R_X86_64_PC32, f", "changes the length"),
        (".long 8, 0\nx: .long 0, 4, 0\n.reloc x + 2, R_X86_64_64, f", "crosses"),
    ];
    for (records, wanted) in broken {
        let source = format!(".text\nf: ret\n.section .eh_frame,\"a\",@progbits\n{records}\n");
        let bytes = compile_bytes("bad.o", "-xassembler", &source);
        let error = failure(ObjectFile::parse("bad.o", bytes)).to_string();
        assert!(error.contains(wanted) && error.contains("bad.o"), "{wanted}: {error}");
    }
}
