//! Controllers whose process is set up in ways of its own: what they ignore, what they may use, what they have open.

use std::path::PathBuf;
use std::process::Command;

use farcall::controller::{Executor, ExecutorBuilder};
use farcall::link::ObjectFile;
use farcall::{ErrorKind, ExecutorAddr};

use crate::alone;
use crate::commands::native::{assert_same, farcall_run, native};
use crate::testkit::corpus::{self, PLAIN};
use crate::testkit::launch;
use crate::testkit::process::{Ended, run_to_end};

/// `farcall run` with these arguments of `crash.c`, started by a shell behind `setup`.
fn run_behind(setup: &str, args: &[&str]) -> Ended {
    let run = farcall_run(&[corpus::object("crash.c", PLAIN)], args);
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", &format!("{setup} \"$@\""), "sh"]);
    shell.arg(run.get_program()).args(run.get_args());
    run_to_end(shell, b"")
}

/// Runs `body`, with the object of `crash.c`, in a process of its own for the test with this name. A shell has started it
/// behind `setup`.
fn run_behind_setup(setup: &str, name: &str, body: impl FnOnce(PathBuf)) {
    // Compiled out here: a process that ignores the ends of children can wait for none.
    if let Some(object) = std::env::var_os(SET_UP) {
        return body(object.into());
    }
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", &format!("{setup} \"$@\""), "sh"]);
    shell.arg(std::env::current_exe().expect("this program"));
    shell.args([name, "--exact", "--nocapture"]).env(SET_UP, corpus::object("crash.c", PLAIN));
    let ended = run_to_end(shell, b"");
    let stdout = String::from_utf8_lossy(&ended.stdout);
    assert!(ended.status == 0 && stdout.contains("1 passed"), "{ended}");
}

/// An object in an executor, and its function with this name.
fn load(executor: &Executor, object: PathBuf, name: &str) -> ExecutorAddr {
    let dylib = executor.library("crash");
    let file = std::fs::read(object).expect("just compiled");
    dylib.add_object(&ObjectFile::parse("crash.o", file).expect("an object")).expect("added");
    dylib.lookup(name).expect("linked")
}

/// True where the kernel keeps the status of a process that was collected.
fn keeps_status() -> bool {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").expect("a version");
    let mut numbers = release.split(['.', '-']).map_while(|part| part.parse::<u32>().ok());
    (numbers.next(), numbers.next()) >= (Some(6), Some(15))
}

/// `farcall run` forks its executor, which must not show what the command itself has open and handles.
#[test]
fn a_program_finds_no_handlers_and_descriptors_of_the_command() {
    let object = corpus::object("dispositions.c", PLAIN);
    let executable = corpus::executable(std::slice::from_ref(&object), &[], PLAIN);
    let folder = tempfile::tempdir().expect("a folder");
    let mut ours = farcall_run(&[object], &[]);
    ours.arg("--json").arg(folder.path().join("report"));
    let [native, ours] = [native(&executable, &[]), ours].map(|command| {
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", "exec 9</dev/null; trap '' USR1; exec \"$@\"", "sh"]);
        shell.arg(command.get_program()).args(command.get_args());
        run_to_end(shell, b"")
    });
    assert_same("dispositions.c", &native, &ours);
    let text = String::from_utf8_lossy(&ours.stdout);
    assert!(text.contains("descriptor 9\n") && text.contains("signal 10: ignored\n"), "{ours}");
}

#[test]
fn a_process_with_threads_is_not_forked_for_an_executor() {
    let other = std::thread::spawn(|| std::thread::sleep(std::time::Duration::from_secs(1)));
    let error = farcall::executor::fork().expect_err("there are two threads");
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    assert!(error.to_string().contains("one thread"), "{error}");
    other.join().expect("it sleeps");
}

#[test]
fn a_host_that_ignores_the_ends_of_children_learns_the_status() {
    for _ in 0..10 {
        let ended = run_behind("exec env --ignore-signal=CHLD", &["exit", "9"]);
        if keeps_status() {
            assert_eq!((ended.status, ended.complaint().as_str()), (9, ""), "{ended}");
        } else {
            assert!(ended.complaint().contains("exit status is unknown"), "{ended}");
        }
    }
    let ended = run_behind("exec env --ignore-signal=CHLD", &["store"]);
    for word in ["SIGSEGV", "0xdadbeef", "store_to_nowhere+0x"] {
        assert!(ended.complaint().contains(word), "{ended}");
    }
    assert!(ended.status == 139, "{ended}");
}

#[test]
fn a_status_that_was_collected_elsewhere_is_unknown() {
    let name = "controller::hosts::a_status_that_was_collected_elsewhere_is_unknown";
    // An ignored signal is inherited.
    run_behind_setup("exec env --ignore-signal=CHLD", name, |object| {
        // PIDFD_GET_INFO.
        alone::refuse(16, &[(1, 0xc040_ff0b)], 25);
        let launch = launch::builder();
        let executor = launch.start().expect("an executor");
        let process = executor.process().expect("a process");
        // The kernel tells the status while the process ends; behind its end nothing does.
        match process.exit(9) {
            Ok(status) => assert_eq!(status, 9),
            Err(error) => {
                let death = error.death().expect("it is gone");
                assert!(death.status_unknown && death.exit_status.is_none(), "{death:?}");
                assert!(death.signal.is_none(), "{death:?}");
                assert!(error.to_string().contains("another part of this process"), "{error}");
            }
        }

        let executor = launch.start().expect("an executor");
        let process = executor.process().expect("a process");
        let function = load(&executor, object, "store_to_nowhere");
        let error = process.call(function, &[]).expect_err("a crash");
        let death = error.death().expect("it is gone");
        // The crash handler has told it before the kernel could.
        assert!(death.exit_status.is_none(), "{death:?}");
        assert_eq!((death.signal, death.fault_address), (Some(11), Some(0xdad_beef)), "{death:?}");
        for word in ["SIGSEGV", "store_to_nowhere+0x"] {
            assert!(error.to_string().contains(word), "{error}");
        }
    });
}

#[test]
fn a_limit_on_the_size_of_files_is_an_error_and_no_death() {
    for limit in ["0", "1", "100000"] {
        let ended = run_behind(&format!("ulimit -f {limit}; exec"), &["exit", "9"]);
        assert!(!ended.killed && ended.status == 125, "{ended}");
        let bytes = limit.parse::<u64>().expect("a number") * 512;
        for word in ["ulimit -f", "RLIMIT_FSIZE", &format!(" {bytes} bytes")] {
            assert!(ended.complaint().contains(word), "{word}: {ended}");
        }
    }
}

#[test]
fn an_executor_inherits_what_it_is_meant_to() {
    let name = "controller::hosts::an_executor_inherits_what_it_is_meant_to";
    run_behind_setup("exec 7</dev/null 9</dev/null; exec", name, |_| {
        let launch = launch::builder();
        let has = |launch: &ExecutorBuilder, number| {
            let process = launch.start().expect("an executor").process().expect("an executor");
            let file = std::fs::read_link(format!("/proc/{}/fd/{number}", process.pid()));
            file.is_ok_and(|file| file.as_os_str() == "/dev/null")
        };
        let is_here = |number| std::fs::read_link(format!("/proc/self/fd/{number}")).is_ok();
        for number in [7, 9] {
            assert!(is_here(number), "the shell has opened {number}");
            assert!(!has(&launch, number), "{number} is open");
            assert!(has(&launch.clone().inherit_descriptors(), number), "{number} is not open");
        }
    });
}

#[test]
fn a_program_that_is_run_has_what_its_shell_has_opened() {
    let run = farcall_run(&[corpus::object("inherited.c", PLAIN)], &["7"]);
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", "exec 7<<end; exec \"$@\"\nfrom the shell\nend", "sh"]);
    shell.arg(run.get_program()).args(run.get_args());
    let ended = run_to_end(shell, b"");
    assert_eq!((ended.status, ended.stdout.as_slice()), (0, &b"from the shell\n"[..]), "{ended}");
}

/// Set where a shell has set this process up, to the path of an object.
const SET_UP: &str = "FARCALL_TEST_SET_UP_ENDS";
