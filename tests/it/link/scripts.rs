//! Linker scripts that name files, and other ways to name a library: `-l :FILE`, `.la`.

use std::fs;

use super::definitions::Workshop;
use crate::commands::native::assert_same;

/// Two libraries, two archives and a program that needs one or more of them.
fn workshop() -> Workshop {
    let shop = Workshop::new();
    for part in 1..=4 {
        let source = format!("int part{part}(void) {{ return {part}; }}");
        shop.compile(&format!("part{part}.c"), "-O2 -fPIC", &source);
    }
    for part in [1, 2] {
        shop.run(&format!("cc -shared part{part}.o -o libg{part}.so -Wl,-soname,libg{part}.so"));
    }
    shop.run("ar rcs libg3.a part3.o");
    shop.run("ar rcs libg4.a part4.o");
    shop
}

/// Compiles a program whose status has the sum of these parts.
fn program(shop: &Workshop, parts: &[u32]) {
    let declarations: String = parts.iter().map(|part| format!("int part{part}(void); ")).collect();
    let sum: Vec<String> = parts.iter().map(|part| format!("part{part}()")).collect();
    let source = format!("{declarations} int main(void) {{ return 10 + {}; }}", sum.join(" + "));
    shop.compile("main.c", "-O2 -fPIC", &source);
}

fn write(shop: &Workshop, name: &str, text: &str) {
    fs::write(shop.path().join(name), text).expect("written");
}

/// N13.
#[test]
fn a_script_names_libraries_and_archives() {
    let shop = workshop();
    let folder = shop.path().display().to_string();
    for (script, parts) in [
        ("INPUT(-lg1 -lg2)", &[1, 2][..]),
        ("INPUT ( libg1.so libg2.so )", &[1, 2]),
        (
            "/* GNU ld script */\nOUTPUT_FORMAT(elf64-x86-64)\nGROUP(libg1.so -lg3 libg4.a)",
            &[1, 3, 4],
        ),
        ("GROUP ( FOLDER/libg1.so AS_NEEDED ( FOLDER/libg2.so ) )", &[1]),
        ("GROUP ( FOLDER/libg1.so AS_NEEDED ( FOLDER/libg2.so ) )", &[1, 2]),
        ("INPUT(part1.o) INPUT(\"libg3.a\" -lg4);", &[1, 3, 4]),
        ("INPUT(AS_NEEDED(-lg2 -lg1) -lg3)", &[1, 3]),
    ] {
        let script = script.replace("FOLDER", &folder);
        program(&shop, parts);
        for (name, files) in [
            ("liball.so", "main.o -L. -lall"),
            ("liball.a", "main.o -L. -lall"),
            ("liball.a", "main.o liball.a"),
            ("all.ld", "main.o all.ld"),
        ] {
            write(&shop, name, &script);
            let (reference, ours) = shop.both("-L.", files);
            assert_eq!(
                reference.status,
                10 + parts.iter().sum::<u32>().cast_signed(),
                "{reference}"
            );
            // The option is the compiler's own for `INPUT(-lg1)` in a file that is named.
            let ours =
                if files.contains("-L") { ours } else { shop.farcall(&format!("{files} -L.")) };
            assert_same(&format!("{script}, {files}"), &reference, &ours);
            fs::remove_file(shop.path().join(name)).expect("it was written");
        }
    }
}

/// N13: on Debian the archive and the library of mathematics are scripts. The library's script names a second library as needed.
#[test]
fn scripts_that_distributions_install() {
    let shop = Workshop::new();
    let source = "
        #include <math.h>
        #include <stdio.h>
        #include <stdlib.h>
        static void end(void) { puts(\"end\"); }
        int main(int count, char **words) { atexit(end); printf(\"%.3f\\n\", fdim(count + 1.5, 1) + fmax(count, 0)); return 0; }
    ";
    shop.compile("main.c", "-O2 -fno-builtin", source);
    for files in ["main.o -lm", "main.o -lc", "main.o -l:libm.so.6", "main.o -l:libm.so -lc"] {
        let (reference, ours) = shop.both("-lm", &format!("{files} -lm"));
        assert_eq!(reference.stdout, b"2.500\nend\n", "{reference}");
        assert_same(files, &reference, &ours);
    }
    let archive = "/usr/lib/x86_64-linux-gnu/libm.a";
    if fs::read(archive).is_ok_and(|bytes| !bytes.starts_with(b"!<arch>")) {
        let (reference, ours) = shop.both("", &format!("main.o {archive}"));
        assert_same(archive, &reference, &ours);
        println!("libm.a: 1 cases");
    } else {
        println!("{archive}, no script here: 0 cases");
    }
    // The vectors are in the library that the script names as needed.
    let vectors = "
        #include <stdio.h>
        typedef double pair __attribute__((vector_size(16)));
        pair _ZGVbN2v_sin(pair);
        int main(void) { pair sines = _ZGVbN2v_sin((pair){0, 0}); printf(\"%g\\n\", sines[0] + sines[1]); return 0; }
    ";
    shop.compile("vectors.c", "-O2", vectors);
    if shop.succeeds("cc -o program vectors.o -lm") {
        let (reference, ours) = shop.both("", "vectors.o -lm");
        assert_same("libmvec", &reference, &ours);
        println!("libmvec: 1 cases");
    } else {
        println!("libmvec, not installed: 0 cases");
    }
}

/// N13.
#[test]
fn a_library_is_named_by_its_file() {
    let shop = workshop();
    for (parts, file) in [(1, "libg1.so"), (3, "libg3.a"), (2, "part2.o")] {
        program(&shop, &[parts]);
        let (reference, ours) = shop.both("-L.", &format!("main.o -L. -l:{file}"));
        assert_eq!(reference.status, 10 + parts.cast_signed(), "{reference}");
        assert_same(file, &reference, &ours);
    }
    let ours = shop.farcall("main.o -L. -l:libnone.a");
    let said = String::from_utf8_lossy(&ours.stderr);
    let is_told = said.contains("-l:libnone.a: no such library; searched for libnone.a in ");
    assert!(ours.status == 126 && is_told, "{ours}");
}

/// N13.
#[test]
fn scripts_that_cannot_be_followed() {
    let shop = workshop();
    program(&shop, &[1]);
    write(&shop, "libself.so", "INPUT(-lself -lself -lself -lself)");
    write(&shop, "libplace.so", "SECTIONS { .text : { *(.text) } }");
    write(&shop, "libgone.so", "INPUT(libnothing.so.7)");
    write(&shop, "libopen.so", "INPUT(libg1.so");
    write(&shop, "libg1.la", "# libg1.la - a libtool library file\ndlname='libg1.so'\n");
    for (files, what) in [
        ("main.o -L. -lself", "does the script name itself?"),
        ("main.o -L. -lplace", "SECTIONS in a linker script"),
        ("main.o -L. -lgone", "names libnothing.so.7"),
        ("main.o -L. -lopen", "INPUT without )"),
        ("main.o libg1.la", "libtool"),
    ] {
        let ours = shop.farcall(files);
        let said = String::from_utf8_lossy(&ours.stderr);
        assert!(ours.status == 126 && said.contains(what), "{files}: {ours}");
        assert_eq!(said.lines().count(), 1, "{said}");
    }
}

/// N22: a library whose definitions are not all there, or that is damaged, is a fault of the link.
#[test]
fn a_library_that_cannot_be_opened_is_a_fault_of_the_link() {
    let shop = workshop();
    program(&shop, &[5]);
    shop.compile("part5.c", "-fPIC", "int nowhere(void); int part5(void) { return nowhere(); }");
    shop.run("cc -shared part5.o -o libg5.so");
    assert!(!shop.succeeds("cc -o program main.o -L. -lg5"), "the system's linker");
    let ours = shop.farcall("main.o -L. -lg5");
    let said = String::from_utf8_lossy(&ours.stderr);
    assert!(ours.status == 126 && said.contains("nowhere"), "{ours}");

    let cut = fs::read(shop.path().join("libg1.so")).expect("it was made");
    fs::write(shop.path().join("libg5.so"), &cut[..100]).expect("written");
    let ours = shop.farcall("main.o -L. -lg5");
    assert_eq!(ours.status, 126, "{ours}");
}
