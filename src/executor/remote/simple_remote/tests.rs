//! `SimpleRemoteCATest` and `SimpleRemoteCAOverSocketTest`: the controller is a test that writes frames, or this library's
//! client.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixDatagram;
use std::sync::mpsc::{self, Receiver};

use std::time::Instant;

use super::*;
use crate::error::ErrorKind;
use crate::session::{SUBTARGET_FEATURES, Session, SessionBuilder};
use crate::task::{TaskDispatcher, ThreadPool};
use crate::wire::frame::{HEADER_BYTES, RESULT_OUT_OF_BAND};

/// Longer than anything here takes.
const LONG: Duration = Duration::from_secs(30);

type End = std::result::Result<(), String>;

/// SessionBuilder whose tasks run on threads, and where the end of the connection comes out.
fn options() -> (SessionBuilder, Receiver<End>) {
    let (sender, receiver) = mpsc::channel();
    let pool = ThreadPool::new(2);
    let options = SessionBuilder::new(move |task| pool.dispatch(task));
    let options = options
        .function("echo", |_, args, reply| reply.send(Ok(args)))
        .and_then(|options| options.function("fails", |_, _, reply| reply.send(Err("no".into()))))
        .expect("functions")
        .on_error(|_, error| panic!("{error}"))
        .on_disconnect(move |_, cause| {
            // Some tests do not look.
            let _ = sender.send(cause.map_err(|error| error.to_string()));
        });
    (options, receiver)
}

/// The controller's end of a session's stream.
struct Peer {
    socket: UnixStream,
    session: Session,
    end: Receiver<End>,
}

impl Peer {
    /// Attached; the setup is still to be read.
    fn new() -> Self {
        let (options, end) = options();
        let session = options.build().expect("a session");
        let (socket, other) = UnixStream::pair().expect("sockets");
        socket.set_read_timeout(Some(LONG)).expect("a time limit");
        session.attach(SimpleRemote::socket(other).expect("an access")).expect("attached");
        Self { socket, session, end }
    }

    /// Attached and set up.
    fn ready() -> Self {
        let mut peer = Self::new();
        assert_eq!(peer.receive().0.opcode, Opcode::Setup);
        peer
    }

    /// The same as a controller of this library.
    fn ours() -> Self {
        let mut peer = Self::ready();
        peer.send(Opcode::Hello, 0, OWN_VERSION, &[]);
        // So that the hello was read: the answer to what comes after it.
        peer.send(Opcode::Call, 7, peer.function("echo"), &[]);
        assert_eq!(peer.receive().0.opcode, Opcode::Result);
        peer
    }

    fn function(&self, name: &str) -> u64 {
        self.session.bootstrap_info().symbols().get(name).expect("offered").get()
    }

    fn send(&mut self, opcode: Opcode, sequence: u64, tag: u64, payload: &[u8]) {
        let header = Header { opcode, sequence, tag, payload_bytes: payload.len() };
        let bytes = [&header.encode(), payload].concat();
        self.socket.write_all(&bytes).expect("sent");
    }

    fn receive(&mut self) -> (Header, Vec<u8>) {
        let mut header = [0; HEADER_BYTES];
        self.socket.read_exact(&mut header).expect("a frame");
        let header = Header::decode(&header).expect("a header");
        let mut payload = vec![0; header.payload_bytes];
        self.socket.read_exact(&mut payload).expect("a payload");
        (header, payload)
    }

    /// How the session saw the connection end.
    fn end(&self) -> End {
        self.end.recv_timeout(LONG).expect("an end")
    }

    /// The end, which is an error that says so.
    fn fails_with(&self, text: &str) {
        let error = self.end().expect_err("no orderly end");
        assert!(error.contains(text), "{error}");
    }
}

#[test]
fn rejects_a_non_stream_socket() {
    let (one, _other) = UnixDatagram::pair().expect("sockets");
    let error = SimpleRemote::socket(one).expect_err("datagrams");
    assert!(
        error.kind() == ErrorKind::InvalidArgument && error.to_string().contains("Datagram"),
        "{error}"
    );
    let (pipe, _writer) = std::io::pipe().expect("a pipe");
    assert!(SimpleRemote::socket(pipe).is_err());
}

#[test]
fn setup_is_sent_on_connect() {
    let mut peer = Peer::new();
    let (header, payload) = peer.receive();
    assert_eq!((header.opcode, header.sequence, header.tag), (Opcode::Setup, 0, 0));
    let (triple, page, values, symbols): ConnectionSetup =
        sps::from_bytes(&payload).expect("a setup");
    assert!(triple.ends_with("-linux-gnu") && page == 4096, "{triple} {page}");
    assert!(
        values
            .iter()
            .any(|(name, features)| name == SUBTARGET_FEATURES && features.0.starts_with(b"+"))
    );
    for name in ["echo", "orc_rt_Session_Instance", "farcall_session_instance"] {
        assert!(symbols.iter().any(|(offered, at)| offered == name && !at.is_null()), "{name}");
    }
    assert!(symbols.iter().any(|(name, _)| name == "__llvm_orc_bootstrap_run_as_main_wrapper"));
}

#[test]
fn setup_message_round_trips() {
    let mut peer = Peer::new();
    let (_, payload) = peer.receive();
    let setup: ConnectionSetup = sps::from_bytes(&payload).expect("a setup");
    assert_eq!(sps::to_bytes(&setup), payload);
}

#[test]
fn controller_call_is_framed_and_result_completes_it() {
    let mut peer = Peer::ready();
    let (sender, receiver) = mpsc::channel();
    peer.session.call_controller(0x55, b"args".to_vec(), move |outcome| {
        sender.send(outcome).expect("the test waits");
    });
    let (header, payload) = peer.receive();
    assert_eq!((header.opcode, header.sequence, header.tag), (Opcode::Call, 1, 0x55));
    assert_eq!(payload, b"args");
    peer.send(Opcode::Result, 1, 0, b"result");
    let outcome = receiver.recv_timeout(LONG).expect("completed");
    assert_eq!(outcome.expect("a result"), b"result");
}

#[test]
fn controller_initiated_call_returns_a_result() {
    let mut peer = Peer::ready();
    for sequence in [0, 9, u64::MAX] {
        peer.send(Opcode::Call, sequence, peer.function("echo"), b"bytes");
        let (header, payload) = peer.receive();
        assert_eq!((header.opcode, header.sequence, header.tag), (Opcode::Result, sequence, 0));
        assert_eq!(payload, b"bytes");
    }
}

#[test]
fn empty_payloads_round_trip() {
    let mut peer = Peer::ready();
    peer.send(Opcode::Call, 1, peer.function("echo"), &[]);
    assert_eq!(peer.receive().1, b"");
    let session = peer.session.clone();
    let call = thread::spawn(move || session.call(3, Vec::new()));
    let (header, payload) = peer.receive();
    assert_eq!((header.tag, payload), (3, Vec::new()));
    peer.send(Opcode::Result, header.sequence, 0, &[]);
    assert_eq!(call.join().expect("no panic").expect("a result"), b"");
}

#[test]
fn results_come_in_any_order() {
    let mut peer = Peer::ready();
    let calls: Vec<_> = (0..8_u8)
        .map(|n| {
            let session = peer.session.clone();
            thread::spawn(move || assert_eq!(session.call(1, vec![n]).expect("a result"), [n, n]))
        })
        .collect();
    let mut frames: Vec<_> = (0..8).map(|_| peer.receive()).collect();
    frames.reverse();
    for (header, payload) in frames {
        peer.send(Opcode::Result, header.sequence, 0, &payload.repeat(2));
    }
    calls.into_iter().for_each(|call| call.join().expect("no panic"));
}

#[test]
fn two_calls_make_progress_at_once() {
    let (options, _end) = options();
    let (sender, receiver) = mpsc::channel();
    let receiver = Mutex::new(receiver);
    let options = options
        .function("waits", move |_, _, reply| {
            let bytes = receiver.lock().recv_timeout(LONG).expect("the other");
            reply.send(Ok(bytes));
        })
        .and_then(|options| {
            options.function("tells", move |_, args, reply| {
                sender.send(args).expect("the first waits");
                reply.send(Ok(Vec::new()));
            })
        });
    let session = options.expect("functions").build().expect("a session");
    let (socket, other) = UnixStream::pair().expect("sockets");
    session.attach(SimpleRemote::socket(other).expect("an access")).expect("attached");
    let (_sender, end) = mpsc::channel();
    let mut peer = Peer { socket, session, end };
    peer.receive();
    peer.send(Opcode::Call, 1, peer.function("waits"), &[]);
    peer.send(Opcode::Call, 2, peer.function("tells"), b"now");
    let mut results = [peer.receive(), peer.receive()];
    results.sort_by_key(|(header, _)| header.sequence);
    assert_eq!(results.map(|(_, payload)| payload), [b"now".to_vec(), Vec::new()]);
}

#[test]
fn out_of_band_error_result_is_framed_as_its_own_kind() {
    let mut peer = Peer::ours();
    peer.send(Opcode::Call, 4, peer.function("fails"), &[]);
    let (header, payload) = peer.receive();
    assert_eq!((header.opcode, header.sequence), (Opcode::Failure, 4));
    assert_eq!(payload, b"no");
    let mut llvms = Peer::ready();
    llvms.send(Opcode::Call, 4, llvms.function("fails"), &[]);
    let (header, payload) = llvms.receive();
    assert_eq!((header.opcode, payload.len()), (Opcode::Result, 0), "LLVM has no word for it");
}

#[test]
fn out_of_band_error_from_controller_completes_the_call() {
    let message = b"no such handler";
    let llvms = [&(message.len() as u64).to_le_bytes()[..], message].concat();
    let forms = [
        (Peer::ours(), Opcode::Failure, 0, message.to_vec()),
        (Peer::ready(), Opcode::Result, RESULT_OUT_OF_BAND, llvms),
    ];
    for (mut peer, opcode, tag, payload) in forms {
        let session = peer.session.clone();
        let call = thread::spawn(move || session.call(1, Vec::new()));
        let (header, _) = peer.receive();
        peer.send(opcode, header.sequence, tag, &payload);
        let error = call.join().expect("no panic").expect_err("out of band");
        assert!(
            error.kind() == ErrorKind::Remote && error.to_string() == "no such handler",
            "{error:?}"
        );
    }
}

#[test]
fn unknown_result_kind_ends_the_session() {
    let mut peer = Peer::ready();
    let session = peer.session.clone();
    let call = thread::spawn(move || session.call(1, Vec::new()));
    let (header, _) = peer.receive();
    let mut bytes =
        Header { opcode: Opcode::Result, sequence: header.sequence, tag: 0, payload_bytes: 0 }
            .encode();
    bytes[24] = 9;
    peer.socket.write_all(&bytes).expect("sent");
    peer.fails_with("with tag 0x9");
    assert!(call.join().expect("no panic").expect_err("the end").is_disconnected());
}

#[test]
fn a_frame_out_of_place_ends_the_session() {
    type Frame = (Opcode, u64, u64);
    let frames: [(Frame, &str); 6] = [
        ((Opcode::Setup, 0, 0), "Setup 0"),
        ((Opcode::Posted, 3, 0x10), "Posted 3"),
        ((Opcode::Result, 5, 0), "Result 5, for which no call waits"),
        ((Opcode::Failure, 5, 0), "Failure 5, for which no call waits"),
        ((Opcode::Hello, 0, OWN_VERSION + 1), "Hello 0"),
        ((Opcode::Hello, 0, OWN_VERSION), "Hello 0"),
    ];
    for ((opcode, sequence, tag), text) in frames {
        let mut peer = Peer::ours();
        peer.send(opcode, sequence, tag, &[]);
        peer.fails_with(text);
    }
}

#[test]
fn message_size_below_header_is_rejected() {
    for size in [0_u64, 31, u64::MAX] {
        let mut peer = Peer::ready();
        peer.socket.write_all(&[size.to_le_bytes(); 4].concat()).expect("sent");
        peer.fails_with(&format!("a frame of {size} bytes"));
    }
}

#[test]
fn partial_writes_are_reassembled() {
    // More than any socket holds, both ways.
    let bytes: Vec<u8> = (0..3_000_000_u32).map(|n| n.to_le_bytes()[1]).collect();
    let mut peer = Peer::ready();
    let (function, sent) = (peer.function("echo"), bytes.clone());
    let mut writer = peer.socket.try_clone().expect("a descriptor");
    let write = thread::spawn(move || {
        let payload_bytes = sent.len();
        let header = Header { opcode: Opcode::Call, sequence: 1, tag: function, payload_bytes };
        for piece in [&header.encode()[..], &sent].concat().chunks(10_007) {
            writer.write_all(piece).expect("sent");
        }
    });
    let (header, payload) = peer.receive();
    write.join().expect("no panic");
    assert!((header.opcode, header.sequence) == (Opcode::Result, 1) && payload == bytes);
}

#[test]
fn orderly_hangup_round_trips() {
    let mut peer = Peer::ready();
    peer.session.detach(|| {});
    let (header, payload) = peer.receive();
    assert_eq!((header.opcode, header.sequence, header.tag), (Opcode::Hangup, 0, 0));
    assert_eq!(sps::from_bytes::<Status>(&payload).expect("a status"), Status(Ok(())));
    assert_eq!(peer.end(), Ok(()));
    let mut peer = Peer::ready();
    peer.send(Opcode::Hangup, 0, 0, &payload);
    assert_eq!(peer.end(), Ok(()));
}

#[test]
fn hangup_reason_round_trips() {
    let mut peer = Peer::ready();
    peer.send(Opcode::Hangup, 0, 0, &sps::to_bytes(&Status(Err("too slow".to_owned()))));
    assert_eq!(peer.end(), Err("too slow".to_owned()));
}

#[test]
fn decode_hangup_rejects_an_empty_payload() {
    let mut peer = Peer::ours();
    peer.send(Opcode::Hangup, 0, 0, &[]);
    peer.fails_with("a hangup without a status");
}

#[test]
fn llvms_hangup_may_be_empty() {
    let mut peer = Peer::ready();
    peer.send(Opcode::Hangup, 0, 0, &[]);
    assert_eq!(peer.end(), Ok(()), "LLVM 22 does not look at it");
    let mut peer = Peer::ready();
    peer.send(Opcode::Hangup, 0, 0, &[1]);
    peer.fails_with("ends too soon");
}

#[test]
fn nothing_is_queued_behind_the_hangup() {
    let mut peer = Peer::ready();
    peer.send(Opcode::Call, 1, peer.function("echo"), b"before");
    assert_eq!(peer.receive().1, b"before");
    let callers: Vec<_> = (0..4)
        .map(|_| {
            let session = peer.session.clone();
            thread::spawn(move || {
                for _ in 0..100 {
                    session.call_controller(1, vec![1; 100], |outcome| assert!(outcome.is_err()));
                }
            })
        })
        .collect();
    peer.session.detach(|| {});
    let mut rest = Vec::new();
    peer.socket.read_to_end(&mut rest).expect("the end");
    assert_eq!(peer.end(), Ok(()));
    callers.into_iter().for_each(|caller| caller.join().expect("no panic"));
    let mut opcodes = opcodes(&rest);
    assert_eq!(opcodes.pop(), Some(Opcode::Hangup));
    assert!(opcodes.iter().all(|opcode| *opcode == Opcode::Call), "{opcodes:?}");
}

#[test]
fn hangup_from_controller_ends_the_session() {
    let mut peer = Peer::ours();
    let session = peer.session.clone();
    let call = thread::spawn(move || session.call(1, Vec::new()));
    peer.receive();
    peer.send(Opcode::Hangup, 0, 0, &[0]);
    assert_eq!(peer.end(), Ok(()));
    assert!(call.join().expect("no panic").expect_err("drained").is_disconnected());
}

/// The opcodes of whole frames.
fn opcodes(mut bytes: &[u8]) -> Vec<Opcode> {
    let mut opcodes = Vec::new();
    while let Some((header, rest)) = bytes.split_first_chunk() {
        let header = Header::decode(header).expect("a header");
        opcodes.push(header.opcode);
        bytes = rest.get(header.payload_bytes..).expect("a whole frame");
    }
    assert!(bytes.is_empty(), "{} bytes of a header", bytes.len());
    opcodes
}

/// Calls the controller until the queue is so full that callers wait.
fn stall(peer: &Peer) -> Vec<thread::JoinHandle<()>> {
    let callers = (0..3).map(|_| {
        let session = peer.session.clone();
        thread::spawn(move || {
            for _ in 0..10 {
                session.call_controller(1, vec![7; 1 << 20], |outcome| assert!(outcome.is_err()));
            }
        })
    });
    let callers = callers.collect();
    // Most of the time they wait by then; right in either case.
    thread::sleep(Duration::from_millis(20));
    callers
}

#[test]
fn peer_reason_survives_a_stalled_send_queue() {
    let mut peer = Peer::ready();
    let callers = stall(&peer);
    peer.send(Opcode::Hangup, 0, 0, &sps::to_bytes(&Status(Err("tired".to_owned()))));
    peer.socket.shutdown(Shutdown::Both).expect("shut down");
    assert_eq!(peer.end(), Err("tired".to_owned()));
    callers.into_iter().for_each(|caller| caller.join().expect("nobody waits for room for ever"));
}

#[test]
fn a_peer_that_takes_nothing_does_not_keep_the_session() {
    let peer = Peer::ready();
    let callers = stall(&peer);
    let began = Instant::now();
    peer.session.detach(|| {});
    peer.fails_with("the hangup was not taken in 300ms");
    assert!(began.elapsed() < DRAIN + LONG / 2);
    callers.into_iter().for_each(|caller| caller.join().expect("no panic"));
}

#[test]
fn truncated_message_is_reported_as_an_error() {
    let mut peer = Peer::ready();
    let header = Header { opcode: Opcode::Call, sequence: 3, tag: 1, payload_bytes: 100 };
    peer.socket.write_all(&header.encode()[..20]).expect("sent");
    peer.socket.shutdown(Shutdown::Write).expect("shut down");
    peer.fails_with("after 20 of a header's 32 bytes");
    let mut peer = Peer::ready();
    peer.socket.write_all(&[&header.encode()[..], &[0; 10]].concat()).expect("sent");
    peer.socket.shutdown(Shutdown::Write).expect("shut down");
    peer.fails_with("after 10 of 100 bytes of Call 3");
}

#[test]
fn a_peer_may_be_gone_after_any_byte() {
    let frame = |opcode, sequence, tag, payload: &[u8]| {
        let header = Header { opcode, sequence, tag, payload_bytes: payload.len() };
        [&header.encode(), payload].concat()
    };
    let frames = [
        frame(Opcode::Hello, 0, OWN_VERSION, &[]),
        // To an address that holds no function.
        frame(Opcode::Call, 1, 0, b"ab"),
        frame(Opcode::Result, 1, 0, b"result"),
    ];
    let bytes = frames.concat();
    for cut in 0..=bytes.len() {
        let mut peer = Peer::ready();
        let (sender, receiver) = mpsc::channel();
        peer.session.call_controller(3, Vec::new(), move |outcome| drop(sender.send(outcome)));
        peer.socket.write_all(&bytes[..cut]).expect("sent");
        peer.socket.shutdown(Shutdown::Both).expect("gone");
        assert_eq!(peer.end().is_ok(), cut == 0, "cut at {cut}");
        let outcome = receiver.recv_timeout(LONG).expect("completed");
        assert_eq!(outcome.is_ok(), cut == bytes.len(), "cut at {cut}");
        assert!(receiver.recv_timeout(LONG).is_err(), "exactly once");
        peer.session.shutdown(|| {});
        peer.session.wait().expect("it ends");
    }
}

#[test]
fn peer_close_without_a_hangup_is_an_error() {
    let peer = Peer::ours();
    peer.socket.shutdown(Shutdown::Both).expect("shut down");
    peer.fails_with("without a hangup");
    let llvms = Peer::ready();
    llvms.socket.shutdown(Shutdown::Both).expect("shut down");
    assert_eq!(llvms.end(), Ok(()), "LLVM's controllers end so");
}

#[test]
fn pipes_end_as_sockets_do() {
    let (theirs, mut writer) = std::io::pipe().expect("a pipe");
    let (mut reader, ours) = std::io::pipe().expect("a pipe");
    let (options, end) = options();
    let session = options.build().expect("a session");
    session.attach(SimpleRemote::stream(theirs, ours).expect("an access")).expect("attached");
    let payload = vec![3; 200_000];
    let function = session.bootstrap_info().symbols().get("echo").expect("offered").get();
    let header =
        Header { opcode: Opcode::Call, sequence: 1, tag: function, payload_bytes: payload.len() };
    writer.write_all(&[&header.encode()[..], &payload].concat()).expect("sent");
    let waits = session.clone();
    // A thread that reads a pipe is woken too.
    let detach = thread::spawn(move || {
        thread::sleep(Duration::from_millis(50));
        waits.detach(|| {});
    });
    let mut rest = Vec::new();
    reader.read_to_end(&mut rest).expect("all until the session closes it");
    detach.join().expect("no panic");
    assert_eq!(end.recv_timeout(LONG).expect("an end"), Ok(()));
    assert_eq!(opcodes(&rest), [Opcode::Setup, Opcode::Result, Opcode::Hangup]);
}
