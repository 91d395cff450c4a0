//! A program for AArch64, linked to fixed addresses, and run by qemu.

use super::*;
use crate::Layout;

/// The parts of the image that the program needs, at an address that it knows.
const BOOT: u64 = 0x0020_4000_0000;
/// The thread pointer, and behind 16 bytes the thread-locals.
const THREAD: u64 = 0x0020_5000_0000;
/// A function out of the reach of calls.
const DISTANT: u64 = 0x0010_0000_0000;

/// The program, where an emulator finds room for it.
const HERE: [u64; 3] = [0x0020_0000_0000, 0x0020_1000_0000, 0x0020_2000_0000];

/// Calls through every table of the linker, and writes what they give.
const PROGRAM: &str = "
    struct boot {
        void (**init)(void), (**init_end)(void);
        unsigned long count;
        struct { void **slot; void *(*ask)(void); } chosen[];
    };
    extern struct boot boot; extern char thread[];
    int distant(int n), other(int n); extern int table[4], shared; extern const char *words[3];
    extern __thread int counted; static __thread long zeroed; static int early;
    static long system(long number, long a, long b, long c) {
        register long x8 asm(\"x8\") = number, x0 asm(\"x0\") = a, x1 asm(\"x1\") = b, x2 asm(\"x2\") = c;
        asm volatile(\"svc 0\" : \"+r\"(x0) : \"r\"(x8), \"r\"(x1), \"r\"(x2) : \"memory\");
        return x0;
    }
    static void put(long n) {
        char text[24]; int at = 24; text[--at] = '\\n';
        unsigned long rest = n < 0 ? -n : n;
        do text[--at] = '0' + rest % 10; while (rest /= 10);
        if (n < 0) text[--at] = '-';
        system(64, 1, (long)&text[at], 24 - at);
    }
    __attribute__((constructor)) static void first(void) { early = 41; }
    static int seven(void) { return 7; }
    static void *ask(void) { return seven; }
    int chosen(void) __attribute__((ifunc(\"ask\")));
    __attribute__((weak)) int nowhere(int);
    double half = 0.5;
    double scale(double x) { return x * half * 3.0; }
    const char *name(int n) {
        switch (n) {
            case 0: return \"zero\"; case 1: return \"one\"; case 2: return \"two\"; case 3: return \"three\"; case 4: return \"four\"; }
        return \"many\";
    }
    void begin(void) {
        asm volatile(\"msr tpidr_el0, %0\" : : \"r\"(thread));
        for (unsigned long i = 0; i < boot.count; i++) *boot.chosen[i].slot = boot.chosen[i].ask();
        for (void (**f)(void) = boot.init; f < boot.init_end; f++) (*f)();
        put(early + 1);
        put(chosen());
        int (*pointer)(int) = distant;
        put(distant(20) + pointer(1));
        put(other(5));
        put(table[2] + shared);
        counted += 3; zeroed -= 4;
        put(counted); put(zeroed);
        put(scale(10.0));
        put(name(3)[4] + words[1][0]);
        put(nowhere ? 1 : 0);
        system(93, 0, 0, 0);
    }
    asm(\".globl _start\\n_start: bl begin\\n\");
";

const OTHER: &str = "
    int table[4] = {10, 20, 30, 40}; int shared; __thread int counted = 100;
    const char *words[3] = {\"a\", \"b\", \"c\"};
    static int square(int n) { return n * n; }
    static int (*const operations[2])(int) = {square, 0};
    int other(int n) { shared = 4; return operations[0](n) - counted; }
";

#[test]
fn a_program_runs_and_prints_what_it_computes() {
    const QEMU: &str = "qemu-aarch64";
    if !is_here(GCC) || !is_here(QEMU) {
        return;
    }
    let distant = arm("distant.o", "-O2 -fPIC", "int distant(int n) { return n * 2; }");
    let distant = link_at(&[&distant], &[], [DISTANT, DISTANT + 0x10000, DISTANT + 0x20000]);
    let mut compilers = vec![(GCC, "")];
    if is_here("clang") {
        compilers.push(("clang", "--target=aarch64-linux-gnu"));
    }
    for (compiler, target) in compilers {
        for model in [
            "-O0 -fPIC",
            "-O2 -fPIC",
            "-O2 -fpic",
            "-O2 -fno-pic",
            "-O1 -fno-pic -ftls-model=initial-exec",
        ] {
            let flags = format!(
                "{target} {model} -ffreestanding -fno-stack-protector -mbranch-protection=standard"
            );
            let objects = [
                cross_compile(compiler, "program.o", &flags, PROGRAM),
                cross_compile(compiler, "other.o", &flags, OTHER),
            ];
            let far = function(address_of(&distant, "distant"));
            let externals = [
                ("distant", far),
                ("boot", ExecutorAddr::new(BOOT).into()),
                ("thread", ExecutorAddr::new(THREAD).into()),
            ];
            let image = link_at(&[&objects[0], &objects[1]], &externals, HERE);
            let printed = run_by(QEMU, &image, &distant);
            let wanted = "42\n7\n42\n-75\n34\n103\n-4\n15\n199\n0\n";
            assert_eq!(printed, wanted, "{compiler} {flags}");
        }
    }
}

fn link_at(objects: &[&ObjectFile], externals: &[(&str, External)], bases: [u64; 3]) -> Image {
    let mut graph = arm_graph(objects).unwrap();
    externals.iter().for_each(|(name, external)| graph.define_external(name, *external));
    let layout: Layout = graph.layout().unwrap();
    layout.fixup(bases.map(ExecutorAddr::new), 16).unwrap()
}

/// Runs the images as one static program.
fn run_by(qemu: &str, image: &Image, distant: &Image) -> String {
    let init = image.init.map_or([0; 2], |range| [range.start.get(), range.end.get()]);
    let mut boot = vec![init[0], init[1], image.ifuncs.len() as u64];
    boot.extend(image.ifuncs.iter().flat_map(|one| [one.slot.get(), one.resolver.get()]));
    let boot: Vec<u8> = boot.iter().flat_map(|word| word.to_le_bytes()).collect();
    let mut thread = vec![0; 16];
    if let Some(block) = image.threads {
        let at = usize::try_from(block.initial.start.get() - HERE[1]).unwrap();
        let bytes = usize::try_from(block.initial.bytes()).unwrap();
        thread.extend_from_slice(&image.stripes[1][at..at + bytes]);
    }
    let stripes = |image: &Image, bases: [u64; 3]| {
        let parts = bases.into_iter().zip(image.stripes.clone()).zip(image.bytes);
        parts.map(|((base, stripe), bytes)| (base, stripe, bytes)).collect::<Vec<_>>()
    };
    let mut segments = stripes(image, HERE);
    segments.extend(stripes(distant, [DISTANT, DISTANT + 0x10000, DISTANT + 0x20000]));
    segments.push((BOOT, boot, 4096));
    segments.push((THREAD, thread, 4096));
    let scratch = Scratch::new();
    let path = scratch.0.join("program");
    std::fs::write(&path, executable(address_of(image, "_start"), &segments)).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&path, mode).unwrap();
    succeed(qemu, &["program"], &scratch.0)
}

/// An ELF program of these segments: address, content, and size in memory.
fn executable(entry: u64, segments: &[(u64, Vec<u8>, u64)]) -> Vec<u8> {
    const PAGE: usize = 65536;
    let segments: Vec<_> = segments.iter().filter(|(_, _, bytes)| *bytes > 0).collect();
    let mut file = b"\x7fELF\x02\x01\x01".to_vec();
    file.resize(16, 0);
    let mut put = |values: &[(u64, usize)]| {
        for (value, bytes) in values {
            file.extend_from_slice(&value.to_le_bytes()[..*bytes]);
        }
    };
    put(&[(2, 2), (183, 2), (1, 4), (entry, 8), (64, 8), (0, 8), (0, 4)]);
    put(&[(64, 2), (56, 2), (segments.len() as u64, 2), (64, 2), (0, 2), (0, 2)]);
    let mut offset = PAGE as u64;
    for (address, content, bytes) in &segments {
        let stored = content.len() as u64;
        // Readable, writable and executable.
        put(&[(1, 4), (7, 4), (offset, 8), (*address, 8), (*address, 8), (stored, 8)]);
        put(&[(*bytes, 8), (4096, 8)]);
        offset = (offset + stored).next_multiple_of(PAGE as u64);
    }
    for (_, content, _) in &segments {
        file.resize(file.len().next_multiple_of(PAGE), 0);
        file.extend_from_slice(content);
    }
    file
}
