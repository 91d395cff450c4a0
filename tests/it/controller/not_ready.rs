//! Programs that end before they are a ready executor: the error says why.

use std::io::IoSlice;
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use farcall::controller::ExecutorBuilder;
use farcall::{Error, ExecutorAddr};
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
        .and_then(|controller| controller.call(ExecutorAddr::new(0), &[]))
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

/// What an executor is started with, in a process that becomes one behind a filter.
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

#[test]
fn an_executor_of_another_version_names_both() {
    let flags = SockFlag::SOCK_CLOEXEC;
    let (ours, theirs) =
        socketpair(AddressFamily::Unix, SockType::SeqPacket, None, flags).expect("sockets");
    // What a controller of version 99 sends first: a lane and three stripes.
    let mut bytes = vec![b'l'];
    bytes.extend(99_u64.to_le_bytes());
    let data = [IoSlice::new(&bytes)];
    let files = [ours.as_raw_fd(); 4];
    let rights = [ControlMessage::ScmRights(&files)];
    sendmsg::<()>(ours.as_raw_fd(), &data, &rights, MsgFlags::empty(), None).expect("sent");
    let mut executor = Command::new(FARCALL);
    executor.arg(format!("--farcall-executor=0,{}", std::process::id())).stdin(theirs);
    let output = executor.output().expect("an executor");
    assert_eq!(output.status.code(), Some(125));
    let mut words = [0; 4096];
    let count = recv(ours.as_raw_fd(), &mut words, MsgFlags::MSG_DONTWAIT).expect("last words");
    let (letter, words) = words[..count].split_first().expect("a letter");
    let (version, words) = words.split_first_chunk().expect("a version");
    let version = u64::from_le_bytes(*version);
    assert!(*letter == b'w' && version != 99, "{letter} {version}");
    let complaint = String::from_utf8_lossy(&output.stderr);
    for text in [&*String::from_utf8_lossy(words), &*complaint] {
        assert!(text.contains("version 99"), "{text}");
        assert!(text.contains(&format!("executor of version {version}")), "{text}");
    }
}
