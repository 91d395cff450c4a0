//! Signals that scripts send to `farcall run`, and how it stops and dies, compared with the native program.

use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill, killpg};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use crate::commands::native::{Program, both_ways, farcall_run, native, program, same_as_native};
use crate::testkit::corpus::{self, PLAIN};
use crate::testkit::process::run_to_end;

/// Starts the program of the arguments behind the signal, and waits until it is ready. Then it sends the signal, and prints how the
/// program ended and what it wrote. No signal is ignored, also where `nohup` starts the tests.
const KILL: &str = r#"
ulimit -c 0
signal=$1; out=$2; shift 2
env --default-signal "$@" > "$out" & pid=$!
until grep -q ready "$out"; do sleep 0.01; done
kill -s "$signal" $pid
wait $pid 2> /dev/null
echo "status $?"; cat "$out"
"#;

/// The script's output for the native program, and for `farcall run`.
fn said(signal: &str, args: &[&str]) -> [String; 2] {
    let folder = tempfile::tempdir().expect("a folder");
    let object = corpus::object("signalled.c", PLAIN);
    let executable = corpus::executable(std::slice::from_ref(&object), &[], PLAIN);
    let run = |name: &str, program: Command| {
        let out = folder.path().join(name);
        let mut command = Command::new("bash");
        command.args(["-c", KILL, "sh", signal]).arg(&out);
        command.arg(program.get_program()).args(program.get_args());
        command.envs(program.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let ended = run_to_end(command, b"");
        assert_eq!(ended.status, 0, "{signal} {name}: {ended}");
        String::from_utf8_lossy(&ended.stdout).into_owned()
    };
    [run("native", native(&executable, args)), run("farcall", farcall_run(&[object], args))]
}

#[test]
fn signals_that_a_script_sends_reach_the_program() {
    // N8
    for signal in ["TERM", "HUP", "INT", "QUIT", "USR1", "USR2", "ALRM", "WINCH", "CONT", "TSTP"] {
        let [native, ours] = said(signal, &["handles"]);
        assert!(native.starts_with("status 7\nready\nsignal "), "{signal}: {native}");
        assert_eq!(ours, native, "{signal}, which the program handles");
    }
    for signal in ["TERM", "HUP", "INT", "QUIT", "USR1", "USR2", "ALRM"] {
        let [native, ours] = said(signal, &["leaves"]);
        assert!(native.starts_with("status 1") && native.ends_with("\nready\n"), "{native}");
        assert_eq!(ours, native, "{signal}, which the program does not handle");
    }
}

/// How a program stops, and how it ends when it is told to go on. Its process group has a parent, as in a shell with job control:
/// others cannot be stopped from a terminal.
fn stopped(mut command: Command) -> [WaitStatus; 2] {
    command.process_group(0).stdin(Stdio::null()).stdout(Stdio::null());
    #[expect(clippy::zombie_processes, reason = "waitpid collects it, which sees that it stops")]
    let child = command.spawn().expect("it is there");
    let pid = Pid::from_raw(child.id().cast_signed());
    let wait = || {
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            let flags = WaitPidFlag::WUNTRACED | WaitPidFlag::WNOHANG;
            match waitpid(pid, Some(flags)).expect("our own child") {
                WaitStatus::StillAlive if Instant::now() > deadline => {
                    killpg(pid, Signal::SIGKILL).expect("our own group");
                    panic!("{command:?} neither stops nor ends");
                }
                WaitStatus::StillAlive => std::thread::sleep(Duration::from_millis(2)),
                status => return status,
            }
        }
    };
    let first = wait();
    kill(pid, Signal::SIGCONT).expect("our own child");
    [first, wait()].map(|status| match status {
        WaitStatus::Stopped(_, signal) => WaitStatus::Stopped(Pid::from_raw(0), signal),
        WaitStatus::Exited(_, status) => WaitStatus::Exited(Pid::from_raw(0), status),
        other => other,
    })
}

#[test]
fn a_program_that_stops_itself_is_seen_stopped_and_goes_on() {
    // N9
    let object = corpus::object("signalled.c", PLAIN);
    let executable = corpus::executable(std::slice::from_ref(&object), &[], PLAIN);
    for signal in [Signal::SIGTSTP, Signal::SIGSTOP, Signal::SIGTTIN] {
        let number = (signal as i32).to_string();
        let args = ["stops", &number];
        let native = stopped(native(&executable, &args));
        let group = Pid::from_raw(0);
        let expected = [WaitStatus::Stopped(group, signal), WaitStatus::Exited(group, 3)];
        assert_eq!(native, expected, "{signal}: natively");
        assert_eq!(stopped(farcall_run(&[&object], &args)), expected, "{signal}");
    }
}

#[test]
fn a_caller_sees_the_signal_that_ended_the_program() {
    // N28
    for how in ["store", "abort", "divide", "kill", "terminate"] {
        let (native, ours) =
            both_ways(&Program { args: &[how], ..program(&["crash.c"], &[]) }, PLAIN);
        assert!(native.killed, "{how}: {native}");
        assert_eq!((ours.killed, ours.status), (true, native.status), "{how}: {ours}");
    }
}

#[test]
fn a_program_whose_reader_has_gone_dies_in_silence() {
    // N26
    same_as_native(&Program { args: &["pipe"], ..program(&["crash.c"], &[]) }, &[PLAIN]);
}
