//! Things that are used while they are taken away, in every order that loom can give them.
//!
//! Invariant: the model is also run with a user who only tells the compiler what takes a fence, and fails then, for both things
//! that the fence is for.

use std::sync::atomic::{AtomicU64 as Count, Ordering as CountOrdering};

use loom::thread;

use super::*;

/// Says when it is dropped.
struct Thing(Arc<AtomicBool>);

impl Drop for Thing {
    fn drop(&mut self) {
        assert!(!self.0.swap(true, Ordering::SeqCst), "dropped twice");
    }
}

/// A thread uses a thing twice, and once more inside of each use, while another takes it away and puts one of its own there.
/// While it is used it is there, and afterwards it is gone although no thread uses the shelf any more.
fn take_away(light: Light) {
    let (executions, met) = (Arc::new(Count::new(0)), Arc::new(Count::new(0)));
    let counts = (Arc::clone(&executions), Arc::clone(&met));
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(4);
    builder.check(move || {
        counts.0.fetch_add(1, CountOrdering::Relaxed);
        let (shelf, is_gone) = (Arc::new(Shelf::new()), Arc::new(AtomicBool::new(false)));
        let tag = shelf.add(Thing(Arc::clone(&is_gone)));
        let remover = thread::spawn({
            let shelf = Arc::clone(&shelf);
            move || {
                shelf.remove(tag);
                shelf.add(Thing(Arc::default()))
            }
        });
        let user = User::new(light);
        let is_used = |thing: &Thing| {
            assert!(Arc::ptr_eq(&thing.0, &is_gone), "another thing");
            let inside = shelf.lend(&user, tag, |_| ()).is_some();
            assert!(!is_gone.load(Ordering::SeqCst), "dropped in use");
            inside
        };
        let uses = [(); 2].map(|()| shelf.lend(&user, tag, is_used));
        assert!(uses[0].is_some() || uses[1].is_none(), "it came back");
        remover.join().unwrap();
        assert!(is_gone.load(Ordering::SeqCst), "kept");
        // Taken away while it was used.
        let is_met = uses.contains(&Some(false));
        counts.1.fetch_add(u64::from(is_met), CountOrdering::Relaxed);
    });
    let [executions, met] = [executions, met].map(|count| count.load(CountOrdering::Relaxed));
    println!("loom shelf: {executions} executions ({met} met)");
    assert!(executions > 1 && met > 0, "it was not met");
}

#[test]
fn a_thing_is_dropped_when_nobody_uses_it_and_not_before() {
    take_away(Light::of_process());
}

#[test]
#[should_panic(expected = "Causality violation")]
fn a_use_that_is_not_seen_is_found() {
    take_away(Light::Free);
}

/// A thread uses a thing, which another one that knows of the use takes away. The last of the two drops it.
fn leave(light: Light) {
    loom::model(move || {
        let (shelf, is_gone) = (Arc::new(Shelf::new()), Arc::new(AtomicBool::new(false)));
        let tag = shelf.add(Thing(Arc::clone(&is_gone)));
        let user = User::new(light);
        let remover = shelf.lend(&user, tag, |_| {
            let shelf = Arc::clone(&shelf);
            thread::spawn(move || shelf.remove(tag))
        });
        remover.expect("used").join().unwrap();
        assert!(is_gone.load(Ordering::SeqCst), "kept");
    });
}

#[test]
fn the_last_user_of_a_thing_drops_it() {
    leave(Light::of_process());
}

#[test]
#[should_panic(expected = "kept")]
fn a_removal_that_is_not_seen_is_found() {
    leave(Light::Free);
}

/// A thread that has been told a tag, by words that order nothing, uses what another has just put there.
#[test]
fn a_thing_is_seen_with_its_tag() {
    let met = Arc::new(Count::new(0));
    let counted = Arc::clone(&met);
    loom::model(move || {
        let (shelf, told) = (Arc::new(Shelf::new()), Arc::new(AtomicU64::new(0)));
        // Loom does not see how a block of places is handed on.
        shelf.add(0);
        let adder = thread::spawn({
            let (shelf, told) = (Arc::clone(&shelf), Arc::clone(&told));
            move || told.store(shelf.add(7), Ordering::Relaxed)
        });
        let user = User::new(Light::of_process());
        let found = shelf.lend(&user, told.load(Ordering::Relaxed), |thing| *thing);
        assert!(found.is_none_or(|thing| thing == 7));
        counted.fetch_add(u64::from(found.is_some()), CountOrdering::Relaxed);
        adder.join().unwrap();
    });
    let met = met.load(CountOrdering::Relaxed);
    println!("loom shelf, told: {met} met");
    assert!(met > 0, "it was not met");
}

/// A thread leaves one thing for another while the first is looked for by its remover, which knew of that use. What
/// it sees in its place tells it that the use is over. The light half orders nothing of that, so it is free here.
#[test]
fn the_next_use_tells_that_the_one_before_is_over() {
    let met = Arc::new(Count::new(0));
    let counted = Arc::clone(&met);
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(move || {
        let (shelf, is_gone) = (Arc::new(Shelf::new()), Arc::new(AtomicBool::new(false)));
        let thing = || Thing(Arc::default());
        let tags = [shelf.add(Thing(Arc::clone(&is_gone))), shelf.add(thing()), shelf.add(thing())];
        let user = User::new(Light::Free);
        let remover = shelf.lend(&user, tags[0], |_| {
            let (shelf, is_gone) = (Arc::clone(&shelf), Arc::clone(&is_gone));
            thread::spawn(move || {
                shelf.remove(tags[0]);
                shelf.remove(tags[1]);
                is_gone.load(Ordering::Relaxed)
            })
        });
        shelf.lend(&user, tags[2], |_| ());
        let is_met = remover.expect("used").join().unwrap();
        counted.fetch_add(u64::from(is_met), CountOrdering::Relaxed);
    });
    let met = met.load(CountOrdering::Relaxed);
    println!("loom shelf, next use: {met} met");
    assert!(met > 0, "it was not met");
}
