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
    let mut graph = arm_graph(&[&objects[0], &objects[1], &objects[2]]).unwrap();
    links::others(&mut graph);
    let layout = graph.layout().unwrap();
    let (mut image, addresses) = layout.compute(BASES.map(ExecutorAddr::new), 16).unwrap();
    let map = LinkMap::new(&layout, &addresses, BASES);
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
