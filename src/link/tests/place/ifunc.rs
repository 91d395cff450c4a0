//! Ifuncs: functions that choose their implementation at start.

use crate::tests::*;
use crate::verify::link_map::LinkMap;
use crate::verify::verify;
use crate::{External, Layout};

const CHOSEN: &str = "
    .text
    .globl chosen, choose, call, branch, load, table, near
    nop
    .type choose, @function
    choose: leaq implementation(%rip), %rax
    ret
    .type implementation, @function
    implementation: ret
    .type chosen, @gnu_indirect_function
    .set chosen, choose
    .type hidden_one, @gnu_indirect_function
    hidden_one: ret
    call: call chosen
    branch: jmp hidden_one
    load: movq chosen@GOTPCREL(%rip), %rax
    cmpq chosen@GOTPCREL(%rip), %rax
    near: leaq chosen(%rip), %rax
    .section .rodata
    .balign 8
    table: .quad chosen, hidden_one, choose
";

/// The slot that a stub jumps through.
fn slot_of(image: &Image, stub: u64) -> u64 {
    assert_eq!(stripe_of(image, stub), Some(Prot::Code));
    assert_eq!(bytes_at(image, stub)[..2], [0xff, 0x25]);
    (stub + 6).wrapping_add_signed(i64::from(i32_at(image, stub + 2)))
}

#[test]
fn every_reference_means_the_stub() {
    let image = link(&[&compile("chosen.o", "-xassembler", CHOSEN)], &[]).unwrap();
    let stub = address_of(&image, "chosen");
    let choose = address_of(&image, "choose");
    assert_ne!(stub, choose, "the resolver keeps its own address");

    let end = |name: &str, length: u64| address_of(&image, name) + length;
    let target = |end: u64| end.wrapping_add_signed(i64::from(i32_at(&image, end - 4)));
    assert_eq!(target(end("call", 5)), stub);
    assert_eq!(target(end("near", 7)), stub);
    assert_eq!(bytes_at(&image, address_of(&image, "load"))[..3], [0x48, 0x8d, 0x05], "relaxed");
    assert_eq!(target(end("load", 7)), stub);
    assert_eq!(u64_at(&image, target(end("load", 14))), stub, "the GOT entry");
    let table = address_of(&image, "table");
    assert_eq!(u64_at(&image, table), stub);
    let hidden = u64_at(&image, table + 8);
    assert_eq!(target(end("branch", 5)), hidden, "a local one as well");
    assert_eq!(u64_at(&image, table + 16), choose);

    let slots: Vec<u64> = image.ifuncs.iter().map(|one| one.slot.get()).collect();
    assert_eq!(slots.len(), 2);
    assert!(slots.contains(&slot_of(&image, stub)) && slots.contains(&slot_of(&image, hidden)));
    assert!(slots.iter().all(|slot| stripe_of(&image, *slot) == Some(Prot::Data)));
    let one = image.ifuncs.iter().find(|one| one.slot.get() == slot_of(&image, stub)).unwrap();
    assert_eq!(one.resolver.get(), choose);

    assert!(image.symbols.get("chosen").unwrap().callable);
    let place = image.symbols.locate(ExecutorAddr::new(stub + 2)).unwrap();
    assert_eq!(place, "chosen@plt+0x2 (linker stub)");
}

#[test]
fn compilers_attributes_have_slots() {
    let clones = "__attribute__((target_clones(\"avx2\", \"default\"))) int f(int *a, int n) {
        int s = 0; for (int i = 0; i < n; i++) s += a[i]; return s; } int (*pointer)(int *, int) = f;";
    let plain = "static int one(void) { return 1; } static void *pick(void) { return one; }
        int f(void) __attribute__((ifunc(\"pick\"))); int (*pointer)(void) = f;
        static int local(void) __attribute__((ifunc(\"pick\"))); int g(void) { return local(); }";
    let externals = [("__cpu_model", NEAR), ("__cpu_indicator_init", NEAR)];
    for (source, count) in [(clones, 1), (plain, 2)] {
        for flags in ["-O2", "-O0", "-O2 -fPIC", "-O2 -fPIC -fno-plt", "-O2 -mcmodel=large"] {
            let image = link(&[&compile("f.o", flags, source)], &externals).unwrap();
            assert_eq!(image.ifuncs.len(), count, "{flags}");
            let pointer = u64_at(&image, address_of(&image, "pointer"));
            assert_eq!(pointer, address_of(&image, "f"), "{flags}");
            slot_of(&image, pointer);
        }
    }
}

#[test]
fn only_the_copy_that_counts_has_a_slot() {
    let group = ".section .text.f,\"axG\",@progbits,f,comdat\n.weak f\n.type f, @gnu_indirect_function\n\
                 f: ret\n.data\n.quad f\n";
    let [a, b] = ["a.o", "b.o"].map(|name| compile(name, "-xassembler", group));
    assert_eq!(link(&[&a, &b], &[]).unwrap().ifuncs.len(), 1);
    let strong = compile("strong.o", "-O1", "int f(void) { return 1; }");
    let image = link(&[&a, &strong], &[]).unwrap();
    assert_eq!(image.ifuncs, [], "an ordinary function took its place");

    let mut graph = graph(&[&a]).unwrap();
    let address = ExecutorAddr::new(NEAR);
    graph.define_external("f", External { callable: true, ..External::from(address) });
    assert_eq!(finish(graph, &[]).unwrap().ifuncs, []);
}

#[test]
fn the_checker_asks_for_every_one() {
    let object = compile("chosen.o", "-xassembler", CHOSEN);
    let attempt = |plant: fn(&mut Layout), mistake: fn(&mut Image)| {
        let mut layout = graph(&[&object]).unwrap().layout().unwrap();
        plant(&mut layout);
        let (mut image, addresses) = layout.compute(BASES.map(ExecutorAddr::new), 0).unwrap();
        mistake(&mut image);
        verify(&LinkMap::new(&layout, &addresses, BASES), &image)
    };
    assert!(attempt(|_| (), |_| ()).is_ok());
    let mistakes: [fn(&mut Image); 4] = [
        |image| image.ifuncs.truncate(1),
        |image| image.ifuncs[0].slot = image.ifuncs[1].slot,
        |image| image.ifuncs[0].resolver = image.ifuncs[1].resolver,
        |image| image.ifuncs[1].slot = ExecutorAddr::new(image.ifuncs[1].slot.get() + 8),
    ];
    for (number, mistake) in mistakes.into_iter().enumerate() {
        assert!(attempt(|_| (), mistake).is_err(), "mistake {number}");
    }
    assert!(attempt(|layout| layout.ifuncs.functions.swap(0, 1), |_| ()).is_err());
    assert!(attempt(|layout| layout.ifuncs.functions.truncate(1), |_| ()).is_err());
}
