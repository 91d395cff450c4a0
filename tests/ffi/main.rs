//! The C ABI. The sources make its header, and a program in C embeds a session that a controller of this library attaches.
//!
//! Invariant: the C program is compiled with every warning an error, and knows the library by the header only.

mod controller;
mod errors;
mod model;
mod places;
mod symbols;
#[path = "../it/testkit/tools.rs"]
mod tools;

use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

use farcall::controller::Client;
use farcall::{Connection, ErrorKind};

/// The output of the program that embeds a session when all went well.
const SERVED: &str = "served and shut down\n";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The static library, which this test's own build has made.
fn library() -> PathBuf {
    built("a")
}

/// The library with this ending, which this test's own build has made.
fn built(ending: &str) -> PathBuf {
    let program = std::env::current_exe().expect("a path");
    let folders = [program.parent(), program.parent().and_then(Path::parent)];
    let entries = folders.into_iter().flatten().flat_map(|folder| folder.read_dir()).flatten();
    let is_ours =
        |name: &str| name.starts_with("libfarcall_ffi") && name.ends_with(&format!(".{ending}"));
    let libraries =
        entries.flatten().filter(|entry| entry.file_name().to_str().is_some_and(is_ours));
    let newest =
        libraries.max_by_key(|entry| entry.metadata().and_then(|data| data.modified()).ok());
    newest.expect("cargo builds the libraries with this test").path()
}

fn run(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && output.stderr.is_empty(), "{command:?}:\n{complaint}");
}

/// The folder of this run's programs and objects, which are 2 GB. A run cannot remove its own at its end, since statics are not
/// dropped. So each run removes the folders of runs that have ended.
fn scratch() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let runs = Path::new(env!("CARGO_TARGET_TMPDIR")).join("ffi");
        std::fs::create_dir_all(&runs).expect("a folder");
        let own = std::process::id().to_string();
        for run in runs.read_dir().expect("a folder").flatten() {
            let process = run.file_name();
            if process == *own || !Path::new("/proc").join(process).exists() {
                // Another run may remove it at the same time.
                let _ = std::fs::remove_dir_all(run.path());
            }
        }
        let own = runs.join(own);
        std::fs::create_dir(&own).expect("a folder");
        own
    })
}

/// A program in C, of this source.
fn program(name: &str) -> PathBuf {
    static PROGRAMS: OnceLock<&'static Path> = OnceLock::new();
    let folder = PROGRAMS.get_or_init(|| {
        let folder = scratch();
        for name in ["embed", "poll"] {
            let source = root().join(format!("tests/sources/{name}.c"));
            let mut gcc = Command::new("gcc");
            gcc.args(["-std=c11", "-O1", "-g", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]);
            gcc.arg("-I").arg(root().join("src/ffi")).arg(source).arg(library());
            run(gcc.arg("-o").arg(folder.join(name)).args(["-lpthread", "-ldl", "-lm"]));
        }
        folder
    });
    folder.join(name)
}

#[test]
fn the_header_is_c_and_cpp() {
    for (compiler, standard, language) in [
        ("gcc", "-std=c99", "c"),
        ("gcc", "-std=c17", "c"),
        ("clang", "-std=c11", "c"),
        ("g++", "-std=c++11", "c++"),
        ("g++", "-std=c++20", "c++"),
        ("clang++", "-std=c++17", "c++"),
    ] {
        if !tools::is_here(compiler, "the header is not compiled by it") {
            continue;
        }
        let mut command = Command::new(compiler);
        command.args([
            standard,
            "-Wall",
            "-Wextra",
            "-Wpedantic",
            "-Werror",
            "-fsyntax-only",
            "-x",
        ]);
        run(command.arg(language).arg(root().join("src/ffi/farcall.h")));
    }
}

/// Calls every function that the program offers, then hangs up.
fn control(connection: Connection) {
    let client = Client::connect(connection).expect("a setup");
    client.register_handler(7, |_, args, result| {
        match args {
            b"no" => return Err("the controller says no".into()),
            _ => result.extend(args.iter().map(u8::to_ascii_uppercase)),
        }
        Ok(())
    });
    let call = |name: &str, args: &[u8]| {
        let function = client.symbol(name).unwrap_or_else(|| panic!("{name} is not offered"));
        client.call(function, args, None)
    };
    for size in [0, 1, 8, 9, 100_000] {
        let sum = call("sum", &vec![2; size]).expect("a sum");
        assert_eq!(sum, (2 * size as u64).to_le_bytes(), "{size} bytes");
    }
    assert_eq!(call("reverse", b"abcdefghijkl").expect("bytes"), b"lkjihgfedcba");
    assert_eq!(call("reverse", b"abc").expect("bytes"), b"cba");
    assert_eq!(call("reverse", b"").expect("bytes"), b"");
    for name in ["ask", "ask_later"] {
        assert_eq!(call(name, b"shout").expect("an answer"), b"SHOUT");
        let error = call(name, b"no").expect_err("no");
        assert!(
            error.kind() == ErrorKind::Remote
                && error.to_string().contains("the controller says no"),
            "{error}"
        );
    }
    let error = call("refuse", &[1; 50]).expect_err("an error");
    assert!(
        error.kind() == ErrorKind::Remote && error.to_string().contains("not today"),
        "{error}"
    );
    // The functions of every executor are there too.
    let everything = client.symbol("everything").expect("a variable");
    let read = client.symbol("orc_rt_ci_sps_mem_read_uint32s").expect("offered");
    let args = farcall::sps::to_bytes(&(vec![everything],));
    let words = client.call(read, &args, None).expect("words");
    assert_eq!(farcall::sps::from_bytes::<Vec<u32>>(&words).expect("words"), [42]);
}

/// The maker of the controller's end of a connection.
type Make = fn(UnixStream) -> farcall::Result<Connection>;

/// Starts a command with the number of one end of a pair of sockets, and what is made of them, as its last arguments.
fn start(command: &mut Command, make: Make, words: &[&str]) -> (Child, Connection) {
    let (ours, theirs) = UnixStream::pair().expect("a pair of sockets");
    // Not to be closed when the program starts.
    let theirs = OwnedFd::from(theirs);
    let flags = nix::fcntl::FdFlag::empty();
    nix::fcntl::fcntl(&theirs, nix::fcntl::FcntlArg::F_SETFD(flags)).expect("a descriptor");
    command.arg(theirs.as_raw_fd().to_string()).args(words);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("a process");
    (child, make(ours).expect("a connection"))
}

/// Waits for the program, which says this last; returns what it wrote to standard error.
fn end(child: Child, last: &str) -> String {
    let output = child.wait_with_output().expect("an end");
    let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{}:\n{complaint}", output.status);
    assert_eq!(String::from_utf8_lossy(&output.stdout), last);
    complaint
}

#[test]
fn a_program_in_c_is_attached_over_a_socket_it_was_given() {
    for (make, words) in
        [(Connection::socket as Make, &[][..]), (Connection::create_shared, &["lane"])]
    {
        let (child, connection) = start(&mut Command::new(program("embed")), make, words);
        control(connection);
        assert_eq!(end(child, SERVED), "");
    }
}

#[test]
fn a_program_in_c_attaches_by_name() {
    let folder = tempfile::tempdir().expect("a folder");
    let name = folder.path().join("controller");
    let listener = UnixListener::bind(&name).expect("a socket");
    for (make, words) in
        [(Connection::socket as Make, &[][..]), (Connection::create_shared, &["lane"])]
    {
        let mut command = Command::new(program("embed"));
        let command = command.arg(&name).args(words);
        let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().expect("a process");
        let (socket, _) = listener.accept().expect("the program");
        control(make(socket).expect("a connection"));
        assert_eq!(end(child, SERVED), "");
    }
}

/// Calls what the program offers that polls, then hangs up. Returns how many calls those were.
fn control_polled(connection: Connection) -> usize {
    let client = Client::connect(connection).expect("a setup");
    let symbol = |name: &str| client.symbol(name).unwrap_or_else(|| panic!("no {name}"));
    let mut calls = 0;
    for size in [0, 1, 8, 9, 100_000] {
        let bytes: Vec<u8> = (0..size).map(|at: u32| at.to_le_bytes()[0]).collect();
        let reversed = client.call(symbol("reverse"), &bytes, None).expect("bytes");
        assert!(reversed.iter().eq(bytes.iter().rev()), "{size} bytes");
        calls += 1;
    }
    let error = client.call(symbol("refuse"), &[1; 50], None).expect_err("an error");
    assert!(
        error.kind() == ErrorKind::Remote && error.to_string().contains("not today"),
        "{error}"
    );
    let polls = client.memory_access().read::<u32>(&[symbol("polls")]).expect("a word");
    assert!(polls[0] as usize <= calls + 2, "{polls:?}: it polls when there is something");
    calls + 2
}

#[test]
fn a_program_in_c_polls_from_its_own_loop() {
    for (make, word) in
        [(Connection::socket as Make, "stream"), (Connection::create_shared, "lane")]
    {
        let (child, connection) = start(&mut Command::new(program("poll")), make, &[word]);
        let calls = control_polled(connection);
        assert_eq!(end(child, &format!("served {calls} calls\n")), "");
    }
}

#[test]
fn memcheck_finds_nothing() {
    if !tools::is_here("valgrind", "memcheck does not run") {
        return;
    }
    let memcheck = |name: &str, make: Make, words: &[&str]| {
        let mut command = Command::new("valgrind");
        command.args(["--quiet", "--error-exitcode=99", "--leak-check=full"]);
        command.args(["--errors-for-leak-kinds=definite", "--show-leak-kinds=definite"]);
        start(command.arg(program(name)), make, words)
    };
    let (child, connection) = memcheck("embed", Connection::socket, &[]);
    control(connection);
    assert_eq!(end(child, SERVED), "", "valgrind is quiet");
    let (child, connection) = memcheck("embed", Connection::create_shared, &["lane"]);
    control(connection);
    assert_eq!(end(child, SERVED), "", "valgrind is quiet");
    let (child, connection) = memcheck("poll", Connection::socket, &["stream"]);
    let calls = control_polled(connection);
    assert_eq!(end(child, &format!("served {calls} calls\n")), "", "valgrind is quiet");
    println!("memcheck: 3 executions");
}
