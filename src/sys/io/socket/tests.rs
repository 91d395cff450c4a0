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

/// Receives a message, and its bytes.
fn next(socket: &OwnedFd) -> (Vec<u8>, Received) {
    let mut bytes = [0; 16];
    let came = receive(socket.as_fd(), &mut bytes, Deadline::SESSION_END);
    let came = came.expect("a message").expect("a message");
    (bytes[..came.bytes].to_vec(), came)
}

#[test]
fn bytes_and_descriptors_come_as_they_were_sent() {
    let (ours, theirs) = pair().expect("sockets");
    let (mut reader, writer) = pipe().expect("a pipe");
    send(ours.as_fd(), b"first", &[writer.as_fd()], Deadline::now()).expect("sent");
    send(ours.as_fd(), b"b", &[], Deadline::now()).expect("sent");
    drop(writer);
    let (bytes, came) = next(&theirs);
    assert_eq!((&*bytes, came.truncated), (&b"first"[..], false));
    let [file] = <[OwnedFd; 1]>::try_from(came.files).expect("one descriptor");
    drop(file);
    assert_eq!(reader.read(&mut [0]).expect("the end"), 0);
    let (bytes, came) = next(&theirs);
    assert_eq!((&*bytes, came.files.len()), (&b"b"[..], 0));
    drop(ours);
    assert!(receive(theirs.as_fd(), &mut [0], Deadline::SESSION_END).expect("the end").is_none());
    assert!(matches!(hear(theirs.as_fd(), &mut [0]).expect("the end"), Heard::End));
}

#[test]
fn a_message_without_a_byte_is_not_the_end() {
    let (ours, theirs) = pair().expect("sockets");
    let nothing = || {
        let sent = nix::sys::socket::send(ours.as_raw_fd(), &[], MsgFlags::empty());
        assert_eq!(sent, Ok(0));
    };
    nothing();
    assert_eq!(next(&theirs).0, b"");
    nothing();
    let heard = hear(theirs.as_fd(), &mut [0]).expect("a message");
    assert!(matches!(heard, Heard::Message { bytes: 0, had_files: false }), "{heard:?}");
    drop(ours);
    assert!(matches!(hear(theirs.as_fd(), &mut [0]).expect("the end"), Heard::End));
}

#[test]
fn a_message_with_more_descriptors_than_fit_leaks_none() {
    let (ours, theirs) = pair().expect("sockets");
    for count in [FDS_MAX + 1, 100, 253] {
        let reader = send_writers(&ours, count);
        let (bytes, came) = next(&theirs);
        assert_eq!((&*bytes, came.files.len(), came.truncated), (&b"x"[..], FDS_MAX, true));
        came.check_room(5).expect("there is room for those that are due");
        drop(came);
        has_ended(reader);
    }
}

#[test]
fn unexpected_descriptors_are_never_taken() {
    let (ours, theirs) = pair().expect("sockets");
    for count in [1, FDS_MAX, 253] {
        let reader = send_writers(&ours, count);
        let mut bytes = [0; 4];
        let heard = hear(theirs.as_fd(), &mut bytes).expect("a message");
        assert!(matches!(heard, Heard::Message { bytes: 1, had_files: true }), "{heard:?}");
        assert_eq!(bytes[0], b'x');
        has_ended(reader);
    }
}

#[test]
fn a_long_message_is_cut_and_an_idle_socket_does_not_wait() {
    let (ours, theirs) = pair().expect("sockets");
    assert!(matches!(hear(theirs.as_fd(), &mut [0]).expect("nothing"), Heard::Nothing));
    send(ours.as_fd(), &[b'r'; 1000], &[], Deadline::now()).expect("sent");
    send(ours.as_fd(), b"next", &[], Deadline::now()).expect("sent");
    let mut bytes = [0; 100];
    let heard = hear(theirs.as_fd(), &mut bytes).expect("a message");
    assert!(matches!(heard, Heard::Message { bytes: 100, had_files: false }), "{heard:?}");
    assert_eq!(next(&theirs).0, b"next");
    let deadline = Deadline::after(std::time::Duration::from_secs(20));
    while send(ours.as_fd(), b"r", &[], Deadline::now()).is_ok() {
        assert!(!deadline.has_passed(), "the socket takes everything");
    }
    let error = send(ours.as_fd(), b"l", &[], Deadline::now()).expect_err("no room");
    assert!(error.kind() == ErrorKind::Timeout, "{error}");
    let start = std::time::Instant::now();
    let soon = Deadline::after(std::time::Duration::from_millis(5));
    let error = send(ours.as_fd(), b"l", &[], soon).expect_err("no room");
    assert!(error.kind() == ErrorKind::Timeout, "{error}");
    assert!(start.elapsed() >= std::time::Duration::from_millis(5));
}

#[test]
fn words_of_a_peer_that_left_messages_unread_are_heard() {
    let left = || {
        let (ours, theirs) = pair().expect("sockets");
        send(ours.as_fd(), b"l", &[], Deadline::now()).expect("sent");
        send(theirs.as_fd(), b"no memory", &[], Deadline::now()).expect("sent");
        ours
    };
    let ours = left();
    let mut bytes = [0; 9];
    let heard = hear(ours.as_fd(), &mut bytes).expect("a message");
    assert!(matches!(heard, Heard::Message { bytes: 9, .. }), "{heard:?}");
    assert_eq!(bytes, *b"no memory");
    assert!(matches!(hear(ours.as_fd(), &mut bytes).expect("the end"), Heard::End));
    let ours = left();
    assert_eq!(next(&ours).0, b"no memory");
    assert!(receive(ours.as_fd(), &mut bytes, Deadline::now()).expect("the end").is_none());
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
            let (bytes, came) = next(&theirs);
            assert_eq!((&*bytes, came.files.len(), came.truncated), (&b"x"[..], 2, true));
            drop(came);
            let error = next(&theirs).1.check_room(5).expect_err("too few");
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
