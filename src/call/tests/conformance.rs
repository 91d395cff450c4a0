//! The promises of calls over any transport.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

#[cfg(feature = "named-segment")]
use super::ways::NamedSegment;
use super::ways::{Pipes, Shared, SharedMemory, Tcp, UnixSocket};
use super::{Answer, By, echo};
use crate::call::{Endpoint, Handler};
use crate::deadline::Deadline;
use crate::error::{ErrorKind, Result};
use crate::limits::{CHUNK_BYTES_MAX, RING_LINES};
use crate::sps::Status;
use crate::transport::Transport;
use crate::transport::{Incoming, Payload};

/// A transport under test.
pub(super) trait Ways {
    type Way: Transport + Send + 'static;

    /// Two connected ends, the controller's first.
    fn ends() -> (Self::Way, Self::Way);

    /// Ends one end without a hangup.
    fn vanish(end: End<Self>) {
        drop(end);
    }

    /// Sets the number of the last call, where a transport numbers calls.
    fn number_from(_end: &mut Self::Way, _sequence: u64) {}
}

pub(super) type End<W> = Endpoint<<W as Ways>::Way>;

fn endpoints<W: Ways + ?Sized>() -> (End<W>, End<W>) {
    let (ours, theirs) = W::ends();
    (Endpoint::new(ours), Endpoint::new(theirs))
}

const SLOW: Duration = Duration::from_millis(500);

/// Target 1 echoes, 2 fails, 3 takes half a second; remembers the targets of the calls that it ran.
fn echoing(ran: &RefCell<Vec<u64>>) -> By<impl Fn(u64, &[u8]) -> Answer> {
    By(move |target, args: &[u8]| {
        ran.borrow_mut().push(target);
        if target == 3 {
            thread::sleep(SLOW);
        }
        echo(target, args)
    })
}

/// The handler of an end that makes no calls.
fn nobody(target: u64, _: &[u8]) -> Answer {
    Err(format!("nobody is called {target}"))
}

fn call<T: Transport>(end: &Endpoint<T>, target: u64, args: &[u8]) -> Result<Vec<u8>> {
    end.call(&By(nobody), Deadline::SESSION_END, target, args, Incoming::to_vec)
}

/// Runs `body` against an executor end that echoes; returns the targets that ran.
fn with_echo<W: Ways + ?Sized>(body: impl FnOnce(&End<W>)) -> Vec<u64>
where
    W::Way: Send,
{
    let (ours, theirs) = W::ends();
    let ours = Endpoint::new(ours);
    let server = thread::spawn(move || {
        let theirs = Endpoint::new(theirs);
        let ran = RefCell::default();
        theirs.send_setup(b"setup").expect("sent");
        theirs.serve(&echoing(&ran)).expect("an orderly end");
        ran.into_inner()
    });
    assert_eq!(ours.receive_setup(Deadline::SESSION_END).expect("setup")[..], *b"setup");
    body(&ours);
    ours.hang_up(Status(Ok(())), Deadline::SESSION_END).expect("sent");
    server.join().expect("no panic")
}

fn pattern(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at * 7 + bytes).to_le_bytes()[0]).collect()
}

fn results_and_failures_are_told_apart<W: Ways>() {
    with_echo::<W>(|end| {
        assert_eq!(call(end, 1, b"text").expect("a result")[..], *b"text");
        let error = call(end, 2, b"text").expect_err("a failure");
        assert!(error.kind() == ErrorKind::Remote && !error.is_disconnected(), "{error:?}");
        assert_eq!(error.to_string(), "no, said two");
        assert_eq!(call(end, 1, b"text").expect("goes on").len(), 4);
        assert_eq!((end.counters().calls(), end.counters().round_trips()), (3, 3));
    });
}

fn every_size_comes_back_whole<W: Ways>() {
    let around = |middle: usize| middle - 3..middle + 3;
    let sizes: Vec<usize> = (0..200)
        .chain(around(4096))
        .chain(around(CHUNK_BYTES_MAX))
        .chain(around(RING_LINES * 64))
        .chain([1 << 20, 5_000_001])
        .collect();
    assert_eq!(sizes.len(), 200 + 3 * 6 + 2);
    let ran = with_echo::<W>(|end| {
        for size in &sizes {
            let payload = pattern(*size);
            assert!(call(end, 1, &payload).expect("a result") == payload, "{size} bytes");
        }
    });
    assert_eq!(ran.len(), sizes.len());
}

fn what_is_posted_runs_first_and_its_failure_stops_the_call<W: Ways>() {
    let ran = with_echo::<W>(|end| {
        end.post(4, b"ahead", Deadline::SESSION_END).expect("posted");
        call(end, 1, b"").expect("a result");
        end.post(4, b"ahead", Deadline::SESSION_END).expect("posted");
        end.post(2, b"fails", Deadline::SESSION_END).expect("posted");
        end.post(4, b"not run", Deadline::SESSION_END).expect("posted");
        let error = call(end, 1, b"not run").expect_err("what went ahead failed");
        assert!(
            error.kind() == ErrorKind::Remote && error.to_string().contains("no, said two"),
            "{error}"
        );
        call(end, 5, b"").expect("the next call is a new beginning");
        assert_eq!((end.counters().calls(), end.counters().round_trips()), (7, 3));
    });
    assert_eq!(ran, [4, 1, 4, 2, 5]);
}

/// A posted call of target 5 calls target 50 of the other side, which calls target 6; the call behind it runs after all that.
fn what_is_posted_may_call_back_and_still_runs_first<W: Ways>() {
    let (ours, theirs) = W::ends();
    let server = thread::spawn(move || {
        let theirs = Rc::new(Endpoint::new(theirs));
        theirs.send_setup(b"setup").expect("sent");
        let ran = Rc::new(RefCell::new(Vec::new()));
        let handler =
            Nested { end: Rc::clone(&theirs), ran: Rc::clone(&ran), calls: Some((5, 50)) };
        theirs.serve(&handler).expect("an orderly end");
        ran.take()
    });
    let ours = Rc::new(Endpoint::new(ours));
    ours.receive_setup(Deadline::SESSION_END).expect("a setup");
    let asked = Rc::new(RefCell::new(Vec::new()));
    let handler = Nested { end: Rc::clone(&ours), ran: Rc::clone(&asked), calls: Some((50, 6)) };
    let mut expected = Vec::new();
    for posted in 0..4 {
        for number in 0..posted {
            ours.post(5, &pattern(number * 700), Deadline::SESSION_END).expect("posted");
            expected.extend([5, 6, 6 + 1000, 5 + 1000]);
        }
        for bytes in [8, 3000] {
            let args = pattern(bytes);
            let result = ours.call(&handler, Deadline::SESSION_END, 1, &args, Incoming::to_vec);
            assert_eq!(result.expect("a result"), args);
            expected.extend([1, 1001]);
        }
    }
    assert_eq!(*asked.borrow(), [50, 1050].repeat(6));
    ours.hang_up(Status(Ok(())), Deadline::SESSION_END).expect("sent");
    assert_eq!(server.join().expect("no panic"), expected);
}

/// Echoes, and makes a call of its own in one target. Remembers the targets, and each plus 1000 when it returns.
struct Nested<T> {
    end: Rc<Endpoint<T>>,
    ran: Rc<RefCell<Vec<u64>>>,
    calls: Option<(u64, u64)>,
}

impl<T: Transport> Handler<T> for Nested<T> {
    type Reply = Vec<u8>;

    fn handle(&self, target: u64, args: Payload<'_>, _: Vec<u8>) -> Answer {
        self.ran.borrow_mut().push(target);
        if let Some((_, inner)) = self.calls.filter(|(outer, _)| *outer == target) {
            let (end, forever) = (&self.end, Deadline::SESSION_END);
            let result = end.call(self, forever, inner, &args.bytes(), Incoming::to_vec);
            assert!(result.map_err(|error| error.to_string())? == *args.bytes());
        }
        self.ran.borrow_mut().push(target + 1000);
        Ok(args.bytes().into_owned())
    }
}

fn what_is_posted_keeps_its_order_however_much<W: Ways>() {
    let mut expected = Vec::new();
    let ran = with_echo::<W>(|end| {
        let mut number = 100;
        for count in [0, 1, 63, 64, 65, 1000, 3000] {
            for _ in 0..count {
                number += 1;
                let bytes = usize::try_from(number * 13 % 300).expect("small");
                end.post(number, &pattern(bytes), Deadline::SESSION_END).expect("posted");
                expected.push(number);
            }
            assert_eq!(call(end, 1, &[1; 41]).expect("a result"), [1; 41]);
            expected.push(1);
        }
        end.post(7, &pattern(3 * CHUNK_BYTES_MAX), Deadline::SESSION_END).expect("posted");
        expected.push(7);
    });
    assert_eq!(ran, expected);
}

/// Calls back with one less, until nothing is left.
struct Nest<'a, T>(&'a Endpoint<T>, Cell<u64>);

impl<T: Transport> Handler<T> for Nest<'_, T> {
    type Reply = Vec<u8>;

    fn handle(
        &self,
        left: u64,
        args: Payload<'_>,
        _: Vec<u8>,
    ) -> std::result::Result<Vec<u8>, String> {
        let args = args.bytes();
        self.1.set(self.1.get() + 1);
        if left == 0 {
            return Err(format!("the bottom, with {} bytes", args.len()));
        }
        let longer = [&args, &[1; 100][..]].concat();
        let outcome = self.0.call(self, Deadline::SESSION_END, left - 1, &longer, Incoming::to_vec);
        outcome.map_err(|error| format!("{left} {error}"))
    }
}

fn calls_nest_both_ways<W: Ways>() {
    const DEPTH: u64 = 50;
    const ROUNDS: u64 = 3;
    let (ours, theirs) = W::ends();
    let ours = Endpoint::new(ours);
    let server = thread::spawn(move || {
        let theirs = Endpoint::new(theirs);
        theirs.send_setup(&[]).expect("sent");
        let nest = Nest(&theirs, Cell::new(0));
        theirs.serve(&nest).expect("an orderly end");
        nest.1.get()
    });
    ours.receive_setup(Deadline::SESSION_END).expect("setup");
    let nest = Nest(&ours, Cell::new(0));
    for _ in 0..ROUNDS {
        let outcome = ours.call(&nest, Deadline::SESSION_END, DEPTH, &[], |_| ());
        let message = outcome.expect_err("the bottom fails").to_string();
        assert!(message.starts_with("50 49 48 ") && message.ends_with("bottom, with 5000 bytes"));
    }
    assert!(!ours.is_busy());
    ours.hang_up(Status(Ok(())), Deadline::SESSION_END).expect("sent");
    let theirs = server.join().expect("no panic");
    assert_eq!((nest.1.get(), theirs), (ROUNDS * DEPTH / 2, ROUNDS * (DEPTH / 2 + 1)));
}

fn a_call_that_timed_out_can_be_finished<W: Ways>() {
    let ran = with_echo::<W>(|end| {
        let begun = Instant::now();
        let deadline = Deadline::after(Duration::from_millis(20));
        let late = end.call(&By(nobody), deadline, 3, b"late", |_| panic!("there is no result"));
        let error = late.expect_err("no time");
        assert!(error.kind() == ErrorKind::Timeout && !error.is_disconnected(), "{error}");
        let waited = begun.elapsed();
        assert!(waited >= Duration::from_millis(20) && waited < SLOW, "{waited:?}");
        end.finish(&By(nobody), Deadline::SESSION_END).expect("the late result");
        assert!(begun.elapsed() >= SLOW);
        assert_eq!(call(end, 1, b"next").expect("goes on")[..], *b"next");
        // In good time, and over at once.
        let deadline = Deadline::after(Duration::from_secs(60));
        let result = end.call(&By(nobody), deadline, 1, b"quick", Incoming::to_vec);
        assert_eq!(result.expect("in time"), b"quick");
    });
    assert_eq!(ran, [3, 1, 1]);
}

fn whoever_hangs_up_says_why<W: Ways>() {
    let (ours, theirs) = endpoints::<W>();
    theirs.hang_up(Status(Err("too slow".to_owned())), Deadline::SESSION_END).expect("sent");
    let error = ours.receive_setup(Deadline::SESSION_END).expect_err("no setup");
    assert!(error.is_disconnected() && error.to_string().contains("too slow"), "{error}");

    let (ours, theirs) = endpoints::<W>();
    theirs.send_setup(&[]).expect("sent");
    ours.receive_setup(Deadline::SESSION_END).expect("setup");
    ours.hang_up(Status(Err("no more work".to_owned())), Deadline::SESSION_END).expect("sent");
    let error = theirs.serve(&By(nobody)).expect_err("a reason");
    assert!(error.is_disconnected() && error.to_string().contains("no more work"), "{error}");
}

/// What an executor does before it vanishes: one step more each time.
fn some_steps<T: Transport>(end: &Endpoint<T>, steps: usize) {
    if steps >= 1 {
        end.send_setup(b"setup").expect("sent");
    }
    if steps >= 2 {
        let mut message = crate::transport::Incoming::new();
        end.with_transport(|way| way.receive(Deadline::SESSION_END, &mut message)).expect("a call");
        if steps >= 3 {
            call(end, 9, b"back").expect("called back");
        }
        if steps >= 4 {
            let kind = crate::wire::Kind::Result;
            end.with_transport(|way| way.send(kind, 0, b"result", Deadline::SESSION_END))
                .expect("sent");
        }
    }
}

fn a_peer_that_vanishes_ends_every_wait<W: Ways>()
where
    W::Way: Send,
{
    for steps in 0..=4 {
        let (ours, theirs) = W::ends();
        let ours = Endpoint::new(ours);
        let server: JoinHandle<()> = thread::spawn(move || {
            let theirs = Endpoint::new(theirs);
            some_steps(&theirs, steps);
            // Now and then the other end is asleep already.
            thread::sleep(Duration::from_millis(2 * (steps as u64 % 2)));
            W::vanish(theirs);
        });
        let ran = RefCell::default();
        let mut done = 0;
        let mut outcome = ours.receive_setup(Deadline::SESSION_END).map(drop);
        while outcome.is_ok() {
            done += 1;
            assert!(done < 10, "the peer has vanished");
            outcome = ours.call(&echoing(&ran), Deadline::SESSION_END, 1, b"text", |_| ());
        }
        let error = outcome.expect_err("checked above");
        assert!(
            error.is_disconnected() && error.kind() != ErrorKind::Violation,
            "{steps}: {error:?}"
        );
        let expected = [0, 1, 1, 1, 2][steps];
        assert_eq!((done, ran.borrow().len()), (expected, usize::from(steps >= 3)), "{steps}");
        // The end stays ended.
        assert!(call(&ours, 1, &[]).expect_err("gone").is_disconnected());
        server.join().expect("no panic");
    }
    // The reverse: an executor that waits for its next call.
    let (ours, theirs) = W::ends();
    let (sender, served) = mpsc::channel();
    let server = thread::spawn(move || {
        let theirs = Endpoint::new(theirs);
        theirs.send_setup(&[]).expect("sent");
        sender.send(theirs.serve(&By(echo))).expect("somebody listens");
    });
    let ours = Endpoint::new(ours);
    ours.receive_setup(Deadline::SESSION_END).expect("setup");
    call(&ours, 1, &[]).expect("a result");
    W::vanish(ours);
    // A stream that ends between two frames is an orderly end; shared memory has no such thing.
    let ended = served.recv_timeout(Duration::from_secs(60)).expect("the wait is over");
    assert!(ended.map_or_else(|error| error.is_disconnected(), |()| true));
    server.join().expect("no panic");
}

fn numbers_go_round<W: Ways>() {
    let (mut ours, mut theirs) = W::ends();
    W::number_from(&mut ours, u64::MAX - 60);
    W::number_from(&mut theirs, u64::MAX - 10);
    let ours = Endpoint::new(ours);
    let server = thread::spawn(move || {
        let theirs = Endpoint::new(theirs);
        theirs.send_setup(&[]).expect("sent");
        theirs.serve(&Nest(&theirs, Cell::new(0))).expect("an orderly end");
    });
    ours.receive_setup(Deadline::SESSION_END).expect("setup");
    let nest = Nest(&ours, Cell::new(0));
    for depth in [1, 2, 3, 40, 41, 40, 7] {
        let outcome = ours.call(&nest, Deadline::SESSION_END, depth, &[], |_| ());
        assert!(outcome.expect_err("the bottom fails").kind() == ErrorKind::Remote);
    }
    ours.hang_up(Status(Ok(())), Deadline::SESSION_END).expect("sent");
    server.join().expect("no panic");
}

macro_rules! suite {
    ($($(#[$when:meta])? $module:ident: $way:ty;)*) => {$(
        $(#[$when])?
        mod $module {
            use super::*;

            suite!(@tests $way:
                results_and_failures_are_told_apart,
                every_size_comes_back_whole,
                what_is_posted_runs_first_and_its_failure_stops_the_call,
                what_is_posted_may_call_back_and_still_runs_first,
                what_is_posted_keeps_its_order_however_much,
                calls_nest_both_ways,
                a_call_that_timed_out_can_be_finished,
                whoever_hangs_up_says_why,
                a_peer_that_vanishes_ends_every_wait,
            );
        }
    )*};
    (@tests $way:ty: $($test:ident,)*) => {$(
        #[test]
        fn $test() {
            super::$test::<$way>();
        }
    )*};
}

suite! {
    lane: SharedMemory;
    pipes: Pipes;
    shared: Shared;
    unix_socket: UnixSocket;
    tcp: Tcp;
    #[cfg(feature = "named-segment")]
    named_segment: NamedSegment;
}

#[test]
fn numbers_go_round_over_streams() {
    numbers_go_round::<Pipes>();
    numbers_go_round::<UnixSocket>();
    numbers_go_round::<Tcp>();
}
