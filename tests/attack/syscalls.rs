//! Every system call that a session needs fails, one at a time, in the host or in the executor. The result is a session that
//! works, or an error soon.
//!
//! A filter in the host is the executor's as well: the kernel hands it on. `exit` and `exit_group` are left out: the C library has no
//! other way to end.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use farcall::Result;
use farcall::controller::calls::Bytes;
use farcall::controller::{CallOptions, ExecutorBuilder};
use nix::errno::Errno;
use nix::libc::{self, c_long};

use crate::apart::{self, Apart};
use crate::filter;
use crate::session::{Session, bytes, launch};

/// A system call under its name.
macro_rules! calls {
    ($($name:ident $number:ident,)*) => { [$((stringify!($name), libc::$number)),*] };
}

/// The system calls of starting, linking, calling and ending, on both sides.
const CALLS: [(&str, c_long); 58] = calls! {
    brk SYS_brk, clone SYS_clone, clone3 SYS_clone3, close SYS_close, close_range SYS_close_range,
    dup2 SYS_dup2, epoll_create1 SYS_epoll_create1, epoll_ctl SYS_epoll_ctl, epoll_wait SYS_epoll_wait,
    eventfd2 SYS_eventfd2, execve SYS_execve, fallocate SYS_fallocate, fcntl SYS_fcntl, fstat SYS_fstat,
    ftruncate SYS_ftruncate, futex SYS_futex, get_robust_list SYS_get_robust_list,
    getdents64 SYS_getdents64, getpid SYS_getpid, getppid SYS_getppid, getrandom SYS_getrandom,
    gettid SYS_gettid, kill SYS_kill, madvise SYS_madvise, membarrier SYS_membarrier,
    memfd_create SYS_memfd_create, mmap SYS_mmap, mprotect SYS_mprotect, mremap SYS_mremap,
    munmap SYS_munmap, newfstatat SYS_newfstatat, openat SYS_openat, pidfd_open SYS_pidfd_open,
    pidfd_send_signal SYS_pidfd_send_signal, poll SYS_poll, ppoll SYS_ppoll, prctl SYS_prctl,
    prlimit64 SYS_prlimit64, process_vm_readv SYS_process_vm_readv,
    process_vm_writev SYS_process_vm_writev, read SYS_read, readlink SYS_readlink,
    recvmsg SYS_recvmsg, rseq SYS_rseq, rt_sigaction SYS_rt_sigaction,
    rt_sigprocmask SYS_rt_sigprocmask, sched_getaffinity SYS_sched_getaffinity,
    sched_yield SYS_sched_yield, sendmsg SYS_sendmsg, set_robust_list SYS_set_robust_list,
    shutdown SYS_shutdown, sigaltstack SYS_sigaltstack, socketpair SYS_socketpair, statx SYS_statx,
    tgkill SYS_tgkill, waitid SYS_waitid, wait4 SYS_wait4, write SYS_write,
};

const NAME: &str = "syscalls::a_session_works_or_says_why_not_whichever_call_fails";
const ERRORS: [Errno; 2] = [Errno::EPERM, Errno::ENOSYS];
const SIDES: [&str; 2] = ["host", "executor"];
/// How many seconds a session may take: more than the limit of a start.
const BOUND_S: u64 = 25;
/// The C library's last words when it aborts for want of a call: no program can do better.
const OF_THE_LIBRARY: [&str; 2] = ["The futex facility", "rseq registration failed"];
/// The start of an outcome's line.
const OUTCOME: &str = "outcome: ";

#[test]
fn a_session_works_or_says_why_not_whichever_call_fails() {
    match apart::case() {
        Some(case) => run(&case),
        None => all(),
    }
}

fn all() {
    let only = std::env::var("ATTACK_CALL").ok();
    let mut table = Vec::new();
    let mut bad = Vec::new();
    let wanted = |name: &str| only.as_ref().is_none_or(|only| only == name);
    for (name, _) in CALLS.iter().filter(|(name, _)| wanted(name)) {
        for side in SIDES {
            for error in ERRORS {
                let case = format!("{side} {error:?} {name}");
                let start = Instant::now();
                let ended = Apart::within(BOUND_S).again(NAME, &case);
                let outcome = outcome(&ended);
                let line = format!("{case}: {:?}: {outcome}", start.elapsed());
                println!("attack: {line}");
                let is_named = outcome.starts_with("error: ") && !outcome.contains("status -1");
                if outcome != "works" && !is_named {
                    bad.push(line.clone());
                }
                table.push(line);
            }
        }
    }
    println!("attack: {} cases", table.len());
    assert!(bad.is_empty(), "{} of {}:\n{}", bad.len(), table.len(), bad.join("\n"));
}

/// The outcome of a case, in a line.
fn outcome((status, output): &(Option<ExitStatus>, String)) -> String {
    let told = output.lines().find_map(|line| Some(line.split_once(OUTCOME)?.1));
    let panic = output.lines().skip_while(|line| !line.contains("panicked at"));
    let panic = panic.take(2).collect::<Vec<_>>().join(" ");
    match (status, told) {
        (None, told) => format!("hang behind {told:?}"),
        (Some(status), _) if status.signal().is_some() => {
            if let Some(text) = OF_THE_LIBRARY.iter().find(|text| output.contains(**text)) {
                return format!("error: of the C library: {text}");
            }
            let last = output.lines().rfind(|line| !line.is_empty()).unwrap_or_default();
            format!("the host died: {status}: {last}")
        }
        _ if !panic.is_empty() => format!("panic: {panic}"),
        (Some(_), Some(told)) => told.to_owned(),
        (Some(status), None) => format!("nothing was told: {status}"),
    }
}

/// One case, on a thread of its own: this one has no filter.
fn run(case: &str) {
    let words: Vec<&str> = case.split(' ').collect();
    let (_, number) = CALLS.iter().find(|(name, _)| *name == words[2]).expect("a system call");
    let error = ERRORS.into_iter().find(|error| format!("{error:?}") == words[1]);
    let error = error.expect("an error");
    let is_host = words[0] == "host";
    let launch = match is_host {
        true => launch(),
        false => filter::launch_refusing(launch(), &[*number], error),
    };
    let (sender, receiver) = mpsc::channel();
    let host = thread::spawn(move || {
        if is_host {
            filter::refuse(&[*number], error);
        }
        let outcome = converse(&launch);
        let _ = sender.send(match outcome {
            Ok(()) => "works".to_owned(),
            Err((step, error)) => format!("error: {step}: {error}").replace('\n', " "),
        });
    });
    // The other thread may be unable to wake this one, or to end.
    while !host.is_finished() {
        match receiver.recv_timeout(Duration::from_millis(10)) {
            Ok(outcome) => {
                println!("{OUTCOME}{outcome}");
                return;
            }
            Err(mpsc::RecvTimeoutError::Timeout) => {}
            Err(mpsc::RecvTimeoutError::Disconnected) => break,
        }
    }
    if let Ok(outcome) = receiver.try_recv() {
        println!("{OUTCOME}{outcome}");
    }
}

/// All that a session goes through, to its end; an error comes with the step that it came from.
fn converse(launch: &ExecutorBuilder) -> std::result::Result<(), (&'static str, farcall::Error)> {
    let session = Session::try_start(launch, "ends").map_err(|error| ("start", error))?;
    let add = session.function("add");
    let is_five = |sum: Result<Vec<u8>>, step| {
        sum.map(|sum| assert_eq!(sum, bytes(&[5]), "{step}")).map_err(|error| (step, error))
    };
    is_five(session.process.call(add, &bytes(&[2, 3])), "call")?;
    let long = Duration::from_secs(2);
    is_five(
        session
            .process
            .function::<Bytes>(add)
            .call_with(&CallOptions::new().timeout(long), &bytes(&[1, 4])),
        "call_timeout",
    )?;
    let tag = session.process.register_handler(|args, result| {
        result.extend_from_slice(args);
        Ok(())
    });
    let echo = session.call("back", &[tag.get(), 5]).map(|five| bytes(&[five]));
    is_five(echo, "call back")?;
    let sum = thread::scope(|scope| {
        let caller = thread::Builder::new();
        let caller = caller.spawn_scoped(scope, || {
            session
                .process
                .function::<Bytes>(add)
                .call_with(&CallOptions::new().timeout(long), &bytes(&[0, 5]))
        });
        // That there is no thread is no fault of the session.
        caller.map_or(Ok(bytes(&[5])), |caller| caller.join().expect("no panic"))
    });
    is_five(sum, "call on another thread")?;
    let submitted = || session.process.pipeline()?.submit(add, &bytes(&[2, 3]))?.wait_timeout(long);
    is_five(submitted(), "pipeline")?;
    session.process.exit(0).map(drop).map_err(|error| ("exit", error))
}
