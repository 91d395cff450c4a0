//! Which definition a name gets, where linkers have rules beyond strong and weak: archives, versions, sections of which one counts.
//!
//! Invariant: the native program is linked from the very same objects, archives and libraries.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

use crate::commands::native::{assert_same, farcall_run, native};
use crate::testkit::process::{Ended, run_to_end};

/// A folder with compiled sources.
pub(super) struct Workshop(TempDir);

impl Workshop {
    pub(super) fn new() -> Self {
        Self(tempfile::tempdir().expect("a folder for the test"))
    }

    pub(super) fn path(&self) -> &Path {
        self.0.path()
    }

    /// Runs a command in the folder, which must succeed.
    pub(super) fn run(&self, command: &str) {
        let output = self.output(command).expect("it is installed");
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{command}: {complaint}");
    }

    /// True if the command, run in the folder, succeeds.
    pub(super) fn succeeds(&self, command: &str) -> bool {
        self.output(command).is_ok_and(|output| output.status.success())
    }

    fn output(&self, command: &str) -> std::io::Result<Output> {
        let mut words = command.split_whitespace();
        let mut process = Command::new(words.next().expect("a command"));
        process.args(words).current_dir(self.path()).output()
    }

    /// Writes a source and compiles it to an object of the same name.
    pub(super) fn compile(&self, name: &str, flags: &str, source: &str) {
        fs::write(self.path().join(name), source).expect("written");
        let (stem, _) = name.split_once('.').expect("a source has an ending");
        self.run(&format!("cc -w {flags} -c {name} -o {stem}.o"));
    }

    /// The files and options that the words name.
    pub(super) fn inputs(&self, words: &str) -> Vec<PathBuf> {
        let input = |word: &str| match word.strip_prefix("-L") {
            Some(folder) => format!("-L{}", self.path().join(folder).display()).into(),
            None if word.starts_with('-') => word.into(),
            None => self.path().join(word),
        };
        words.split_whitespace().map(input).collect()
    }

    /// The native program's behaviour, linked by the system with these files and flags, and by `farcall run`.
    pub(super) fn both(&self, flags: &str, files: &str) -> (Ended, Ended) {
        self.run(&format!("cc {flags} -o program {files} -Wl,-rpath,{}", self.path().display()));
        let reference = run_to_end(native(&self.path().join("program"), &[]), b"");
        (reference, self.farcall(files))
    }

    /// The behaviour of `farcall run` with these files.
    pub(super) fn farcall(&self, files: &str) -> Ended {
        run_to_end(farcall_run(&self.inputs(files), &[]), b"")
    }
}

/// A program with a common variable, and how it shows that.
const WITH_COMMON: &str = "
    #include <stdio.h>
    int limits[4], spare;
    int total(void);
    int main(void) { printf(\"%d %d %d %d\\n\", limits[0], limits[3], spare, total()); return 0; }
";
const MEMBER_WITH_COMMON: &str =
    "int limits[4], spare; int total(void) { return limits[1] + limits[2]; }";

/// N5: as Fortran's BLOCK DATA, or an initialised variable beside tentative ones.
#[test]
fn a_variable_of_an_archive_comes_before_a_common_one() {
    let tells = |what: &str| {
        format!(
            "#include <stdio.h>\n__attribute__((constructor)) static void tell(void) {{ puts(\"{what}\"); }}"
        )
    };
    let data = format!("{} int limits[4] = {{1, 2, 3, 4}};", tells("data"));
    let weak = format!("{} __attribute__((weak)) int limits[4] = {{5, 6, 7, 8}};", tells("weak"));
    let function = format!("{} int limits(void) {{ return 9; }}", tells("function"));
    let zeroes = format!("{} int limits[4] = {{0}}; int spare = 3;", tells("zeroes"));
    for (name, members) in [
        ("behind", vec![MEMBER_WITH_COMMON, &data]),
        ("in front", vec![data.as_str(), MEMBER_WITH_COMMON]),
        ("weak", vec![weak.as_str(), MEMBER_WITH_COMMON]),
        ("a function", vec![function.as_str(), MEMBER_WITH_COMMON]),
        ("the second has it", vec![MEMBER_WITH_COMMON, &weak, &data]),
        ("of zeroes", vec![MEMBER_WITH_COMMON, &zeroes]),
        ("none", vec![MEMBER_WITH_COMMON]),
    ] {
        let shop = Workshop::new();
        shop.compile("main.c", "-fcommon", WITH_COMMON);
        let mut objects = String::new();
        for (number, member) in members.iter().enumerate() {
            let flags = if *member == MEMBER_WITH_COMMON { "-fcommon" } else { "-fno-common" };
            shop.compile(&format!("m{number}.c"), flags, member);
            objects += &format!(" m{number}.o");
        }
        shop.run(&format!("ar rcs libpart.a{objects}"));
        let (reference, ours) = shop.both("", "main.o libpart.a");
        assert_eq!(reference.status, 0, "{name}: {reference}");
        assert_same(name, &reference, &ours);
    }
}

/// N6: a copy in the program would be a second variable. The system's linker refuses it as well.
#[test]
fn a_protected_variable_is_not_copied() {
    let shop = Workshop::new();
    let library = "
        __attribute__((visibility(\"protected\"))) int level = 3;
        int open_level = 5;
        int get(void) { return level + open_level; }
    ";
    shop.compile("part.c", "-O2 -fPIC", library);
    shop.run("cc -shared part.o -o libpart.so");
    let main = "
        #include <stdio.h>
        extern int level, open_level;
        int get(void);
        int main(void) { open_level = 20; level = 10; printf(\"%d\\n\", get()); return 0; }
    ";
    shop.compile("main.c", "-O2 -fPIC", main);
    let (reference, ours) = shop.both("", "main.o -L. -lpart");
    assert_eq!(reference.stdout, b"30\n", "{reference}");
    assert_same("by its address", &reference, &ours);

    shop.compile("main.c", "-O2 -fno-pic", main);
    let links = shop.succeeds("cc -no-pie -o program main.o -L. -lpart");
    assert!(!links, "the system's linker");
    let ours = shop.farcall("main.o -L. -lpart");
    let said = String::from_utf8_lossy(&ours.stderr);
    let is_told = said.contains("level is a protected variable") && said.contains("-fPIC");
    assert!(ours.status == 126 && is_told, "{ours}");
}

/// N11: `.symver` in the program's own objects, and in a member of an archive.
#[test]
fn versions_of_a_name_in_the_program() {
    let shop = Workshop::new();
    let versions = "
        __asm__(\".symver old_api, api@V1\\n.symver new_api, api@@V2\");
        int old_api(void) { return 1; }
        int new_api(void) { return 2; }
        int number __attribute__((used)) = 5;
        __asm__(\".symver number, counted@@V2\");
    ";
    let main = "
        #include <stdio.h>
        __asm__(\".symver first, api@V1\\n.symver second, api@V2\");
        int first(void), second(void), api(void);
        extern int counted;
        int main(void) {
            printf(\"%d %d %d %d\\n\", first(), second(), api(), counted);
            return second == api;
        }
    ";
    for flags in ["-O2 -fPIC", "-O2 -fno-pic -fno-pie"] {
        shop.compile("versions.c", flags, versions);
        shop.compile("main.c", flags, main);
        shop.run("rm -f libpart.a");
        shop.run("ar rcs libpart.a versions.o");
        // Without a table of names, which the system's linker does not read.
        shop.run("ar rcS unlisted.a versions.o");
        let link = if flags.contains("-fno-pie") { "-no-pie" } else { "" };
        let (reference, ours) = shop.both(link, "main.o versions.o");
        assert_eq!(reference.stdout, b"1 2 2 5\n", "{reference}");
        assert_same("objects", &reference, &ours);
        assert_same("other order", &reference, &shop.farcall("versions.o main.o"));
        let (in_archive, ours) = shop.both(link, "main.o libpart.a");
        assert_same("an archive", &in_archive, &ours);
        assert_same("no table", &in_archive, &shop.farcall("main.o unlisted.a"));
    }
}

/// N11: the assembler leaves `api` where it makes `api@@V2` of it. GNU ld takes that for two definitions, lld for one.
#[test]
fn a_name_beside_its_own_default_version() {
    let shop = Workshop::new();
    let source = "
        __asm__(\".symver api, api@@V2\\n.symver second, api@V2\");
        int api(void) { return 4; }
        int second(void);
        int main(void) { return second() + api(); }
    ";
    shop.compile("main.c", "-O2 -fPIC", source);
    assert_eq!(shop.farcall("main.o").status, 8);
    let chosen = "
        __asm__(\".symver api, api@@V2\\n.symver second, api@V2\");
        static int chosen(void) { return 6; }
        static int (*choose(void))(void) { return chosen; }
        int api(void) __attribute__((ifunc(\"choose\")));
        int second(void);
        int main(void) { return second == api ? second() : 1; }
    ";
    shop.compile("main.c", "-O2 -fPIC", chosen);
    assert_eq!(shop.farcall("main.o").status, 6, "an ifunc");
    shop.compile("main.c", "-O2 -fPIC", source);
    shop.compile("other.c", "", "int api(void) { return 5; }");
    let ours = shop.farcall("main.o other.o");
    let said = String::from_utf8_lossy(&ours.stderr);
    assert!(ours.status == 126 && said.contains("`api` is defined twice"), "{ours}");
}

/// N11: only the version alone is in the archive's table, and only the version is wanted.
#[test]
fn a_version_is_found_in_an_archive() {
    let shop = Workshop::new();
    let asm = |name: &str| {
        format!(
            ".globl start_{name}\n.text\n.symver start_{name}, {name}\nstart_{name}: movl $7, %eax\nret\n"
        )
    };
    for name in ["api@@V2", "api@V2"] {
        let plain = name.replace('@', "_");
        shop.compile(
            "part.s",
            "",
            &asm(name).replace(&format!("start_{name}"), &format!("start_{plain}")),
        );
        shop.run("rm -f libpart.a");
        shop.run("ar rcs libpart.a part.o");
        let main = "__asm__(\".symver of_version, api@V2\"); int of_version(void); int main(void) { return of_version(); }";
        shop.compile("main.c", "-O2", main);
        let (reference, ours) = shop.both("", "main.o libpart.a");
        assert_eq!(reference.status, 7, "{reference}");
        assert_same(name, &reference, &ours);
    }
}

/// N11: a version that is not the default one, of a library that is opened and of the C library.
#[test]
fn versions_of_a_name_in_libraries() {
    let shop = Workshop::new();
    fs::write(
        shop.path().join("versions.map"),
        "V1 { global: api; local: *; };\nV2 { global: api; counted; } V1;\n",
    )
    .expect("written");
    let library = "
        __asm__(\".symver old_api, api@V1\\n.symver new_api, api@@V2\");
        int old_api(void) { return 1; }
        int new_api(void) { return 2; }
        int counted = 6;
    ";
    let main = "
        #include <errno.h>
        #include <stdio.h>
        #include <stdlib.h>
        __asm__(\".symver first, api@V1\\n.symver second, api@V2\\n.symver old_path, realpath@GLIBC_2.2.5\");
        __asm__(\".symver out, stdout@GLIBC_2.2.5\\n.symver versioned, counted@V2\");
        int first(void), second(void), api(void);
        char *old_path(const char *, char *);
        extern int versioned;
        extern FILE *out;
        int main(void) {
            fprintf(out, \"%d %d %d %d\\n\", first(), second(), api(), versioned);
            int is_refused = old_path(\"/\", NULL) == NULL;
            fprintf(stdout, \"%d %d\\n\", is_refused, errno == EINVAL);
            return realpath(\"/\", NULL) == NULL;
        }
    ";
    shop.compile("part.c", "-O2 -fPIC", library);
    shop.run("cc -shared part.o -o libpart.so -Wl,--version-script=versions.map");
    for (flags, link) in [("-O2 -fPIC", ""), ("-O2 -fno-pic", "-no-pie"), ("-O0 -fPIE", "-pie")] {
        shop.compile("main.c", flags, main);
        let (reference, ours) = shop.both(link, "main.o -L. -lpart");
        assert_eq!(reference.stdout, b"1 2 2 6\n1 1\n", "{reference}");
        assert_same(flags, &reference, &ours);
    }
    shop.compile(
        "main.c",
        "",
        "__asm__(\".symver f, api@V3\"); int f(void); int main(void) { return f(); }",
    );
    assert!(!shop.succeeds("cc -o program main.o -L. -lpart"), "there is no such version");
    let ours = shop.farcall("main.o -L. -lpart");
    let said = String::from_utf8_lossy(&ours.stderr);
    assert!(ours.status == 126 && said.contains("undefined symbols: api@V3"), "{ours}");
}

/// N12: as compilers made templates and inline functions before there were COMDAT groups.
#[test]
fn the_first_of_linkonce_sections_counts() {
    let section = |number: u32| {
        format!(
            ".section .gnu.linkonce.t.pick, \"ax\", @progbits\n.globl pick\n.type pick, @function\n\
             pick: movl $1{number}, %eax\nret\n.size pick, .-pick\n\
             .section .gnu.linkonce.d.value, \"aw\", @progbits\n.globl value\nvalue: .long 2{number}\n\
             .text\n.globl of_{number}\nof_{number}: call pick\naddl value(%rip), %eax\nret\n\
             .section .note.GNU-stack, \"\", @progbits\n"
        )
    };
    let main = "
        #include <stdio.h>
        int pick(void), of_1(void), of_2(void);
        extern int value;
        int main(void) { printf(\"%d %d %d %d\\n\", pick(), value, of_1(), of_2()); return 0; }
    ";
    let shop = Workshop::new();
    shop.compile("main.c", "-O2 -fPIC", main);
    shop.compile("one.s", "", &section(1));
    shop.compile("two.s", "", &section(2));
    for files in ["main.o one.o two.o", "two.o one.o main.o"] {
        let (reference, ours) = shop.both("", files);
        assert_eq!(reference.status, 0, "{reference}");
        assert_same(files, &reference, &ours);
    }
}

/// N19: the message shows the name, and what to do.
#[test]
fn a_name_that_is_not_utf_8_is_shown() {
    let shop = Workshop::new();
    let source =
        b".globl \"caf\xe9\"\n.text\n\"caf\xe9\": ret\n.globl main\nmain: xorl %eax, %eax\nret\n";
    fs::write(shop.path().join("latin.s"), source).expect("written");
    shop.run("cc -c latin.s -o latin.o");
    let ours = shop.farcall("latin.o");
    let said = String::from_utf8_lossy(&ours.stderr);
    let is_told = said.contains("\"caf\\xe9\"") && said.contains("--redefine-sym");
    assert!(ours.status == 126 && is_told, "{ours}");
}
