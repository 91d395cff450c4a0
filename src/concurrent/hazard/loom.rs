//! Values that are used while another thread removes them, in every order of loom.
//!
//! Invariant: each model of the light fence is also run with a fence of the compiler alone, and must fail then.

use std::sync::atomic::{AtomicU64 as Count, Ordering as CountOrdering};

use ::loom::thread;

use super::*;

/// Records that it was dropped.
struct Thing(Arc<AtomicBool>);

impl Drop for Thing {
    fn drop(&mut self) {
        assert!(!self.0.swap(true, Ordering::SeqCst), "dropped twice");
    }
}

/// A thread uses a value twice, and once more inside of each use, while another thread removes it and adds one of its own.
/// The value is not dropped during a use, and is dropped at the end although no thread uses the table any more.
fn remove_in_use(light: LightFence) {
    let (executions, met) = (Arc::new(Count::new(0)), Arc::new(Count::new(0)));
    let counts = (Arc::clone(&executions), Arc::clone(&met));
    let mut builder = ::loom::model::Builder::new();
    builder.preemption_bound = Some(4);
    builder.check(move || {
        counts.0.fetch_add(1, CountOrdering::Relaxed);
        let (table, is_gone) = (Arc::new(HazardTable::new()), Arc::new(AtomicBool::new(false)));
        let tag = table.add(Thing(Arc::clone(&is_gone)));
        let remover = thread::spawn({
            let table = Arc::clone(&table);
            move || {
                table.remove(tag);
                table.add(Thing(Arc::default()))
            }
        });
        let user = User::new(light);
        let is_used = |thing: &Thing| {
            assert!(Arc::ptr_eq(&thing.0, &is_gone), "another thing");
            let inside = table.lend(&user, tag, |_| ()).is_some();
            assert!(!is_gone.load(Ordering::SeqCst), "dropped in use");
            inside
        };
        let uses = [(); 2].map(|()| table.lend(&user, tag, is_used));
        assert!(uses[0].is_some() || uses[1].is_none(), "it came back");
        remover.join().unwrap();
        assert!(is_gone.load(Ordering::SeqCst), "kept");
        // Removed while it was used.
        let is_met = uses.contains(&Some(false));
        counts.1.fetch_add(u64::from(is_met), CountOrdering::Relaxed);
    });
    let [executions, met] = [executions, met].map(|count| count.load(CountOrdering::Relaxed));
    println!("loom hazard table: {executions} executions ({met} met)");
    assert!(executions > 1 && met > 0, "it was not met");
}

#[test]
fn a_value_is_dropped_after_its_last_use_and_not_before() {
    remove_in_use(LightFence::of_process());
}

#[test]
#[should_panic(expected = "Causality violation")]
fn a_use_that_is_not_seen_is_found() {
    remove_in_use(LightFence::Compiler);
}

/// A thread uses a value, and another thread that knows of the use removes it. The later of the two drops it.
fn leave(light: LightFence) {
    ::loom::model(move || {
        let (table, is_gone) = (Arc::new(HazardTable::new()), Arc::new(AtomicBool::new(false)));
        let tag = table.add(Thing(Arc::clone(&is_gone)));
        let user = User::new(light);
        let remover = table.lend(&user, tag, |_| {
            let table = Arc::clone(&table);
            thread::spawn(move || table.remove(tag))
        });
        remover.expect("used").join().unwrap();
        assert!(is_gone.load(Ordering::SeqCst), "kept");
    });
}

#[test]
fn the_last_user_of_a_thing_drops_it() {
    leave(LightFence::of_process());
}

#[test]
#[should_panic(expected = "kept")]
fn a_removal_that_is_not_seen_is_found() {
    leave(LightFence::Compiler);
}

/// A thread learns a tag by a relaxed load and uses the value that another thread has just added.
#[test]
fn a_thing_is_seen_with_its_tag() {
    let met = Arc::new(Count::new(0));
    let counted = Arc::clone(&met);
    ::loom::model(move || {
        let (table, told) = (Arc::new(HazardTable::new()), Arc::new(AtomicU64::new(0)));
        // Made here, since loom does not see how `OnceLock` publishes a block of slots.
        table.add(0);
        let adder = thread::spawn({
            let (table, told) = (Arc::clone(&table), Arc::clone(&told));
            move || told.store(table.add(7), Ordering::Relaxed)
        });
        let user = User::new(LightFence::of_process());
        let found = table.lend(&user, told.load(Ordering::Relaxed), |thing| *thing);
        assert!(found.is_none_or(|thing| thing == 7));
        counted.fetch_add(u64::from(found.is_some()), CountOrdering::Relaxed);
        adder.join().unwrap();
    });
    let met = met.load(CountOrdering::Relaxed);
    println!("loom hazard table, told: {met} met");
    assert!(met > 0, "it was not met");
}

/// A thread goes from one value to the next while a remover that knew of the first use scans its hazards. The next hazard tells
/// the remover that the first use is over. The light fence orders nothing here, so it is one of the compiler.
#[test]
fn the_next_use_tells_that_the_one_before_is_over() {
    let met = Arc::new(Count::new(0));
    let counted = Arc::clone(&met);
    let mut builder = ::loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(move || {
        let (table, is_gone) = (Arc::new(HazardTable::new()), Arc::new(AtomicBool::new(false)));
        let thing = || Thing(Arc::default());
        let tags = [table.add(Thing(Arc::clone(&is_gone))), table.add(thing()), table.add(thing())];
        let user = User::new(LightFence::Compiler);
        let remover = table.lend(&user, tags[0], |_| {
            let (table, is_gone) = (Arc::clone(&table), Arc::clone(&is_gone));
            thread::spawn(move || {
                table.remove(tags[0]);
                table.remove(tags[1]);
                is_gone.load(Ordering::Relaxed)
            })
        });
        table.lend(&user, tags[2], |_| ());
        let is_met = remover.expect("used").join().unwrap();
        counted.fetch_add(u64::from(is_met), CountOrdering::Relaxed);
    });
    let met = met.load(CountOrdering::Relaxed);
    println!("loom hazard table, next use: {met} met");
    assert!(met > 0, "it was not met");
}
