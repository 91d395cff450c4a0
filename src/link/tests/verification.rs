//! The checker: mistakes planted in every step of a link, and every byte of an image changed.

use super::*;
use crate::Layout;
use crate::arch::edge::Edge;
use crate::place::block::Content;
use crate::read::parsed::{Parsed, Place, Role, Routine, Section};
use crate::verify::WRONG_IMAGE;
use crate::verify::link_map::LinkMap;
use crate::verify::{Verified, verify};

/// A little of everything, in assembler so that its bytes are known.
const MAIN: &str = "
    .globl main, shared_value, table, weak_one, start_one, set_bounds
    .hidden start_one
    .section .text.dup,\"axG\",@progbits,dup,comdat
    .weak dup
    .type dup, @function
    dup: .cfi_startproc
    nop
    ret
    .cfi_endproc
    .text
    .type main, @function
    main: .cfi_startproc
    call dup
    call far_one
    call far_two
    call *far_three@GOTPCREL(%rip)
    movq near_one@GOTPCREL(%rip), %rax
    jmp *near_one@GOTPCREL(%rip)
    cmpq far_one@GOTPCREL(%rip), %rax
    cmpq far_two@GOTPCREL(%rip), %rax
    leaq table+24(%rip), %rcx
    movl shared_value(%rip), %eax
    ret
    .cfi_endproc
    start_one: .cfi_startproc
    incl counter(%rip)
    ret
    .cfi_endproc
    .weak weak_one
    weak_one: ret
    threads: .byte 0x66
    leaq counted@tlsgd(%rip), %rdi
    .word 0x6666
    rex64
    call __tls_get_addr@PLT
    leaq zeroed@tlsld(%rip), %rdi
    call *__tls_get_addr@GOTPCREL(%rip)
    leaq zeroed@dtpoff(%rax), %rax
    movq counted@gottpoff(%rip), %r9
    addq zeroed@gottpoff(%rip), %r12
    addq zeroed@gottpoff(%rip), %r13
    cmpq counted@gottpoff(%rip), %rdx
    leaq zeroed@tlsdesc(%rip), %rax
    call *zeroed@tlscall(%rax)
    movl %fs:zeroed@tpoff+4, %eax
    ret
    .section .tdata,\"awT\",@progbits
    .balign 8
    counted: .quad main
    .section .tbss,\"awT\",@nobits
    .balign 32
    zeroed: .zero 40
    .section .rodata
    .balign 32
    text: .asciz \"some constant bytes\"
    .data
    .balign 16
    table: .quad main, dup, text+5, counter, other, missing
    set_bounds: .quad __start_set, __stop_set, _GLOBAL_OFFSET_TABLE_, __dso_handle
    shared_value: .long 7
    .long text - .
    .weak missing
    .comm counter, 24, 32
    .section set,\"aw\"
    .quad 1, 2
    .bss
    .balign 64
    .zero 100
    .section .init_array,\"aw\",@init_array
    .quad start_one, main
    .section .ctors,\"aw\",@progbits
    .quad main, start_one
    .section .fini_array.00200,\"aw\",@fini_array
    .quad start_one
    .section .init,\"ax\"
    call start_one
    .section .fini,\"ax\"
    call start_one
    call weak_one
";

const OTHER: &str = "
    .globl other, weak_one
    .section .text.dup,\"axG\",@progbits,dup,comdat
    .weak dup
    .type dup, @function
    dup: .cfi_startproc
    nop
    nop
    ret
    .cfi_endproc
    .text
    .type other, @function
    other: .cfi_startproc
    call main
    call dup
    leaq counter(%rip), %rax
    ret
    .cfi_endproc
    weak_one: ret
    .section .text.odd,\"ax\"
    .byte 1, 2, 3, 4, 5
    .section .text.wide,\"ax\"
    .balign 64
    wide: nop
    .comm counter, 16, 64
    .section set,\"aw\"
    .quad wide
    .section .init_array.00100,\"aw\",@init_array
    .quad other
    .section .fini_array.00100,\"aw\",@fini_array
    .quad other
    .section .init,\"ax\"
    .balign 8
    call other
    .section .bss.one,\"aw\",@nobits
    one: .zero 8
    .section .bss.two,\"aw\",@nobits
    two: .zero 8
";

const OUTSIDE: [(&str, u64); 4] =
    [("far_one", FAR), ("far_two", FAR + 16), ("far_three", FAR + 32), ("near_one", NEAR)];

/// The step in which a mistake is planted.
#[derive(Clone, Copy)]
enum Plant {
    /// In what was parsed of the first or the second object.
    Read(usize, fn(&mut Parsed)),
    Layout(fn(&mut Layout)),
    Image(fn(&mut Image)),
}

/// Links with a planted mistake, and checks the image.
fn attempt(files: &[Vec<u8>; 2], plant: Option<Plant>) -> std::result::Result<Verified, String> {
    let mut objects = ["main.o", "other.o"];
    let mut objects = objects.each_mut().map(|name| {
        let file = if *name == "main.o" { &files[0] } else { &files[1] };
        ObjectFile::parse(*name, file.clone()).unwrap()
    });
    if let Some(Plant::Read(object, plant)) = plant {
        plant(objects[object].parsed_mut());
    }
    let mut graph = graph(&[&objects[0], &objects[1]]).unwrap();
    for (name, address) in OUTSIDE {
        graph.define_external(name, ExecutorAddr::new(address));
    }
    let mut layout = graph.layout().unwrap();
    if let Some(Plant::Layout(plant)) = plant {
        plant(&mut layout);
    }
    let (mut image, addresses) =
        layout.compute(BASES.map(ExecutorAddr::new), THREAD_OFFSET).unwrap();
    if let Some(Plant::Image(plant)) = plant {
        plant(&mut image);
    }
    verify(&LinkMap::new(&layout, &addresses, BASES), &image)
}

fn files() -> [Vec<u8>; 2] {
    [MAIN, OTHER].map(|source| compile_bytes("part.o", "-xassembler", source))
}

fn section<'a>(parsed: &'a mut Parsed, name: &str) -> &'a mut Section {
    let bytes = parsed.bytes.clone();
    parsed.sections.iter_mut().find(|section| section.name.text(&bytes) == name).unwrap()
}

/// The relocations of the section with this name.
fn edges<'a>(parsed: &'a mut Parsed, name: &str) -> &'a mut [Edge] {
    let range = section(parsed, name).edges.clone();
    &mut parsed.edges[range.start as usize..range.end as usize]
}

/// Forgets the relocations of a section behind the first `count`.
fn keep(parsed: &mut Parsed, name: &str, count: u32) {
    let edges = &mut section(parsed, name).edges;
    edges.end = edges.start + count;
}

/// The symbol with this name.
fn symbol(parsed: &Parsed, name: &str) -> usize {
    parsed.symbols.iter().position(|symbol| symbol.name.text(&parsed.bytes) == name).unwrap()
}

fn offset_of(layout: &mut Layout, wanted: impl Fn(&Content) -> bool) -> &mut u64 {
    let block = layout.blocks.iter_mut().find(|block| wanted(&block.content)).unwrap();
    &mut block.offset
}

#[test]
fn a_sound_link_is_found_sound() {
    let verified = attempt(&files(), None).unwrap();
    assert_eq!((verified.entangled, verified.functions), (0, 9), "{verified:?}");
    // Two records for `main.o` and its COMDAT function, one CIE in each object, and the records of the others.
    assert_eq!(verified.records, 6, "{verified:?}");
    assert!(verified.fields > 30 && verified.names > 5, "{verified:?}");
}

#[test]
fn planted_mistakes_are_found() {
    use Plant::{Image, Layout, Read};
    let plants: [(&str, Plant); 42] = [
        // Reading: what was parsed is not what the file says.
        ("a wrong addend", Read(0, |p| edges(p, ".text")[3].addend += 1)),
        ("a wrong addend of a load", Read(0, |p| edges(p, ".text")[6].addend += 8)),
        ("a wrong addend in data", Read(0, |p| edges(p, ".data")[2].addend -= 1)),
        ("a field four bytes off", Read(0, |p| edges(p, ".text")[8].offset += 4)),
        ("a field four bytes off in data", Read(0, |p| edges(p, ".data")[1].offset -= 4)),
        (
            "a swapped symbol",
            Read(0, |p| {
                let other = edges(p, ".text")[1].target;
                edges(p, ".text")[2].target = other;
            }),
        ),
        (
            "swapped symbols in data",
            Read(0, |p| {
                let edges = edges(p, ".data");
                (edges[0].target, edges[1].target) = (edges[1].target, edges[0].target);
            }),
        ),
        ("a forgotten relocation", Read(0, |p| keep(p, ".data", 3))),
        ("a forgotten branch", Read(1, |p| keep(p, ".text", 1))),
        (
            "a wrong formula",
            Read(0, |p| {
                let kind = edges(p, ".data").last().unwrap().kind;
                edges(p, ".data")[0].kind = kind;
            }),
        ),
        (
            "a symbol that is somewhere else",
            Read(0, |p| {
                let table = symbol(p, "table");
                p.symbols[table].value += 8;
            }),
        ),
        (
            "a symbol of another section",
            Read(0, |p| {
                let (table, main) = (symbol(p, "table"), symbol(p, "main"));
                p.symbols[table].place = p.symbols[main].place;
            }),
        ),
        (
            "a strong name taken for a weak one",
            Read(1, |p| {
                let name = symbol(p, "weak_one");
                p.symbols[name].weak = true;
            }),
        ),
        (
            "a hidden name shown",
            Read(0, |p| {
                let name = symbol(p, "start_one");
                p.symbols[name].hidden = false;
            }),
        ),
        (
            "a name hidden",
            Read(0, |p| {
                let name = symbol(p, "table");
                p.symbols[name].hidden = true;
            }),
        ),
        (
            "a common symbol too small for all",
            Read(0, |p| {
                let name = symbol(p, "counter");
                p.symbols[name].place = Place::Undefined;
            }),
        ),
        (
            "a section taken for a duplicate",
            Read(1, |p| {
                let odd = p.sections.iter().position(|s| s.name.text(&p.bytes) == ".text.odd");
                p.members.push(u32::try_from(odd.unwrap()).unwrap());
                p.groups[0].sections.end += 1;
            }),
        ),
        ("less alignment", Read(1, |p| section(p, ".text.wide").alignment = 1)),
        ("data among constants", Read(0, |p| section(p, ".data").prot = Prot::Constants)),
        ("constants among code", Read(0, |p| section(p, ".rodata").prot = Prot::Code)),
        ("less alignment of thread-locals", Read(0, |p| section(p, ".tbss").alignment = 1)),
        ("zeroes of threads without room", Read(0, |p| section(p, ".tbss").bytes = 8)),
        (
            "a thread-local that is somewhere else",
            Read(0, |p| {
                let zeroed = symbol(p, "zeroed");
                p.symbols[zeroed].value += 8;
            }),
        ),
        ("zero fill that overlaps", Read(1, |p| section(p, ".bss.one").bytes = 1)),
        (
            "the bytes of another section",
            Read(1, |p| {
                let content = section(p, ".text.wide").content.clone();
                section(p, ".text.odd").content = content.map(|range| range.start..range.start + 5);
            }),
        ),
        (
            "initialisers in another order",
            Read(1, |p| {
                let reversed = false;
                section(p, ".init_array.00100").role = Role::InitArray { turn: 140_000, reversed };
            }),
        ),
        (
            "an old array that is not turned around",
            Read(0, |p| {
                let role = Role::InitArray { turn: 131_072, reversed: false };
                section(p, ".ctors").role = role;
            }),
        ),
        ("a fragment outside of its routine", Read(0, |p| section(p, ".init").role = Role::Plain)),
        (
            "a fragment in the other routine",
            Read(1, |p| section(p, ".init").role = Role::Fragment(Routine::Fini)),
        ),
        (
            "an unwind record lost",
            Read(0, |p| {
                let Role::EhFrame(records) = &mut section(p, ".eh_frame").role else { panic!() };
                records.pop();
            }),
        ),
        // Layout.
        ("swapped entries of the GOT", Layout(|l| l.tables.entries.swap(0, 1))),
        ("swapped stubs", Layout(|l| l.tables.stubs.swap(0, 1))),
        (
            "sections that overlap",
            Layout(|l| *offset_of(l, |c| matches!(c, Content::Section { input: 1, .. })) = 0),
        ),
        (
            "a common symbol that is not aligned",
            Layout(|l| *offset_of(l, |c| matches!(c, Content::Common { .. })) += 8),
        ),
        ("a bound that is elsewhere", Layout(|l| l.placed.values_mut().for_each(|at| at.1 += 8))),
        // The image.
        ("thread-locals left out", Image(|i| i.threads = None)),
        ("too few thread-locals", Image(|i| i.threads.as_mut().unwrap().bytes -= 8)),
        ("thread-locals that are elsewhere", Image(|i| i.threads.as_mut().unwrap().offset += 8)),
        ("initialisers left out", Image(|i| i.init = None)),
        ("functions of the end run at start", Image(|i| i.fini = i.init)),
        ("no unwind records", Image(|i| i.eh_frame = None)),
        ("names lost", Image(|i| i.symbols = crate::SymbolTable::default())),
    ];
    let files = files();
    for (what, plant) in plants {
        let fault = attempt(&files, Some(plant)).expect_err(what);
        println!("{what}: {fault}");
    }
    println!("planted mistakes: {} cases", plants.len());
}

#[test]
fn no_byte_of_an_image_can_change_unseen() {
    let objects = files().map(|file| ObjectFile::parse("part.o", file).unwrap());
    let mut graph = graph(&[&objects[0], &objects[1]]).unwrap();
    for (name, address) in OUTSIDE {
        graph.define_external(name, ExecutorAddr::new(address));
    }
    let layout = graph.layout().unwrap();
    let (mut image, addresses) =
        layout.compute(BASES.map(ExecutorAddr::new), THREAD_OFFSET).unwrap();
    let map = LinkMap::new(&layout, &addresses, BASES);
    assert!(verify(&map, &image).is_ok());
    let mut used = [0_usize; 3];
    for block in &layout.blocks {
        if block.rank.is_stored() {
            used[block.prot.index()] += usize::try_from(block.bytes).unwrap();
        }
    }
    for stripe in 0..3 {
        let mut seen = 0;
        for at in 0..image.stripes[stripe].len() {
            image.stripes[stripe][at] ^= 0x11;
            seen += usize::from(verify(&map, &image).is_err());
            image.stripes[stripe][at] ^= 0x11;
        }
        // The GOT entry of `near_one` is unused, and stubs end with two bytes of padding.
        let unused = [2 * layout.tables.stubs.len(), 8, 0][stripe];
        assert_eq!(seen, used[stripe] - unused, "stripe {stripe}");
    }
}

#[test]
fn every_link_of_a_debug_build_is_checked() {
    let mut object = ObjectFile::parse("main.o", files()[1].clone()).unwrap();
    edges(object.parsed_mut(), ".text")[1].addend += 1;
    let externals = [("main", NEAR), ("dup", NEAR)];
    let link = || graph(&[&object]).unwrap();
    let error = failure(finish(link(), &externals)).to_string();
    assert!(error.contains(WRONG_IMAGE) && error.contains("main.o: section `.text`"), "{error}");
}
