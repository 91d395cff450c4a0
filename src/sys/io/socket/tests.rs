//! Messages with more descriptors than allowed, and with more than the process has free numbers for.

use std::io::{PipeReader, Read, pipe};
use std::os::fd::AsFd;

use nix::sys::resource::{Resource, getrlimit, setrlimit};

use super::*;
use crate::error::ErrorKind;
use crate::sys::alone;

/// Sends the letter `x` and `count` descriptors of one pipe. The pipe ends when all of them are closed.
fn send_writers(socket: &OwnedFd, count: usize) -> PipeReader {
    let (reader, writer) = pipe().expect("a pipe");
    let raw = vec![writer.as_raw_fd(); count];
    let rights = [ControlMessage::ScmRights(&raw)];
    let data = [IoSlice::new(b"x")];
    sendmsg::<()>(socket.as_raw_fd(), &data, &rights, MsgFlags::empty(), None).expect("sent");
    reader
}

/// Fails unless every writer of the pipe is closed.
fn has_ended(mut reader: PipeReader) {
    let mut fds = [PollFd::new(reader.as_fd(), PollFlags::POLLIN)];
    let ended = nix::poll::poll(&mut fds, 0_u8).expect("polled");
    assert_eq!(ended, 1, "a descriptor is still open");
    assert_eq!(reader.read(&mut [0]).expect("the end"), 0);
}

#[test]
fn letter_number_and_descriptors_come_as_they_were_sent() {
    let (ours, theirs) = pair().expect("sockets");
    let (mut reader, writer) = pipe().expect("a pipe");
    send(ours.as_fd(), b'a', 0x0102_0304_0506_0708, &[writer.as_fd()], Deadline::now())
        .expect("sent");
    send(ours.as_fd(), b'b', u64::MAX, &[], Deadline::now()).expect("sent");
    drop(writer);
    let came =
        receive(theirs.as_fd(), Deadline::SESSION_END).expect("a message").expect("a message");
    assert_eq!((came.letter, came.number, came.truncated), (b'a', 0x0102_0304_0506_0708, false));
    let [file] = <[OwnedFd; 1]>::try_from(came.files).expect("one descriptor");
    drop(file);
    assert_eq!(reader.read(&mut [0]).expect("the end"), 0);
    let came =
        receive(theirs.as_fd(), Deadline::SESSION_END).expect("a message").expect("a message");
    assert_eq!((came.letter, came.number, came.files.len()), (b'b', u64::MAX, 0));
    drop(ours);
    assert!(receive(theirs.as_fd(), Deadline::SESSION_END).expect("the end").is_none());
    assert!(matches!(hear(theirs.as_fd()).expect("the end"), Heard::End));
}

#[test]
fn a_message_with_more_descriptors_than_fit_leaks_none() {
    let (ours, theirs) = pair().expect("sockets");
    for count in [FDS_MAX + 1, 100, 253] {
        let reader = send_writers(&ours, count);
        let came =
            receive(theirs.as_fd(), Deadline::SESSION_END).expect("a message").expect("a message");
        assert_eq!((came.letter, came.files.len(), came.truncated), (b'x', FDS_MAX, true));
        drop(came);
        has_ended(reader);
        let reader = send_writers(&ours, count);
        let error = receive_fds(theirs.as_fd(), 5, Deadline::SESSION_END).expect_err("too many");
        assert!(
            error.kind() == ErrorKind::Violation && error.to_string().contains("more than 8"),
            "{error}"
        );
        has_ended(reader);
    }
}

#[test]
fn descriptors_that_nobody_expects_are_never_taken() {
    let (ours, theirs) = pair().expect("sockets");
    for count in [1, FDS_MAX, 253] {
        let reader = send_writers(&ours, count);
        let heard = hear(theirs.as_fd()).expect("a message");
        assert!(matches!(heard, Heard::Message(Told { letter: b'x', .. })), "{heard:?}");
        has_ended(reader);
    }
}

#[test]
fn a_text_is_cut_and_an_idle_socket_does_not_wait() {
    let (ours, theirs) = pair().expect("sockets");
    assert!(matches!(hear(theirs.as_fd()).expect("nothing"), Heard::Nothing));
    tell(ours.as_fd(), b'r', 7, &"\u{e9}".repeat(TEXT_BYTES_MAX)).expect("sent");
    let Heard::Message(told) = hear(theirs.as_fd()).expect("a message") else { panic!("nothing") };
    assert_eq!((told.letter, told.number, told.text.len()), (b'r', 7, TEXT_BYTES_MAX));
    let deadline = Deadline::after(std::time::Duration::from_secs(20));
    while tell(ours.as_fd(), b'r', 0, "").is_ok() {
        assert!(!deadline.has_passed(), "the socket takes everything");
    }
    let error = send(ours.as_fd(), b'l', 0, &[], Deadline::now()).expect_err("no room");
    assert!(error.kind() == ErrorKind::Timeout, "{error}");
    let start = std::time::Instant::now();
    let soon = Deadline::after(std::time::Duration::from_millis(5));
    assert!(
        send(ours.as_fd(), b'l', 0, &[], soon).expect_err("no room").kind() == ErrorKind::Timeout
    );
    assert!(start.elapsed() >= std::time::Duration::from_millis(5));
}

#[test]
fn what_a_peer_said_before_it_left_messages_unread_is_heard() {
    let left = || {
        let (ours, theirs) = pair().expect("sockets");
        send(ours.as_fd(), b'l', 0, &[], Deadline::now()).expect("sent");
        tell(theirs.as_fd(), b'w', 7, "no memory").expect("sent");
        ours
    };
    let ours = left();
    let Heard::Message(told) = hear(ours.as_fd()).expect("a message") else { panic!("nothing") };
    assert_eq!((told.letter, told.number, told.text.as_str()), (b'w', 7, "no memory"));
    assert!(matches!(hear(ours.as_fd()).expect("the end"), Heard::End));
    let ours = left();
    let received = receive(ours.as_fd(), Deadline::now()).expect("a message").expect("a message");
    assert_eq!((received.letter, received.number), (b'w', 7));
    assert!(receive(ours.as_fd(), Deadline::now()).expect("the end").is_none());
}

#[test]
fn descriptors_that_find_no_number_are_told_from_a_violation() {
    alone::run(
        "sys::io::socket::tests::descriptors_that_find_no_number_are_told_from_a_violation",
        || {
            let (ours, theirs) = pair().expect("sockets");
            let readers: Vec<_> = (0..2).map(|_| send_writers(&ours, 5)).collect();
            let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).expect("the limit");
            // The lowest free number, and two more.
            let free = std::fs::File::open("/dev/null").expect("a file").as_raw_fd();
            let limit = u64::try_from(free).expect("a number") + 2;
            setrlimit(Resource::RLIMIT_NOFILE, limit, hard).expect("a lower limit");
            let came = receive(theirs.as_fd(), Deadline::SESSION_END)
                .expect("a message")
                .expect("a message");
            assert_eq!((came.letter, came.files.len(), came.truncated), (b'x', 2, true));
            drop(came);
            let error = receive_fds(theirs.as_fd(), 5, Deadline::SESSION_END).expect_err("too few");
            assert!(
                error.kind() == ErrorKind::Exhausted && error.kind() != ErrorKind::Violation,
                "{error:?}"
            );
            assert!(error.to_string().contains("2 of 5"), "{error}");
            assert!(error.to_string().contains("ulimit -n"), "{error}");
            readers.into_iter().for_each(has_ended);
        },
    );
}
