//! The functions that run at start and at the end, and their order.

use crate::addr::AddrRange;

use crate::tests::*;

/// The functions in an array, by name.
fn names(image: &Image, range: Option<AddrRange>) -> Vec<String> {
    let Some(range) = range else { return Vec::new() };
    assert_eq!(range.start.get() % 8, 0);
    assert_eq!(stripe_of(image, range.start.get()), Some(Prot::Constants));
    let entries = (range.start.get()..range.end.get()).step_by(8);
    let name = |entry: u64| {
        let function = ExecutorAddr::new(u64_at(image, entry));
        let place = image.symbols.locate(function).unwrap();
        place.split_once('+').unwrap().0.to_owned()
    };
    entries.map(name).collect()
}

/// Defines functions and puts them into sections: "name section" per line.
fn object(name: &str, entries: &[(&str, &str)]) -> ObjectFile {
    let mut source = String::new();
    for (function, section) in entries {
        let kind = match section.split('.').nth(1).unwrap() {
            "init_array" => "@init_array",
            "fini_array" => "@fini_array",
            "preinit_array" => "@preinit_array",
            _ => "@progbits",
        };
        source += &format!(
            ".text\n.type {function}, @function\n{function}: ret\n.size {function}, 1\n
            .section {section},\"aw\",{kind}\n.quad {function}\n"
        );
    }
    compile(name, "-xassembler", &source)
}

#[test]
fn initialisers_run_by_priority_and_then_by_object() {
    let a = object(
        "a.o",
        &[
            ("a_plain", ".init_array"),
            ("a_900", ".init_array.00900"),
            ("a_100", ".init_array.00100"),
            ("a_plain2", ".init_array"),
            ("a_odd", ".init_array.a.00001"),
            ("a_end", ".fini_array"),
            ("a_end_100", ".fini_array.00100"),
        ],
    );
    let b = object(
        "b.o",
        &[
            ("b_plain", ".init_array"),
            ("b_100", ".init_array.00100"),
            ("b_first", ".preinit_array"),
            ("b_end", ".fini_array"),
        ],
    );
    let image = link(&[&a, &b], &[]).unwrap();
    let order = ["b_first", "a_100", "b_100", "a_900", "a_plain", "a_plain2", "a_odd", "b_plain"];
    assert_eq!(names(&image, image.init), order);
    assert_eq!(names(&image, image.fini), ["a_end_100", "a_end", "b_end"]);
}

#[test]
fn old_style_constructors_are_turned_around() {
    // `.ctors` run from the last to the first, and its priorities count down from 65535.
    let old = object(
        "old.o",
        &[
            ("third", ".ctors"),
            ("second", ".ctors"),
            ("early", ".ctors.65435"),
            ("bye1", ".dtors"),
            ("bye2", ".dtors"),
            ("bye_late", ".dtors.65435"),
        ],
    );
    let new =
        object("new.o", &[("earliest", ".init_array.00099"), ("early2", ".init_array.00101")]);
    let image = link(&[&old, &new], &[]).unwrap();
    let order = ["earliest", "early", "early2", "second", "third"];
    assert_eq!(names(&image, image.init), order);
    assert_eq!(names(&image, image.fini), ["bye_late", "bye2", "bye1"]);
}

/// The order of GNU ld.
#[test]
fn old_style_constructors_come_first_in_their_priority() {
    let new = object(
        "new.o",
        &[("third", ".init_array.00150"), ("bye3", ".fini_array.00150"), ("fourth", ".init_array")],
    );
    let old = object(
        "old.o",
        &[
            ("second", ".ctors.65385"),
            ("bye2", ".dtors.65385"),
            ("first", ".ctors.65386"),
            ("fifth", ".ctors"),
        ],
    );
    let image = link(&[&new, &old], &[]).unwrap();
    assert_eq!(names(&image, image.init), ["first", "second", "third", "fourth", "fifth"]);
    assert_eq!(names(&image, image.fini), ["bye2", "bye3"]);
}

#[test]
fn compilers_attributes_end_up_there() {
    let source = "
        __attribute__((constructor)) static void start(void) { asm volatile(\"nop\"); }
        __attribute__((constructor(150))) static void early(void) { asm volatile(\"nop\"); }
        __attribute__((destructor)) static void end(void) { asm volatile(\"nop\"); }
    ";
    let image = link(&[&compile("a.o", "-O1", source)], &[]).unwrap();
    assert_eq!(names(&image, image.init), ["early", "start"]);
    assert_eq!(names(&image, image.fini), ["end"]);
}

#[test]
fn without_initialisers_there_is_no_array() {
    let image = link(&[&compile("a.o", "-O1", "int x = 1;")], &[]).unwrap();
    assert_eq!((image.init, image.fini, image.eh_frame), (None, None, None));
}

#[test]
fn arrays_that_are_none_are_refused() {
    let broken = [
        (".section .init_array,\"aw\",@init_array\n.byte 1, 2, 3", "3 bytes"),
        (
            ".section .ctors,\"aw\",@progbits\nx: .quad 0, 0\n.reloc x + 4, R_X86_64_64, .text",
            "crosses",
        ),
        (".section .init,\"ax\",@progbits\n.globl _init\n_init: nop", "crti.o"),
        (".section .preinit_array,\"ax\",@preinit_array\n.quad 0", "executable"),
        (".section .tdata,\"axT\",@progbits\n.quad 0", "executable"),
    ];
    for (source, wanted) in broken {
        let bytes = compile_bytes("bad.o", "-xassembler", &format!("{source}\n"));
        let error = failure(ObjectFile::parse("bad.o", bytes)).to_string();
        assert!(error.contains(wanted), "{wanted}: {error}");
    }
}
