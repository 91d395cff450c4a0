//! Files that cannot be linked are refused with status 126, or 127 for a missing file. Nothing of the program runs, and standard error
//! is one line that says what is wrong and where.
//!
//! Invariant: no input, however damaged, makes the command panic, hang or die by a signal.

use std::ffi::OsStr;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::commands::native::farcall_run;
use crate::testkit::corpus::{self, PLAIN, gcc};
use crate::testkit::launch::FARCALL;
use crate::testkit::process::run_to_end;

/// Where the machine is in the header of an ELF file.
const MACHINE: Range<usize> = 18..20;

/// Checks that `farcall run` refuses these inputs: this status, and one line with all of `words`.
pub(crate) fn refused<I: AsRef<OsStr>>(inputs: &[I], status: i32, words: &[&str]) {
    let ended = run_to_end(farcall_run(inputs, &[]), b"");
    let what: Vec<_> = inputs.iter().map(AsRef::as_ref).collect();
    assert_eq!(ended.status, status, "{what:?}: {ended}");
    assert!(ended.stdout.is_empty(), "{what:?}: {ended}");
    let complaint = ended.complaint();
    assert_eq!(complaint.lines().count(), 1, "{what:?}: one line is wanted: {ended}");
    for word in words {
        assert!(complaint.contains(word), "{what:?}: {word:?} is missing: {ended}");
    }
}

/// A file with these bytes in a folder of the test.
fn file(folder: &Path, name: &str, bytes: &[u8]) -> PathBuf {
    let path = folder.join(name);
    fs::write(&path, bytes).expect("the folder of a test can be written");
    path
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder for the test")
}

fn hello() -> PathBuf {
    corpus::object("hello.c", PLAIN)
}

#[test]
fn missing_file() {
    refused(&["no/such/file.o"], 127, &["no/such/file.o"]);
    refused(&[hello(), "gone.a".into()], 127, &["gone.a"]);
}

#[test]
fn missing_library() {
    refused(&[hello(), "-l".into(), "nobodyhasthis".into()], 126, &["nobodyhasthis"]);
}

#[test]
fn wrong_command_line() {
    let none: [&str; 0] = [];
    for inputs in [&none[..], &["--nosuchoption"], &["--timeout", "soon", "x.o"]] {
        let ended = run_to_end(farcall_run(inputs, &[]), b"");
        assert_eq!(ended.status, 125, "{inputs:?}: {ended}");
        assert!(ended.stdout.is_empty() && !ended.stderr.is_empty(), "{inputs:?}: {ended}");
    }
}

#[test]
fn folder_in_place_of_a_file() {
    let folder = folder();
    refused(&[folder.path()], 126, &[&folder.path().display().to_string()]);
}

#[test]
fn a_file_that_is_not_regular_is_not_read() {
    let folder = folder();
    let pipe = folder.path().join("pipe.o");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).expect("a pipe with a name");
    // No process will ever write to it.
    refused(&[&pipe], 126, &["pipe.o", "not a regular file"]);
    for device in ["/dev/zero", "/dev/full", "/dev/null", "/dev/tty"] {
        refused(&[device], 126, &[device]);
    }
    refused(&["/dev/zero"], 126, &["not a regular file"]);
    // Where -l looks, such a file is none.
    let library = folder.path().join("libzero.so");
    nix::unistd::mkfifo(&library, nix::sys::stat::Mode::S_IRWXU).expect("a pipe with a name");
    let inputs = [hello(), "-L".into(), folder.path().into(), "-l".into(), "zero".into()];
    refused(&inputs, 126, &["-lzero: no such library"]);
}

#[test]
fn a_file_that_is_too_large_is_not_read() {
    let folder = folder();
    let path = folder.path().join("hole.a");
    // It takes no room on the disk.
    let file = fs::File::create(&path).expect("the folder of a test can be written");
    file.set_len((4 << 30) + 1).expect("a file of nothing");
    refused(&[path], 126, &["hole.a", "more than 4294967296 bytes"]);
}

#[test]
fn files_that_are_no_objects() {
    let folder = folder();
    refused(&[file(folder.path(), "empty.o", b"")], 126, &["empty.o"]);
    refused(&[file(folder.path(), "empty.a", b"")], 126, &["empty.a"]);
    refused(&[file(folder.path(), "text.o", b"int main(void) { return 0; }\n")], 126, &["text.o"]);
    refused(&[file(folder.path(), "zeros.o", &[0; 4096])], 126, &["zeros.o"]);
}

#[test]
fn truncated_objects() {
    let (folder, whole) = (folder(), fs::read(hello()).expect("just compiled"));
    for length in (64..whole.len()).step_by(64) {
        let name = format!("cut-{length}.o");
        refused(&[file(folder.path(), &name, &whole[..length])], 126, &[&name]);
    }
}

#[test]
fn truncated_archive() {
    let (folder, archive) = (folder(), corpus::archive("hello", &[hello()]));
    let whole = fs::read(archive).expect("just made");
    for length in [4, 40, 100, whole.len() / 2, whole.len() - 100] {
        let name = format!("cut-{length}.a");
        refused(&[file(folder.path(), &name, &whole[..length])], 126, &[&name]);
    }
}

/// Damage that a linker may or may not mind: it refuses in one line, or the program runs.
#[test]
fn damaged_headers() {
    let (folder, whole) = (folder(), fs::read(hello()).expect("just compiled"));
    let run = |bytes: &[u8]| {
        let object = file(folder.path(), "damaged.o", bytes);
        let inputs = ["--timeout".into(), "10s".into(), object, "-lm".into()];
        run_to_end(farcall_run(&inputs, &[]), b"")
    };
    let undamaged = run(&whole);
    assert_eq!(undamaged.status, 42, "{undamaged}");
    let sections = usize::from_le_bytes(whole[40..48].try_into().expect("eight bytes"));
    let section_headers = (sections + 64..whole.len()).step_by(24);
    for position in (0..64).step_by(8).chain(section_headers) {
        for value in [0, 1, 0x7fff_ffff_ffff_fff8, u64::MAX] {
            let mut bytes = whole.clone();
            let end = bytes.len().min(position + 8);
            bytes[position..end].copy_from_slice(&u64::to_le_bytes(value)[..end - position]);
            let ended = run(&bytes);
            let what = format!("{value:#x} at byte {position}: {ended}");
            let complaint = ended.complaint();
            // A program that crashes ends the command by the same signal.
            assert!(!ended.killed || complaint.contains("executor died by "), "{what}");
            assert!(!complaint.contains("panicked"), "{what}");
            assert!(ended.status != 125, "{what}");
            assert!(ended.status != 126 || complaint.lines().count() == 1, "{what}");
        }
    }
}

#[test]
fn other_machines() {
    let (folder, whole) = (folder(), fs::read(hello()).expect("just compiled"));
    let patched = |name: &str, range: Range<usize>, bytes: &[u8]| {
        let mut object = whole.clone();
        object[range].copy_from_slice(bytes);
        file(folder.path(), name, &object)
    };
    refused(&[patched("arm.o", MACHINE, &[183, 0])], 126, &["arm.o"]);
    refused(&[patched("riscv.o", MACHINE, &[243, 0])], 126, &["riscv.o"]);
    refused(&[patched("narrow.o", 4..5, &[1])], 126, &["narrow.o"]);
    refused(&[patched("big-endian.o", 5..6, &[2])], 126, &["big-endian.o"]);
}

#[test]
fn object_of_link_time_optimisation() {
    let object = corpus::object("hello.c", gcc(&["-O2", "-flto", "-fno-fat-lto-objects"]));
    refused(&[object], 126, &["hello.o", "LTO", "-fno-lto"]);
}

#[test]
fn linked_files_given_as_objects() {
    let shared =
        corpus::shared_library(&[corpus::object("visibility_b.c", gcc(&["-O2", "-fPIC"]))]);
    refused(&[hello(), shared], 126, &["libshared.so", "shared"]);
    let program = corpus::executable(&[hello()], &["m"], PLAIN);
    refused(&[program], 126, &["native"]);
}

#[test]
fn undefined_symbols_are_all_listed() {
    let missing = ["missing_first", "missing_second", "missing_variable"];
    refused(&[corpus::object("undefined.c", PLAIN)], 126, &missing);
    refused(&[corpus::object("undefined.c", gcc(&["-O0", "-fPIC"]))], 126, &missing);
}

#[test]
fn undefined_thread_local() {
    for (flags, relocation) in [(&["-O2"][..], "GOTTPOFF"), (&["-O2", "-fPIC"], "TLSGD")] {
        let object = corpus::object("tls_later.c", gcc(flags));
        refused(&[object], 126, &["tls_later.o", "value", relocation, "shared library"]);
    }
}

#[test]
fn undefined_symbol_of_a_member_that_was_pulled_in() {
    let archive = corpus::archive("half", &[corpus::object("archive_needed.c", PLAIN)]);
    refused(&[corpus::object("archive_main.c", PLAIN), archive], 126, &["behind"]);
}

#[test]
fn symbol_defined_twice() {
    let both = [hello(), corpus::object("crash.c", PLAIN), "-lm".into()];
    refused(&both, 126, &["main", "hello.o", "crash.o"]);
}

#[test]
fn no_main() {
    refused(&[corpus::object("archive_behind.c", PLAIN)], 126, &["main"]);
}

#[test]
fn variable_of_a_library_that_does_not_tell_its_size() {
    let library = corpus::shared_library(&[corpus::object("sizeless.s", PLAIN)]);
    let folder = library.parent().expect("it lies in a folder").to_path_buf();
    let object = corpus::object("sizeless_user.c", corpus::LOW);
    let inputs = [object, "-L".into(), folder, "-lshared".into()];
    refused(&inputs, 126, &["sizeless_user.o", "R_X86_64_32", "`sizeless`", "-fPIC"]);
}

#[test]
fn relocation_out_of_range() {
    let object = corpus::object("out_of_range.s", PLAIN);
    refused(&[object], 126, &["out_of_range.o", "R_X86_64_32", "main"]);
}

/// A large archive is mapped. A library whose constructor waits holds the command between reading the archive and linking it.
#[test]
fn an_archive_that_is_cut_short_while_it_is_mapped() {
    let folder = folder();
    let path = |name: &str| folder.path().join(name);
    let build = |script: &str| {
        let mut shell = Command::new("/bin/sh");
        shell.args(["-ec", script]).current_dir(&folder);
        let ended = run_to_end(shell, b"");
        assert_eq!(ended.status, 0, "{script}: {ended}");
    };
    file(folder.path(), "main.c", b"int big_at(int); int main(void) { return big_at(7); }");
    file(folder.path(), "big.c", b"char big[1 << 20] = {1}; int big_at(int n) { return big[n]; }");
    let wait = b"#include <unistd.h>\n\
        __attribute__((constructor)) static void wait(void) { while (access(\"go\", F_OK)) usleep(1000); }";
    file(folder.path(), "wait.c", wait);
    build("gcc -c main.c big.c; gcc -shared -fPIC -o libwait.so wait.c; ar rcs libbig.a big.o");
    let mut command = Command::new(FARCALL);
    command.args(["run", "main.o", "libbig.a", "-L.", "-l", "wait"]).current_dir(&folder);
    let command = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().expect("farcall starts");
    let maps = format!("/proc/{}/maps", child.id());
    let is_mapped = || fs::read_to_string(&maps).is_ok_and(|maps| maps.contains("libbig.a"));
    let begun = Instant::now();
    while !is_mapped() {
        assert!(begun.elapsed() < Duration::from_secs(30), "the archive is never mapped");
        thread::sleep(Duration::from_millis(1));
    }
    let archive = fs::File::options().write(true).open(path("libbig.a")).expect("it is there");
    archive.set_len(4096).expect("it can be cut short");
    file(folder.path(), "go", b"");
    let output = child.wait_with_output().expect("farcall ends");
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(126), "{complaint}");
    assert!(complaint.contains("cut short") && complaint.lines().count() == 1, "{complaint}");
}
