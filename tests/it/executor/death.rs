//! A host that asks several times how an executor died gets one answer.

use std::time::Instant;

use farcall::Error;
use farcall::link::ObjectFile;
use nix::libc::SIGSEGV;

use crate::testkit::corpus::{self, PLAIN};
use crate::testkit::launch;

/// The session ends as soon as the first call has learnt of the crash. The process goes on for a while, with threads that request
/// lanes, so it sees the session's end.
#[test]
fn a_crash_is_told_the_same_way_until_its_process_is_gone() {
    let executor = launch::executor();
    let process = executor.process().expect("a process");
    let library = executor.library("crash");
    let file = std::fs::read(corpus::object("slow_death.c", PLAIN)).expect("just compiled");
    library.add_object(&ObjectFile::parse("crash.o", file).expect("an object")).expect("added");
    library.define_handler("host", || ()).expect("defined");
    let is_slow = library.function::<extern "C" fn() -> bool>("prepare").call(()).expect("called");
    let crash = library.lookup("crash").expect("defined");

    let first = process.call(crash, &[]).expect_err("it crashes");
    assert_eq!(first.death().and_then(|death| death.signal), Some(SIGSEGV), "{first}");
    let begun = Instant::now();
    let same = |told: Option<Error>, who: &str| {
        let when = format!("{who}, {:?} behind the crash", begun.elapsed());
        let told = told.unwrap_or_else(|| panic!("no death: {when}"));
        assert_eq!((told.to_string(), told.death()), (first.to_string(), first.death()), "{when}");
    };
    let mut times = 0;
    while process.pid() != 0 {
        same(process.death(), "death");
        same(process.call(crash, &[]).err(), "call");
        times += 1;
    }
    same(process.death(), "death");
    same(process.call(crash, &[]).err(), "call");
    println!("asked {times} times in {:?}", begun.elapsed());
    assert!(times > 10 || !is_slow, "the process ends at once");
}
