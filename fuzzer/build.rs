//! Compiles what is linked beside each target.

fn main() {
    println!("cargo::rerun-if-changed=src/runtime.c");
    let mut cc = cc::Build::new();
    // Its functions run at every edge, in a debug build too.
    cc.file("src/runtime.c").opt_level(2).flag("-Wno-unused-parameter").warnings_into_errors(true);
    let objects = cc.compile_intermediates();
    println!("cargo::rustc-env=RUNTIME_O={}", objects[0].display());
}
