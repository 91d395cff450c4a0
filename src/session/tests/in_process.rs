//! `InProcessControllerAccessTest`, and `ControllerAccessTest`'s calls.

use super::*;
use crate::error::ErrorKind;
use crate::session::{InProcess, InProcessController};

const ECHO: u64 = 1;
const FAILS: u64 = 2;
const KEEPS: u64 = 3;

/// Replies that the controller has not given.
type Kept = Arc<Mutex<Vec<Reply>>>;

fn controller() -> (InProcess, InProcessController, Kept) {
    let kept = Kept::default();
    let keeps = Arc::clone(&kept);
    let (access, controller) = InProcess::new(move |tag, args, reply| match tag {
        ECHO => reply.send(Ok(args)),
        KEEPS => keeps.lock().expect("no panic").push(reply),
        tag => reply.send(Err(format!("no handler has tag {tag}"))),
    });
    (access, controller, kept)
}

#[test]
fn construct_and_destroy_without_connect() {
    let (access, controller, _kept) = controller();
    let (done, receiver) = outcome();
    controller.call(ExecutorAddr::new(1), Vec::new(), done);
    assert!(receiver.try_recv().expect("inline").expect_err("not connected").is_disconnected());
    controller.disconnect();
    drop(access);
}

#[test]
fn attach_and_shutdown_via_session() {
    let log = Log::default();
    let session = session(log.on(Queue::default().options()));
    let (access, controller, _kept) = controller();
    session.attach(access).expect("attached");
    session.shutdown(log.noting("down"));
    assert_eq!(log.take(), ["end: orderly", "down"]);
    controller.disconnect();
    assert_eq!(log.take(), [""; 0], "it was over");
}

#[test]
fn on_connect_failure_is_reported_and_detaches() {
    let log = Log::default();
    let session = session(log.on(Queue::default().options()));
    let (access, _controller) = InProcess::with_on_connect(|_, _, _| {}, |_| Err(broken()));
    session.attach(access).expect("the handler receives the error");
    session.detach(log.noting("detached"));
    assert_eq!(log.take(), ["end: connecting: it broke", "detached"]);
}

#[test]
fn call_controller_success() {
    let queue = Queue::default();
    let session = session(queue.options());
    let (access, _controller, _kept) = controller();
    session.attach(access).expect("attached");
    let (done, receiver) = outcome();
    session.call_controller(ECHO, b"hello".to_vec(), done);
    assert!(receiver.try_recv().is_err(), "it completes as a task");
    assert_eq!(queue.run(), 1);
    assert_eq!(receiver.try_recv().expect("completed").expect("a result"), b"hello");
    assert_eq!(session.call(ECHO, vec![1]).expect("a result"), [1], "without a task");
    assert_eq!(queue.run(), 0);
}

#[test]
fn call_controller_out_of_band_error() {
    let session = session(on_threads());
    let (access, _controller, _kept) = controller();
    session.attach(access).expect("attached");
    let error = session.call(FAILS, Vec::new()).expect_err("no handler");
    assert!(error.kind() == ErrorKind::Remote && error.to_string().contains("tag 2"), "{error:?}");
}

#[test]
fn disconnect_drains_pending_calls() {
    let log = Log::default();
    let queue = Queue::default();
    let session = session(log.on(queue.options()));
    let (access, controller, kept) = controller();
    session.attach(access).expect("attached");
    let (done, receiver) = outcome();
    session.call_controller(KEEPS, Vec::new(), done);
    controller.disconnect();
    assert_eq!(queue.len(), 1, "failed as a task, before the session was told");
    queue.run();
    let error = receiver.try_recv().expect("failed").expect_err("disconnected");
    assert!(error.is_disconnected() && error.to_string() == "disconnected", "{error}");
    // An answer that arrives now belongs to no call.
    kept.lock().expect("no panic").pop().expect("kept").send(Ok(Vec::new()));
    assert_eq!((queue.len(), log.take()), (0, vec!["end: orderly".to_owned()]));
}

#[test]
fn call_from_controller_success() {
    let queue = Queue::default();
    let session = session(queue.options());
    let (access, controller, _kept) = controller();
    session.attach(access).expect("attached");
    let (done, receiver) = outcome();
    controller.call(ExecutorAddr::new(0x10), b"args".to_vec(), done);
    assert_eq!(queue.run(), 1);
    assert_eq!(receiver.try_recv().expect("completed").expect("a result"), b"args");
    let (done, receiver) = outcome();
    controller.call(ExecutorAddr::new(0), Vec::new(), done);
    queue.run();
    let error = receiver.try_recv().expect("completed").expect_err("address 0");
    assert!(
        error.kind() == ErrorKind::Remote && error.to_string().contains("address 0"),
        "out of band: {error}"
    );
}

#[test]
fn bootstrap_values_expose_subtarget_features() {
    let features = Log::default();
    let seen = features.clone();
    let (access, _controller) = InProcess::with_on_connect(
        |_, _, _| {},
        move |info| {
            let bytes = info.value(crate::session::SUBTARGET_FEATURES).unwrap_or_default();
            seen.note(String::from_utf8_lossy(bytes));
            Ok(())
        },
    );
    let options = Queue::default().options().value(crate::session::SUBTARGET_FEATURES, *b"+avx");
    session(options.expect("a value")).attach(access).expect("attached");
    assert_eq!(features.take(), ["+avx"]);
}

// ControllerAccessTest

#[test]
fn basics() {
    let session = session(on_threads());
    let (access, controller, _kept) = controller();
    session.attach(access).expect("attached");
    controller.disconnect();
    assert!(session.call(ECHO, Vec::new()).is_err());
}

#[test]
fn valid_call_to_controller() {
    let session = session(on_threads());
    let (access, _controller, _kept) = controller();
    session.attach(access).expect("attached");
    assert_eq!(session.call(ECHO, vec![1, 2, 3]).expect("a result"), [1, 2, 3]);
}

/// A call of a session without a controller: completed on this thread, before it returns.
fn is_refused(session: &Session) {
    let (done, receiver) = outcome();
    session.call_controller(ECHO, Vec::new(), done);
    let error = receiver.try_recv().expect("inline").expect_err("no controller");
    assert!(error.is_disconnected() && error.to_string() == "no controller attached", "{error}");
}

#[test]
fn call_to_controller_before_attach() {
    is_refused(&session(Queue::default().options()));
}

#[test]
fn call_to_controller_after_detach() {
    let session = session(Queue::default().options());
    let (access, _controller, _kept) = controller();
    session.attach(access).expect("attached");
    session.detach(|| {});
    is_refused(&session);
}

#[test]
fn call_from_controller() {
    let session = session(on_threads());
    let (access, controller, _kept) = controller();
    session.attach(access).expect("attached");
    let (done, receiver) = outcome();
    controller.call(ExecutorAddr::new(1), vec![9], done);
    assert_eq!(receiver.recv_timeout(LONG).expect("answered").expect("a result"), [9]);
}

#[test]
fn synchronous_call_controller_failure_runs_inline() {
    let queue = Queue::default();
    let session = session(queue.options());
    let (access, controller, _kept) = controller();
    session.attach(access).expect("attached");
    controller.abandon(broken());
    is_refused(&session);
    assert_eq!(queue.len(), 0, "no task");
}

#[test]
fn wrapper_call_token_released_when_fn_returns() {
    let queue = Queue::default();
    let log = Log::default();
    let kept = Kept::default();
    let keeps = Arc::clone(&kept);
    let options = queue.options().function("keeps", move |_, _, reply| {
        keeps.lock().expect("no panic").push(reply);
    });
    let session = session(options.expect("a function"));
    let (access, controller, _) = controller();
    session.attach(access).expect("attached");
    let function = session.bootstrap_info().symbols().get("keeps").expect("offered");
    let (done, _receiver) = outcome();
    controller.call(function, Vec::new(), done);
    session.shutdown(log.noting("down"));
    assert_eq!(log.take(), [""; 0], "the call has yet to run");
    queue.run();
    assert_eq!(log.take(), ["down"], "it has returned, and not answered");
    assert_eq!(kept.lock().expect("no panic").len(), 1);
}

#[test]
fn calls_nest_both_ways() {
    let session = session(on_threads().function("down", down).expect("a function"));
    let function = session.bootstrap_info().symbols().get("down").expect("offered");
    let slot: Arc<Mutex<Option<InProcessController>>> = Arc::default();
    let calls = Arc::clone(&slot);
    let (access, controller) = InProcess::new(move |_, args, reply| {
        let controller = calls.lock().expect("no panic").clone().expect("there");
        controller.call(function, args, |outcome| reply.send(outcome.map_err(|e| e.to_string())));
    });
    *slot.lock().expect("no panic") = Some(controller.clone());
    session.attach(access).expect("attached");
    let (done, receiver) = outcome();
    controller.call(function, vec![40], done);
    assert_eq!(receiver.recv_timeout(LONG).expect("answered").expect("a result"), [0; 41]);
}

/// Calls the controller, which calls this, until the first byte is 0.
fn down(session: &SessionHandle, mut args: Vec<u8>, reply: Reply) {
    if args[0] > 0 {
        args[0] -= 1;
        match session.call(ECHO, args) {
            Ok(mut result) => {
                result.push(0);
                reply.send(Ok(result));
            }
            Err(error) => reply.send(Err(error.to_string())),
        }
    } else {
        reply.send(Ok(args));
    }
}
