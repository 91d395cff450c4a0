//! Images as programs without a C library, which qemu runs.

use super::*;
use crate::Layout;

/// The parts of the image that the program needs, at an address that it knows.
const BOOT: u64 = 0x0020_4000_0000;
/// The thread pointer, and behind 16 bytes the thread-locals.
const THREAD: u64 = 0x0020_5000_0000;
/// A function out of the reach of calls.
const DISTANT: [u64; 3] = [0x0010_0000_0000, 0x0010_0001_0000, 0x0010_0002_0000];

/// The program, where an emulator finds room for it.
const HERE: [u64; 3] = [0x0020_0000_0000, 0x0020_1000_0000, 0x0020_2000_0000];

/// The start and the end of every program: `start_up` comes first, `put` prints a line, `finish` ends the program.
pub(super) const SUPPORT: &str = "
    struct boot {
        void (**init)(void), (**init_end)(void);
        unsigned long count;
        struct { void **slot; void *(*ask)(void); } chosen[];
    };
    extern struct boot boot; extern char thread[];
    static long system(long number, long a, long b, long c) {
        register long x8 asm(\"x8\") = number, x0 asm(\"x0\") = a, x1 asm(\"x1\") = b, x2 asm(\"x2\") = c;
        asm volatile(\"svc 0\" : \"+r\"(x0) : \"r\"(x8), \"r\"(x1), \"r\"(x2) : \"memory\");
        return x0;
    }
    void put(long n) {
        char text[24]; int at = 24; text[--at] = '\\n';
        unsigned long rest = n < 0 ? -n : n;
        do text[--at] = '0' + rest % 10; while (rest /= 10);
        if (n < 0) text[--at] = '-';
        system(64, 1, (long)&text[at], 24 - at);
    }
    void finish(void) { system(93, 0, 0, 0); }
    void start_up(void) {
        asm volatile(\"msr tpidr_el0, %0\" : : \"r\"(thread));
        for (unsigned long i = 0; i < boot.count; i++) *boot.chosen[i].slot = boot.chosen[i].ask();
        for (void (**f)(void) = boot.init; f < boot.init_end; f++) (*f)();
    }
    asm(\".globl _start\\n_start: bl begin\\n\");
";

/// Functions out of the reach of calls: one of the tests, and what finds dynamic thread-locals.
const OUTSIDE: &str = "
    extern char thread[];
    int distant(int n) { return n * 2; }
    void *find(long words[2]) { return words[0] == 9 ? thread + 16 + words[1] : 0; }
    asm(\".globl describe\\ndescribe: ldr x0, [x0, #16]\\nadd x0, x0, #16\\nret\\n\");
";

/// Links the objects, which start at `begin` and may call `distant`, and returns what the program prints. `module` is the
/// number of the thread-locals' TLS module, if they are dynamic.
pub(super) fn output(objects: &[&ObjectFile], module: Option<u32>) -> (Image, String) {
    let thread = ("thread", ExecutorAddr::new(THREAD).into());
    let outside = graph(&[&arm("outside.o", "-O2 -fPIC", OUTSIDE)], &[thread]);
    let outside = fixup(outside.layout().unwrap(), DISTANT);
    let [distant, find, describe] =
        ["distant", "find", "describe"].map(|name| address_of(&outside, name));
    let boot = ("boot", ExecutorAddr::new(BOOT).into());
    let mut graph = graph(objects, &[("distant", function(distant)), boot, thread]);
    graph.define_thread_functions(ExecutorAddr::new(find), ExecutorAddr::new(describe)).unwrap();
    let mut layout = graph.layout().unwrap();
    if let Some(module) = module {
        layout = layout.with_dynamic_threads(module).unwrap();
    }
    let image = fixup(layout, HERE);
    let printed = run(&image, &outside);
    (image, printed)
}

fn graph(objects: &[&ObjectFile], externals: &[(&str, External)]) -> LinkGraph {
    let mut graph = arm_graph(objects).unwrap();
    externals.iter().for_each(|(name, external)| graph.define_external(name, *external));
    graph
}

fn fixup(layout: Layout, bases: [u64; 3]) -> Image {
    layout.fixup(bases.map(ExecutorAddr::new), 16).unwrap()
}

/// Runs the images as one static program.
fn run(image: &Image, outside: &Image) -> String {
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
    segments.extend(stripes(outside, DISTANT));
    segments.push((BOOT, boot, 4096));
    segments.push((THREAD, thread, 4096));
    let scratch = Scratch::new();
    let path = scratch.0.join("program");
    std::fs::write(&path, executable(address_of(image, "_start"), &segments)).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&path, mode).unwrap();
    succeed(QEMU, &["program"], &scratch.0)
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
