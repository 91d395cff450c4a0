//! Links for AArch64: tables, stubs, thread-locals, and what is refused.

use super::*;
use crate::addr::AddrRange;
use crate::output::export_file::{export_file, names_file};
use crate::verify::WRONG_IMAGE;

/// A program in C++ with a little of everything.
pub(super) const SOURCE: &str = "
    extern \"C\" int far_one(int); extern \"C\" int near_one(int); extern int outside;
    template <class T> struct Sum { virtual ~Sum() {} virtual T add(T a, T b) { return a + b; } };
    thread_local int counted = 7; static thread_local long zeroed;
    struct Early { int at; Early() : at(near_one(1)) {} ~Early() { far_one(at); } } early;
    static int table[100]; const char *names[] = { \"one\", \"two\" };
    extern \"C\" int use(Sum<int> *sum, int n) {
        try { counted += far_one(n); zeroed++; } catch (int caught) { return caught; }
        return sum->add(table[n % 100], outside) + counted;
    }
    extern \"C\" int start() { Sum<int> sum; return use(&sum, 3); }
    extern \"C\" __attribute__((weak)) int weak_one() { return __builtin_popcount(zeroed); }
";

/// The names that a C++ program of libstdc++ leaves to others.
pub(super) fn others(graph: &mut LinkGraph) {
    let names: Vec<String> = graph.undefined().iter().map(|one| one.name.to_string()).collect();
    for (name, number) in names.iter().zip(0..) {
        let near = matches!(name.as_str(), "near_one" | "outside")
            || name.starts_with("_ZTVN10__cxxabiv117");
        let address = if near { NEAR } else { FAR } + 16 * number;
        graph.define_external(name, function(address));
    }
}

#[test]
fn objects_of_compilers_are_linked_and_checked() {
    let mut compilers = vec![("aarch64-linux-gnu-g++", "")];
    compilers.push(("clang", "--target=aarch64-linux-gnu"));
    for (compiler, target) in compilers {
        if !is_here(compiler) {
            continue;
        }
        for flags in [
            "-O0 -fPIC",
            "-O2 -fPIC",
            "-O2 -fno-pic",
            "-O2 -fpic -g",
            "-O2 -mcmodel=large -fno-pic",
        ] {
            if target.len() > 1 && flags.contains("large") {
                continue;
            }
            let flags = format!("{target} {flags} -xc++ -std=c++17");
            let one = cross_compile(compiler, "one.o", &flags, SOURCE);
            let two = cross_compile(compiler, "two.o", &flags, "
                template <class T> struct Sum { virtual ~Sum() {} virtual T add(T a, T b) { return a + b; } };
                int sum(Sum<int> *sum) { return Sum<int>(*sum).add(1, 2); }");
            let mut graph = arm_graph(&[&one, &two]).unwrap();
            others(&mut graph);
            // Code that is not position-independent takes addresses of variables, which must be near.
            graph.define_external("outside", ExecutorAddr::new(NEAR));
            let layout = graph.layout().unwrap();
            let bases = BASES.map(ExecutorAddr::new);
            let (image, verified) = layout
                .fixup_and_verify(bases, 16)
                .unwrap_or_else(|error| panic!("{compiler} {flags}: {error}"));
            assert!(verified.fields > 40 && verified.records > 5, "{flags}: {verified:?}");
            assert!(image.stats.stubs > 0 && verified.entangled == 0, "{:?}", image.stats);
            assert!(image.symbols.address_of("start").is_some());
        }
    }
}

#[test]
fn calls_out_of_reach_go_through_stubs() {
    if !is_here(GCC) {
        return;
    }
    let object = arm(
        "calls.o",
        "-xassembler",
        "
        .text
        .globl start
        start: bl far_one
        b far_one
        b.ne far_one
        tbz x3, #1, far_one
        bl near_one
    ",
    );
    let near = BASES[0] + (1 << 27);
    let externals = [("far_one", function(near + 32)), ("near_one", function(near + 12))];
    let image = arm_link(&[&object], &externals).unwrap();
    let start = address_of(&image, "start");
    let code = |at: u64| u32::from_le_bytes(*bytes_at(&image, at).first_chunk().unwrap());
    // bl and b
    let to = |at: u64| at + u64::from(code(at) & 0x03ff_ffff) * 4;
    let stub = to(start);
    assert_eq!(to(start + 4), stub);
    assert_eq!(code(stub), 0xd503_245f, "bti c");
    let entry = image.stats.got_entries;
    assert_eq!((image.stats.stubs, entry), (2, 2));
    // 16 and 12 bytes more than 128 MiB behind `start` and behind the call.
    assert_eq!(to(start + 16), near + 12);
    assert_eq!(code(start + 8) >> 5 & 0x7ffff, u32::try_from((stub - start - 8) / 4).unwrap());
}

#[test]
fn values_that_do_not_fit_are_errors_with_numbers() {
    if !is_here(GCC) {
        return;
    }
    let cases = [
        ("adrp x0, x", "0x7f01100", "R_AARCH64_ADR_PREL_PG_HI21", "cannot reach `x`"),
        (
            "ldr x0, [x0, :lo12:x]",
            "0x1004",
            "R_AARCH64_LDST64_ABS_LO12_NC",
            "0x1004 is not a multiple of 8",
        ),
        ("bl x + 4", "0x1000", "R_AARCH64_CALL26", "with 28 bits (addend 4)"),
        ("movz x0, #:abs_g0:x", "0x10000", "R_AARCH64_MOVW_UABS_G0", "with 16 bits"),
        ("movz x0, #:abs_g1_s:x", "0x100000000", "R_AARCH64_MOVW_SABS_G1", "with 33 bits"),
        (".word x", "0x100000000", "R_AARCH64_ABS32", "with 32 bits"),
        (".hword x", "0x10000", "R_AARCH64_ABS16", "with 16 bits"),
        (".word x - .", "0x1000", "R_AARCH64_PREL32", "with 32 bits"),
        ("adr x0, x", "0x1000", "R_AARCH64_ADR_PREL_LO21", "with 21 bits"),
    ];
    for (code, address, kind, what) in cases {
        let object = arm("fields.o", "-xassembler", &format!(".text\n{code}\n"));
        let address = u64::from_str_radix(&address[2..], 16).unwrap();
        let error = failure(arm_link(&[&object], &[("x", ExecutorAddr::new(address).into())]));
        let error = error.to_string();
        assert!(error.contains(kind) && error.contains(what), "{code}: {error}");
        assert!(error.starts_with("fields.o: section .text offset 0x0"), "{error}");
    }
}

#[test]
fn a_link_has_one_processor() {
    if !is_here(GCC) {
        return;
    }
    let arm_object = arm("arm.o", "-O1", "int f(void) { return 1; }");
    assert_eq!(arm_object.processor(), Processor::Aarch64);
    let own = compile("own.o", "-O1", "int g(void) { return 1; }");
    if own.processor() == Processor::Aarch64 {
        return;
    }
    let wanted = "is for AArch64, and own.o for x86-64: recompile one of them, because a link has one processor";
    assert_eq!(failure(graph(&[&own, &arm_object])).to_string(), format!("arm.o {wanted}"));
    let error = failure(graph(&[&arm_object])).to_string();
    assert!(error.starts_with("arm.o is for AArch64, and this link for x86-64"), "{error}");
    let error = failure(arm_graph(&[&arm_object, &own])).to_string();
    assert!(error.starts_with("own.o is for x86-64, and arm.o for AArch64"), "{error}");
    let inputs = [crate::Input::Object(&arm_object)];
    let place = |_: &crate::Layout| {
        Ok(crate::Place { bases: BASES.map(ExecutorAddr::new), thread_offset: 0 })
    };
    let image = crate::run(inputs, &crate::Options::default(), |_| Ok(None), place).unwrap();
    assert!(image.symbols.address_of("f").is_some());
}

#[test]
fn unsupported_relocations_are_refused_by_name() {
    if !is_here(GCC) {
        return;
    }
    let parse = |flags: &str, source: &str| {
        let scratch = Scratch::new();
        std::fs::write(scratch.0.join("in"), source).unwrap();
        let mut arguments: Vec<&str> = flags.split_whitespace().collect();
        arguments.extend(["-c", "-o", "out.o", "in"]);
        succeed(GCC, &arguments, &scratch.0);
        failure(ObjectFile::parse("a.o", std::fs::read(scratch.0.join("out.o")).unwrap()))
            .to_string()
    };
    let error = parse("-xassembler", ".text\nadr x0, :tlsgd:x\n");
    let wanted = "R_AARCH64_TLSGD_ADR_PREL21 is not supported; compile with -mtls-dialect=desc";
    assert!(error.contains(wanted), "{error}");
    let call = "adrp x0, :tlsgd:x\nadd x0, x0, :tlsgd_lo12:x\nbl __tls_get_addr\nnop\n";
    let unsound =
        [("x0, x0", "x0, x1"), ("nop", "ret"), ("bl __tls", "bl __get"), ("12:x", "12:y")];
    for (from, to) in unsound {
        let error = parse("-xassembler", &format!(".text\n{}", call.replace(from, to)));
        assert!(error.contains("a call of `__tls_get_addr` and `nop`"), "{to}: {error}");
    }
    let error = parse("-xassembler", ".text\n.reloc 0, R_AARCH64_CALL26, x\n.word 0\n");
    assert!(error.contains("the bytes [00, 00, 00, 00] are no instruction"), "{error}");
    let error = parse("-xassembler", ".text\nadrp x1, :tlsdesc:x\n");
    assert!(error.contains("with x0 and no addend"), "{error}");
    let error = parse("-xassembler", ".text\n.reloc 0, R_AARCH64_RELATIVE\n.word 0\n");
    assert!(error.contains("belongs in a linked program"), "{error}");
}

#[test]
fn dynamic_thread_locals_have_descriptors() {
    if !is_here(GCC) {
        return;
    }
    let source = "__thread int x[4] = {1, 2, 3, 4}; int *f(int n) { return &x[n]; }";
    let called = "__thread int y; int *g(void) { return &y; }";
    let objects =
        [arm("a.o", "-O2 -fPIC", source), arm("c.o", "-O2 -fPIC -mtls-dialect=trad", called)];
    let mut graph = arm_graph(&[&objects[0], &objects[1]]).unwrap();
    assert!(graph.undefined().is_empty(), "{:?}", graph.undefined());
    let functions = [FAR, FAR + 64].map(ExecutorAddr::new);
    graph.define_thread_functions(functions[0], functions[1]).unwrap();
    let layout = graph.layout().unwrap().with_dynamic_threads(9).unwrap();
    let image = layout.fixup(BASES.map(ExecutorAddr::new), 0).unwrap();
    let words = image.stripes[1].chunks_exact(8);
    let words: Vec<u64> =
        words.map(|word| u64::from_le_bytes(*word.first_chunk().unwrap())).collect();
    assert!(words.windows(3).any(|three| three == [FAR + 64, 9, 0]), "{words:x?}");
    // The call has its words and a stub of the first function.
    assert!(words.windows(2).any(|two| two == [9, 16]) && words.contains(&FAR), "{words:x?}");
    assert_eq!(image.stats.stubs, 1);
    let fixed = arm("b.o", "-O2 -fno-pic", source);
    let layout = arm_graph(&[&fixed]).unwrap().layout().unwrap();
    let error = failure(layout.with_dynamic_threads(9)).to_string();
    assert!(error.contains("-ftls-model=global-dynamic"), "{error}");
}

/// Both are damaged, and a fuzzer has found them.
#[test]
fn objects_that_no_compiler_makes_have_right_images() {
    if !is_here(GCC) {
        return;
    }
    let verify = |source: &str| {
        let object = arm("odd.o", "-xassembler", source);
        let bases = BASES.map(ExecutorAddr::new);
        let layout = arm_graph(&[&object]).unwrap().layout().unwrap();
        layout.fixup_and_verify(bases, 16).unwrap().1
    };
    // A fragment that ends in the midst of an instruction.
    assert_eq!(verify(".section .init, \"ax\"\nnop\n.byte 1\n").entangled, 0);
    // A second relocation where `__tls_get_addr` is called.
    let sequence = ".text\nadrp x0, :tlsgd:v\nadd x0, x0, :tlsgd_lo12:v\nbl __tls_get_addr\nnop\n
        .reloc 8, R_AARCH64_ABS32, small\n.set small, 5\n.section .tbss, \"awT\", %nobits\nv: .zero 8\n";
    assert_eq!(verify(sequence).entangled, 2);
}

#[test]
fn no_changed_byte_does_worse_than_an_error() {
    if !is_here("aarch64-linux-gnu-g++") {
        return;
    }
    let object = cross_compile("aarch64-linux-gnu-g++", "a.o", "-xc++ -O1 -fPIC", SOURCE);
    let mut refused = 0;
    for at in 0..object.bytes().len() {
        for change in [1_u8, 0x80] {
            let mut damaged = object.bytes().to_vec();
            damaged[at] ^= change;
            let linked = ObjectFile::parse("fuzz.o", damaged).and_then(|object| {
                let mut graph = LinkGraph::for_processor(object.processor());
                graph.add_object(&object)?;
                for need in graph.undefined() {
                    graph.define_external(&need.name, ExecutorAddr::new(NEAR));
                }
                graph.layout()?.fixup_and_verify(BASES.map(ExecutorAddr::new), 16)
            });
            if let Err(error) = linked {
                let is_expected = error.is_link() || !error.symbols().is_empty();
                let text = error.to_string();
                assert!(is_expected && !text.contains(WRONG_IMAGE), "byte {at}: {error}");
                refused += 1;
            }
        }
    }
    assert!(refused > 100, "{refused}");
}

/// ELF files hold the number of their processor at byte 18.
#[test]
fn files_of_names_are_for_the_processor_of_the_image() {
    if !is_here(GCC) {
        return;
    }
    let image = arm_link(&[&arm("a.o", "-O1", "int one(void) { return 1; }")], &[]).unwrap();
    let code = AddrRange::sized(ExecutorAddr::new(BASES[0]), image.bytes[0]).unwrap();
    let symbols = &image.symbols;
    let all = [
        symbols.symbol_file(code),
        export_file([symbols].into_iter()),
        names_file(symbols, |_| true).0,
    ];
    assert!(all.iter().all(|file| file[18..20] == [183, 0]));
}
