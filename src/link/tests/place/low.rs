//! Code that holds addresses in 32 bits, and functions out of its reach.

use crate::graph::link_graph::Resolution;
use crate::tests::*;
use crate::verify::WRONG_IMAGE;
use crate::{External, Layout};

/// Three stripes below 2 GiB.
const LOW_BASES: [u64; 3] = [0x1000_0000, 0x1400_0000, 0x1800_0000];

/// An address outside of every image and below 2 GiB.
const LOW: u64 = 0x2000_0040;

fn function(address: u64) -> External {
    External { callable: true, ..External::from(ExecutorAddr::new(address)) }
}

/// Links one object at `bases` with the function `f` outside.
fn link_with_f(object: &ObjectFile, bases: [u64; 3], f: u64) -> Result<Image> {
    let mut graph = graph(&[object])?;
    graph.define_external("f", function(f));
    graph.layout()?.fixup(bases.map(ExecutorAddr::new), 0)
}

/// The bytes of an image at `bases` from an address on.
fn stored(image: &Image, bases: [u64; 3], address: u64) -> &[u8] {
    let inside = |(base, stripe): &(&u64, &Vec<u8>)| {
        (**base..**base + stripe.len() as u64).contains(&address)
    };
    let (base, stripe) = bases.iter().zip(&image.stripes).find(inside).unwrap();
    &stripe[usize::try_from(address - base).unwrap()..]
}

fn word(image: &Image, bases: [u64; 3], address: u64) -> u64 {
    u64::from_le_bytes(*stored(image, bases, address).first_chunk().unwrap())
}

/// The target of the 32-bit displacement that ends at an address.
fn relative(image: &Image, bases: [u64; 3], end: u64) -> u64 {
    let field = i32::from_le_bytes(*stored(image, bases, end - 4).first_chunk().unwrap());
    end.wrapping_add_signed(i64::from(field))
}

/// Every way to refer to `f`.
const USERS: &str = "
    .globl address, distance, call, load, compare, wide
    .text
    address: movl $f, %eax
    distance: leaq f(%rip), %rax
    call: call f
    load: movq f@GOTPCREL(%rip), %rax
    compare: cmpq f@GOTPCREL(%rip), %rax
    .data
    wide: .quad f
";

#[test]
fn every_use_of_a_far_function_means_its_canonical_entry() {
    let object = compile("users.o", "-xassembler", USERS);
    let image = link_with_f(&object, LOW_BASES, FAR).unwrap();
    let relative = |end| relative(&image, LOW_BASES, end);
    let at = |name: &str| address_of(&image, name);
    let field = stored(&image, LOW_BASES, at("address") + 1).first_chunk().unwrap();
    let stub = u64::from(u32::from_le_bytes(*field));
    let place = image.symbols.locate(ExecutorAddr::new(stub)).unwrap();
    assert_eq!(place, "f@plt+0x0 (linker stub)");
    assert_eq!(relative(at("distance") + 7), stub);
    assert_eq!(relative(at("call") + 5), stub);
    assert_eq!(stored(&image, LOW_BASES, at("load"))[..3], [0x48, 0x8d, 0x05], "relaxed to lea");
    assert_eq!(relative(at("load") + 7), stub);
    assert_eq!(word(&image, LOW_BASES, relative(at("compare") + 7)), stub);
    assert_eq!(word(&image, LOW_BASES, at("wide")), stub);
    assert_eq!(stored(&image, LOW_BASES, stub)[..2], [0xff, 0x25]);
    assert_eq!(word(&image, LOW_BASES, relative(stub + 6)), FAR, "the stub jumps to the function");
    assert_eq!((image.stats.stubs, image.stats.got_entries), (1, 2));
}

#[test]
fn the_checker_looks_behind_the_stubs() {
    let source = ".text\nmovl $f, %eax\nmovl $g, %eax\n";
    let object = compile("two.o", "-xassembler", source);
    let attempt = |plant: fn(&mut Layout)| {
        let mut graph = graph(&[&object]).unwrap();
        graph.define_external("f", function(FAR));
        graph.define_external("g", function(FAR + 16));
        let mut layout = graph.layout().unwrap();
        plant(&mut layout);
        layout.fixup(LOW_BASES.map(ExecutorAddr::new), 0)
    };
    assert!(attempt(|_| ()).is_ok());
    let plants: [fn(&mut Layout); 3] = [
        |layout| layout.tables.entries.swap(0, 1),
        |layout| layout.tables.stubs[1].entry = layout.tables.stubs[0].entry,
        |layout| {
            for global in &mut layout.graph.globals {
                let Resolution::External(found) = &mut global.resolution else { panic!() };
                found.callable = false;
            }
        },
    ];
    for plant in plants {
        let error = failure(attempt(plant)).to_string();
        assert!(error.contains(WRONG_IMAGE), "{error}");
    }
}

#[test]
fn a_function_within_reach_has_no_canonical_entry() {
    let object = compile("users.o", "-xassembler", USERS);
    let image = link_with_f(&object, LOW_BASES, LOW).unwrap();
    let at = |name: &str| address_of(&image, name);
    let field = stored(&image, LOW_BASES, at("address") + 1).first_chunk().unwrap();
    assert_eq!(u64::from(u32::from_le_bytes(*field)), LOW);
    assert_eq!(relative(&image, LOW_BASES, at("distance") + 7), LOW);
    assert_eq!(word(&image, LOW_BASES, at("wide")), LOW);
}

#[test]
fn a_function_out_of_reach_of_near_code_has_a_canonical_entry() {
    let source = ".text\n.globl distance, wide\ndistance: leaq f(%rip), %rax\n.data\nwide: .quad f";
    let object = compile("near.o", "-xassembler", &format!("{source}\n"));
    for (f, is_canonical) in [(NEAR, false), (FAR, true)] {
        let image = link_with_f(&object, BASES, f).unwrap();
        let target = relative(&image, BASES, address_of(&image, "distance") + 7);
        assert_eq!(target != f, is_canonical);
        assert_eq!(u64_at(&image, address_of(&image, "wide")), target);
    }
}

#[test]
fn wide_addresses_alone_need_no_stub() {
    let object = compile("wide.o", "-xassembler", ".data\n.globl wide\nwide: .quad f\n");
    let image = link_with_f(&object, LOW_BASES, FAR).unwrap();
    assert_eq!(word(&image, LOW_BASES, address_of(&image, "wide")), FAR);
    assert_eq!((image.stats.stubs, image.stats.got_entries), (0, 0));
}

#[test]
fn data_out_of_reach_is_refused_and_the_flags_are_named() {
    let source = "extern int variable; int *f(void) { return &variable; }";
    let object = compile("data.o", "-O2 -fno-pic", source);
    let mut graph = graph(&[&object]).unwrap();
    graph.define_external("variable", ExecutorAddr::new(FAR));
    let error = failure(graph.layout().unwrap().fixup(LOW_BASES.map(ExecutorAddr::new), 0));
    let error = error.to_string();
    for part in ["data.o", ".text", "R_X86_64_32", "`variable`", "-fPIC", "-mcmodel=large"] {
        assert!(error.contains(part), "{part} is missing in: {error}");
    }
}

#[test]
fn names_that_have_to_be_near_are_told() {
    let source = "
        extern int by_value, by_address, wide; void called(void), pointed_to(void);
        int *holder = &wide;
        void *f(void) { called(); return by_value ? (void *)&by_address : (void *)pointed_to; }
    ";
    let graph = graph(&[&compile("a.o", "-O2 -fno-pic", source)]).unwrap();
    let undefined = graph.undefined();
    let narrow: Vec<&str> =
        undefined.iter().filter(|need| need.narrow).map(|need| &*need.name).collect();
    assert_eq!(narrow, ["by_address", "by_value", "pointed_to"]);
    assert_eq!(undefined.len(), 5);
}

#[test]
fn unwind_information_may_name_a_personality_in_32_bits() {
    let source = "void f(int); struct S { ~S(); }; void g() { S s; f(1); }";
    let object = compile("throws.o", "-xc++ -O2 -fno-pic", source);
    let mut graph = graph(&[&object]).unwrap();
    for need in graph.undefined() {
        graph.define_external(&need.name, function(FAR));
    }
    let image = graph.layout().unwrap().fixup(LOW_BASES.map(ExecutorAddr::new), 0).unwrap();
    let frames = image.eh_frame.unwrap();
    assert_eq!(stored(&image, LOW_BASES, frames.start.get())[9..13], *b"zPLR", "the first record");
    let personality = stored(&image, LOW_BASES, frames.start.get() + 19).first_chunk().unwrap();
    let stub = ExecutorAddr::new(u64::from(u32::from_le_bytes(*personality)));
    let place = image.symbols.locate(stub).unwrap();
    assert_eq!(place, "__gxx_personality_v0@plt+0x0 (linker stub)");
}

#[test]
fn large_sections_lie_among_the_others() {
    let source = "
        int data[99] = {1}, zeros[999]; const int constants[99] = {2};
        int *pointer = zeros; int read(int i) { return data[i] + zeros[i] + constants[i]; }
    ";
    for flags in ["-mcmodel=medium -mlarge-data-threshold=0", "-mcmodel=large"] {
        for pic in ["-fno-pic", "-fPIC"] {
            let object = compile("large.o", &format!("-O2 {flags} {pic}"), source);
            let image = link(&[&object], &[]).unwrap();
            let prot = |name| stripe_of(&image, address_of(&image, name));
            assert_eq!(prot("data"), Some(Prot::Data));
            assert_eq!(prot("zeros"), Some(Prot::Data));
            assert_eq!(prot("constants"), Some(Prot::Constants));
            assert_eq!(u64_at(&image, address_of(&image, "pointer")), address_of(&image, "zeros"));
        }
    }
    let source = ".section .ltext,\"axl\",@progbits\n.globl far\nfar: ret\n
        .section .lbss,\"awl\",@nobits\n.globl zeros\nzeros: .zero 64\n";
    let image = link(&[&compile("large.o", "-xassembler", source)], &[]).unwrap();
    assert_eq!(stripe_of(&image, address_of(&image, "far")), Some(Prot::Code));
    assert_eq!(stripe_of(&image, address_of(&image, "zeros")), Some(Prot::Data));
}
