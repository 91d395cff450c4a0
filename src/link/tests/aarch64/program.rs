//! A program for AArch64, linked to fixed addresses, and run by qemu.

use super::*;

/// Calls through every table of the linker, and writes what they give.
const PROGRAM: &str = "
    void start_up(void), put(long), finish(void);
    int distant(int n), other(int n); extern int table[4], shared; extern const char *words[3];
    extern __thread int counted; static __thread long zeroed; static int early;
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
        start_up();
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
        finish();
    }
";

const OTHER: &str = "
    int table[4] = {10, 20, 30, 40}; int shared; __thread int counted = 100;
    const char *words[3] = {\"a\", \"b\", \"c\"};
    static int square(int n) { return n * n; }
    static int (*const operations[2])(int) = {square, 0};
    int other(int n) { shared = 4; return operations[0](n) - counted; }
";

const WANTED: &str = "42\n7\n42\n-75\n34\n103\n-4\n15\n199\n0\n";

fn objects(compiler: &str, flags: &str) -> [ObjectFile; 3] {
    let flags = format!("{flags} -ffreestanding -fno-stack-protector -mbranch-protection=standard");
    let sources = [("program.o", PROGRAM), ("other.o", OTHER), ("support.o", bare::SUPPORT)];
    sources.map(|(name, source)| cross_compile(compiler, name, &flags, source))
}

#[test]
fn a_program_runs_and_prints_what_it_computes() {
    if !is_here(GCC) || !is_here(QEMU) {
        return;
    }
    let models = [
        "-O0 -fPIC",
        "-O2 -fPIC",
        "-O2 -fpic",
        "-O2 -fno-pic",
        "-O1 -fno-pic -ftls-model=initial-exec",
    ];
    let mut cases: Vec<(&str, String)> = models.map(|model| (GCC, model.to_owned())).to_vec();
    cases.push((GCC, "-O2 -fPIC -mtls-dialect=trad".to_owned()));
    if is_here("clang") {
        let clang = models.map(|model| ("clang", format!("--target=aarch64-linux-gnu {model}")));
        cases.extend(clang);
        // Thread-locals by their distance from the TLS block.
        let local = "--target=aarch64-linux-gnu -O2 -fPIC -mllvm -aarch64-elf-ldtls-generation";
        cases.push(("clang", local.to_owned()));
    }
    for (compiler, flags) in cases {
        let objects = objects(compiler, &flags);
        let (_, printed) = bare::output(&objects.each_ref(), None);
        assert_eq!(printed, WANTED, "{compiler} {flags}");
    }
}

#[test]
fn a_program_with_dynamic_thread_locals_runs() {
    if !is_here(GCC) || !is_here(QEMU) {
        return;
    }
    let mut cases = vec![(GCC, "-O2 -fPIC"), (GCC, "-O2 -fPIC -mtls-dialect=trad")];
    if is_here("clang") {
        let local = "--target=aarch64-linux-gnu -O2 -fPIC -mllvm -aarch64-elf-ldtls-generation";
        cases.push(("clang", local));
    }
    for (compiler, flags) in cases {
        let objects = objects(compiler, flags);
        let (image, printed) = bare::output(&objects.each_ref(), Some(9));
        assert_eq!(printed, WANTED, "{compiler} {flags}");
        assert_eq!(image.threads.unwrap().module, Some(9));
    }
}
