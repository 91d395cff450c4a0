//! Streams to a test that writes frames, right and damaged ones, byte by byte.

use crate::deadline::Deadline;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::{Duration, Instant};

use super::{By, echo};
use crate::call::Endpoint;
use crate::error::{Error, ErrorKind, Result};
use crate::limits::PAYLOAD_BYTES_MAX;
use crate::sps::Status;
use crate::transport::{Connection, Incoming};

/// A frame, assembled here and not by the code under test.
fn frame(opcode: u64, sequence: u64, tag: u64, payload: &[u8]) -> Vec<u8> {
    let words = [32 + payload.len() as u64, opcode, sequence, tag];
    [&words.map(u64::to_le_bytes).concat(), payload].concat()
}

/// Reads a frame: opcode, number, tag and payload.
fn read_frame(socket: &mut UnixStream) -> (u64, u64, u64, Vec<u8>) {
    let mut header = [0; 32];
    socket.read_exact(&mut header).expect("a header");
    let word = |at: usize| u64::from_le_bytes(header.as_chunks().0[at]);
    let mut payload = vec![0; usize::try_from(word(0)).expect("fits") - 32];
    socket.read_exact(&mut payload).expect("a payload");
    (word(1), word(2), word(3), payload)
}

fn pair() -> (Endpoint<Connection>, UnixStream) {
    let (ours, theirs) = UnixStream::pair().expect("a socket");
    (Endpoint::new(Connection::socket(ours).expect("a stream")), theirs)
}

/// Everything that a peer wrote, read until it ended: what two calls came to, and a third.
fn converse(end: &Endpoint<Connection>) -> Result<Vec<Vec<u8>>> {
    let mut results = vec![end.receive_setup(Deadline::SESSION_END)?];
    for target in 1..=3 {
        match end.call(&By(echo), Deadline::SESSION_END, target, b"arguments", Incoming::to_vec) {
            Err(error) if error.kind() == ErrorKind::Remote => {
                results.push(error.to_string().into_bytes())
            }
            outcome => results.push(outcome?),
        }
    }
    Ok(results)
}

/// What a peer says in a conversation of three calls, with calls back, posted ones and a failure.
fn recording() -> Vec<Vec<u8>> {
    vec![
        frame(4, 0, 1, &[]),
        frame(0, 0, 0, b"setup"),
        frame(3, 77, 1, b"back"),
        frame(2, 1, 0, b"first"),
        frame(6, 1, 1, b"posted"),
        frame(3, 78, 2, &[]),
        frame(5, 2, 0, b"no"),
        frame(6, 2, 2, b"fails"),
        frame(3, 79, 1, b"not run"),
        frame(2, 3, 0, &[7; 3000]),
        frame(1, 0, 0, &[0]),
    ]
}

#[test]
fn a_recorded_conversation_is_understood_however_it_is_cut() {
    let bytes = recording().concat();
    for piece in [1, 2, 31, 32, 33, 100, bytes.len()] {
        let (end, mut peer) = pair();
        let writer = thread::spawn({
            let bytes = bytes.clone();
            move || {
                for piece in bytes.chunks(piece) {
                    peer.write_all(piece).expect("somebody reads");
                }
                peer
            }
        });
        let results = converse(&end).expect("understood");
        assert_eq!(results[..3], [&b"setup"[..], b"first", b"no"]);
        assert_eq!(results[3], [7; 3000]);
        let mut peer = writer.join().expect("no panic");
        end.hang_up(Status(Ok(())), Deadline::SESSION_END).expect("sent");
        let written: Vec<_> = (0..7).map(|_| read_frame(&mut peer)).collect();
        let call = |number| (3, number, number, b"arguments".to_vec());
        let ran_ahead = "call 2, sent ahead, failed: no, said two";
        assert_eq!(
            written,
            [
                call(1),
                (2, 77, 0, b"back".to_vec()),
                call(2),
                (5, 78, 0, b"no, said two".to_vec()),
                call(3),
                (5, 79, 0, ran_ahead.into()),
                (1, 0, 0, vec![0]),
            ]
        );
    }
}

#[test]
fn a_peer_that_has_not_said_hello_hears_llvms_opcodes_only() {
    let (end, mut peer) = pair();
    let calls = [frame(3, 0, 2, b"fails"), frame(3, 1, 1, b"works")].concat();
    peer.write_all(&calls).expect("room");
    peer.shutdown(Shutdown::Write).expect("connected");
    end.send_setup(b"setup").expect("sent");
    end.serve(&By(echo)).expect("an orderly end");
    assert!(
        end.post(1, &[], Deadline::SESSION_END).expect_err("LLVM has no such thing").kind()
            == ErrorKind::InvalidArgument
    );
    assert_eq!(read_frame(&mut peer), (0, 0, 0, b"setup".to_vec()));
    assert_eq!(read_frame(&mut peer), (2, 0, 0, Vec::new()));
    assert_eq!(read_frame(&mut peer), (2, 1, 0, b"works".to_vec()));
}

#[test]
fn answers_that_come_before_their_turn_wait_for_it() {
    let (end, mut peer) = pair();
    let bytes = [frame(3, 5, 1, &[]), frame(2, 1, 0, b"outer"), frame(2, 2, 0, b"inner")];
    peer.write_all(&bytes.concat()).expect("room");
    // Calls once more inside of a call.
    let nest = By(|_, _: &[u8]| {
        let inner = end.call(&By(echo), Deadline::SESSION_END, 20, &[], Incoming::to_vec);
        inner.map_err(|error| error.to_string())
    });
    let result = end.call(&nest, Deadline::SESSION_END, 10, &[], Incoming::to_vec);
    assert_eq!(result.expect("a result"), b"outer");
    let written: Vec<_> = (0..3).map(|_| read_frame(&mut peer)).collect();
    assert_eq!(written[2], (2, 5, 0, b"inner".to_vec()));
}

#[test]
fn calls_are_numbered_round_the_end_and_never_0() {
    let (end, mut peer) = pair();
    end.with_transport(|way| way.number_from(u64::MAX - 2));
    let numbers = [u64::MAX - 1, u64::MAX, 1, 2];
    let answers = numbers.map(|number| frame(2, number, 0, &number.to_le_bytes()));
    peer.write_all(&answers.concat()).expect("room");
    for number in numbers {
        let result = end.call(&By(echo), Deadline::SESSION_END, 1, &[], Incoming::to_vec);
        assert_eq!(result.expect("a result"), number.to_le_bytes());
        assert_eq!(read_frame(&mut peer).1, number);
    }
}

/// The result for a peer that writes these bytes and no more.
fn outcome_of(bytes: &[u8]) -> Result<Vec<Vec<u8>>> {
    let (end, mut peer) = pair();
    peer.write_all(bytes).expect("room");
    peer.shutdown(Shutdown::Write).expect("connected");
    converse(&end)
}

#[test]
fn nonsense_is_a_violation_with_numbers() {
    let setup = frame(0, 0, 0, b"setup");
    let word = |at: usize, value: u64| {
        let mut bytes = frame(2, 1, 0, b"result");
        bytes[at * 8..at * 8 + 8].copy_from_slice(&value.to_le_bytes());
        bytes
    };
    let violations = [
        (word(0, 31), "31 bytes"),
        (word(0, 32 + PAYLOAD_BYTES_MAX + 1), "1073741857 bytes"),
        (word(0, u64::MAX), "18446744073709551615 bytes"),
        (word(1, 7), "opcode 7"),
        (word(1, 3 << 32), "opcode 12884901888"),
        (word(2, 2), "Result 2, and the calls that wait are [1]"),
        (word(3, 0x99), "tag 0x99"),
        (frame(0, 0, 0, &[]), "Setup where a result was due"),
        (frame(4, 0, 2, &[]), "version 0x2"),
        ([frame(4, 0, 1, &[]), frame(4, 0, 1, &[])].concat(), "heard before: true"),
    ];
    for (bytes, words) in violations {
        let error = outcome_of(&[&setup[..], &bytes].concat()).expect_err("nonsense");
        assert!(
            error.kind() == ErrorKind::Violation && error.to_string().contains(words),
            "{words}: {error}"
        );
    }
    // A size that is allowed, and far more than comes.
    let ends = [
        (word(0, 32 + PAYLOAD_BYTES_MAX), "6 of 1073741824 bytes of Result 1"),
        (word(0, 40), "6 of 8 bytes"),
        (vec![1; 31], "31 of a header's 32 bytes"),
    ];
    for (bytes, words) in ends {
        let error = outcome_of(&[&setup[..], &bytes].concat()).expect_err("an early end");
        assert!(error.is_disconnected() && error.kind() != ErrorKind::Violation, "{error:?}");
        assert!(error.to_string().contains(words), "{words}: {error}");
    }
}

/// xorshift64*
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % end.max(1) as u64).expect("below")
    }
}

/// A recorded conversation with one to four things wrong.
fn damaged(random: &mut Random) -> Vec<u8> {
    let mut frames = recording();
    for _ in 0..=random.below(4) {
        let at = random.below(frames.len());
        let other = random.below(frames.len());
        let interesting = [0, 1, 31, 32, 33, 1 << 30, (1 << 30) + 33, u64::MAX, random.next()];
        let value = interesting[random.below(interesting.len())];
        let frame = &mut frames[at];
        match random.below(7) {
            0 => {
                let bit = random.below(frame.len() * 8);
                frame[bit / 8] ^= 1 << (bit % 8);
            }
            1 => {
                let word = random.below(4) * 8;
                frame[word..word + 8].copy_from_slice(&value.to_le_bytes());
            }
            2 => {
                let left = 32 + random.below(frame.len() - 31);
                frame.truncate(left);
            }
            3 => frames.swap(at, other),
            4 => {
                let again = frames[at].clone();
                frames.insert(other, again);
            }
            5 => frame.clear(),
            _ => {
                let from = random.below(frame.len());
                frame[from..].fill_with(|| random.next().to_le_bytes()[0]);
            }
        }
        // Leaves a whole header, for the next damage.
        frames.iter_mut().for_each(|frame| frame.resize(frame.len().max(32), 0));
    }
    let mut bytes = frames.concat();
    if random.below(4) == 0 {
        bytes.truncate(random.below(bytes.len()));
    }
    bytes
}

#[test]
fn damaged_streams_cost_an_error_and_nothing_else() {
    const CASES: u32 = 120_000;
    let mut random = Random(0x5eed);
    let begun = Instant::now();
    let (mut violations, mut ends, mut understood) = (0, 0, 0);
    for case in 0..CASES {
        let bytes = damaged(&mut random);
        let begun = Instant::now();
        match outcome_of(&bytes) {
            Ok(_) => understood += 1,
            Err(error) if error.kind() == ErrorKind::Violation => violations += 1,
            Err(error) => {
                assert!(Error::is_disconnected(&error), "case {case}: {error:?}");
                ends += 1;
            }
        }
        let took = begun.elapsed();
        assert!(took < Duration::from_secs(10), "case {case}: {took:?}");
    }
    let took = begun.elapsed();
    println!("damaged streams: {CASES} cases: {violations} violations, {ends} ends, {took:?}");
    assert!(violations > CASES / 4 && ends > CASES / 20 && understood > CASES / 100);
}
