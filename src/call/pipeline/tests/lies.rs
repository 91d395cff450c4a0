//! A peer that writes what no honest peer writes.
use crate::transport::{End, Lifeline, PollPolicy};

use super::*;
use crate::error::ErrorKind;

/// What an executor that sends these records does to a caller with two calls under way, numbers 1 and 2.
fn lie(records: &[(u8, u64, &[u8])]) -> Error {
    let segment = Arc::new(pipeline::create_segment(PollPolicy::default()).expect("memory"));
    let caller =
        Caller::new(pipeline::end(&segment, Side::Controller, &Lifeline::new(End::new()), 0), 0);
    let completions = [(); 2].map(|()| submit(&caller, ECHO, b"").expect("submitted"));
    let cells = Raw(Arc::clone(&segment), crate::wire::pipeline::RESULTS_WORD);
    let mut ring = crate::ring::Producer::new(cells, RING_LINES, 0);
    for (kind, sequence, payload) in records {
        let head = crate::ring::Head { kind: *kind, sequence: *sequence, target: 0 };
        ring.push(head, payload).expect("room");
    }
    let mut errors = completions.iter().filter_map(|one| result(&caller, one).err());
    let error = errors.find(|error| error.kind() == ErrorKind::Violation);
    let error = error.unwrap_or_else(|| {
        caller.poll();
        submit(&caller, ECHO, b"").expect_err("a violation")
    });
    assert!(submit(&caller, ECHO, b"").expect_err("over").kind() == ErrorKind::Violation);
    error
}

/// A ring that begins at this word of a segment.
struct Raw(Arc<crate::shm::Segment>, usize);

impl crate::ring::Backing for Raw {
    fn load(&self, word: usize, order: Ordering) -> u64 {
        self.0.words()[self.1 + word].load(order)
    }

    fn store(&self, word: usize, value: u64, order: Ordering) {
        self.0.words()[self.1 + word].store(value, order);
    }
}

#[test]
fn a_lie_is_a_violation_with_numbers() {
    let (call, result, failure, part, fresh, calls, results) = (1, 2, 3, 4, 5, 6, 7);
    let chunk = vec![0; CHUNK_BYTES_MAX];
    for (records, number) in [
        // Of a call that is due later, was answered, was never made.
        (&[(result, 2, &b""[..])][..], "0x2"),
        (&[(result, 0, b"")], "0x0"),
        (&[(result, u64::MAX, b"")], "0xffffffffffffffff"),
        (&[(result, 1, b""), (result, 1, b"")], "0x1"),
        (&[(failure, 1, b""), (result, 1, b"")], "0x1"),
        (&[(result, 1, b""), (result, 2, b""), (result, 3, b"")], "0x3"),
        // Of a kind that an executor does not send, alone and behind something.
        (&[(call, 1, b"")], "Call"),
        (&[(calls, 1, b"8 bytes.")], "Calls"),
        // More small results than calls of the submission, of others, and not whole.
        (&[(results, 1, b"8 bytes.and 8 of")], "0x1"),
        (&[(results, 2, b"8 bytes.")], "Results"),
        (&[(results, 1, b"8 bytes."), (results, 1, b"8 bytes.")], "0x1"),
        (&[(results, 1, b"8 bytes more")], "kind 7 behind 12"),
        (&[(calls, 1, b"8 bytes.and 8 of")], "Calls"),
        (&[(results, 1, b"")], "kind 7"),
        (&[(fresh, 0, b"")], "kind 5"),
        (&[(result, 1, b""), (fresh, 0, b"")], "kind 5"),
        // Parts of no size, or of a wrong one.
        (&[(part, 0, b"")], "kind 4 behind 0"),
        (&[(part, 0, b"short")], "kind 4 behind 5"),
        (&[(part, 0, &chunk[1..])], "kind 4 behind 32767"),
    ] {
        let error = lie(records);
        assert!(error.kind() == ErrorKind::Violation, "{records:?}: {error:?}");
        assert!(error.to_string().contains(number), "{number}: {error}");
    }
}

#[test]
fn a_word_that_is_no_record_is_a_violation() {
    for word in [1, 3, 1 << 40, u64::MAX, 7 << 1 | 5 << 36] {
        let segment = Arc::new(pipeline::create_segment(PollPolicy::default()).expect("memory"));
        let caller = Caller::new(
            pipeline::end(&segment, Side::Controller, &Lifeline::new(End::new()), 0),
            0,
        );
        let completion = submit(&caller, ECHO, b"").expect("submitted");
        let first = crate::wire::pipeline::RESULTS_WORD + 16;
        segment.words()[first].store(word, Ordering::Release);
        let error = result(&caller, &completion).expect_err("nonsense");
        assert!(
            error.kind() == ErrorKind::Violation
                && error.to_string().contains(&format!("{word:#x}"))
        );
    }
}

#[test]
fn a_position_that_lies_is_a_violation() {
    let segment = Arc::new(pipeline::create_segment(PollPolicy::default()).expect("memory"));
    let caller =
        Caller::new(pipeline::end(&segment, Side::Controller, &Lifeline::new(End::new()), 0), 0);
    segment.words()[crate::wire::pipeline::CALLS_WORD].store(1 << 50, Ordering::Release);
    let error = submit(&caller, ECHO, &pattern(3 * CHUNK_BYTES_MAX)).expect_err("a lie");
    assert!(
        error.kind() == ErrorKind::Violation && error.to_string().contains("0x4000000000000"),
        "{error}"
    );
}

#[test]
fn calls_that_are_no_whole_number_are_a_violation() {
    let kind = crate::ring::Head { kind: Record::Calls as u8, sequence: 1, target: ECHO };
    for payload in [&b""[..], b"short", b"8 bytes.and more", b"8 bytes.and some more"] {
        let segment = Arc::new(pipeline::create_segment(PollPolicy::default()).expect("memory"));
        let cells = Raw(Arc::clone(&segment), crate::wire::pipeline::CALLS_WORD);
        let server =
            Server::new(pipeline::end(&segment, Side::Executor, &Lifeline::new(End::new()), 0));
        let mut ring = crate::ring::Producer::new(cells, RING_LINES, 0);
        ring.push(kind, payload).expect("room");
        ring.close();
        let served = server.serve(&|_, args: &[u8]| Ok::<_, String>(args.to_vec()));
        let is_whole = payload.len() == 16;
        assert_eq!(served.is_ok(), is_whole, "{payload:?}: {served:?}");
        assert!(served.err().is_none_or(|error| error.kind() == ErrorKind::Violation));
    }
}
