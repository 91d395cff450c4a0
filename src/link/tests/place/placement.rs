//! Stripes, alignment, zero fill, and the names that the linker defines.

use crate::error::ErrorKind;
use crate::tests::*;

#[test]
fn sections_go_to_the_stripe_of_their_protection() {
    let source = "
        int data = 1; int bss; const int constant = 2; static int local = 3;
        int *const relro = &data; int *pointer = &local; const char *text = \"text\";
        int code(void) { return 4; }
    ";
    let image = link(&[&compile("a.o", "-fPIC", source)], &[]).unwrap();
    let prot = |name| stripe_of(&image, address_of(&image, name)).unwrap();
    for (name, wanted) in [
        ("data", Prot::Data),
        ("bss", Prot::Data),
        ("pointer", Prot::Data),
        ("constant", Prot::Constants),
        ("relro", Prot::Constants),
        ("code", Prot::Code),
    ] {
        assert_eq!(prot(name), wanted, "{name}");
    }
    let text = u64_at(&image, address_of(&image, "text"));
    assert_eq!(stripe_of(&image, text), Some(Prot::Constants));
    assert_eq!(&bytes_at(&image, text)[..5], b"text\0");
    assert_eq!(u64_at(&image, address_of(&image, "relro")), address_of(&image, "data"));
}

#[test]
fn alignment_is_kept_and_gaps_hold_nothing() {
    let source = |n: u32| {
        format!(
            "
            .globl f{n}, d{n}, r{n}
            .text
            .balign 64
            f{n}: ret
            .data
            .balign 4096
            d{n}: .byte {n}
            .section .rodata
            .balign 32
            r{n}: .byte {n}
            "
        )
    };
    let one = compile("1.o", "-xassembler", &source(1));
    let two = compile("2.o", "-xassembler", &source(2));
    let image = link(&[&one, &two], &[]).unwrap();
    for (name, alignment) in [("f", 64), ("d", 4096), ("r", 32)] {
        for n in [1, 2] {
            assert_eq!(address_of(&image, &format!("{name}{n}")) % alignment, 0, "{name}{n}");
        }
    }
    let gap = |from: &str, to: &str| {
        let (from, to) = (address_of(&image, from) + 1, address_of(&image, to));
        bytes_at(&image, from)[..usize::try_from(to - from).unwrap()].to_vec()
    };
    assert!(gap("f1", "f2").iter().all(|byte| *byte == 0xcc));
    assert!(gap("d1", "d2").iter().all(|byte| *byte == 0));
    assert!(gap("r1", "r2").iter().all(|byte| *byte == 0));
}

#[test]
fn zero_fill_is_not_stored_but_counted() {
    let source = "char big[1 << 24]; int data = 7;";
    let object = compile("a.o", "", source);
    let layout = graph(&[&object]).unwrap().layout().unwrap();
    let bytes = layout.bytes();
    assert!(bytes[Prot::Data.index()] >= (1 << 24) + 4);
    let image = layout.fixup(BASES.map(ExecutorAddr::new), THREAD_OFFSET).unwrap();
    assert_eq!(image.bytes, bytes);
    assert!(image.stripes[Prot::Data.index()].len() < 4096);
    assert_eq!(stripe_of(&image, address_of(&image, "big") + (1 << 24) - 1), Some(Prot::Data));
}

#[test]
fn blocks_keep_their_order_and_zero_fill_comes_last() {
    let source = |n: u32| format!("char zero{n}[8]; long first{n} = {n}, second{n} = {n};");
    let flags = "-fdata-sections -fno-common";
    let objects = [1, 2, 3].map(|n| compile(&format!("{n}.o"), flags, &source(n)));
    let image = link(&objects.each_ref(), &[]).unwrap();
    let at = |name: &str, n: u32| address_of(&image, &format!("{name}{n}"));
    let stored: Vec<u64> = (1..=3).flat_map(|n| [at("first", n), at("second", n)]).collect();
    let zeroes: Vec<u64> = (1..=3).map(|n| at("zero", n)).collect();
    assert!(stored.is_sorted() && zeroes.is_sorted(), "{stored:x?}, {zeroes:x?}");
    assert!(stored[5] < zeroes[0], "{stored:x?}, {zeroes:x?}");
    let end = BASES[Prot::Data.index()] + image.stripes[Prot::Data.index()].len() as u64;
    assert!(stored[5] < end && zeroes[0] >= end);
}

#[test]
fn nothing_takes_no_room() {
    let object = compile("nothing.o", "-fno-asynchronous-unwind-tables", "");
    let layout = graph(&[&object]).unwrap().layout().unwrap();
    assert_eq!(layout.bytes(), [0; 3]);
    let image = layout.fixup(BASES.map(ExecutorAddr::new), THREAD_OFFSET).unwrap();
    assert!(image.stripes.iter().all(Vec::is_empty) && image.eh_frame.is_none());
}

#[test]
fn zero_fill_with_relocations_is_stored() {
    // Assemblers do not make such sections, but compilers' own object writers do.
    let source = ".globl x\n.section .zeros,\"aw\",@progbits\n.quad 0\nx: .quad 0, x\n";
    let mut bytes = compile_bytes("a.o", "-xassembler", source);
    let header = section_header(&bytes, ".zeros");
    bytes[header + 4] = 8; // SHT_NOBITS
    let object = ObjectFile::parse("a.o", bytes.clone()).unwrap();
    let image = link(&[&object], &[]).unwrap();
    let x = address_of(&image, "x");
    assert_eq!((u64_at(&image, x), u64_at(&image, x + 8)), (0, x));

    bytes[header + 32..header + 40].copy_from_slice(&(1_u64 << 40).to_le_bytes());
    let object = ObjectFile::parse("a.o", bytes.clone()).unwrap();
    let error = failure(link(&[&object], &[])).to_string();
    assert!(error.contains("1099511627776 bytes of zero fill"), "{error}");
}

/// N21: UBSan's check of a function's type reads the 8 bytes before the function.
#[test]
fn eight_bytes_before_the_first_function_are_of_the_link() {
    for flags in ["-O2", "-O2 -falign-functions=64", "-O2 -ffunction-sections"] {
        let object = compile("a.o", flags, "int f(void) { return 1; } int g(void) { return 2; }");
        let image = link(&[&object], &[]).unwrap();
        for function in ["f", "g"] {
            assert!(address_of(&image, function) >= BASES[0] + 8, "{function}, {flags}");
        }
    }
}

#[test]
fn code_does_not_start_at_a_multiple_of_4_gib() {
    let image = link(&[&compile("a.o", "", "int f(void) { return 1; }")], &[]).unwrap();
    assert_eq!(BASES[0] & 0xffff_ffff, 0, "the bases of this test are such multiples");
    assert_ne!(address_of(&image, "f") & 0xffff_ffff, 0);
}

#[test]
fn sections_named_like_variables_have_bounds() {
    let part = |name: &str, section: &str| {
        let source = format!(
            "static int {name} __attribute__((section(\"{section}\"), used)) = 1;
            extern int __start_{section}[], __stop_{section}[];
            int *{name}_start = __start_{section}, *{name}_stop = __stop_{section};"
        );
        compile(&format!("{name}.o"), "", &source)
    };
    let objects = [part("a", "plugins"), part("b", "others"), part("c", "plugins")];
    let graph = graph(&objects.each_ref()).unwrap();
    assert_eq!(graph.undefined(), []);
    let image = finish(graph, &[]).unwrap();
    let bound = |name: &str| u64_at(&image, address_of(&image, name));
    assert_eq!(bound("a_start"), bound("c_start"));
    assert_eq!(bound("a_stop") - bound("a_start"), 8, "both parts and nothing else");
    assert_eq!(bound("b_stop") - bound("b_start"), 4);
    for at in [bound("a_start"), bound("a_start") + 4, bound("b_start")] {
        assert_eq!(i32_at(&image, at), 1);
    }
    let lonely = compile("d.o", "", "extern int __start_nothing[]; int *p = __start_nothing;");
    assert_eq!(failure(link(&[&lonely], &[])).symbols(), ["__start_nothing"]);
}

#[test]
fn the_dso_handle_is_made_unless_it_is_given() {
    let source = "extern void *__dso_handle __attribute__((visibility(\"hidden\")));
        void **handle = &__dso_handle;";
    let object = compile("a.o", "", source);
    let graph = graph(&[&object]).unwrap();
    assert_eq!(graph.undefined(), []);
    let image = finish(graph, &[]).unwrap();
    let handle = u64_at(&image, address_of(&image, "handle"));
    assert_eq!(stripe_of(&image, handle), Some(Prot::Data));
    assert_eq!(address_of(&image, "__dso_handle"), handle);
    assert!(image.symbols.get("__dso_handle").is_none(), "it is not for others");

    let image = link(&[&object], &[("__dso_handle", FAR)]).unwrap();
    assert_eq!(u64_at(&image, address_of(&image, "handle")), FAR);
}

#[test]
fn bases_have_to_be_pages() {
    let layout = || graph(&[&compile("a.o", "", "int x = 1;")]).unwrap().layout().unwrap();
    let error = failure(layout().fixup([0x1000, 0x2000, 0x3008].map(ExecutorAddr::new), 0));
    assert!(error.kind() == ErrorKind::InvalidArgument, "{error}");
    let last_page = u64::MAX - 4095;
    assert!(layout().fixup([0x1000, 0x2000, last_page].map(ExecutorAddr::new), 0).is_ok());
}

#[test]
fn places_in_code_have_names() {
    let source = "
        static __attribute__((noinline)) int inner(int x) { return x * 3; }
        int outer(int x) { return inner(x) + 1; }
    ";
    let c = compile("c.o", "-O0", source);
    let assembly = "
        .text
        .globl sized
        .type sized, @function
        sized: nop
        label: nop
        nop
        .size sized, . - sized
        .globl bare
        bare: nop
        nop
    ";
    let s = compile("s.o", "-xassembler", assembly);
    let image = link(&[&c, &s], &[]).unwrap();
    let locate = |address: u64| image.symbols.locate(ExecutorAddr::new(address));
    let at = |name: &str| address_of(&image, name);
    assert_eq!(locate(at("outer") + 5).unwrap(), "outer+0x5 (c.o)");
    let inner = (BASES[0]..at("outer")).rev().find_map(locate).unwrap();
    assert!(inner.starts_with("inner+"), "{inner}");
    assert_eq!(locate(at("sized") + 2).unwrap(), "sized+0x2 (s.o)", "not the label inside");
    assert_eq!(locate(at("bare") + 1).unwrap(), "bare+0x1 (s.o)");
    assert_eq!(locate(at("bare") + 2), None, "past the end of the section");
    assert_eq!(locate(BASES[0] - 1), None);
    assert!(image.symbols.get("outer").unwrap().callable);
    assert!(image.symbols.iter().any(|(name, _)| name == "sized"));
}

#[test]
fn stripes_start_as_their_widest_block_asks() {
    let source = ".data\n.byte 1\n.balign 16384\n.globl x\nx: .byte 2\n.comm c,1,65536\n";
    let object = compile("wide.o", "-xassembler", source);
    let layout = || graph(&[&object]).unwrap().layout().unwrap();
    assert_eq!(layout().alignments(), [4096, 4096, 65536]);
    let image = layout().fixup(BASES.map(ExecutorAddr::new), 0).unwrap();
    assert_eq!((address_of(&image, "x") % 16384, address_of(&image, "c") % 65536), (0, 0));
    assert_eq!(bytes_at(&image, address_of(&image, "x"))[0], 2);

    let [code, constants, data] = BASES;
    let starts = [code, constants, data + 4096].map(ExecutorAddr::new);
    let error = failure(layout().fixup(starts, 0)).to_string();
    assert!(error.contains("65536"), "{error}");
}

#[test]
fn writable_code_and_wide_alignment_are_refused() {
    let broken = [
        (".section .bad,\"awx\",@progbits\nnop", "writable and executable"),
        (".data\n.balign 131072\n.byte 1", "131072"),
        (".section .tdata,\"awT\",@progbits\n.balign 8192\n.byte 1", "8192"),
        (".section .bad,\"ax\",@nobits\n.zero 4", "NOBITS"),
    ];
    for (source, wanted) in broken {
        let bytes = compile_bytes("bad.o", "-xassembler", &format!("{source}\n"));
        let error = failure(ObjectFile::parse("bad.o", bytes)).to_string();
        assert!(error.contains(wanted) && error.contains("bad.o"), "{wanted}: {error}");
    }
}

#[test]
fn sections_that_describe_an_object_are_left_out() {
    let source = "int f(int x) { return x + 1; }";
    let plain = link(&[&compile("a.o", "-O1 -fcf-protection=none", source)], &[]).unwrap();
    // Debug information, also compressed, and the note about the processor's protections.
    let described = [
        ("-g3", ".debug_info"),
        ("-g3 -gz", ".debug_info"),
        ("-g3 -gz=zlib-gnu", ".zdebug_info"),
        ("-Wa,-mx86-used-note=yes", ".note.gnu.property"),
    ];
    for (flags, section) in described {
        let bytes = compile_bytes("a.o", &format!("-O1 -fcf-protection=none {flags}"), source);
        let header = section_header(&bytes, section);
        let compressed = u64::from_le_bytes(*bytes[header + 8..].first_chunk().unwrap()) & 0x800;
        assert_eq!(compressed != 0, flags.ends_with("-gz"), "{flags}");
        let image = link(&[&ObjectFile::parse("a.o", bytes).unwrap()], &[]).unwrap();
        assert_eq!(plain.stripes, image.stripes, "{flags}");
    }
}

#[test]
fn compressed_sections_that_are_loaded_are_refused() {
    let source = ".section .rodata.z,\"a\"\n.quad 1, 2, 3\n";
    let mut bytes = compile_bytes("z.o", "-xassembler", source);
    let flags = section_header(&bytes, ".rodata.z") + 9;
    bytes[flags] |= 0x08;
    let error = failure(ObjectFile::parse("z.o", bytes)).to_string();
    assert!(error.contains("z.o: section .rodata.z: compressed"), "{error}");
}

#[test]
fn a_partial_link_is_an_object_like_any_other() {
    let scratch = Scratch::new();
    let parts = [
        ("a.o", "inline int shared() { return 5; } int b(); int a() { return b() + shared(); }"),
        ("b.o", "inline int shared() { return 5; } int b() { return shared(); } int *p = new int;"),
    ];
    let mut command = Command::new("ld");
    command.current_dir(&scratch.0).args(["-r", "-o", "both.o"]);
    for (name, source) in parts {
        let bytes = compile_bytes(name, "-xc++ -O0", source);
        std::fs::write(scratch.0.join(name), bytes).unwrap();
        command.arg(name);
    }
    assert!(command.status().unwrap().success());
    let bytes = std::fs::read(scratch.0.join("both.o")).unwrap();
    let both = ObjectFile::parse("both.o", bytes).unwrap();
    let image = link(&[&both], &[("_Znwm", FAR)]).unwrap();
    assert!(image.symbols.get("_Z1av").is_some() && image.init.is_some());
    assert_eq!(image.stats.stubs, 1);
}

#[test]
fn objects_layouts_and_images_go_between_threads() {
    fn shared<T: Send + Sync + Clone>() {}
    fn sent<T: Send + Sync>() {}
    shared::<ObjectFile>();
    shared::<crate::Archive>();
    sent::<LinkGraph>();
    sent::<crate::Layout>();
    sent::<Image>();
}
