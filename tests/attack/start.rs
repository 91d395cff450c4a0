//! A start has a limit of time (D2).

use farcall::ErrorKind;
use std::time::{Duration, Instant};

use crate::apart::{Apart, within};
use crate::counts::{Counts, expect_no_children};
use crate::session::{Session, launch};
use crate::sources;

#[test]
fn d02_the_start_of_a_program_that_says_nothing_times_out() {
    Apart::within(30).run(|| {
        let before = Counts::now();
        let timeout = Duration::from_millis(300);
        let silent = launch().program(sources::path("silent")).start_timeout(timeout);
        let start = Instant::now();
        let outcome = within(Duration::from_secs(5), "the start", move || silent.start().map(drop));
        let (took, error) = (start.elapsed(), outcome.expect_err("it says nothing"));
        println!("attack: after {took:?}: {error}");
        assert!(error.kind() == ErrorKind::Timeout, "{error:?}");
        // A busy machine may add much; a start without this option has 10 s.
        assert!(took >= timeout && took < Duration::from_secs(5), "{took:?}");
        before.expect_nothing_more("a start that timed out");
        expect_no_children();
    });
}

#[test]
fn d02_a_start_has_a_limit_of_time_without_an_option() {
    Apart::within(40).run(|| {
        let silent = launch().program(sources::path("silent"));
        let start = Instant::now();
        let outcome =
            within(Duration::from_secs(15), "the start", move || silent.start().map(drop));
        let (took, error) = (start.elapsed(), outcome.expect_err("it says nothing"));
        println!("attack: after {took:?}: {error}");
        assert!(
            error.kind() == ErrorKind::Timeout && took >= Duration::from_secs(9),
            "{took:?}: {error:?}"
        );
    });
}

#[test]
fn d02_a_start_that_is_quick_enough_has_no_deadline_afterwards() {
    Apart::within(30).run(|| {
        let timeout = Duration::from_secs(2);
        let session = Session::try_start(&launch().start_timeout(timeout), "ends");
        let session = session.expect("an executor");
        let rested =
            within(Duration::from_secs(10), "the call", move || session.call("rest", &[2500]));
        assert_eq!(rested.expect("nobody gives it up"), 0);
    });
}
