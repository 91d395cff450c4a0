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

#[test]
fn a_program_runs_and_prints_what_it_computes() {
    if !is_here(GCC) || !is_here(QEMU) {
        return;
    }
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
                cross_compile(compiler, "support.o", &flags, bare::SUPPORT),
            ];
            let (_, printed) = bare::output(&[&objects[0], &objects[1], &objects[2]]);
            let wanted = "42\n7\n42\n-75\n34\n103\n-4\n15\n199\n0\n";
            assert_eq!(printed, wanted, "{compiler} {flags}");
        }
    }
}
