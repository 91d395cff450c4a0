//! The transports that the suite runs over, each as a way to make two connected ends.

use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
#[cfg(feature = "named-segment")]
use std::{thread, time::Duration};

use super::conformance::{End, Ways};
use crate::shm::Segment;
#[cfg(feature = "named-segment")]
use crate::sync::{AtomicU64, Ordering};
use crate::transport::{Connection, Lane, Side};
use crate::wire::layout;

pub(super) enum SharedMemory {}

impl Ways for SharedMemory {
    type Way = Lane;

    fn ends() -> (Lane, Lane) {
        let bytes = layout::SEGMENT_WORDS as u64 * 8;
        let segment = Arc::new(Segment::create(c"test", bytes, false).expect("memory"));
        (Lane::new(&segment, Side::Controller), Lane::new(&segment, Side::Executor))
    }

    /// As the supervisor does when it sees the peer end.
    fn vanish(end: End<Self>) {
        end.with_transport(|lane| lane.closer()).close();
    }
}

/// Implements [`Ways`] for connections by a function that makes two of them, the controller's first.
macro_rules! connections {
    ($($(#[$when:meta])? $name:ident: $ends:expr;)*) => {$(
        $(#[$when])?
        pub(super) enum $name {}

        $(#[$when])?
        impl Ways for $name {
            type Way = Connection;

            fn ends() -> (Connection, Connection) {
                let ends: fn() -> (Connection, Connection) = $ends;
                let (mut ours, theirs) = ends();
                ours.meet_ours();
                (ours, theirs)
            }

            fn number_from(end: &mut Connection, sequence: u64) {
                end.number_from(sequence);
            }
        }
    )*};
}

connections! {
    Pipes: || {
        let (to_theirs, from_ours) = std::io::pipe().map(|(reader, writer)| (writer, reader)).expect("a pipe");
        let (from_theirs, to_ours) = std::io::pipe().expect("a pipe");
        let ours = Connection::stream(from_theirs, to_theirs).expect("a stream");
        (ours, Connection::stream(from_ours, to_ours).expect("a stream"))
    };
    #[cfg(feature = "named-segment")]
    NamedSegment: || {
        static NUMBERS: AtomicU64 = AtomicU64::new(0);
        let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
        let name = format!("test-{}-{number}", std::process::id());
        let creator = thread::spawn({
            let name = name.clone();
            move || Connection::create_named(&name, Duration::from_secs(60)).expect("a segment")
        });
        let theirs = loop {
            match Connection::attach_named(&name) {
                Ok(connection) => break connection,
                Err(error) if error.kind() == crate::ErrorKind::InvalidArgument => thread::yield_now(),
                Err(error) => panic!("{error}"),
            }
        };
        (creator.join().expect("no panic"), theirs)
    };
    Shared: || {
        let (ours, theirs) = UnixStream::pair().expect("a socket");
        let ours = Connection::create_shared(ours).expect("memory");
        (ours, Connection::attach_shared(theirs).expect("a segment"))
    };
    UnixSocket: || {
        let (ours, theirs) = UnixStream::pair().expect("a socket");
        let end = |socket| Connection::socket(socket).expect("a stream");
        (end(ours), end(theirs))
    };
    Tcp: || {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let ours = TcpStream::connect(listener.local_addr().expect("an address")).expect("a socket");
        let (theirs, _) = listener.accept().expect("a connection");
        let end = |socket: TcpStream| {
            socket.set_nodelay(true).expect("a TCP socket");
            Connection::socket(socket).expect("a stream")
        };
        (end(ours), end(theirs))
    };
}
