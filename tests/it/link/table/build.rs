//! The programs of the table: every compiler with every kind of flags.
//!
//! Invariant: every object of a build but that with too many sections is compiled with the build's flags.

use std::path::{Path, PathBuf};
use std::process::Command;

use farcall::link::Processor;

use super::features::{NO_BRANCH_PROTECTION, NO_PLT, NO_TENTATIVE, OUTLINED, OWN_SECTIONS};
use crate::testkit::corpus::{self, UNWIND, clang, gcc};

/// A part of the table.
#[derive(Debug)]
pub(super) struct Compiler {
    /// Its name in the table.
    pub(super) name: &'static str,
    command: &'static str,
    language: Language,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Language {
    C,
    Cxx,
    RustStd,
    RustNoStd,
}
use Language::{C, Cxx, RustNoStd, RustStd};

const fn compiler(name: &'static str, command: &'static str, language: Language) -> Compiler {
    Compiler { name, command, language }
}

/// All parts of the table.
pub(super) const COMPILERS: &[Compiler] = match Processor::HOST {
    Processor::Aarch64 => &[GCC, GXX, CLANG, RUSTC_STD],
    _ => &[GCC, GXX, CLANG, CLANGXX, RUSTC_STD, RUSTC_NO_STD],
};

const GCC: Compiler = compiler("gcc", "cc", C);
const GXX: Compiler = compiler("g++", "c++", Cxx);
const CLANG: Compiler = compiler("clang", "clang", C);
const CLANGXX: Compiler = compiler("clang++", "clang++", Cxx);
const RUSTC_STD: Compiler = compiler("rustc std", "rustc", RustStd);
const RUSTC_NO_STD: Compiler = compiler("rustc no_std", "rustc", RustNoStd);

impl Compiler {
    /// True for a compiler without which the test fails.
    pub(super) fn is_needed(&self) -> bool {
        !self.is_clang()
    }

    fn is_clang(&self) -> bool {
        self.command.starts_with("clang")
    }

    pub(super) fn is_here(&self) -> bool {
        let version = Command::new(self.command).arg("--version").output();
        version.is_ok_and(|output| output.status.success())
    }

    fn is_rust(&self) -> bool {
        matches!(self.language, RustStd | RustNoStd)
    }
}

/// A column: flags of C and C++, and the flags of rustc that mean the same, or a note why there are none.
type Flags = (&'static [&'static str], Result<&'static [&'static str], &'static str>);

/// All columns.
pub(super) const FLAGS: &[Flags] = match Processor::HOST {
    Processor::Aarch64 => &FLAGS_OF_AARCH64,
    _ => &FLAGS_OF_X86_64,
};

const FLAGS_OF_X86_64: [Flags; 13] = [
    (&["-O2"], Ok(&["-Copt-level=2"])),
    (&["-O2", "-ffunction-sections", "-fdata-sections"], Err(OWN_SECTIONS)),
    (&["-O2", "-fPIC"], Ok(&["-Copt-level=2", "-Crelocation-model=pic"])),
    (&["-O2", "-fPIC", "-fno-plt"], Err(NO_PLT)),
    (&["-O2", "-fPIE"], Ok(&["-Copt-level=2", "-Crelocation-model=pie"])),
    (&["-O2", "-fno-pic"], Ok(&["-Copt-level=2", "-Crelocation-model=static"])),
    (&["-O2", "-mcmodel=medium"], Ok(&["-Copt-level=2", "-Ccode-model=medium"])),
    (&["-O2", "-mcmodel=large"], Ok(&["-Copt-level=2", "-Ccode-model=large"])),
    (&["-O2", "-fcommon"], Err(NO_TENTATIVE)),
    (&["-O0"], Ok(&["-Copt-level=0"])),
    (&["-O3"], Ok(&["-Copt-level=3"])),
    (&["-Og", "-g"], Ok(&["-Copt-level=1", "-g"])),
    (&["-O2", "-g", COMPRESS], Ok(&["-Copt-level=2", "-g", COMPRESS])),
];

/// The large model is for code that is not independent of its position.
const FLAGS_OF_AARCH64: [Flags; 9] = [
    (&["-O2"], Ok(&["-Copt-level=2"])),
    (&["-O2", "-ffunction-sections", "-fdata-sections"], Err(OWN_SECTIONS)),
    (&["-O2", "-fPIC"], Ok(&["-Copt-level=2", "-Crelocation-model=pic"])),
    (&["-O2", "-fno-pic"], Ok(&["-Copt-level=2", "-Crelocation-model=static"])),
    (&LARGE_OF_AARCH64, Ok(&["-Copt-level=2", "-Crelocation-model=static", "-Ccode-model=large"])),
    (&["-O0"], Ok(&["-Copt-level=0"])),
    (&["-O2", "-g"], Ok(&["-Copt-level=2", "-g"])),
    (&["-O2", "-moutline-atomics"], Err(OUTLINED)),
    (&["-O2", "-mbranch-protection=standard"], Err(NO_BRANCH_PROTECTION)),
];

const LARGE_OF_AARCH64: [&str; 3] = ["-O2", "-fno-pic", "-mcmodel=large"];

/// The same flags for clang. In its large model, code reaches thread-locals in one way only.
fn of_clang(flags: &'static [&'static str]) -> &'static [&'static str] {
    if flags == LARGE_OF_AARCH64 {
        &["-O2", "-fno-pic", "-mcmodel=large", "-ftls-model=local-exec"]
    } else {
        flags
    }
}

/// The end of the names of sources that are for this processor.
const PROCESSOR: &str = match Processor::HOST {
    Processor::Aarch64 => "aarch64",
    _ => "x86_64",
};

/// Compresses debug sections. Objects of rustc go through `objcopy` for it.
const COMPRESS: &str = "-gz=zlib";

/// A compiler with flags.
#[derive(Debug)]
pub(super) struct Build {
    pub(super) compiler: &'static Compiler,
    flags: Result<&'static [&'static str], &'static str>,
    /// The flags of C and C++, whatever the compiler.
    flags_of_c: &'static [&'static str],
}

/// A program, linked by the system and ready to be linked by `farcall run`.
#[derive(Debug)]
pub(super) struct Program {
    pub(super) executable: PathBuf,
    /// Objects, archives and options.
    pub(super) inputs: Vec<PathBuf>,
}

impl Build {
    /// All of a compiler, in the order of the columns.
    pub(super) fn all(compiler: &'static Compiler) -> Vec<Build> {
        let build = |(c, rust): Flags| {
            let c = if compiler.is_clang() { of_clang(c) } else { c };
            let flags = if compiler.is_rust() { rust } else { Ok(c) };
            Build { compiler, flags, flags_of_c: c }
        };
        FLAGS.iter().copied().map(build).collect()
    }

    /// Why there is no such build.
    pub(super) fn note(&self) -> Option<&'static str> {
        self.flags.err()
    }

    /// The top of its column: the flags but for the level of optimisation that is the usual one.
    pub(super) fn flags_in_table(&self) -> String {
        let unusual = |flags: &[&str]| {
            let rest = flags.strip_prefix(&["-O2"]).or(flags.strip_prefix(&["-Copt-level=2"]));
            rest.filter(|rest| !rest.is_empty()).unwrap_or(flags).join(" ")
        };
        match self.flags {
            Ok(flags) => format!("`{}`", unusual(flags)),
            Err(_) => format!("(`{}`)", unusual(self.flags_of_c)),
        }
    }

    pub(super) fn label(&self) -> String {
        format!("{} {}", self.compiler.name, self.flags.unwrap_or_default().join(" "))
    }

    /// The program, and the program with more sections than a symbol table has numbers for.
    pub(super) fn compile(&self) -> [Program; 2] {
        let flags = self.flags.unwrap_or_default();
        let mut files = if self.compiler.is_rust() { self.rust(flags) } else { self.c(flags) };
        let members = self.members(flags);
        let archives = [
            corpus::archive("regular", &members[..2]),
            corpus::thin_archive("thin", &members[2..]),
        ];
        let plain = self.link(&[&files[..], &archives].concat());
        files.push(self.many_sections());
        [plain, self.link(&[&files[..], &archives].concat())]
    }

    fn link(&self, files: &[PathBuf]) -> Program {
        let library = corpus::object("table/library.c", gcc(&["-O2", "-fPIC"]));
        let library = corpus::shared_library(&[library]);
        let libraries: &[&str] =
            if self.compiler.language == Cxx { &["stdc++", "m"] } else { &["m"] };
        let mut options: Vec<String> = libraries.iter().map(|name| format!("-l{name}")).collect();

        let folder = library.parent().expect("it lies in a folder").to_path_buf();
        let by_name = ["-L".into(), folder, "-lshared".into()];
        let mut inputs = [files, &by_name].concat();
        inputs.extend(options.iter().map(PathBuf::from));
        // So that the native program can name them, too.
        options.push("-Wl,--export-dynamic-symbol=*traced_*".into());
        let files = [files, &[library]].concat();
        let build = gcc(self.flags.unwrap_or_default());
        Program { executable: corpus::executable_with(&files, &options, build), inputs }
    }

    fn build<'a>(&self, flags: &'a [&'a str]) -> corpus::Build<'a> {
        if self.compiler.is_clang() { clang(flags) } else { gcc(flags) }
    }

    /// The objects of a program in C or C++: its own, those in the words of both, and assembly.
    fn c(&self, flags: &[&str]) -> Vec<PathBuf> {
        let (own, standard, language): (_, &[&str], &[&str]) = match self.compiler.language {
            Cxx => (["program.cpp", "program_other.cpp"], &["-std=c++17"], &["-x", "c++"]),
            _ => (["program.c", "program_other.c"], &[], &[]),
        };
        let own_flags = [flags, standard].concat();
        let both_flags = [flags, language].concat();
        let objects = |names: &[&str], flags| {
            let sources: Vec<PathBuf> = names.iter().map(|name| source(name)).collect();
            corpus::compile_all(&sources, self.build(flags))
        };
        [
            objects(&own, &own_flags),
            objects(&["pieces.c", "frames.c", "models.c"], &both_flags),
            objects(&[&assembly("assembly"), &assembly("assembly_other")], flags),
        ]
        .concat()
    }

    /// The object that is a crate of its own, and the archive of the program with all that Rust brings.
    fn rust(&self, flags: &[&str]) -> Vec<PathBuf> {
        let (name, panics) = match self.compiler.language {
            RustStd => ("table/program_std.rs", UNWIND),
            _ => ("table/program_nostd.rs", "-Cpanic=abort"),
        };
        let flags = [&uncompressed(flags)[..], &[panics]].concat();
        let other = corpus::compile(&source("other.rs"), gcc(&flags));
        let archive = corpus::rust_archive(name, &flags);
        [other, archive].map(|file| self.finish(file)).into()
    }

    /// Members of archives: two of a regular one, three of a thin one.
    fn members(&self, flags: &[&str]) -> Vec<PathBuf> {
        let member = |number: u32| {
            if self.compiler.is_rust() {
                let choice = format!("--cfg=member=\"{number}\"");
                let flags = [&uncompressed(flags)[..], &[choice.as_str()]].concat();
                return self.finish(corpus::compile(&source("member.rs"), gcc(&flags)));
            }
            let language: &[&str] =
                if self.compiler.language == Cxx { &["-x", "c++"] } else { &[] };
            let choice = format!("-DMEMBER={number}");
            let flags = [flags, language, &[choice.as_str()]].concat();
            corpus::compile(&source("member.c"), self.build(&flags))
        };
        (0..5).map(member).collect()
    }

    fn many_sections(&self) -> PathBuf {
        let name = if self.compiler.is_rust() { "many.rs" } else { &assembly("many") };
        corpus::compile(&source(name), self.build(&[]))
    }

    /// The object that rustc made, compressed where that is asked for.
    fn finish(&self, file: PathBuf) -> PathBuf {
        let is_wanted = self.flags.is_ok_and(|flags| flags.contains(&COMPRESS));
        if is_wanted { corpus::compressed(&file) } else { file }
    }
}

/// The name of a source in assembly.
fn assembly(name: &str) -> String {
    format!("{name}_{PROCESSOR}.s")
}

fn source(name: &str) -> PathBuf {
    corpus::source(Path::new("table").join(name).to_str().expect("plain"))
}

/// The flags that rustc itself knows.
fn uncompressed<'a>(flags: &[&'a str]) -> Vec<&'a str> {
    flags.iter().copied().filter(|flag| *flag != COMPRESS).collect()
}
