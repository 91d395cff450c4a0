//! Many calls under way: one by one, in batches, as futures; new code between them; failures, time outs and deaths.
//!
//! Invariant: what comes back is compared with what arithmetic says; no test depends on how long anything takes.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

use farcall::controller::calls::Pipeline;
use farcall::controller::{Library, Process};
use farcall::link::ObjectFile;
use farcall::{ErrorKind, ExecutorAddr, PerProt, Prot};

use crate::testkit::corpus::{self, PLAIN};
use crate::testkit::launch;

/// An executor with the functions of `pipelined.c`, and a pipeline to it.
struct Session {
    process: Process,
    dylib: Library,
    pipeline: Pipeline,
}

impl Session {
    fn start() -> Self {
        let executor = launch::executor();
        let process = executor.process().expect("a process");
        let dylib = executor.library("pipelined");
        let path = corpus::object("pipelined.c", PLAIN);
        let object = ObjectFile::parse("pipelined.o", std::fs::read(path).expect("a file"));
        dylib.add_object(&object.expect("an object")).expect("added");
        let pipeline = process.pipeline().expect("a pipeline");
        Self { process, dylib, pipeline }
    }

    fn function(&self, name: &str) -> ExecutorAddr {
        self.dylib.lookup(name).expect("defined")
    }
}

fn number(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes[..8].try_into().expect("8 bytes"))
}

#[test]
fn results_come_back_in_whatever_order_they_are_waited_for() {
    let session = Session::start();
    let twice = session.function("twice");
    let submit = |at: u64| session.pipeline.submit(twice, &at.to_le_bytes()).expect("submitted");
    let mut submitted: Vec<_> = (0..1000).map(submit).collect();
    for (at, one) in submitted.drain(500..).enumerate().rev() {
        assert_eq!(number(&one.wait().expect("a result")), 2 * (at as u64 + 500));
    }
    for (at, one) in submitted.into_iter().enumerate() {
        assert_eq!(number(&one.wait().expect("a result")), 2 * at as u64);
    }
    assert!(session.process.stats().calls >= 1000);
}

#[test]
fn a_batch_hands_out_each_result_once() {
    let session = Session::start();
    let (twice, refuse) = (session.function("twice"), session.function("refuse"));
    let args: Vec<_> = (0..5000_u64).map(u64::to_le_bytes).collect();
    let function = |at: usize| if at % 100 == 7 { refuse } else { twice };
    let calls: Vec<_> =
        args.iter().enumerate().map(|(at, args)| (function(at), &args[..])).collect();
    let check = |at: usize, result: farcall::Result<u64>| match result {
        Ok(result) => assert_eq!(result, 2 * at as u64),
        Err(error) => {
            assert!(
                at % 100 == 7
                    && error.kind() == ErrorKind::Remote
                    && error.to_string() == "refused 8"
            );
        }
    };
    let mut at = 0;
    session.pipeline.submit_batch(calls.iter().copied()).expect("submitted").for_each(|result| {
        check(at, result.map(number));
        at += 1;
    });
    assert_eq!(at, 5000);
    let mut batch = session.pipeline.submit_batch(calls.iter().copied()).expect("submitted");
    let mut result = Vec::new();
    for at in 0..5000 {
        assert_eq!(batch.left(), 5000 - at);
        result.clear();
        let outcome = batch.next_into(&mut result).expect("one more");
        check(at, outcome.map(|()| number(&result)));
    }
    assert!(batch.next_into(&mut result).is_none());
    let none = session.pipeline.submit_batch([]).expect("nothing");
    none.for_each(|_| panic!("a result of no call"));
}

#[test]
fn large_results_do_not_hold_up_calls() {
    let session = Session::start();
    let (fill, twice) = (session.function("fill"), session.function("twice"));
    let large = |byte: u8| {
        let args = [&(1_000_000_u64 + u64::from(byte)).to_le_bytes()[..], &[byte]].concat();
        session.pipeline.submit(fill, &args).expect("submitted")
    };
    let large: Vec<_> = (0..40).map(large).collect();
    let last = session.pipeline.submit(twice, &21_u64.to_le_bytes()).expect("submitted");
    // On a lane of its own: sees that the pipeline got to its end while no thread received.
    let count = session.function("count");
    while number(&session.process.call(count, &[]).expect("a result")) == 0 {
        thread::yield_now();
    }
    assert_eq!(number(&last.wait().expect("a result")), 42);
    for (byte, one) in (0..).zip(large) {
        assert!(one.wait().expect("a result") == vec![byte; 1_000_000 + usize::from(byte)]);
    }
}

#[test]
fn many_threads_share_a_pipeline_and_have_their_own() {
    let session = Session::start();
    let (twice, rest) = (session.function("twice"), session.function("rest"));
    // Holds up its own pipeline only.
    let busy = session.process.pipeline().expect("a pipeline");
    let slow = busy.submit(rest, &50_u64.to_le_bytes()).expect("submitted");
    thread::scope(|scope| {
        for thread in 0..4_u64 {
            let pipeline = session.pipeline.clone();
            scope.spawn(move || {
                for at in 0..2000 {
                    let at = thread << 32 | at;
                    let result = pipeline.submit(twice, &at.to_le_bytes()).expect("sent").wait();
                    assert_eq!(number(&result.expect("a result")), at * 2);
                }
            });
        }
    });
    assert_eq!(number(&slow.wait().expect("a result")), 50);
}

struct Unpark(thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(result) => return result,
            Poll::Pending => thread::park(),
        }
    }
}

#[test]
fn a_call_is_a_future_that_needs_no_runtime() {
    let session = Session::start();
    let (twice, rest) = (session.function("twice"), session.function("rest"));
    let numbers = block_on(async {
        let mut sum = 0;
        for at in 0..50_u64 {
            let slow = session.pipeline.submit(rest, &(at % 2).to_le_bytes())?;
            let quick = session.pipeline.submit(twice, &at.to_le_bytes())?;
            sum += number(&slow.await?) + number(&quick.await?);
        }
        Ok::<_, farcall::Error>(sum)
    });
    assert_eq!(numbers.expect("results"), 25 + 49 * 50);
}

#[test]
fn a_host_can_receive_by_itself() {
    let session = Session::start();
    assert_eq!(session.pipeline.poll(), 0);
    let slow = session.pipeline.submit(session.function("rest"), &20_u64.to_le_bytes());
    let mut slow = pin!(slow.expect("submitted"));
    let mut context = Context::from_waker(Waker::noop());
    let mut polls = 0;
    let result = loop {
        if let Poll::Ready(result) = slow.as_mut().poll(&mut context) {
            break result.expect("a result");
        }
        assert!(session.pipeline.poll() <= 1);
        polls += 1;
    };
    assert!(number(&result) == 20 && polls > 0, "{polls} polls");
}

#[test]
fn time_outs_expire_and_late_results_are_counted() {
    let session = Session::start();
    let (twice, rest) = (session.function("twice"), session.function("rest_deaf"));
    let slow = session.pipeline.submit(rest, &1000_u64.to_le_bytes()).expect("submitted");
    let error = slow.wait_timeout(Duration::from_millis(1)).expect_err("too slow");
    assert!(error.kind() == ErrorKind::Timeout && !error.is_disconnected(), "{error:?}");
    drop(session.pipeline.submit(twice, &1_u64.to_le_bytes()).expect("submitted"));
    let last = session.pipeline.submit(twice, &4_u64.to_le_bytes()).expect("submitted");
    let last = last.wait_timeout(Duration::from_secs(60)).expect("a result");
    assert_eq!((number(&last), session.process.stats().late), (8, 2));
    // The dropped calls ran.
    let count = session.process.call(session.function("count"), &[]).expect("a result");
    assert_eq!(number(&count), 2);
}

#[test]
fn new_code_and_what_was_posted_are_there_for_the_next_call() {
    let session = Session::start();
    let mut kept = Vec::new();
    for at in 0..200_u64 {
        // mov rax, number; mov edx, 8; ret
        let code = [&[0x48, 0xb8], &at.to_le_bytes()[..], &[0xba, 8, 0, 0, 0, 0xc3]].concat();
        let mut memory = session
            .process
            .allocate(PerProt { code: code.len() as u64, ..PerProt::default() })
            .expect("memory");
        memory.write(Prot::Code, &code);
        let memory = memory.finalize();
        let result = session.pipeline.submit(memory.address(), &[]).expect("submitted").wait();
        assert_eq!(number(&result.expect("a result")), at);
        if at % 2 == 0 {
            session.process.deallocate([memory]).expect("given back");
        } else {
            kept.push(memory);
        }
    }
    session.process.deallocate(kept).expect("given back");
}

#[test]
fn a_death_is_the_error_of_every_call_under_way() {
    let session = Session::start();
    let (twice, die) = (session.function("twice"), session.function("die"));
    let first = session.pipeline.submit(twice, &4_u64.to_le_bytes()).expect("submitted");
    let calls = [(die, &[][..]), (twice, &[1; 8]), (twice, &[2; 8])];
    let batch = session.pipeline.submit_batch(calls.iter().copied()).expect("submitted");
    let task = session.pipeline.clone();
    let waiter = thread::spawn(move || match task.submit(twice, &[3; 8]) {
        Ok(submitted) => block_on(submitted).expect_err("dead"),
        Err(error) => error,
    });
    assert_eq!(number(&first.wait().expect("a result")), 8);
    let mut errors = vec![waiter.join().expect("no panic")];
    batch.for_each(|result| errors.push(result.expect_err("dead")));
    errors.push(session.pipeline.submit(twice, &[]).expect_err("dead"));
    errors.push(session.process.pipeline().expect_err("dead"));
    assert_eq!(errors.len(), 6);
    for error in errors {
        let death = error.death().unwrap_or_else(|| panic!("{error:?}"));
        assert_eq!(death.signal, Some(6));
    }
}
