//! Wrapper functions: their calls are interrupted too, on lanes and pipelines, and inside of each other.

use farcall::ErrorKind;
use farcall::controller::Function;
use farcall::controller::calls::Bytes;

use super::{Session, options};
use crate::testkit::corpus::PLAIN;
use crate::testkit::launch;

struct Wrappers {
    session: Session,
    same: Function<Bytes>,
}

impl Wrappers {
    fn start() -> Self {
        let session = Session::of(launch::executor(), "wrappers.cpp", PLAIN);
        let same = Self::function(&session, "same");
        Self { session, same }
    }

    fn function(session: &Session, name: &str) -> Function<Bytes> {
        let address = session.library.lookup(name).expect("linked");
        session.executor.process().expect("a process").function::<Bytes>(address)
    }

    /// The next calls are right, and all calls so far have begun, and have run their destructors.
    fn check(&self, calls: i64) {
        self.check_begun(calls);
        assert_eq!(self.session.number("cleanups_begun"), calls);
    }

    /// The same, but some of the calls may not have begun.
    fn check_begun(&self, calls: i64) {
        for size in [0, 7, 5000] {
            let bytes = vec![b'x'; size];
            assert_eq!(self.same.call(&bytes).expect("it returns"), bytes);
        }
        assert_eq!(self.session.number("cleanups_run"), self.session.number("cleanups_begun"));
        assert_eq!(self.session.number("count"), calls);
    }
}

#[test]
fn calls_of_wrapper_functions_are_interrupted() {
    let wrappers = Wrappers::start();
    let before = wrappers.session.pid();
    for (at, name) in ["spin_bytes", "sleep_bytes"].iter().cycle().take(40).enumerate() {
        let function = Wrappers::function(&wrappers.session, name);
        let timeout = if at < 2 { options(200) } else { options(1) };
        let error = function.call_with(&timeout, &[b'x'; 300]).expect_err("it has no end");
        assert_eq!(error.kind(), ErrorKind::Interrupted, "{name}: {error}");
        let location = error.interruption().and_then(|told| told.location.clone());
        assert!(location.is_some_and(|place| place.contains("(wrappers.o")), "{name}: {error}");
        wrappers.check(i64::try_from(at).expect("few") + 1);
    }
    assert_eq!(wrappers.session.pid(), before);
}

#[test]
fn submitted_calls_of_wrapper_functions_are_interrupted() {
    let wrappers = Wrappers::start();
    let spin = Wrappers::function(&wrappers.session, "spin_bytes");
    for time in 1..20 {
        let submitted = spin.submit(b"bytes").expect("submitted");
        // It has begun when the request comes, or the next request ends it.
        let ended = wrappers.session.interrupt_all_until(|| submitted.wait());
        let error = ended.expect_err("it has no end");
        assert_eq!(error.kind(), ErrorKind::Interrupted, "{error}");
        wrappers.check(time);
    }
}

#[test]
fn a_nested_call_of_a_wrapper_function_is_interrupted_alone() {
    let wrappers = Wrappers::start();
    let process = wrappers.session.executor.process().expect("a process");
    let spin = wrappers.session.library.lookup("spin_bytes").expect("linked");
    let weak = process.downgrade();
    let tag = process.register_handler(move |args, result| {
        let process = weak.upgrade().ok_or("it is over")?;
        // Long enough to open a lane, which the first call does.
        let error = process.function::<Bytes>(spin).call_with(&options(200), args);
        result.extend(format!("{:?}", error.expect_err("it has no end").kind()).bytes());
        result.extend_from_slice(args);
        Ok(())
    });
    let ask = Wrappers::function(&wrappers.session, "ask_bytes");
    let args = [&tag.get().to_le_bytes()[..], b"xyz"].concat();
    for time in 1..10 {
        assert_eq!(ask.call(&args).expect("it returns"), b"Interruptedxyz");
        wrappers.check(time);
    }
}

/// A request for all calls ends both, the inner one first.
#[test]
fn a_wrapper_function_ends_behind_the_nested_call() {
    let wrappers = Wrappers::start();
    let process = wrappers.session.executor.process().expect("a process");
    let spin = wrappers.session.library.lookup("spin_bytes").expect("linked");
    let weak = process.downgrade();
    let tag = process.register_handler(move |_, result| {
        let process = weak.upgrade().ok_or("it is over")?;
        let spin = process.function::<Bytes>(spin);
        result.extend(spin.call(b"").map_err(|error| error.to_string())?);
        Ok(())
    });
    let ask = Wrappers::function(&wrappers.session, "ask_bytes");
    let before = wrappers.session.pid();
    for time in 1..10 {
        let error = wrappers.session.interrupt_all_until(|| ask.call(&tag.get().to_le_bytes()));
        let error = error.expect_err("the inner call has no end");
        // The outer call may return the error of the inner one before it is hit.
        let kinds = [ErrorKind::Interrupted, ErrorKind::Remote];
        assert!(kinds.contains(&error.kind()), "{error}");
        // On a busy machine a request may end the outer call before it asks.
        wrappers.check_begun(time);
    }
    assert_ne!(wrappers.session.number("cleanups_begun"), 0);
    assert_eq!(wrappers.session.pid(), before);
}
