//! The bits of relocations, as GNU ld stores them, and their numbers, as GNU as writes them.

use super::*;
use crate::arch::aarch64::KINDS;
use crate::arch::edge::{EdgeKind, Formula};

/// Fields of every kind that needs no table of the linker.
pub(super) const FIELDS: &str = "
    .globl _start, data, far, v, w
    .text
    _start:
    adrp x0, data+0x1234
    adrp x0, :pg_hi21_nc:data+0x2345
    add x0, x0, :lo12:data+0x1234
    add w3, w9, :lo12:data+0xfff
    ldrb w1, [x0, :lo12:data+1]
    ldrh w1, [x0, :lo12:data+2]
    ldr w1, [x0, :lo12:data+4]
    ldr x1, [x0, :lo12:data+8]
    ldr q1, [x0, :lo12:data+16]
    str d1, [x0, :lo12:data+24]
    ldrsw x9, [x30, :lo12:data+36]
    adr x2, far+1
    ldr x3, far
    ldr q3, far+16
    b.eq far
    cbz x1, far
    cbnz w2, far+4
    tbz x1, #3, far
    tbnz x1, #63, far+8
    bl far
    b far+12
    movz x4, #:abs_g3:data
    movk x4, #:abs_g2_nc:data
    movk x4, #:abs_g1_nc:data
    movk x4, #:abs_g0_nc:data
    movz x5, #:abs_g0:small
    movz x5, #:abs_g1:middle
    movz x5, #:abs_g2:data
    movz x6, #:abs_g0_s:negative
    movz x6, #:abs_g0_s:small
    movn x6, #:abs_g1_s:middle
    movz x6, #:abs_g1_s:negative
    movz x6, #:abs_g2_s:negative
    movz x7, #:prel_g0:_start
    movz x7, #:prel_g1:data
    movz x7, #:prel_g2:data
    movk x7, #:prel_g0_nc:data
    movk x7, #:prel_g1_nc:data
    movk x7, #:prel_g2_nc:data
    movz x7, #:prel_g3:data
    add x8, x8, #:tprel_hi12:w, lsl #12
    add x8, x8, #:tprel_lo12_nc:w
    add x8, x8, #:tprel_lo12:v
    ldrb w8, [x8, #:tprel_lo12:v]
    ldrh w8, [x8, #:tprel_lo12:v]
    ldr w8, [x8, #:tprel_lo12:v]
    ldr x8, [x8, #:tprel_lo12:v]
    ldrb w8, [x8, #:tprel_lo12_nc:w]
    ldrh w8, [x8, #:tprel_lo12_nc:w]
    ldr w8, [x8, #:tprel_lo12_nc:w]
    ldr x8, [x8, #:tprel_lo12_nc:w]
    movz x8, #:tprel_g1:w
    movk x8, #:tprel_g1_nc:w
    movz x8, #:tprel_g0:w
    movk x8, #:tprel_g0_nc:w
    adrp x0, :tlsdesc:w
    ldr x1, [x0, #:tlsdesc_lo12:w]
    add x0, x0, :tlsdesc_lo12:w
    .tlsdesccall w
    blr x1
    .section .text.far, \"ax\"
    .balign 16
    far: .zero 64
    .data
    .balign 16
    data: .quad data+5
    .word small
    .hword small
    .hword 0
    .quad far - .
    .word data - .
    .hword data+9 - .
    .zero 98
    .set small, 0x1234
    .set middle, 0x12345678
    .set negative, -5
    .globl small, middle, negative
    .section .tdata, \"awT\"
    .balign 16
    v: .quad 1
    .zero 0x5018
    w: .quad 2
";

#[test]
fn gnu_ld_stores_the_same_bits() {
    if !is_here(GCC) {
        return;
    }
    let object = arm("fields.o", "-xassembler", FIELDS);
    let image = arm_link(&[&object], &[]).unwrap();
    let [start, far, data] = ["_start", "far", "data"].map(|name| address_of(&image, name));
    let script = format!(
        "SECTIONS {{ .text {start:#x} : {{ *(.text) }} .far {far:#x} : {{ *(.text.far) }}\n\
         .data {data:#x} : {{ *(.data) }} .tdata {:#x} : {{ *(.tdata) }} }}",
        data + 0x10000
    );
    let scratch = Scratch::new();
    std::fs::write(scratch.0.join("script"), script).unwrap();
    std::fs::write(scratch.0.join("fields.o"), object.bytes()).unwrap();
    succeed("aarch64-linux-gnu-ld", &["-T", "script", "-o", "linked", "fields.o"], &scratch.0);
    for (section, at) in [(".text", start), (".data", data)] {
        let arguments = ["-O", "binary", "-j", section, "linked", "bytes"];
        succeed("aarch64-linux-gnu-objcopy", &arguments, &scratch.0);
        let wanted = std::fs::read(scratch.0.join("bytes")).unwrap();
        assert!(wanted.len() > 100, "{section}");
        let words = wanted.chunks_exact(4).zip(bytes_at(&image, at).chunks_exact(4));
        for (number, (wanted, found)) in words.enumerate() {
            let line = FIELDS.lines().filter(|line| line.starts_with("    ")).nth(number + 3);
            assert_eq!(found, wanted, "{section}, word {number}, near {line:?}");
        }
    }
}

#[test]
fn gnu_as_knows_the_same_numbers_and_names() {
    if !is_here(GCC) {
        return;
    }
    let known = KINDS.iter().filter(|kind| kind.number > 256 && kind.number < 1024);
    let named: Vec<_> =
        known.filter(|kind| !UNNAMED.iter().any(|start| kind.name.starts_with(start))).collect();
    let line = |kind: &&EdgeKind| format!(".reloc ., {}, x\n.quad 0\n", kind.name);
    let source =
        format!(".data\n{}", named.iter().copied().map(|kind| line(&kind)).collect::<String>());
    let scratch = Scratch::new();
    std::fs::write(scratch.0.join("in"), source).unwrap();
    succeed(GCC, &["-xassembler", "-c", "-o", "out.o", "in"], &scratch.0);
    let printed = succeed("aarch64-linux-gnu-readelf", &["-rW", "out.o"], &scratch.0);
    let lines: Vec<&str> = printed.lines().filter(|line| line.contains("R_AARCH64")).collect();
    assert_eq!(lines.len(), named.len());
    for (line, kind) in lines.iter().zip(named) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let number = u64::from_str_radix(words[1], 16).unwrap() & 0xffff_ffff;
        assert_eq!((number, words[2]), (u64::from(kind.number), kind.name));
    }
}

/// The starts of the names that GNU as of 2022 does not know.
const UNNAMED: [&str; 9] = [
    "R_AARCH64_MOVW_GOTOFF_G",
    "R_AARCH64_GOTREL",
    "R_AARCH64_PLT32",
    "R_AARCH64_GOTPCREL32",
    "R_AARCH64_TLSLD_MOVW_G",
    "R_AARCH64_TLSLD_LD_PREL19",
    "R_AARCH64_TLSLE_LDST128",
    "R_AARCH64_TLSLD_LDST128",
    "R_AARCH64_TLS_",
];

#[test]
fn the_table_is_sorted_and_whole() {
    assert!(KINDS.windows(2).all(|pair| pair[0].number < pair[1].number));
    let supported = KINDS.iter().filter(|kind| {
        !matches!(kind.formula, Formula::Dynamic | Formula::Unsupported | Formula::Nothing)
    });
    assert_eq!(supported.count(), 85);
}
