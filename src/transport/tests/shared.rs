//! Lanes that come over a socket: what is refused, when the doorbell is rung, and messages that stop in the middle.

use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::AtomicU64;
use std::thread;
use std::time::{Duration, Instant};

use super::*;
use crate::error::ErrorKind;
use crate::sleep::Doorbell;
use crate::sys::io::socket;
use crate::sys::memory::memfd;
use crate::transport::lane::segment;
use crate::transport::{Connection, PollPolicy};

fn pair() -> (OwnedFd, OwnedFd) {
    let (ours, theirs) = UnixStream::pair().expect("a socket");
    (ours.into(), theirs.into())
}

fn attach(socket: OwnedFd) -> crate::Error {
    Connection::attach_shared(socket).expect_err("refused")
}

#[test]
fn only_a_lane_of_this_version_is_attached_to() {
    let (ours, theirs) = pair();
    drop(ours);
    let error = attach(theirs);
    assert!(error.is_disconnected() && error.kind() != ErrorKind::Violation, "{error}");

    let (ours, theirs) = pair();
    UnixStream::from(ours).write_all(b"HTTP/1.1 400 Bad Request").expect("sent");
    let error = attach(theirs);
    assert!(
        error.kind() == ErrorKind::Violation && error.to_string().contains("0x48 with 0"),
        "{error}"
    );

    let bytes = layout::SEGMENT_WORDS as u64 * 8;
    let unsealed = nix::sys::memfd::memfd_create(c"test", nix::sys::memfd::MFdFlags::MFD_CLOEXEC);
    let unsealed = unsealed.expect("memory");
    nix::unistd::ftruncate(&unsealed, bytes.cast_signed()).expect("a size");
    let sealed = |bytes| memfd::create(c"test", bytes, false).expect("memory");
    for (file, words) in [
        (unsealed, "its size could change"),
        (sealed(bytes), "not of version"),
        (sealed(4096), "a segment of 4096 bytes"),
    ] {
        let (ours, theirs) = pair();
        socket::send(ours.as_fd(), b"L", &[file.as_fd()], Deadline::SESSION_END).expect("sent");
        let error = attach(theirs);
        assert!(
            error.kind() == ErrorKind::Violation && error.to_string().contains(words),
            "{words}: {error}"
        );
    }

    let (ours, theirs) = pair();
    let (_, file) = segment::create(PollPolicy::default()).expect("memory");
    socket::send(ours.as_fd(), b"L", &[file.as_fd(), file.as_fd()], Deadline::SESSION_END)
        .expect("sent");
    assert!(attach(theirs).to_string().contains("0x4c with 2"));
}

#[test]
fn each_end_is_for_its_side() {
    let (ours, theirs) = pair();
    let ours = Connection::create_shared(ours).expect("memory");
    let theirs = Connection::attach_shared(theirs).expect("a segment");
    for (end, right, wrong) in
        [(&ours, Side::Controller, Side::Executor), (&theirs, Side::Executor, Side::Controller)]
    {
        end.expect(right).expect("its own side");
        assert!(
            end.expect(wrong).expect_err("the other side").kind() == ErrorKind::InvalidArgument
        );
    }
}

/// Counts rings, and rings no peer.
#[derive(Debug, Default)]
struct Counting(AtomicU64);

impl Doorbell for Counting {
    fn drain(&self) -> bool {
        true
    }

    fn listen(&self, _deadline: Deadline) {
        thread::yield_now();
    }

    fn ring(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn the_doorbell_is_rung_only_for_who_found_nothing() {
    let (mut controller, mut executor, _segment) = lanes();
    let rung = Arc::new(Counting::default());
    controller.sleep_by(Arc::<Counting>::clone(&rung));
    executor.sleep_by(Arc::new(Counting::default()));
    let rings = || rung.0.load(Ordering::Relaxed);
    let mut message = Incoming::new();
    executor.send(Kind::Setup, 0, &[], Deadline::SESSION_END).expect("sent");
    assert!(controller.receive(Deadline::SESSION_END, &mut message).expect("setup"));
    for _ in 0..100 {
        // The call came before it looked, so the peer need not ring.
        controller.send(Kind::Call, 1, &[], Deadline::SESSION_END).expect("sent");
        assert!(executor.receive(Deadline::now(), &mut message).expect("a call"));
        executor.send(Kind::Result, 0, &[], Deadline::SESSION_END).expect("sent");
        assert!(controller.receive(Deadline::SESSION_END, &mut message).expect("a result"));
    }
    assert_eq!(rings(), 0);
    for at in 1..=100 {
        // However often it looked in vain, the peer rings once.
        for _ in 0..3 {
            assert!(!executor.receive(Deadline::now(), &mut message).expect("open"));
        }
        controller.send(Kind::Call, 1, &[], Deadline::SESSION_END).expect("sent");
        assert_eq!(rings(), at);
        assert!(executor.receive(Deadline::now(), &mut message).expect("a call"));
        executor.send(Kind::Result, 0, &[], Deadline::SESSION_END).expect("sent");
        assert!(controller.receive(Deadline::SESSION_END, &mut message).expect("a result"));
    }
}

#[test]
fn a_message_that_stops_in_the_middle_is_not_waited_for() {
    let (mut controller, mut executor, _segment) = lanes();
    let mut message = Incoming::new();
    executor.send(Kind::Setup, 0, &[], Deadline::SESSION_END).expect("sent");
    assert!(controller.receive(Deadline::SESSION_END, &mut message).expect("setup"));
    let payload: Vec<u8> = (0..300_000_u32).map(|at| at.to_le_bytes()[0]).collect();
    let sent = payload.clone();
    let (sender, may_go_on) = std::sync::mpsc::channel();
    let caller = thread::spawn(move || {
        // Does not fit the ring, so it waits until the executor makes room.
        controller.post(Kind::Call, 1, 5, &sent, Deadline::SESSION_END).expect("posted");
        may_go_on.recv().expect("told");
        controller.send(Kind::Call, 6, &[], Deadline::SESSION_END).expect("sent");
        assert!(controller.receive(Deadline::SESSION_END, &mut Incoming::new()).expect("a result"));
    });
    let begun = Instant::now();
    // Everything that was posted may be there by now, but nothing says that it is complete.
    while begun.elapsed() < Duration::from_millis(20) {
        assert!(!executor.receive(Deadline::now(), &mut message).expect("open"));
    }
    sender.send(()).expect("told");
    while !executor.receive(Deadline::now(), &mut message).expect("open") {}
    assert_eq!((message.target, message.posted), (5, Some(1)));
    assert!(*message.payload().bytes() == payload);
    assert!(executor.receive(Deadline::now(), &mut message).expect("kept"));
    assert_eq!((message.target, message.posted), (6, None));
    executor.send(Kind::Result, 0, &[], Deadline::SESSION_END).expect("sent");
    caller.join().expect("no panic");
}
