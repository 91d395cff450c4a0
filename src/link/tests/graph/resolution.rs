//! Which definition counts, and what is dropped.

use crate::tests::*;

/// The value of the variable `name`.
fn value(image: &Image, name: &str) -> i32 {
    i32_at(image, address_of(image, name))
}

#[test]
fn strong_beats_weak_in_both_orders() {
    let weak = compile("weak.o", "", "__attribute__((weak)) int x = 1;");
    let strong = compile("strong.o", "", "int x = 2;");
    assert_eq!(value(&link(&[&weak, &strong], &[]).unwrap(), "x"), 2);
    assert_eq!(value(&link(&[&strong, &weak], &[]).unwrap(), "x"), 2);
}

#[test]
fn the_first_of_two_weak_ones_counts() {
    let one = compile("one.o", "", "__attribute__((weak)) int x = 1;");
    let two = compile("two.o", "", "__attribute__((weak)) int x = 2;");
    let image = link(&[&one, &two], &[]).unwrap();
    assert_eq!(value(&image, "x"), 1);
    assert!(image.symbols.get("x").unwrap().weak);
}

#[test]
fn two_strong_ones_are_an_error_that_names_both() {
    let one = compile("one.o", "", "int twice = 1;");
    let two = compile("two.o", "", "int twice = 2;");
    let error = failure(link(&[&one, &two], &[]));
    assert!(error.is_link());
    let error = error.to_string();
    let all = ["`twice`", "one.o", "two.o"].iter().all(|part| error.contains(part));
    assert!(all, "{error}");
}

#[test]
fn common_symbols_take_the_largest_size_and_alignment() {
    let small = compile("small.o", "-fcommon", "char buffer[3] __attribute__((aligned(512)));");
    let large = compile("large.o", "-fcommon", "char buffer[4000]; char *end = buffer + 4000;");
    for objects in [[&small, &large], [&large, &small]] {
        let image = link(&objects, &[]).unwrap();
        let definition = *image.symbols.get("buffer").unwrap();
        assert_eq!((definition.bytes, definition.address.get() % 512), (4000, 0));
        assert_eq!(u64_at(&image, address_of(&image, "end")), definition.address.get() + 4000);
        let data = Prot::Data.index();
        assert!(image.bytes[data] >= definition.address.get() + 4000 - BASES[data]);
        assert!((image.stripes[data].len() as u64) < image.bytes[data], "not stored");
    }
}

#[test]
fn a_definition_beats_a_common_one_which_beats_a_weak_one() {
    let common = compile("common.o", "-fcommon", "int x; int *common_view = &x;");
    let strong = compile("strong.o", "", "int x = 7; int *strong_view = &x;");
    let weak = compile("weak.o", "", "__attribute__((weak)) int x = 8; int *weak_view = &x;");
    for objects in [[&common, &strong, &weak], [&weak, &common, &strong]] {
        let image = link(&objects, &[]).unwrap();
        assert_eq!(value(&image, "x"), 7);
        for view in ["common_view", "strong_view", "weak_view"] {
            assert_eq!(u64_at(&image, address_of(&image, view)), address_of(&image, "x"));
        }
    }
    for objects in [[&common, &weak], [&weak, &common]] {
        let image = link(&objects, &[]).unwrap();
        let x = address_of(&image, "x");
        let data = Prot::Data.index();
        assert!(x - BASES[data] >= image.stripes[data].len() as u64, "x is zero fill");
    }
}

#[test]
fn one_copy_of_a_comdat_group_is_kept() {
    let header = "inline int shared() { static int calls = 5; return ++calls; }";
    let one = format!("{header} int one() {{ return shared(); }}");
    let two = format!("{header} int two() {{ return shared(); }}");
    let one = compile("one.o", "-xc++ -O0", &one);
    let two = compile("two.o", "-xc++ -O0", &two);
    let alone = link(&[&one], &[]).unwrap();
    let both = link(&[&one, &two], &[]).unwrap();
    let calls = "_ZZ6sharedvE5calls";
    assert_eq!(value(&both, calls), 5);
    assert_eq!(both.bytes[Prot::Data.index()], alone.bytes[Prot::Data.index()]);
    let shared = ExecutorAddr::new(address_of(&both, "_Z6sharedv"));
    assert_eq!(both.symbols.locate(shared).unwrap(), "_Z6sharedv+0x0 (one.o)");
    // Both callers reach the copy that was kept.
    for caller in ["_Z3onev", "_Z3twov"] {
        let caller = address_of(&both, caller);
        let code = bytes_at(&both, caller);
        let call = (0..16).find(|at| code[*at] == 0xe8).unwrap() as u64;
        let target =
            (caller + call + 5).wrapping_add_signed(i64::from(i32_at(&both, caller + call + 1)));
        assert_eq!(target, shared.get());
    }
}

#[test]
fn a_reference_to_a_dropped_local_is_an_error() {
    let source = "
        .section .text.f,\"axG\",@progbits,f,comdat
        .weak f
        f: nop
        local: ret
        .data
        .quad local
    ";
    let one = compile("one.o", "-xassembler", source);
    let two = compile("two.o", "-xassembler", source);
    assert!(link(&[&one], &[]).is_ok());
    let error = failure(link(&[&one, &two], &[])).to_string();
    assert!(error.contains("two.o") && error.contains("COMDAT"), "{error}");
}

#[test]
fn hidden_names_bind_inside_and_do_not_show() {
    let a = "__attribute__((visibility(\"hidden\"))) int inner = 3;";
    let b = "extern int inner; int *view = &inner;";
    let (a, b) = (compile("a.o", "", a), compile("b.o", "", b));
    let graph = graph(&[&a, &b]).unwrap();
    assert!(!graph.defines("inner") && graph.defines("view"));
    assert!(graph.exports().all(|export| export.hidden == (export.name == "inner")));
    let image = finish(graph, &[]).unwrap();
    assert_eq!(image.symbols.address_of("inner"), None);
    assert_eq!(i32_at(&image, u64_at(&image, address_of(&image, "view"))), 3);
}

/// A dylib compares each object that is added with what it has. That must not cost what all objects cost.
#[test]
fn the_exports_of_the_last_object_are_its_own() {
    let first = compile("a.o", "", "int one = 1; int two = 2; extern int three;");
    let second = compile("b.o", "", "extern int one; int three = 3; int *view = &one;");
    let mut graph = LinkGraph::for_processor(Processor::X86_64);
    graph.add_object(&first).unwrap();
    graph.add_object(&second).unwrap();
    let mut names: Vec<_> = graph.exports_of_last().map(|one| one.name.to_string()).collect();
    names.sort_unstable();
    assert_eq!(names, ["one", "three", "view"], "two is not named there");
}

/// As all of a program that is compiled with `-fvisibility=hidden`.
#[test]
fn the_start_of_a_program_shows_though_hidden() {
    let source = "int main(void) { return 3; } int inner(void) { return 4; }";
    let object = compile("a.o", "-fvisibility=hidden", source);
    let image = link(&[&object], &[]).unwrap();
    assert!(image.symbols.address_of("main").is_some());
    assert_eq!(image.symbols.address_of("inner"), None);
}

#[test]
fn protected_names_show_and_internal_ones_do_not() {
    let source = "
        .data
        .globl p, i
        .protected p
        .internal i
        p: .long 1
        i: .long 2
    ";
    let image = link(&[&compile("a.o", "-xassembler", source)], &[]).unwrap();
    assert!(image.symbols.get("p").is_some() && image.symbols.get("i").is_none());
}

#[test]
fn absolute_symbols_keep_their_value() {
    let source = ".globl a, view\n.set a, 0x123456789\n.data\nview: .quad a\n";
    let image = link(&[&compile("a.o", "-xassembler", source)], &[]).unwrap();
    assert_eq!(address_of(&image, "a"), 0x1_2345_6789);
    assert_eq!(u64_at(&image, address_of(&image, "view")), 0x1_2345_6789);
}

#[test]
fn unique_names_are_weak() {
    let source = ".data\n.globl u\n.type u, @gnu_unique_object\n.size u, 4\nu: .long 4\n";
    let (one, two) = (compile("1.o", "-xassembler", source), compile("2.o", "-xassembler", source));
    let image = link(&[&one, &two], &[]).unwrap();
    assert!(image.symbols.get("u").unwrap().weak);
}

#[test]
fn an_overridden_weak_function_goes_and_so_do_its_wishes() {
    let weak = "void missing(void); __attribute__((weak)) void f(void) { missing(); }
        void keep(void) {}";
    let weak = compile("weak.o", "-O2 -ffunction-sections", weak);
    let strong = compile("strong.o", "-O2", "void f(void) {}");
    for objects in [[&weak, &strong], [&strong, &weak]] {
        let graph = graph(&objects).unwrap();
        assert_eq!(graph.undefined(), []);
        let image = finish(graph, &[]).unwrap();
        let f = ExecutorAddr::new(address_of(&image, "f"));
        assert_eq!(image.symbols.locate(f).unwrap(), "f+0x0 (strong.o)");
    }
    assert_eq!(failure(link(&[&weak], &[])).symbols(), ["missing"]);
}

#[test]
fn an_overridden_weak_function_stays_if_its_object_needs_it() {
    // `keep` is in the same section, and in the second case a local reference leads into it.
    let together = "void missing(void); __attribute__((weak)) void f(void) { missing(); }
        void keep(void) {}";
    let together = compile("together.o", "-O2", together);
    let inner = "
        .section .text.f,\"ax\",@progbits
        .weak f
        f: call missing
        local: ret
        .data
        .quad local
    ";
    let inner = compile("inner.o", "-xassembler", inner);
    let strong = compile("strong.o", "-O2", "void f(void) {}");
    for object in [&together, &inner] {
        assert_eq!(failure(link(&[object, &strong], &[])).symbols(), ["missing"]);
    }
}

/// N11: `f` comes from another object, and the version of it from this one.
#[test]
fn an_overridden_default_version_stays_a_version() {
    let weak = "
        .section .text.f,\"ax\",@progbits
        .weak old
        .symver old, f@@V2, remove
        old: ret
    ";
    let user = ".symver version, f@V2\n.data\n.globl views\nviews: .quad f, version\n";
    let weak = compile("weak.o", "-xassembler", weak);
    assert_eq!(weak.definitions().collect::<Vec<_>>(), ["f"]);
    let strong = compile("strong.o", "-xassembler", ".globl f\nf: ret\n");
    let user = compile("user.o", "-xassembler", user);
    for objects in [[&weak, &strong, &user], [&user, &strong, &weak]] {
        let image = link(&objects, &[]).unwrap();
        let views = address_of(&image, "views");
        let [f, version] = [views, views + 8].map(|at| u64_at(&image, at));
        assert_eq!((f, version), (address_of(&image, "f"), address_of(&image, "f@V2")));
        let place = |at| image.symbols.locate(ExecutorAddr::new(at)).unwrap();
        assert!(place(f).ends_with("(strong.o)") && place(version).ends_with("(weak.o)"));
    }
}

#[test]
fn groups_without_a_name_are_refused() {
    let source = ".section .text.g,\"axG\",@progbits,grouped,comdat\ngrouped: ret\n";
    let mut bytes = compile_bytes("g.o", "-xassembler", source);
    let name = bytes.windows(8).position(|window| window == b"grouped\0").unwrap();
    bytes[name] = 0xff;
    let error = failure(ObjectFile::parse("g.o", bytes)).to_string();
    assert!(error.contains("signature") && error.contains("g.o"), "{error}");
}

#[test]
fn an_overridden_entry_of_a_set_stays() {
    // A function that code finds by the bounds of its section counts, even if its name does not.
    let entry = |binding: &str, value: u32| {
        let source = format!(
            ".{binding} entry\n.section set,\"aw\"\nentry: .quad {value}\n
            .data\n.globl bounds{value}\nbounds{value}: .quad __start_set, __stop_set\n"
        );
        compile(&format!("{value}.o"), "-xassembler", &source)
    };
    let image = link(&[&entry("weak", 1), &entry("globl", 2)], &[]).unwrap();
    let bounds = address_of(&image, "bounds1");
    let (start, stop) = (u64_at(&image, bounds), u64_at(&image, bounds + 8));
    assert_eq!(stop - start, 16);
    assert_eq!((u64_at(&image, start), u64_at(&image, start + 8)), (1, 2));
    assert_eq!(address_of(&image, "entry"), start + 8);
}

#[test]
fn an_outside_address_replaces_weak_definitions_only() {
    let source = "__attribute__((weak)) int w = 1; int s = 2; int *views[] = {&w, &s};";
    let object = compile("a.o", "", source);
    let image = link(&[&object], &[("w", FAR), ("s", FAR)]).unwrap();
    let views = address_of(&image, "views");
    assert_eq!(u64_at(&image, views), FAR);
    assert_eq!(u64_at(&image, views + 8), address_of(&image, "s"));
    assert!(image.symbols.get("w").is_none());
}

#[test]
fn objects_are_lent_and_link_again_from_many_threads() {
    let object = compile("a.o", "-O2", "int f(void); int a(void) { return f(); }");
    let first = link(&[&object], &[("f", NEAR)]).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let again = link(&[&object], &[("f", NEAR)]).unwrap();
                assert_eq!(again.stripes, first.stripes);
            });
        }
    });
}
