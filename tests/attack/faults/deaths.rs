//! A death is noticed soon, whatever linked code has done before (D1, D3, D19).

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use crate::apart::{Apart, within};
use crate::session::{Session, bytes};

/// Longer than any death takes to be noticed.
const BOUND: Duration = Duration::from_secs(10);
/// Some attacks hit now and then only.
const ROUNDS: usize = 10;

/// Calls a function that dies after a while, on a lane; returns what the error says.
fn dies_on_a_lane(source: &str, function: &'static str) {
    for round in 0..ROUNDS {
        let session = Session::start(source);
        let address = session.function(function);
        let start = Instant::now();
        let outcome = within(BOUND, function, move || session.process.call(address, &[]));
        let error = outcome.expect_err("it is dead");
        println!("attack: lane, round {round}: {:?}: {error}", start.elapsed());
        assert!(error.is_disconnected(), "{error:?}");
    }
}

/// The same in a pipeline.
fn dies_in_a_pipeline(function: &'static str) {
    for round in 0..ROUNDS {
        let session = Session::start("shared");
        let address = session.function(function);
        let start = Instant::now();
        let outcome = within(BOUND, function, move || {
            let pipeline = session.process.pipeline()?;
            pipeline.submit(address, &[0; 8])?.wait()
        });
        let error = outcome.expect_err("it is dead");
        println!("attack: pipeline, round {round}: {:?}: {error}", start.elapsed());
        assert!(error.is_disconnected(), "{error:?}");
    }
}

#[test]
fn d01_a_wild_store_over_the_lane_does_not_hide_a_crash() {
    Apart::within(30).run(|| dies_on_a_lane("shared", "zero_and_crash"));
}

#[test]
fn d01_a_wild_store_over_the_pipeline_does_not_hide_a_crash() {
    Apart::within(30).run(|| dies_in_a_pipeline("zero_and_crash"));
}

#[test]
fn d01_a_store_to_a_callers_sleep_word_does_not_hide_a_death() {
    Apart::within(30).run(|| dies_on_a_lane("shared", "zero_parkers_and_die"));
}

#[test]
fn d01_a_store_to_a_pipelines_sleep_word_does_not_hide_a_death() {
    Apart::within(30).run(|| dies_in_a_pipeline("zero_parkers_and_die"));
}

#[test]
fn d01_a_storing_grandchild_does_not_keep_a_call_alive() {
    Apart::within(30).run(|| dies_on_a_lane("shared", "leave_scribbler_and_die"));
}

#[test]
fn d01_a_storing_grandchild_does_not_keep_a_pipeline_alive() {
    Apart::within(30).run(|| dies_in_a_pipeline("leave_scribbler_and_die"));
}

/// The executor reads no answers, so that there is no room for one more when it dies.
#[test]
fn d03_a_death_is_noticed_behind_a_flood_of_requests() {
    Apart::within(30).run(|| dies_on_a_lane("sockets", "jam_and_die"));
}

/// The time from a signal to the error of the call under way, with this many MiB touched before.
fn from_death_to_error(touched_mib: u64, signal: Signal) -> Duration {
    let session = Session::start("ends");
    assert_eq!(session.call("touch", &[touched_mib]).expect("enough memory"), 0);
    let rest = session.function("rest");
    let waits = Arc::clone(&session);
    let caller = thread::spawn(move || {
        let outcome = waits.process.call(rest, &bytes(&[20_000]));
        (Instant::now(), outcome.expect_err("it is dead"))
    });
    thread::sleep(Duration::from_millis(20));
    let death = Instant::now();
    session.signal(signal);
    let (told, error) = within(BOUND, "the call", || caller.join().expect("no panic"));
    let named = error.death().and_then(|death| death.signal);
    assert_eq!(named, Some(signal as i32), "{error}");
    told.saturating_duration_since(death)
}

#[test]
fn d19_callers_hear_of_a_death_before_its_memory_is_freed() {
    const TRIES: usize = 20;
    Apart::within(180).run(|| {
        let mut late = Vec::new();
        for touched_mib in [0, 64, 512] {
            for signal in [Signal::SIGKILL, Signal::SIGSEGV] {
                let mut took: Vec<_> =
                    (0..TRIES).map(|_| from_death_to_error(touched_mib, signal)).collect();
                took.sort();
                let (p50, p99) = (took[TRIES / 2], took[TRIES - 1]);
                let line = format!("{touched_mib} MiB, {signal}: p50 {p50:?}, p99 {p99:?}");
                println!("attack: {line}");
                if p50 > Duration::from_millis(5) {
                    late.push(line);
                }
            }
        }
        assert!(late.is_empty(), "more than 5 ms: {late:?}");
    });
}
