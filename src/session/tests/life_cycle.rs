//! `SessionTest` and `ControllerAccessTest`: a session's life, without calls.

use super::*;
use crate::error::ErrorKind;
use crate::session::{
    Answer, Attachment, BootstrapInfo, Completion, ControllerAccess, Done, Service,
};

/// An access whose behaviour the test chooses.
#[derive(Clone, Default)]
struct Fake(Arc<FakeState>);

#[derive(Default)]
struct FakeState {
    attachment: Mutex<Option<Attachment>>,
    symbols: Mutex<Vec<String>>,
    refuses: bool,
    disconnects: Count,
}

impl Fake {
    fn refusing() -> Self {
        Self(Arc::new(FakeState { refuses: true, ..FakeState::default() }))
    }

    fn end(&self, cause: Result<()>) {
        let attachment = self.0.attachment.lock().expect("no panic").take();
        attachment.expect("connected").notify_disconnected(cause);
    }
}

impl ControllerAccess for Fake {
    fn connect(&self, attachment: Attachment, info: &BootstrapInfo) -> Result<()> {
        if self.0.refuses {
            return Err(broken());
        }
        let names = info.symbols().iter().map(|(name, _)| name.to_owned());
        self.0.symbols.lock().expect("no panic").extend(names);
        *self.0.attachment.lock().expect("no panic") = Some(attachment);
        Ok(())
    }

    fn disconnect(&self) {
        self.0.disconnects.up();
        self.end(Ok(()));
    }

    fn call_controller(&self, _: u64, args: Vec<u8>, completion: Completion) {
        completion.complete(Ok(args));
    }

    fn send_result(&self, _: u64, _: Answer) {}
}

/// Records its notifications.
struct Noting(Log);

impl Service for Noting {
    fn on_detach(&self, _: Done, _: bool) {
        self.0.note("detach");
    }

    fn on_shutdown(&self, _: Done) {
        self.0.note("shutdown");
    }
}

fn noting(log: &Log) -> Session {
    let session = session(log.on(Queue::default().options()));
    session.add_service(Noting(log.clone()));
    session
}

#[test]
fn trivial_construction_and_destruction() {
    let log = Log::default();
    drop(noting(&log));
    assert_eq!(log.take(), ["end: orderly", "detach", "shutdown"], "dropping shuts down");
}

#[test]
fn report_error() {
    let log = Log::default();
    let session = noting(&log);
    session.report_error(broken());
    assert_eq!(log.take(), ["error: it broke"]);
}

#[test]
fn report_errors_via_session() {
    let log = Log::default();
    let session = noting(&log);
    let fake = Fake::default();
    session.attach(fake.clone()).expect("attached");
    let attachment = fake.0.attachment.lock().expect("no panic").clone().expect("connected");
    attachment.report_error(broken());
    assert_eq!(log.take(), ["error: it broke"]);
}

#[test]
fn dispatch_task() {
    let queue = Queue::default();
    let session = session(queue.options());
    let count = Count::default();
    session.dispatch(Task::new(count.counting()));
    assert_eq!((count.get(), queue.len()), (0, 1));
    assert_eq!((queue.run(), count.get()), (1, 1));
}

#[test]
fn expected_shutdown_sequence() {
    let log = Log::default();
    let session = noting(&log);
    session.attach(Fake::default()).expect("attached");
    session.detach(log.noting("on detach"));
    session.shutdown(log.noting("on shutdown"));
    session.wait().expect("it is over");
    let order = ["end: orderly", "detach", "on detach", "shutdown", "on shutdown"];
    assert_eq!(log.take(), order);
}

#[test]
fn callbacks_of_one_stage_run_last_first() {
    let log = Log::default();
    let session = noting(&log);
    let token = session.keepalive("a test").expect("open");
    for name in ["one", "two", "three"] {
        session.shutdown(log.noting(name));
    }
    assert_eq!(log.take(), ["end: orderly", "detach"]);
    drop(token);
    assert_eq!(log.take(), ["shutdown", "three", "two", "one"]);
}

#[test]
fn redundant_async_shutdown() {
    let session = session(Queue::default().options());
    let count = Count::default();
    for asked in 1..=3 {
        session.shutdown(count.counting());
        assert_eq!(count.get(), asked, "those that come late run at once");
    }
    session.detach(count.counting());
    assert_eq!(count.get(), 4);
}

#[test]
fn schedule_shutdown_from_on_detach_handler() {
    let log = Log::default();
    let session = noting(&log);
    session.attach(Fake::default()).expect("attached");
    let (inner, down) = (SessionHandle::clone(&session), log.noting("down"));
    session.detach(move || inner.shutdown(down));
    assert_eq!(log.take(), ["end: orderly", "detach", "shutdown", "down"]);
    session.wait().expect("it is over");
}

#[test]
fn a_detached_session_goes_on_until_it_is_shut_down() {
    let log = Log::default();
    let session = noting(&log);
    session.attach(Fake::default()).expect("attached");
    session.detach(log.noting("first"));
    session.detach(log.noting("late"));
    assert_eq!(log.take(), ["end: orderly", "detach", "first", "late"]);
    assert_eq!(session.call_with_keepalive("managed code", || 7), Some(7), "code runs on");
    session.shutdown(|| {});
    assert_eq!(log.take(), ["shutdown"]);
}

#[test]
fn outstanding_keepalives_delay_shutdown() {
    let log = Log::default();
    let session = noting(&log);
    let tokens = [session.keepalive("one"), session.keepalive("two")];
    session.shutdown(log.noting("down"));
    assert_eq!(log.take(), ["end: orderly", "detach"]);
    for (number, token) in tokens.into_iter().enumerate() {
        assert!(session.keepalive("late").is_none(), "none begins any more");
        drop(token.expect("open"));
        let expected: &[&str] = if number == 0 { &[] } else { &["shutdown", "down"] };
        assert_eq!(log.take(), expected);
    }
}

#[test]
fn expected_shutdown_sequence_with_no_outstanding_keepalives() {
    let log = Log::default();
    let session = noting(&log);
    drop(session.keepalive("a test"));
    session.shutdown(log.noting("down"));
    assert_eq!(log.take(), ["end: orderly", "detach", "shutdown", "down"]);
}

#[test]
fn call_with_keepalive_void_fn() {
    let session = session(Queue::default().options());
    let count = Count::default();
    assert_eq!(session.call_with_keepalive("code", count.counting()), Some(()));
    session.shutdown(|| {});
    assert_eq!(session.call_with_keepalive("code", count.counting()), None, "refused");
    assert_eq!(count.get(), 1);
}

#[test]
fn call_with_keepalive_non_void_fn() {
    let session = session(Queue::default().options());
    assert_eq!(session.call_with_keepalive("code", || "result"), Some("result"));
    session.shutdown(|| {});
    assert_eq!(session.call_with_keepalive("code", || "result"), None);
}

#[test]
fn call_with_keepalive_async_fn() {
    let log = Log::default();
    let session = noting(&log);
    // The span ends with the function, not with what it began.
    let later = session.call_with_keepalive("code", || {
        let session = SessionHandle::clone(&session);
        move || session.call_with_keepalive("the continuation", || ()).is_some()
    });
    session.shutdown(|| {});
    assert_eq!(log.take(), ["end: orderly", "detach", "shutdown"]);
    assert!(!later.expect("it ran")(), "a continuation is refused then");
}

#[test]
fn a_session_that_outlives_its_grace_names_what_runs() {
    let log = Log::default();
    let options = log.on(Queue::default().options()).grace(Duration::from_millis(10));
    let session = session(options);
    let token = session.keepalive("an infinite loop").expect("open");
    session.shutdown(|| {});
    let error = session.wait().expect_err("it still runs");
    assert!(
        error.kind() == ErrorKind::Timeout && error.to_string().contains("an infinite loop for"),
        "{error}"
    );
    let rest = SessionHandle::clone(&session);
    log.take();
    drop(session);
    let errors = log.take();
    assert!(errors.len() == 1 && errors[0].contains("an infinite loop for"), "{errors:?}");
    drop(token);
    rest.wait().expect("it ends when that does");
}

#[test]
fn no_thread_waits_for_itself() {
    let session = session(Queue::default().options());
    let inner = SessionHandle::clone(&session);
    let waited = session.call_with_keepalive("code", || inner.wait());
    assert!(waited.expect("it ran").expect_err("a deadlock").kind() == ErrorKind::InvalidArgument);
    let (sender, receiver) = mpsc::channel();
    let inner = SessionHandle::clone(&session);
    session.shutdown(move || drop(sender.send(inner.wait())));
    let waited = receiver.recv_timeout(LONG).expect("called");
    assert!(waited.expect_err("a deadlock").kind() == ErrorKind::InvalidArgument);
    session.wait().expect("others can");
}

#[test]
fn a_session_may_be_dropped_by_its_own_callback() {
    let log = Log::default();
    let session = Arc::new(Mutex::new(Some(noting(&log))));
    let inner = Arc::clone(&session);
    let handle = SessionHandle::clone(session.lock().expect("no panic").as_ref().expect("there"));
    handle.detach(move || drop(inner.lock().expect("no panic").take()));
    handle.wait().expect("it is shut down");
    assert_eq!(log.take(), ["end: orderly", "detach", "shutdown"]);
}

#[test]
fn every_waiting_thread_sees_the_end() {
    for _ in 0..200 {
        let session = session(on_threads());
        let handle = SessionHandle::clone(&session);
        let waiters: Vec<_> = (0..3)
            .map(|_| {
                let handle = handle.clone();
                thread::spawn(move || handle.wait().expect("it ends"))
            })
            .collect();
        thread::spawn(move || drop(session));
        waiters.into_iter().for_each(|waiter| waiter.join().expect("no panic"));
    }
}

#[test]
fn several_sessions_live_beside_each_other() {
    let (one, other) = (Log::default(), Log::default());
    let (first, second) = (noting(&one), noting(&other));
    assert_ne!(first.address(), second.address());
    second.attach(Fake::default()).expect("attached");
    drop(second);
    assert_eq!((one.take().len(), other.take().len()), (0, 3));
    first.attach(Fake::default()).expect("attached");
}

// ControllerAccessTest

#[test]
fn plain_attach() {
    let log = Log::default();
    let session = noting(&log);
    let fake = Fake::default();
    session.attach(fake.clone()).expect("attached");
    assert!(
        session.attach(Fake::default()).expect_err("once").kind() == ErrorKind::InvalidArgument
    );
    session.shutdown(|| {});
    assert_eq!((fake.0.disconnects.get(), log.take().len()), (1, 3));
    let error = session.attach(Fake::default()).expect_err("over").to_string();
    assert!(error.contains("Shutdown"), "{error}");
}

#[test]
fn try_attach_success() {
    let session = noting(&Log::default());
    session.try_attach(|_| Ok(Fake::default())).expect("attached");
    assert_eq!(session.call(1, vec![5]).expect("answered"), [5]);
}

#[test]
fn try_attach_failure() {
    let log = Log::default();
    let session = noting(&log);
    let error = session.try_attach(|_| Err::<Fake, _>(broken())).expect_err("no access");
    assert_eq!((error.to_string(), log.take().len()), ("it broke".to_owned(), 0));
    session.attach(Fake::default()).expect("it stays unattached");
}

#[test]
fn fail_connect() {
    let log = Log::default();
    let session = noting(&log);
    session.attach(Fake::refusing()).expect("the handler receives the error");
    assert_eq!(log.take(), ["end: connecting: it broke", "detach"], "it ends detached");
    session.shutdown(|| {});
    assert_eq!(log.take(), ["shutdown"]);
}

#[test]
fn bootstrap_info_passed_to_connect() {
    let options = Queue::default().options();
    let session = session(options.symbols([("a", ExecutorAddr::new(1))]).expect("a symbol"));
    let fake = Fake::default();
    session.attach(fake.clone()).expect("attached");
    let names = fake.0.symbols.lock().expect("no panic").clone();
    assert_eq!(names, ["a", crate::session::SESSION_SYMBOL]);
}

#[test]
fn on_disconnect_reports_orderly_disconnect() {
    let log = Log::default();
    let session = noting(&log);
    let fake = Fake::default();
    session.attach(fake.clone()).expect("attached");
    fake.end(Ok(()));
    assert_eq!(log.take(), ["end: orderly", "detach"]);
}

#[test]
fn on_disconnect_reports_abnormal_disconnect() {
    let log = Log::default();
    let session = noting(&log);
    let fake = Fake::default();
    session.attach(fake.clone()).expect("attached");
    fake.end(Err(broken()));
    assert_eq!(log.take(), ["end: it broke", "detach"]);
}

#[test]
fn on_disconnect_reports_connect_failure() {
    let log = Log::default();
    noting(&log).attach(Fake::refusing()).expect("the handler receives the error");
    assert_eq!(log.take()[0], "end: connecting: it broke");
}

#[test]
fn on_disconnect_reports_success_without_attach() {
    let log = Log::default();
    noting(&log).detach(|| {});
    assert_eq!(log.take()[0], "end: orderly");
}

#[test]
fn on_disconnect_is_called_once() {
    let log = Log::default();
    let session = noting(&log);
    let fake = Fake::default();
    session.attach(fake.clone()).expect("attached");
    let attachment = fake.0.attachment.lock().expect("no panic").clone().expect("connected");
    fake.end(Err(broken()));
    // An access must not do this; it has no effect.
    attachment.notify_disconnected(Ok(()));
    session.shutdown(|| {});
    assert_eq!(log.take(), ["end: it broke", "detach", "shutdown"]);
}

/// A session without a disconnect handler, and the errors it reports.
fn without_handler() -> (Session, Log) {
    let log = Log::default();
    let errors = log.clone();
    let options = Queue::default().options();
    (session(options.on_error(move |_, error| errors.note(error.to_string()))), log)
}

#[test]
fn disconnect_error_routed_to_error_reporter_with_no_handler() {
    let (session, log) = without_handler();
    let fake = Fake::default();
    session.attach(fake.clone()).expect("attached");
    fake.end(Err(broken()));
    drop(session);
    assert_eq!(log.take(), ["it broke"], "once");
}

#[test]
fn orderly_disconnect_not_routed_to_error_reporter() {
    let (session, log) = without_handler();
    let fake = Fake::default();
    session.attach(fake.clone()).expect("attached");
    fake.end(Ok(()));
    drop(session);
    assert_eq!(log.take(), [""; 0]);
}

#[test]
fn on_disconnect_suppresses_error_reporter_routing() {
    let log = Log::default();
    let session = noting(&log);
    let fake = Fake::default();
    session.attach(fake.clone()).expect("attached");
    fake.end(Err(broken()));
    assert!(!log.take().contains(&"error: it broke".to_owned()));
}

#[test]
fn on_disconnect_runs_before_detach_and_shutdown() {
    let log = Log::default();
    let session = noting(&log);
    session.attach(Fake::default()).expect("attached");
    drop(session);
    assert_eq!(log.take(), ["end: orderly", "detach", "shutdown"]);
}

/// A session whose handler shuts it down.
fn that_shuts_itself_down(log: &Log) -> Session {
    let (ends, down) = (log.clone(), log.noting("down"));
    let options = Queue::default().options().on_disconnect(move |session, cause| {
        ends.note(format!("end: {}", cause.is_ok()));
        session.shutdown(down);
    });
    let session = session(options);
    session.add_service(Noting(log.clone()));
    session
}

#[test]
fn shutdown_from_on_disconnect_handler() {
    let log = Log::default();
    let session = that_shuts_itself_down(&log);
    session.attach(Fake::default()).expect("attached");
    session.detach(log.noting("detached"));
    session.wait().expect("it is over");
    assert_eq!(log.take(), ["end: true", "detach", "detached", "shutdown", "down"]);
}

#[test]
fn shutdown_from_on_disconnect_handler_after_remote_hangup() {
    let log = Log::default();
    let session = that_shuts_itself_down(&log);
    let fake = Fake::default();
    session.attach(fake.clone()).expect("attached");
    fake.end(Err(broken()));
    session.wait().expect("it is over");
    assert_eq!(log.take(), ["end: false", "detach", "shutdown", "down"]);
    assert_eq!(fake.0.disconnects.get(), 0, "it is gone already");
}

/// Connects while the test does something else to the session.
struct Meanwhile<F>(Mutex<Option<F>>, Fake);

impl<F: FnOnce(Attachment) + Send> ControllerAccess for Meanwhile<F> {
    fn connect(&self, attachment: Attachment, info: &BootstrapInfo) -> Result<()> {
        self.1.connect(attachment.clone(), info)?;
        let work = self.0.lock().expect("no panic").take();
        work.expect("connects once")(attachment);
        Ok(())
    }

    fn disconnect(&self) {
        self.1.disconnect();
    }

    fn call_controller(&self, tag: u64, args: Vec<u8>, completion: Completion) {
        self.1.call_controller(tag, args, completion);
    }

    fn send_result(&self, _: u64, _: Answer) {}
}

#[test]
fn requests_during_the_connection_come_after_it() {
    let log = Log::default();
    let session = noting(&log);
    let (fake, down) = (Fake::default(), log.noting("down"));
    let work = move |attachment: Attachment| attachment.session().shutdown(down);
    session.attach(Meanwhile(Mutex::new(Some(work)), fake.clone())).expect("attached");
    assert_eq!(fake.0.disconnects.get(), 1);
    assert_eq!(log.take(), ["end: orderly", "detach", "shutdown", "down"]);
}

#[test]
fn a_controller_may_leave_before_connect_returns() {
    let log = Log::default();
    let session = noting(&log);
    let fake = Fake::default();
    let gone = fake.clone();
    let work = move |_: Attachment| gone.end(Err(broken()));
    session.attach(Meanwhile(Mutex::new(Some(work)), fake.clone())).expect("attached");
    assert_eq!(log.take(), ["end: it broke", "detach"]);
    drop(session);
    assert_eq!(fake.0.disconnects.get(), 0);
}
