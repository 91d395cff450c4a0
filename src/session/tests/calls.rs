//! `SimpleRemoteCATest`'s table of calls, and calls without an answer.

use super::*;
use crate::error::ErrorKind;
use crate::session::{Completion, InProcess, PendingCalls};

fn pending(table: &PendingCalls) -> (u64, mpsc::Receiver<Result<Vec<u8>>>) {
    let (done, receiver) = outcome();
    (table.register(Completion::new(done)).expect("open"), receiver)
}

#[test]
fn register_call_returns_distinct_non_zero_sequence_numbers() {
    let table = PendingCalls::new();
    let numbers: Vec<_> = (0..5).map(|_| pending(&table).0).collect();
    assert_eq!(numbers, [1, 2, 3, 4, 5]);
}

#[test]
fn take_call_yields_the_handler_exactly_once() {
    let table = PendingCalls::new();
    let (number, receiver) = pending(&table);
    table.take(number).expect("registered").complete(Ok(vec![7]));
    assert_eq!(receiver.try_recv().expect("completed").expect("a result"), [7]);
    assert!(table.take(number).is_none());
    assert!(table.take(99).is_none(), "no call has the number");
}

#[test]
fn take_all_calls_empties_the_table() {
    let table = PendingCalls::new();
    let (first, _receiver) = pending(&table);
    pending(&table);
    assert_eq!(table.close().len(), 2);
    assert!(table.take(first).is_none() && table.close().is_empty());
    let (done, receiver) = outcome();
    let refused = table.register(Completion::new(done)).expect_err("closed");
    refused.complete(Err(broken()));
    assert!(receiver.try_recv().expect("completed").is_err());
}

#[test]
fn numbers_wrap_and_leave_out_what_is_in_use() {
    let table = PendingCalls::numbered_from(u64::MAX - 1);
    let mut kept: Vec<_> = (0..3).map(|_| pending(&table)).collect();
    assert_eq!(kept.iter().map(|(number, _)| *number).collect::<Vec<_>>(), [u64::MAX, 1, 2]);
    table.take(1).expect("registered").complete(Ok(Vec::new()));
    kept.remove(1);
    let table = PendingCalls::numbered_from(0);
    let (one, _receiver) = pending(&table);
    let before = PendingCalls::numbered_from(u64::MAX);
    assert_eq!((one, pending(&before).0), (1, 1));
}

#[test]
fn a_completion_that_is_dropped_says_so() {
    let (done, receiver) = outcome();
    drop(Completion::new(done));
    let error = receiver.try_recv().expect("completed").expect_err("lost");
    assert!(error.is_disconnected() && error.to_string().contains("without an answer"), "{error}");
}

#[test]
fn a_reply_that_is_dropped_says_so() {
    let (sender, receiver) = mpsc::channel();
    drop(Reply::new(move |answer| drop(sender.send(answer))));
    assert!(receiver.try_recv().expect("answered").expect_err("none").contains("without a result"));
}

/// A session whose controller echoes.
fn attached(options: SessionBuilder) -> (Session, crate::session::InProcessController) {
    let (access, controller) = InProcess::new(|_, args, reply| reply.send(Ok(args)));
    let session = session(options);
    session.attach(access).expect("attached");
    (session, controller)
}

#[test]
fn a_task_that_is_destroyed_unrun_answers_its_call() {
    let queue = Queue::default();
    let (session, controller) = attached(queue.options());
    let (done, receiver) = outcome();
    controller.call(ExecutorAddr::new(1), vec![1], done);
    drop(queue.take().expect("a task"));
    let error = receiver.try_recv().expect("answered").expect_err("not run");
    assert!(
        error.kind() == ErrorKind::Remote && error.to_string().contains("without a result"),
        "{error}"
    );

    let (done, receiver) = outcome();
    session.call_controller(1, vec![1], done);
    drop(queue.take().expect("a task"));
    assert!(receiver.try_recv().expect("completed").expect_err("not run").is_disconnected());
    session.shutdown(|| {});
    session.wait().expect("nothing holds it up");
}

#[test]
fn a_function_that_panics_is_an_out_of_band_error() {
    let options =
        on_threads().on_error(|_, error| assert!(error.kind() == ErrorKind::InvalidArgument));
    let options = options.function("panics", |_, _, _| panic!("on purpose")).expect("a function");
    let (session, controller) = attached(options);
    let function = session.bootstrap_info().symbols().get("panics").expect("offered");
    let (done, receiver) = outcome();
    controller.call(function, Vec::new(), done);
    let error = receiver.recv_timeout(LONG).expect("answered").expect_err("it panicked");
    assert!(error.to_string().contains("the function panicked"), "{error}");
}

/// The payload of a panic, which panics when it is dropped.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("dropped");
    }
}

#[test]
fn the_payload_of_a_functions_panic_may_panic_too() {
    let options =
        on_threads().on_error(|_, error| assert!(error.kind() == ErrorKind::InvalidArgument));
    let options = options.function("panics", |_, _, _| std::panic::panic_any(Bomb));
    let options = options.expect("a function");
    let (session, controller) = attached(options);
    let function = session.bootstrap_info().symbols().get("panics").expect("offered");
    for _ in 0..3 {
        let (done, receiver) = outcome();
        controller.call(function, Vec::new(), done);
        let error = receiver.recv_timeout(LONG).expect("answered").expect_err("it panicked");
        assert!(error.to_string().contains("the function panicked"), "{error}");
    }
}

#[test]
fn a_function_may_answer_when_it_has_returned() {
    let replies: Arc<Mutex<Vec<Reply>>> = Arc::default();
    let kept = Arc::clone(&replies);
    let queue = Queue::default();
    let options = queue.options().function("later", move |_, _, reply| {
        kept.lock().expect("no panic").push(reply);
    });
    let (session, controller) = attached(options.expect("a function"));
    let function = session.bootstrap_info().symbols().get("later").expect("offered");
    let (done, receiver) = outcome();
    controller.call(function, Vec::new(), done);
    queue.run();
    assert!(receiver.try_recv().is_err(), "no answer yet");
    let reply = replies.lock().expect("no panic").pop().expect("kept");
    thread::spawn(move || reply.send(Ok(vec![3]))).join().expect("no panic");
    assert_eq!(receiver.recv_timeout(LONG).expect("answered").expect("a result"), [3]);
}

#[test]
fn an_answer_that_comes_after_the_end_is_dropped() {
    let replies: Arc<Mutex<Vec<Reply>>> = Arc::default();
    let kept = Arc::clone(&replies);
    let queue = Queue::default();
    let options = queue.options().function("never", move |_, _, reply| {
        kept.lock().expect("no panic").push(reply);
    });
    let (session, controller) = attached(options.expect("a function"));
    let function = session.bootstrap_info().symbols().get("never").expect("offered");
    let (done, receiver) = outcome();
    controller.call(function, Vec::new(), done);
    queue.run();
    session.shutdown(|| {});
    session.wait().expect("a reply is no span of code");
    assert!(receiver.try_recv().expect("failed").expect_err("the end").is_disconnected());
    replies.lock().expect("no panic").pop().expect("kept").send(Ok(Vec::new()));
    assert!(receiver.try_recv().is_err(), "exactly once");
}

#[test]
fn calls_in_and_out_race_with_the_shutdown() {
    for round in 0..300 {
        let (session, controller) = attached(on_threads());
        let (completed, expected) = (Count::default(), 40);
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for _ in 0..10 {
                        let completed = completed.clone();
                        session.call_controller(1, vec![1], move |_| completed.up());
                    }
                });
                scope.spawn(|| {
                    for _ in 0..10 {
                        let completed = completed.clone();
                        controller.call(ExecutorAddr::new(1), vec![1], move |_| completed.up());
                    }
                });
            }
            scope.spawn(|| match round % 3 {
                0 => session.shutdown(|| {}),
                1 => controller.disconnect(),
                _ => session.detach(|| {}),
            });
        });
        session.shutdown(|| {});
        session.wait().expect("it ends");
        // Each function has returned; the completions of the controller's calls came before.
        assert_eq!(completed.get(), expected, "round {round}");
    }
}
