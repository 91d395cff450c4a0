//! The corpus: compiles the programs of `tests/sources`, and of crates, to objects and executables.
//!
//! Artefacts lie in the tests' folder of the target directory under a hash of all that went into them. So a second run of the
//! tests compiles nothing. Headers of the system are not hashed.
//!
//! Invariant: an artefact is complete or absent, even if several processes compile it at the same time.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex};
use std::thread;

use farcall::link::Processor;

use super::tools;

/// Compilers running at once for one list of sources.
const JOBS: usize = 2;

/// A way to compile: the compiler for C and C++, and its flags.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Build<'a> {
    /// The compilers of C and of C++.
    compilers: [&'a str; 2],
    /// The flags, apart from `-c` and `-o`.
    flags: &'a [&'a str],
}

/// Makes rustc compile an object through which panics may pass.
pub(crate) const UNWIND: &str = "-Cpanic=unwind";

/// The flags of a first program.
pub(crate) const PLAIN: Build<'static> = gcc(&["-O2"]);

/// Code and data that hold addresses in 32 bits.
pub(crate) const LOW: Build<'static> = gcc(&["-O2", "-fno-pic"]);

/// The ways to compile that every small program goes through.
const MATRIX: &[Build<'static>] = match Processor::HOST {
    Processor::Aarch64 => &MATRIX_OF_AARCH64,
    _ => &MATRIX_OF_X86_64,
};

const MATRIX_OF_X86_64: [Build<'static>; 12] = [
    PLAIN,
    gcc(&["-O0"]),
    gcc(&["-O2", "-fPIC"]),
    gcc(&["-O2", "-ffunction-sections", "-fdata-sections"]),
    gcc(&["-O2", "-fcommon"]),
    gcc(&["-O2", "-fvisibility=hidden"]),
    gcc(&["-O2", "-fno-plt", "-fPIC"]),
    gcc(&["-O2", "-mcmodel=large"]),
    gcc(&["-O2", "-mcmodel=medium", "-mlarge-data-threshold=0"]),
    LOW,
    gcc(&["-Og", "-g"]),
    gcc(&["-O3", "-fno-asynchronous-unwind-tables", "-fcf-protection=none"]),
];

/// The large model is for code that is not independent of its position.
const MATRIX_OF_AARCH64: [Build<'static>; 13] = [
    PLAIN,
    gcc(&["-O0"]),
    gcc(&["-O2", "-fPIC"]),
    gcc(&["-O2", "-ffunction-sections", "-fdata-sections"]),
    gcc(&["-O2", "-fcommon"]),
    gcc(&["-O2", "-fvisibility=hidden"]),
    gcc(&["-O2", "-mcmodel=large", "-fno-pic"]),
    LOW,
    gcc(&["-Og", "-g"]),
    gcc(&["-O2", "-moutline-atomics"]),
    gcc(&["-O2", "-mno-outline-atomics"]),
    gcc(&["-O2", "-mbranch-protection=standard"]),
    gcc(&["-O3", "-fno-asynchronous-unwind-tables"]),
];

/// The same for clang, where it is installed.
const MATRIX_OF_CLANG: [Build<'static>; 4] =
    [clang(&["-O2"]), clang(&["-O0", "-fPIC"]), clang(&["-O1", "-g"]), clang(&["-O2", "-fno-pic"])];

/// Has gcc reach thread-locals by descriptors.
pub(crate) const DESCRIPTORS: &str = match Processor::HOST {
    Processor::Aarch64 => "-mtls-dialect=desc",
    _ => "-mtls-dialect=gnu2",
};

/// Has gcc reach thread-locals by calls, from code that may be far from their function.
pub(crate) const FAR_CALLS: &str = match Processor::HOST {
    Processor::Aarch64 => "-mtls-dialect=trad",
    _ => "-mcmodel=large",
};

/// Has gcc mark what branches may go to.
pub(crate) const BRANCH_TARGETS: &str = match Processor::HOST {
    Processor::Aarch64 => "-mbranch-protection=standard",
    _ => "-fcf-protection",
};

/// The next larger model of code, or of thread-locals.
pub(crate) const LARGER: &str = match Processor::HOST {
    Processor::Aarch64 => "-mtls-size=32",
    _ => "-mcmodel=medium",
};

/// A build by the system's compiler.
pub(crate) const fn gcc<'a>(flags: &'a [&'a str]) -> Build<'a> {
    Build { compilers: ["cc", "c++"], flags }
}

/// A build by clang.
pub(crate) const fn clang<'a>(flags: &'a [&'a str]) -> Build<'a> {
    Build { compilers: ["clang", "clang++"], flags }
}

impl Build<'_> {
    /// True when the objects cannot be linked into a position-independent executable.
    pub(crate) fn is_low(&self) -> bool {
        ["-fno-pic", "-Crelocation-model=static"].iter().any(|flag| self.flags.contains(flag))
    }
}

/// All the builds of the matrix that this machine can do.
pub(crate) fn matrix() -> Vec<Build<'static>> {
    let mut builds = MATRIX.to_vec();
    if tools::is_here("clang", "its builds of the matrix") {
        builds.extend(MATRIX_OF_CLANG);
    }
    builds
}

/// A file of `tests/sources`.
pub(crate) fn source(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/sources").join(name);
    path.canonicalize().unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The object of a file of `tests/sources`, compiled as `build` says.
pub(crate) fn object(name: &str, build: Build<'_>) -> PathBuf {
    compile(&source(name), build)
}

/// The objects of several sources, a few compiled at a time.
pub(crate) fn compile_all(sources: &[PathBuf], build: Build<'_>) -> Vec<PathBuf> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        while let Some(source) = sources.get(next.fetch_add(1, Ordering::Relaxed)) {
            done.push(compile(source, build));
        }
        done
    };
    thread::scope(|scope| {
        let jobs: Vec<_> = (0..JOBS).map(|_| scope.spawn(work)).collect();
        for job in jobs {
            job.join().expect("the compiler's complaint is above");
        }
    });
    sources.iter().map(|source| compile(source, build)).collect()
}

/// The object of one source in C, C++, assembler or Rust (for which the flags are rustc's).
pub(crate) fn compile(source: &Path, build: Build<'_>) -> PathBuf {
    let stem = source.file_stem().and_then(OsStr::to_str).expect("sources have plain names");
    let compiler = match source.extension().and_then(OsStr::to_str) {
        Some("rs") => "rustc",
        Some("cpp") => build.compilers[1],
        _ => build.compilers[0],
    };
    let name = format!("{stem}.o");
    let mut command = Command::new(compiler);
    command.args(build.flags).arg(source);
    if compiler == "rustc" {
        command.args(["--edition=2024", "--crate-type=lib", "--emit=obj", "-Ccodegen-units=1"]);
        if !build.flags.contains(&UNWIND) {
            command.arg("-Cpanic=abort");
        }
    } else {
        command.arg("-c");
    }
    let mut inputs = with_companions(source);
    if fs::read_to_string(source).is_ok_and(|text| text.contains("<farcall/linked.h>")) {
        let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("../src/executor/include");
        inputs.push(include.join("farcall/linked.h"));
        command.arg("-I").arg(include);
    }
    command.args(["-o", &name]);
    artefact(&name, command, &inputs)
}

/// A source and the files of its folder that it may include.
fn with_companions(source: &Path) -> Vec<PathBuf> {
    let is_rust = source.extension().is_some_and(|ending| ending == "rs");
    let endings: &[&str] = if is_rust { &["rs", "s"] } else { &["h"] };
    let may_include = |path: &PathBuf| {
        path.extension().and_then(OsStr::to_str).is_some_and(|ending| endings.contains(&ending))
    };
    let folder = source.parent().expect("sources lie in a folder");
    let entries = fs::read_dir(folder).expect("the folder of a source can be read").flatten();
    let mut inputs: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(may_include).collect();
    inputs.sort();
    inputs.push(source.to_path_buf());
    inputs
}

/// The objects linked into a native executable, which is the reference. `build` is what they were compiled with.
pub(crate) fn executable(objects: &[PathBuf], libraries: &[&str], build: Build<'_>) -> PathBuf {
    let options: Vec<String> = libraries.iter().map(|name| format!("-l{name}")).collect();
    executable_with(objects, &options, build)
}

/// The same with these options, libraries among them, behind the objects.
pub(crate) fn executable_with(
    objects: &[PathBuf],
    options: &[String],
    build: Build<'_>,
) -> PathBuf {
    let mut command = Command::new("cc");
    if build.is_low() {
        command.arg("-no-pie");
    }
    command.args(objects).args(options);
    command.args(["-o", "native"]);
    artefact("native", command, objects)
}

/// A shared library `libshared.so` of objects (compiled with `-fPIC`).
pub(crate) fn shared_library(objects: &[PathBuf]) -> PathBuf {
    let mut command = Command::new("cc");
    command.arg("-shared").args(objects).args(["-o", "libshared.so"]);
    artefact("libshared.so", command, objects)
}

/// An archive of objects with the name `libNAME.a`.
pub(crate) fn archive(name: &str, objects: &[PathBuf]) -> PathBuf {
    archive_as("qcD", name, objects)
}

/// The same that holds the objects' paths in place of the objects.
pub(crate) fn thin_archive(name: &str, objects: &[PathBuf]) -> PathBuf {
    archive_as("qcDT", name, objects)
}

fn archive_as(operation: &str, name: &str, objects: &[PathBuf]) -> PathBuf {
    let name = format!("lib{name}.a");
    let mut command = Command::new("ar");
    command.args([operation, &name]).args(objects);
    artefact(&name, command, objects)
}

/// An object or archive with its debug sections compressed.
pub(crate) fn compressed(file: &Path) -> PathBuf {
    let mut command = Command::new("objcopy");
    command.arg("--compress-debug-sections=zlib").arg(file).arg("compressed.a");
    artefact("compressed.a", command, &[file.to_path_buf()])
}

/// The archive of a Rust program of `tests/sources` with all of the standard library, compiled with these flags.
pub(crate) fn rust_archive(name: &str, flags: &[&str]) -> PathBuf {
    let source = source(name);
    let mut command = Command::new("rustc");
    command.args(["--edition=2024", "--crate-type=staticlib"]).args(flags).arg(&source);
    command.args(["-o", "librust.a"]);
    artefact("librust.a", command, &with_companions(&source))
}

/// The file `name` that `command` makes out of `inputs` in the folder where it runs.
fn artefact(name: &str, mut command: Command, inputs: &[PathBuf]) -> PathBuf {
    let mut hasher = DefaultHasher::new();
    version(command.get_program()).hash(&mut hasher);
    command.get_args().for_each(|argument| argument.hash(&mut hasher));
    for input in inputs {
        let bytes = fs::read(input).unwrap_or_else(|error| panic!("{}: {error}", input.display()));
        bytes.hash(&mut hasher);
    }
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("corpus");
    let folder = cache.join(format!("{:016x}", hasher.finish()));
    let path = folder.join(name);
    let turn = turn(&path);
    let _turn = turn.lock().expect("who failed to make it has said why");
    if path.exists() {
        return path;
    }
    fs::create_dir_all(&folder).expect("the target directory can be written");
    let workplace = tempfile::tempdir_in(&folder).expect("the target directory can be written");
    command.current_dir(workplace.path());
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}\n{complaint}", output.status);
    fs::rename(workplace.path().join(name), &path).expect("both lie in the same folder");
    path
}

/// A lock for each artefact: two tests that need the same one compile it once.
fn turn(path: &Path) -> Arc<Mutex<()>> {
    type Turns = HashMap<PathBuf, Arc<Mutex<()>>>;
    static TURNS: LazyLock<Mutex<Turns>> = LazyLock::new(Mutex::default);
    let mut turns = TURNS.lock().expect("nothing panics with this lock");
    Arc::clone(turns.entry(path.to_path_buf()).or_default())
}

/// A tool's words about its version; a new compiler makes new artefacts.
fn version(tool: &OsStr) -> Vec<u8> {
    static VERSIONS: LazyLock<Mutex<HashMap<PathBuf, Vec<u8>>>> = LazyLock::new(Mutex::default);
    let mut versions = VERSIONS.lock().expect("nothing panics with this lock");
    let ask = || Command::new(tool).arg("--version").output().map_or(Vec::new(), |out| out.stdout);
    versions.entry(PathBuf::from(tool)).or_insert_with(ask).clone()
}
