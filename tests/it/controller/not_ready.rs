//! Programs that end before they are a ready executor: the error says why.

use std::io::IoSlice;
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use farcall::controller::ExecutorBuilder;
use farcall::{Error, ErrorKind, ExecutorAddr};
use nix::sys::socket::{
    AddressFamily, ControlMessage, MsgFlags, SockFlag, SockType, recv, sendmsg, socketpair,
};

use crate::alone;
use crate::testkit::launch::FARCALL;
use crate::testkit::process::run_to_end;

fn error_of(program: impl Into<PathBuf>) -> Error {
    let started = ExecutorBuilder::new().program(program).start();
    // It may end behind its first word.
    started
        .and_then(|executor| executor.process()?.call(ExecutorAddr::new(0), &[]))
        .expect_err("no executor")
}

/// An executable file with this text.
fn script(folder: &Path, text: &str) -> PathBuf {
    let path = folder.join("program");
    // Another process writes it: a file that is open for writing here, or in what other tests start just now, cannot be run.
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", "cat > \"$1\" && chmod 755 \"$1\"", "sh"]).arg(&path);
    let ended = run_to_end(shell, text.as_bytes());
    assert_eq!(ended.status, 0, "{ended}");
    path
}

#[test]
fn a_program_that_is_no_executor_is_called_so() {
    let folder = tempfile::tempdir().expect("a folder");
    let three = script(folder.path(), "#!/bin/sh\nexit 3\n");
    for (program, status) in [(Path::new("/bin/false"), 1), (Path::new("/bin/cat"), 1), (&three, 3)]
    {
        let error = error_of(program);
        let death = error.death().unwrap_or_else(|| panic!("{error:?}"));
        assert_eq!(death.exit_status, Some(status), "{error}");
        let status = format!("status {status}");
        for words in
            [&status, &*program.to_string_lossy(), "before it spoke", "no farcall executor"]
        {
            assert!(error.to_string().contains(words), "{words}: {error}");
        }
    }
}

#[test]
fn a_text_is_no_program() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = script(folder.path(), "nothing that runs\n");
    let error = error_of(&text);
    assert!(error.death().is_none() && error.to_string().contains("Exec format error"), "{error}");
    assert!(error.to_string().contains(&*text.to_string_lossy()), "{error}");
}

/// The host has room for the slab, and the executor has not: the executor's reason arrives.
#[test]
fn an_executor_without_address_space_says_so() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = format!("#!/bin/sh\nulimit -v 320000\nexec '{FARCALL}' \"$@\"\n");
    let error = error_of(script(folder.path(), &text)).to_string();
    for words in ["the first slab", "--slab", "RLIMIT_AS", "327680000 bytes", "ulimit -v"] {
        assert!(error.contains(words), "{words}: {error}");
    }
}

/// The arguments that an executor is started with, in a process that becomes one behind a filter.
const ARGUMENT: &str = "FARCALL_TEST_ARGUMENT";

#[test]
fn an_executor_without_threads_says_so() {
    let name = "controller::not_ready::an_executor_without_threads_says_so";
    if let Some(argument) = std::env::var_os(ARGUMENT) {
        const CLONE: i64 = 56;
        const CLONE3: i64 = 435;
        // The C library starts threads by the older call where there is no newer one, with these flags.
        alone::refuse(CLONE3, &[], 38);
        alone::refuse(CLONE, &[(0, 0x003d_0f00)], 11);
        let mut executor = Command::new(FARCALL);
        panic!("{}", executor.arg(argument).exec());
    }
    let folder = tempfile::tempdir().expect("a folder");
    let this = std::env::current_exe().expect("this program");
    let this = this.display();
    let text = format!("#!/bin/sh\n{ARGUMENT}=\"$1\" exec '{this}' {name} --exact --nocapture\n");
    let error = error_of(script(folder.path(), &text));
    assert_eq!(error.death().and_then(|death| death.exit_status), Some(125), "{error:?}");
    for words in
        ["it said: ", "cannot start the thread farcall-acceptor", "temporarily unavailable"]
    {
        assert!(error.to_string().contains(words), "{words}: {error}");
    }
}

/// Starts an executor whose controller sends this first, with some descriptors. Returns how it ends, and its last words: a version, and a
/// text behind the features.
fn first_message(bytes: &[u8], files: usize) -> (Output, u64, String) {
    let flags = SockFlag::SOCK_CLOEXEC;
    let (ours, theirs) =
        socketpair(AddressFamily::Unix, SockType::SeqPacket, None, flags).expect("sockets");
    let data = [IoSlice::new(bytes)];
    let files = vec![ours.as_raw_fd(); files];
    let rights = [ControlMessage::ScmRights(&files)];
    sendmsg::<()>(ours.as_raw_fd(), &data, &rights, MsgFlags::empty(), None).expect("sent");
    let mut executor = Command::new(FARCALL);
    executor.arg(format!("--farcall-executor=0,{}", std::process::id())).stdin(theirs);
    let output = executor.output().expect("an executor");
    let mut words = [0; 4096];
    let count = recv(ours.as_raw_fd(), &mut words, MsgFlags::MSG_DONTWAIT).expect("last words");
    let (letter, words) = words[..count].split_first().expect("a letter");
    assert_eq!(*letter, b'w');
    let (version, words) = words.split_first_chunk().expect("a version");
    let text = String::from_utf8_lossy(&words[8..]).into_owned();
    (output, u64::from_le_bytes(*version), text)
}

#[test]
fn an_executor_of_another_version_names_both() {
    // A controller of version 99 sends a lane and three stripes, or anything behind its version.
    for (behind, files) in [(&b""[..], 4), (&[0xff; 3000], 1), (b"12345678", 0)] {
        let bytes = [&b"l"[..], &99_u64.to_le_bytes(), behind].concat();
        let (output, version, words) = first_message(&bytes, files);
        assert_eq!(output.status.code(), Some(125));
        assert_ne!(version, 99);
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert_eq!(complaint.lines().count(), 1, "{complaint}");
        for text in [&*words, &*complaint] {
            assert!(text.contains("the controller is of version 99, "), "{text}");
            assert!(text.contains(&format!("this executor of version {version}: ")), "{text}");
            assert!(text.contains("from one build"), "{text}");
        }
    }
}

#[test]
fn a_controller_that_begins_otherwise_is_named_by_letter() {
    for (bytes, files, words) in [
        (&b"?12345678"[..], 0, "the unknown letter '?' (0x3f)"),
        (b"l123", 4, "message 'l' (0x6c, Begin) of 4 bytes"),
        (b"f", 1, "message 'f' (0x66, Freeze) of a controller came to an executor ahead of"),
        (b"r", 0, "message 'r' (0x72, RequestLane) of an executor came to an executor ahead of"),
        (b"s12345678", 1, "message 's' (0x73, Slab) with 1 descriptors, where 3 are due"),
        (&[b'w'; 5000], 0, "message 'w' (0x77, LastWords)"),
    ] {
        let (output, _, said) = first_message(bytes, files);
        assert_eq!(output.status.code(), Some(125));
        for text in [&*said, &*String::from_utf8_lossy(&output.stderr)] {
            for words in [words, "from one build"] {
                assert!(text.contains(words), "{words}: {text}");
            }
        }
    }
}

/// A program that writes to its control socket and then sleeps is no executor. The controller ends it and names the letter.
#[test]
fn a_program_that_breaks_the_protocol_is_ended_by_name() {
    let folder = tempfile::tempdir().expect("a folder");
    for (written, words) in [
        ("?12345678", "the unknown letter '?' (0x3f)"),
        ("w12", "message 'w' (0x77, LastWords) of 3 bytes"),
        ("z", "message 'z' (0x7a, Frozen) of a zygote came to a controller"),
        (
            "c12345678",
            "message 'c' (0x63, Sweeper) of an executor came to a controller that expects",
        ),
    ] {
        let text = format!("#!/bin/sh\nprintf %s '{written}' >&3\nexec sleep 600\n");
        let program = script(folder.path(), &text);
        let error = error_of(&program);
        assert_eq!(error.kind(), ErrorKind::Violation, "{error}");
        assert_eq!(error.death().and_then(|death| death.signal), Some(9), "{error}");
        for words in [words, "from one build", &*program.to_string_lossy()] {
            assert!(error.to_string().contains(words), "{words}: {error}");
        }
    }
}

#[test]
fn a_controller_of_another_version_names_both_once() {
    let folder = tempfile::tempdir().expect("a folder");
    // Last words of version 7, whose text has another form.
    let text = "#!/bin/sh\nprintf 'w\\007\\0\\0\\0\\0\\0\\0\\0?:of a later build' >&3\nexit 125\n";
    let error = error_of(script(folder.path(), text)).to_string();
    for words in ["it is of version 7, ", "this controller of version ", "from one build"] {
        assert_eq!(error.matches(words).count(), 1, "{words}: {error}");
    }
    assert!(!error.contains("later build"), "{error}");
}
