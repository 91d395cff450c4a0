//! Links whose code is larger than the reach of a call.

use super::*;
use crate::verify::link_map::LinkMap;
use crate::verify::verify;

/// Three sections that are far from each other: `start`, `middle` 72 MiB behind it, and `end` 144 MiB behind it.
const SPREAD: &str = "
    .globl start, middle, end
    .section .text.start, \"ax\"
    start: bl middle
    bl end
    bl hidden
    bl hidden+4
    b end
    bl far_one
    .section .text.gap1, \"ax\"
    .fill 0x1200000, 4, 0xd503201f
    .section .text.middle, \"ax\"
    middle: bl start
    bl end
    .section .text.gap2, \"ax\"
    .fill 0x1200000, 4, 0xd503201f
    .section .text.end, \"ax\"
    end: bl start
    bl middle
    bl far_one
    hidden: nop
    b.eq near
    near: ret
";

fn bases() -> [ExecutorAddr; 3] {
    [0x7f00_0000_0000, 0x7f00_2000_0000, 0x7f00_3000_0000].map(ExecutorAddr::new)
}

fn layout_of(objects: &[&ObjectFile]) -> crate::Layout {
    let mut graph = arm_graph(objects).unwrap();
    graph.define_external("far_one", function(FAR));
    graph.layout().unwrap()
}

/// Where the `bl` or `b` at an address goes.
fn goal(stripe: &[u8], at: u64) -> u64 {
    let offset = usize::try_from(at - bases()[0].get()).unwrap();
    let code = u32::from_le_bytes(*stripe[offset..].first_chunk().unwrap());
    assert_eq!(code & 0x7c00_0000, 0x1400_0000, "{code:#x}");
    at.wrapping_add_signed(i64::from((code << 6).cast_signed() >> 6) * 4)
}

#[test]
fn calls_that_do_not_reach_go_through_islands() {
    if !is_here(GCC) {
        return;
    }
    let (image, verified) = layout_of(&[&arm("spread.o", "-xassembler", SPREAD)])
        .fixup_and_verify(bases(), 16)
        .unwrap();
    assert_eq!(verified.entangled, 0);
    let [start, middle, end] = ["start", "middle", "end"].map(|name| address_of(&image, name));
    assert!(middle - start < 1 << 27 && end - start >= 1 << 27, "{start:#x} {middle:#x} {end:#x}");
    let calls = |from: u64, count: u64| -> Vec<u64> {
        (0..count).map(|number| goal(&image.stripes[0], from + 4 * number)).collect()
    };
    let of_start = calls(start, 6);
    assert_eq!(of_start[0], middle);
    // The two ways to `end` share a jump; the place behind `hidden` has one of its own.
    let island = of_start[1];
    assert!(island > start && island < middle, "{island:#x}");
    assert_eq!(of_start[1..], [island, island + 16, island + 32, island, island + 48]);
    assert_eq!(calls(middle, 2), [start, end]);
    let of_end = calls(end, 3);
    assert!(of_end[0] > end && of_end[1] == middle && of_end[2] > end, "{of_end:x?}");
    // One for a function outside, four behind `start`, one behind `end`.
    assert_eq!(image.stats.stubs, 6);
    let locate = |at: u64| image.symbols.locate(ExecutorAddr::new(at)).unwrap();
    let [name, other] = [locate(island), locate(island + 48)];
    assert!(name.starts_with("end@far") && other.starts_with("far_one@far"), "{name}, {other}");
}

#[test]
fn no_bit_of_an_island_can_change_unseen() {
    if !is_here(GCC) {
        return;
    }
    let source = "
        .text
        bl end
        bl hidden+4
        bl far_one
        .section .text.gap, \"ax\"
        .fill 0x2000000, 4, 0xd503201f
        .section .text.end, \"ax\"
        .globl end
        end: ret
        hidden: nop
        ret
    ";
    let layout = layout_of(&[&arm("end.o", "-xassembler", source)]);
    let (mut image, addresses) = layout.compute(bases(), 16).unwrap();
    let map = LinkMap::new(&layout, &addresses, bases().map(ExecutorAddr::get));
    verify(&map, &image).unwrap();
    assert_eq!(map.islands[0].end - map.islands[0].start, 48);
    for address in map.islands[0].clone() {
        let at = usize::try_from(address - map.bases[0]).unwrap();
        for bit in 0..8 {
            image.stripes[0][at] ^= 1 << bit;
            assert!(verify(&map, &image).is_err(), "byte {at:#x}, bit {bit}");
            image.stripes[0][at] ^= 1 << bit;
        }
    }
}

#[test]
fn a_link_in_reach_has_no_island() {
    if !is_here(GCC) {
        return;
    }
    let object = arm("near.o", "-xassembler", &SPREAD.replace("0x1200000", "0xf00000"));
    let image = layout_of(&[&object]).fixup(bases(), 16).unwrap();
    assert_eq!(image.stats.stubs, 1);
}

#[test]
fn a_section_larger_than_a_call_is_refused() {
    if !is_here(GCC) {
        return;
    }
    let source = ".text\nbl x\nb.eq y\n.fill 0x2000000, 4, 0xd503201f\n.text 1\nnop\n
        .section .text.x, \"ax\"\n.globl x\nx: ret\n";
    let object = arm("large.o", "-xassembler", source);
    let mut graph = arm_graph(&[&object]).unwrap();
    graph.define_external("y", function(BASES[0] + 64));
    let error = failure(graph.layout().unwrap().fixup(bases(), 16)).to_string();
    assert!(error.contains("large.o: section .text offset 0x0: R_AARCH64_CALL26"), "{error}");
    assert!(error.ends_with("recompile with -ffunction-sections"), "{error}");
    let error = failure(arm_link(
        &[&arm("far.o", "-xassembler", ".text\nb.eq y\n.fill 0x80000, 4, 0xd503201f\n")],
        &[("y", function(FAR))],
    ));
    assert!(error.to_string().ends_with("branch around a call or jump"), "{error}");
}

/// The first part: it calls the others, a function outside, and a local one behind them.
const FIRST: &str = "
    int one(int), two(int), distant(int); extern int early; extern __thread int started;
    int early = 1; __thread int started = 2;
    int zero(int n) { return n + early + started; }
    int begin_with(int n) { return one(n) + two(n) + distant(n); }
";

const SECOND: &str = "
    int zero(int), two(int), distant(int);
    static int seven(void) { return 7; }
    static void *ask(void) { return seven; }
    int chosen(void) __attribute__((ifunc(\"ask\")));
    int one(int n) { return zero(n) * 10 + two(n) + distant(1); }
";

const THIRD: &str = "
    int zero(int), one(int), chosen(void), distant(int);
    __attribute__((noinline)) static int inner(int n) { return zero(n) + chosen(); }
    int two(int n) { return inner(n) * 1000 + distant(n) * 100; }
    int either(int n) { return n > 100 ? one(n) : two(n); }
";

#[test]
fn code_of_more_than_128_mib_runs() {
    if !is_here(GCC) || !is_here(QEMU) {
        return;
    }
    // 72 MiB of code without a caller.
    let filler = |name: &str| arm(name, "-xassembler", ".text\n.fill 0x1200000, 4, 0xd503201f\n");
    let flags = "-O2 -fPIC -ffreestanding -fno-stack-protector -mbranch-protection=standard -mtls-dialect=trad";
    let objects = [
        arm(
            "program.o",
            flags,
            "
            int begin_with(int), either(int); void start_up(void), put(long), finish(void);
            void begin(void) { start_up(); put(begin_with(4)); put(either(1)); finish(); }",
        ),
        arm("first.o", flags, FIRST),
        filler("filler1.o"),
        arm("second.o", flags, SECOND),
        filler("filler2.o"),
        arm("third.o", flags, THIRD),
        arm("support.o", flags, bare::SUPPORT),
    ];
    let objects: Vec<&ObjectFile> = objects.iter().collect();
    for module in [None, Some(9)] {
        let (image, printed) = bare::output(&objects, module);
        assert!(image.bytes[0] > 144 << 20 && image.stats.stubs > 5, "{:?}", image.stats);
        // one(4) = 70 + two(4) + 2; two(4) = 14000 + 800; distant(4) = 8. two(1) = 11000 + 200.
        assert_eq!(printed, "29680\n11200\n");
    }
}
