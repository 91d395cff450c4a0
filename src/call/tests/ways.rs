//! The transports that the suite runs over, each as a way to make two connected ends.

use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use super::conformance::{End, Ways};
use crate::shm::Segment;
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
    ($($name:ident: $ends:expr;)*) => {$(
        pub(super) enum $name {}

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
    InProcess: Connection::local;
    Pipes: || {
        let (to_theirs, from_ours) = std::io::pipe().map(|(reader, writer)| (writer, reader)).expect("a pipe");
        let (from_theirs, to_ours) = std::io::pipe().expect("a pipe");
        let ours = Connection::stream(from_theirs, to_theirs).expect("a stream");
        (ours, Connection::stream(from_ours, to_ours).expect("a stream"))
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
