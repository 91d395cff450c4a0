//! The independent checker sees every change of an image for AArch64.

use super::links::SOURCE;
use super::*;
use crate::verify::link_map::LinkMap;
use crate::verify::verify;

#[test]
fn no_bit_of_an_image_can_change_unseen() {
    if !is_here("aarch64-linux-gnu-g++") {
        return;
    }
    let objects = [
        cross_compile("aarch64-linux-gnu-g++", "a.o", "-xc++ -O1 -fPIC", SOURCE),
        arm("b.o", "-xassembler", bits::FIELDS),
        arm(
            "c.o",
            "-O1 -fPIC",
            "static int f(int n) { return n; } void *ask(void) { return f; }
            int chosen(int n) __attribute__((ifunc(\"ask\"))); int g(void) { return chosen(1); }
            extern __thread int counted; int *place(void) { return &counted; }",
        ),
    ];
    let called = "__thread long called[9] = {1}; long *call(int n) { return &called[n]; }";
    let called = arm("called.o", "-O1 -fPIC -mtls-dialect=trad", called);
    let described = "extern __thread long called[9]; long *described(void) { return called; }";
    let described = arm("described.o", "-O1 -fPIC", described);
    // Once with calls of `__tls_get_addr`, and once as they call the executor.
    for module in [None, Some(7)] {
        let objects = match module {
            None => vec![&objects[0], &objects[1], &objects[2], &called],
            Some(_) => vec![&called, &described],
        };
        let mut graph = arm_graph(&objects).unwrap();
        links::others(&mut graph);
        let functions = [FAR, FAR + 64].map(ExecutorAddr::new);
        graph.define_thread_functions(functions[0], functions[1]).unwrap();
        let mut layout = graph.layout().unwrap();
        if let Some(module) = module {
            layout = layout.with_dynamic_threads(module).unwrap();
        }
        change_every_bit(&layout);
    }
}

fn change_every_bit(layout: &crate::Layout) {
    let (mut image, addresses) = layout.compute(BASES.map(ExecutorAddr::new), 16).unwrap();
    let map = LinkMap::new(layout, &addresses, BASES);
    verify(&map, &image).unwrap();
    for block in layout.blocks.iter().filter(|block| block.rank.is_stored()) {
        let stripe = block.prot.index();
        let start = usize::try_from(block.offset).unwrap();
        // Much of it is zeroes.
        for at in start..start + usize::try_from(block.bytes).unwrap().min(3000) {
            for bit in 0..8 {
                image.stripes[stripe][at] ^= 1 << bit;
                let seen = verify(&map, &image).is_err();
                assert!(seen, "stripe {stripe}, byte {at:#x}, bit {bit}, block at {start:#x}");
                image.stripes[stripe][at] ^= 1 << bit;
            }
        }
    }
}
