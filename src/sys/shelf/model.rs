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
/// While it is used it is there, and afterwards, for who asks for that, it is gone although nobody uses the shelf any more.
fn take_away(light: Light, is_due: bool) {
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
        assert!(!is_due || is_gone.load(Ordering::SeqCst), "kept");
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
    take_away(Light::of_process(), true);
}

#[test]
#[should_panic(expected = "dropped in use")]
fn a_use_that_is_not_seen_is_found() {
    take_away(Light::Free, false);
}

#[test]
#[should_panic(expected = "kept")]
fn a_removal_that_is_not_seen_is_found() {
    take_away(Light::Free, true);
}
