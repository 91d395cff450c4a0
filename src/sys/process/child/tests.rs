//! Children that no descriptor can name, and children that another part of the process collects.

use std::fs::File;
use std::os::fd::{IntoRawFd, OwnedFd};
use std::process::Stdio;

use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::sys::signal::SigHandler;

use super::*;
use crate::sys::alone;
use crate::sys::io::socket;

fn spawn(program: &str, args: &[&str]) -> Result<(Child, OwnedFd)> {
    let (ours, theirs) = socket::pair().expect("sockets");
    let args: Vec<_> = std::iter::once(&program).chain(args).map(|arg| c(arg)).collect();
    Child::spawn(Path::new(program), &args, &[], &[theirs.as_fd()], SOCKET, Others::Closed)
        .map(|child| (child, ours))
}

/// How a shell that runs `script` ends.
fn ended(script: &str) -> Ended {
    let (child, _socket) = spawn("/bin/sh", &["-c", script]).expect("a shell");
    end_of(&child)
}

/// The same for a shell that lives until a descriptor names it.
fn named_and_ended(script: &str) -> Ended {
    let script = format!("read word <&{SOCKET}; {script}");
    let (child, socket) = spawn("/bin/sh", &["-c", &script]).expect("a shell");
    drop(socket);
    end_of(&child)
}

fn end_of(child: &Child) -> Ended {
    let awaiter = child.awaiter();
    awaiter.wait(Deadline::SESSION_END);
    awaiter.collect().expect("it is a child").expect("it has ended")
}

/// True where the kernel keeps the status of a collected process.
fn keeps_status() -> bool {
    let release = nix::sys::utsname::uname().expect("the kernel's version");
    let release = release.release().to_str().expect("a version");
    let mut numbers = release.split(['.', '-']).map_while(|part| part.parse::<u32>().ok());
    (numbers.next(), numbers.next()) >= (Some(6), Some(15))
}

fn ignore_ends() {
    // SAFETY: the tests that call this are alone in their process, which has no handler.
    let ignored = unsafe { nix::sys::signal::signal(Signal::SIGCHLD, SigHandler::SigIgn) };
    ignored.expect("ignored");
}

fn c(text: &str) -> CString {
    c_string(OsStr::new(text)).expect("no NUL byte")
}

#[test]
fn a_child_is_killed_by_number_where_descriptors_take_no_signal() {
    alone::run(
        "sys::process::child::tests::a_child_is_killed_by_number_where_descriptors_take_no_signal",
        || {
            alone::refuse(libc::SYS_pidfd_send_signal, &[], libc::ENOSYS);
            let (child, _socket) = spawn("/bin/sleep", &["60"]).expect("a child");
            child.kill().expect("a child of this process");
            assert_eq!(end_of(&child), Ended::Killed(libc::SIGKILL));
            let left = waitid(Id::All, WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG);
            assert_eq!(left, Err(Errno::ECHILD), "the child is left");
            // Its number may be another process's now.
            child.kill().expect("a child of this process");
        },
    );
}

#[test]
fn a_child_that_cannot_be_named_is_ended_and_collected() {
    alone::run(
        "sys::process::child::tests::a_child_that_cannot_be_named_is_ended_and_collected",
        || {
            alone::refuse(libc::SYS_pidfd_open, &[], libc::EMFILE);
            for _ in 0..3 {
                let error = spawn("/bin/sleep", &["60"]).expect_err("refused");
                assert_eq!(error.raw_os_error(), Some(libc::EMFILE), "{error}");
            }
            // Only the test's own thread has children.
            let left = waitid(Id::All, WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG);
            assert_eq!(left, Err(Errno::ECHILD), "a child is left");
        },
    );
}

#[test]
fn the_end_of_an_uncollected_child_is_known() {
    assert_eq!(ended("exit 9"), Ended::Exited(9));
    assert_eq!(ended("kill -SEGV $$"), Ended::Killed(libc::SIGSEGV));
}

#[test]
fn the_end_of_a_child_is_known_where_ends_are_ignored() {
    alone::run(
        "sys::process::child::tests::the_end_of_a_child_is_known_where_ends_are_ignored",
        || {
            ignore_ends();
            for _ in 0..50 {
                let wanted = |ended| if keeps_status() { ended } else { Ended::Unknown };
                assert_eq!(named_and_ended("exit 9"), wanted(Ended::Exited(9)));
                let killed = wanted(Ended::Killed(libc::SIGTERM));
                assert_eq!(named_and_ended("kill -TERM $$"), killed);
            }
        },
    );
}

#[test]
fn the_end_of_a_child_is_known_where_another_thread_collects() {
    alone::run(
        "sys::process::child::tests::the_end_of_a_child_is_known_where_another_thread_collects",
        || {
            std::thread::spawn(|| {
                loop {
                    let _ = waitid(Id::All, WaitPidFlag::WEXITED);
                }
            });
            for _ in 0..50 {
                let found = named_and_ended("exit 9");
                let may_be_unknown = !keeps_status() && found == Ended::Unknown;
                assert!(may_be_unknown || found == Ended::Exited(9), "{found:?}");
            }
        },
    );
}

#[test]
fn an_end_that_the_kernel_does_not_keep_is_unknown() {
    alone::run(
        "sys::process::child::tests::an_end_that_the_kernel_does_not_keep_is_unknown",
        || {
            ignore_ends();
            alone::refuse(libc::SYS_ioctl, &[(1, kept::PIDFD_GET_INFO)], libc::ENOTTY);
            assert_eq!(named_and_ended("exit 9"), Ended::Unknown);
            assert_eq!(named_and_ended("kill -TERM $$"), Ended::Unknown);
        },
    );
}

#[test]
fn a_child_that_is_gone_before_it_is_named_is_told_of() {
    alone::run(
        "sys::process::child::tests::a_child_that_is_gone_before_it_is_named_is_told_of",
        || {
            alone::refuse(libc::SYS_pidfd_open, &[], libc::ESRCH);
            let error = spawn("/bin/true", &[]).expect_err("gone");
            assert!(error.to_string().contains("its exit status is unknown"), "{error}");
            assert!(error.is_disconnected(), "{error:?}");
        },
    );
}

#[test]
fn a_child_has_its_streams_and_its_socket() {
    // None of these closes on exec.
    let [one, other] = ["/dev/null", "/"].map(|path| File::open(path).expect("a file"));
    for fd in [one.as_fd(), other.as_fd()] {
        fcntl(fd, FcntlArg::F_SETFD(FdFlag::empty())).expect("a flag");
    }
    let count = |others, least| {
        let script = format!("set -- /proc/$$/fd/*; [ $# {least} ]");
        let (_ours, theirs) = socket::pair().expect("sockets");
        let args = ["sh", "-c", &script].map(c);
        let (path, fd) = (Path::new("/bin/sh"), theirs.as_fd());
        let child = Child::spawn(path, &args, &[], &[fd], SOCKET, others).expect("a shell");
        assert_eq!(end_of(&child), Ended::Exited(0));
    };
    // The shell itself may open one descriptor while it lists them.
    count(Others::Closed, "-le 5");
    count(Others::Inherited, "-ge 6");
}

#[test]
fn several_sockets_get_their_numbers_whatever_they_had() {
    let pairs = [socket::pair().expect("sockets"), socket::pair().expect("sockets")];
    let args = ["sh", "-c", "echo first >&3; echo second >&4"].map(c);
    // One order has a socket on a number that the other one gets, if a test has left these numbers free.
    for order in [[0, 1], [1, 0]] {
        let sockets = order.map(|at| pairs[at].1.as_fd());
        let path = Path::new("/bin/sh");
        let child = Child::spawn(path, &args, &[], &sockets, SOCKET, Others::Closed);
        assert_eq!(end_of(&child.expect("a shell")), Ended::Exited(0));
        for (at, due) in order.into_iter().zip(["first\n", "second\n"]) {
            let mut bytes = [0; 16];
            let soon = Deadline::after(Duration::from_secs(30));
            let got = socket::receive(pairs[at].0.as_fd(), &mut bytes, soon).expect("received");
            assert_eq!(&bytes[..got.expect("a message").bytes], due.as_bytes());
        }
    }
}

#[test]
fn only_a_child_of_this_process_is_announced() {
    let mut command = std::process::Command::new("/bin/sh");
    let mut child =
        command.args(["-c", "read line"]).stdin(Stdio::piped()).spawn().expect("a shell");
    let announced = Child::announced(u64::from(child.id())).expect("a child");
    assert_eq!(announced.pid().unsigned_abs(), child.id());
    let own = u64::from(std::process::id());
    for number in [0, own, 1, u64::from(u32::MAX), u64::MAX] {
        assert!(Child::announced(number).is_err(), "{number}");
    }
    announced.kill().expect("its own child");
    child.wait().expect("its own child");
    assert!(Child::announced(u64::from(child.id())).is_err(), "it was collected");
}

#[test]
fn a_process_can_close_what_it_was_started_with() {
    alone::run("sys::process::child::tests::a_process_can_close_what_it_was_started_with", || {
        let numbers = [(); 5].map(|()| File::open("/dev/null").expect("a file").into_raw_fd());
        let first = numbers[1];
        // SAFETY: the test is alone in its process, and these files were given away.
        unsafe { close_from(first) }.expect("closed");
        let is_open = |number| std::fs::read_link(format!("/proc/self/fd/{number}")).is_ok();
        assert_eq!(numbers.map(is_open), [true, false, false, false, false]);
    });
}
