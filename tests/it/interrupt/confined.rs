//! Interrupted calls of executors without rights, and of copies.

use farcall::controller::{Confinement, Snapshot};

use super::Session;
use crate::testkit::corpus::PLAIN;
use crate::testkit::launch;

#[test]
fn calls_of_confined_executors_are_interrupted() {
    for confinement in [Confinement::isolated(), Confinement::strict()] {
        let builder = launch::builder().confine(confinement.allow_missing());
        let session = Session::of(builder.start().expect("an executor"), "loops.c", PLAIN);
        let pid = session.pid();
        for time in 1..10 {
            assert_eq!(session.number("count"), time);
            session.interrupt("spin");
        }
        assert_eq!(session.pid(), pid);
    }
}

#[test]
fn calls_of_copies_are_interrupted() {
    let session = Session::start("loops.c");
    assert_eq!(session.number("count"), 1);
    session.interrupt("spin");
    let Session { executor, library } = session;
    let snapshot = Snapshot::take(executor).expect("one thread");
    for _ in 0..3 {
        let executor = snapshot.spawn().expect("a copy");
        let library = library.in_copy(&executor).expect("its copy");
        let copy = Session { executor, library };
        for time in 2..5 {
            assert_eq!(copy.number("count"), time);
            copy.interrupt("spin");
        }
    }
}
