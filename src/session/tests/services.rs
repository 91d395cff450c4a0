//! Services: their notifications, in which order, and when.

use super::*;
use crate::error::ErrorKind;
use crate::session::{Done, Service};

/// Records its notifications.
struct Noting {
    name: String,
    log: Log,
}

impl Noting {
    fn new(log: &Log, name: &str) -> Self {
        Self { name: name.to_owned(), log: log.clone() }
    }
}

impl Service for Noting {
    fn name(&self) -> &str {
        &self.name
    }

    fn on_detach(&self, _done: Done, shutdown_requested: bool) {
        self.log.note(format!("{} detach {shutdown_requested}", self.name));
    }

    fn on_shutdown(&self, done: Done) {
        self.log.note(format!("{} shutdown", self.name));
        done.complete();
    }
}

/// Keeps each `Done` until the test drops it.
#[derive(Default)]
struct Slow {
    detach: Mutex<Option<Done>>,
    shutdown: Mutex<Option<Done>>,
}

impl Service for Slow {
    fn name(&self) -> &str {
        "slow"
    }

    fn on_detach(&self, done: Done, _: bool) {
        *self.detach.lock().expect("no panic") = Some(done);
    }

    fn on_shutdown(&self, done: Done) {
        *self.shutdown.lock().expect("no panic") = Some(done);
    }
}

#[test]
fn single_service() {
    let log = Log::default();
    let session = session(Queue::default().options());
    session.add_service(Noting::new(&log, "one"));
    assert_eq!(log.take(), [""; 0]);
    drop(session);
    assert_eq!(log.take(), ["one detach true", "one shutdown"]);
}

#[test]
fn multiple_services() {
    let log = Log::default();
    let options = Queue::default().options().service(Noting::new(&log, "one"));
    let session = session(options.service(Noting::new(&log, "two")));
    session.add_service(Noting::new(&log, "three"));
    session.shutdown(log.noting("down"));
    let order = [
        "three detach true",
        "two detach true",
        "one detach true",
        "three shutdown",
        "two shutdown",
        "one shutdown",
        "down",
    ];
    assert_eq!(log.take(), order);
}

#[test]
fn add_service_and_use_ref() {
    let log = Log::default();
    let session = session(Queue::default().options());
    let service = session.add_service(Noting::new(&log, "one"));
    assert_eq!(service.name(), "one");
    drop(session);
    assert_eq!(service.name(), "one", "a reference outlives the session");
}

#[test]
fn create_service_and_use_ref() {
    let log = Log::default();
    let session = session(Queue::default().options());
    assert_eq!(session.add_service(Noting::new(&log, "created")).name(), "created");
}

/// A service that cannot always be made.
fn fallible(log: &Log, is_possible: bool) -> Result<Noting> {
    if is_possible { Ok(Noting::new(log, "made")) } else { Err(broken()) }
}

#[test]
fn try_create_service_success() {
    let log = Log::default();
    let session = session(Queue::default().options());
    let made = fallible(&log, true).map(|service| session.add_service(service));
    assert_eq!(made.expect("made").name(), "made");
    drop(session);
    assert_eq!(log.take().len(), 2);
}

#[test]
fn try_create_service_failure() {
    let log = Log::default();
    let session = session(Queue::default().options());
    let made = fallible(&log, false).map(|service| session.add_service(service));
    assert!(made.is_err());
    session.add_service(Noting::new(&log, "other"));
    drop(session);
    assert_eq!(log.take(), ["other detach true", "other shutdown"], "the session is as it was");
}

#[test]
fn a_service_that_comes_late_is_told_each_stage_once() {
    let log = Log::default();
    let session = session(Queue::default().options());
    session.detach(|| {});
    session.add_service(Noting::new(&log, "detached"));
    assert_eq!(log.take(), ["detached detach false"], "at once");
    session.shutdown(|| {});
    assert_eq!(log.take(), ["detached shutdown"]);
    session.add_service(Noting::new(&log, "over"));
    assert_eq!(log.take(), ["over detach false", "over shutdown"]);
}

#[test]
fn a_late_service_that_is_slow_holds_the_shutdown_up() {
    let log = Log::default();
    let session = session(Queue::default().options());
    session.detach(|| {});
    let slow = session.add_service(Slow::default());
    session.shutdown(log.noting("down"));
    assert!(slow.shutdown.lock().expect("no panic").is_none(), "it is not even detached");
    drop(slow.detach.lock().expect("no panic").take());
    assert_eq!(log.take(), [""; 0]);
    drop(slow.shutdown.lock().expect("no panic").take());
    assert_eq!(log.take(), ["down"]);
}

#[test]
fn services_get_done_on_other_threads() {
    let log = Log::default();
    let session = session(Queue::default().options());
    session.add_service(Noting::new(&log, "first"));
    let slow = session.add_service(Slow::default());
    session.add_service(Noting::new(&log, "last"));
    session.shutdown(log.noting("down"));
    assert_eq!(log.take(), ["last detach true"]);
    for (slot, expected) in [
        (&slow.detach, &["first detach true", "last shutdown"][..]),
        (&slow.shutdown, &["first shutdown", "down"][..]),
    ] {
        let done = slot.lock().expect("no panic").take().expect("told");
        thread::spawn(move || drop(done)).join().expect("no panic");
        assert_eq!(log.take(), expected);
    }
}

/// Completes at once.
struct Quick;

impl Service for Quick {
    fn on_shutdown(&self, done: Done) {
        done.complete();
    }
}

#[test]
fn a_hundred_thousand_services_need_no_deep_stack() {
    let session = session(Queue::default().options());
    for _ in 0..100_000 {
        session.add_service(Quick);
    }
    let count = Count::default();
    let small = thread::Builder::new().stack_size(64 << 10);
    let down = count.counting();
    let thread = small.spawn(move || {
        session.shutdown(down);
        drop(session);
    });
    thread.expect("a thread").join().expect("no overflow");
    assert_eq!(count.get(), 1);
}

struct Panics;

impl Service for Panics {
    fn name(&self) -> &str {
        "panics"
    }

    fn on_detach(&self, _: Done, _: bool) {
        panic!("on purpose");
    }

    fn on_shutdown(&self, _: Done) {
        panic!("on purpose");
    }
}

#[test]
fn a_service_that_panics_is_reported_and_done() {
    let log = Log::default();
    let session = session(log.on(Queue::default().options()));
    session.add_service(Noting::new(&log, "one"));
    session.add_service(Panics);
    session.shutdown(|| {});
    let order = [
        "end: orderly",
        "error: panics panicked",
        "one detach true",
        "error: panics panicked",
        "one shutdown",
    ];
    assert_eq!(log.take(), order);
}

#[test]
fn the_service_that_keeps_a_session_from_ending_is_named() {
    let log = Log::default();
    let options = log.on(Queue::default().options()).grace(Duration::from_millis(20));
    let session = session(options);
    let slow = session.add_service(Slow::default());
    session.shutdown(|| {});
    let error = session.wait().expect_err("it waits for the service");
    assert!(error.kind() == ErrorKind::Timeout, "{error:?}");
    assert!(error.to_string().contains("service slow did not detach"), "{error}");
    drop(slow.detach.lock().expect("no panic").take());
    let error = session.wait().expect_err("it still does").to_string();
    assert!(error.contains("20ms") && error.contains("service slow did not shut down"), "{error}");
    drop(slow.shutdown.lock().expect("no panic").take());
    session.wait().expect("it is over");
}
