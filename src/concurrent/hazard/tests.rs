//! Values that real threads use, remove, and do both with at the same time.

use std::sync::atomic::{AtomicUsize, Ordering as CountOrdering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use super::*;

/// Counts drops, and changes its value when it is dropped.
struct Thing {
    value: Box<u64>,
    dropped: Arc<AtomicUsize>,
}

impl Thing {
    fn new(value: u64, dropped: &Arc<AtomicUsize>) -> Self {
        Self { value: Box::new(value), dropped: Arc::clone(dropped) }
    }
}

impl Drop for Thing {
    fn drop(&mut self) {
        *self.value = 0;
        self.dropped.fetch_add(1, CountOrdering::SeqCst);
    }
}

fn table() -> (HazardTable<Thing>, Arc<AtomicUsize>) {
    (HazardTable::new(), Arc::default())
}

fn count(dropped: &AtomicUsize) -> usize {
    dropped.load(CountOrdering::SeqCst)
}

#[test]
fn things_are_found_by_their_tags_in_every_block() {
    let (table, dropped) = table();
    let tags: Vec<u64> = (1..=1000).map(|value| table.add(Thing::new(value, &dropped))).collect();
    for (value, tag) in (1..).zip(&tags) {
        assert_eq!(table.with(*tag, |thing| *thing.value), Some(value));
    }
    for tag in [0, 1001, SLOT_BITS, SLOT_BITS + 1, u64::MAX, tags[3] | 1 << 32, tags[3] | 1 << 63] {
        assert!(!tags.contains(&tag) && table.with(tag, |_| ()).is_none(), "{tag:#x}");
        table.remove(tag);
    }
    assert_eq!(count(&dropped), 0);
    drop(table);
    assert_eq!(count(&dropped), 1000);
}

#[test]
fn a_tag_is_not_used_again_though_its_slot_is() {
    let (table, dropped) = table();
    let mut before = Vec::new();
    for value in 1..=100 {
        let tag = table.add(Thing::new(value, &dropped));
        assert!(tag != 0 && !before.contains(&tag));
        assert_eq!(table.with(tag, |thing| *thing.value), Some(value));
        for old in &before {
            assert!(table.with(*old, |_| ()).is_none());
            table.remove(*old);
        }
        table.remove(tag);
        before.push(tag);
    }
    assert_eq!((count(&dropped), lock(&table.state).slots), (100, 1));
}

#[test]
fn a_value_that_a_thread_has_used_goes_at_once_though_it_stays() {
    let (table, dropped) = table();
    let tag = table.add(Thing::new(1, &dropped));
    let (used, is_used) = mpsc::channel();
    let (done, is_done) = mpsc::channel::<()>();
    thread::scope(|scope| {
        let table = &table;
        scope.spawn(move || {
            used.send(table.with(tag, |thing| *thing.value)).expect("the test waits");
            let _ = is_done.recv();
        });
        assert_eq!(is_used.recv(), Ok(Some(1)));
        table.remove(tag);
        assert_eq!(count(&dropped), 1);
        drop(done);
    });
}

#[test]
fn a_value_in_use_is_dropped_by_its_last_user() {
    let (table, dropped) = table();
    let tag = table.add(Thing::new(7, &dropped));
    let other = table.add(Thing::new(8, &dropped));
    let (enter, entered) = mpsc::channel();
    let (leave, may_leave) = mpsc::channel::<()>();
    thread::scope(|scope| {
        let (table, dropped) = (&table, &dropped);
        let user = scope.spawn(move || {
            let value = table.with(tag, |thing| {
                enter.send(()).expect("the test waits");
                let _ = may_leave.recv();
                assert_eq!(count(dropped), 1, "this one is there, the other is gone");
                assert!(table.with(tag, |_| ()).is_none(), "not for who comes now");
                *thing.value
            });
            (value, count(dropped))
        });
        entered.recv().expect("it is used");
        table.remove(tag);
        // An unused value does not wait for a value in use.
        table.remove(other);
        assert_eq!(count(dropped), 1);
        drop(leave);
        assert_eq!(user.join().expect("no panic"), (Some(7), 2));
    });
    assert_eq!(count(&dropped), 2);
}

#[test]
fn uses_may_lie_inside_of_each_other_as_deep_as_they_like() {
    fn inside(table: &HazardTable<Thing>, tags: &[u64], dropped: &AtomicUsize) {
        let Some((tag, deeper)) = tags.split_first() else { return };
        let before = count(dropped);
        let value = table.with(*tag, |thing| {
            table.remove(*tag);
            assert_eq!(count(dropped), before, "taken away by its user");
            inside(table, deeper, dropped);
            assert_eq!(count(dropped), before + deeper.len());
            *thing.value
        });
        assert_eq!((value, count(dropped)), (Some(*tag), before + tags.len()));
    }
    let (table, dropped) = table();
    for _ in 0..2 {
        let before = count(&dropped);
        let add = |_| {
            let tag = table.add(Thing::new(0, &dropped));
            table.remove(tag);
            // The tag of the next value in this slot.
            assert_eq!(table.add(Thing::new(tag + SLOT_BITS + 1, &dropped)), tag + SLOT_BITS + 1);
            tag + SLOT_BITS + 1
        };
        let tags: Vec<u64> = (0..5 * DEPTH).map(add).collect();
        assert_eq!(count(&dropped), before + tags.len());
        inside(&table, &tags, &dropped);
    }
}

#[test]
fn a_use_ends_with_a_panic() {
    let (table, dropped) = table();
    let tag = table.add(Thing::new(1, &dropped));
    let panics = || {
        table.with(tag, |_| -> () {
            table.remove(tag);
            std::panic::resume_unwind(Box::new("on purpose"))
        })
    };
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(panics)).expect_err("the panic");
    assert_eq!(count(&dropped), 1);
}

#[test]
fn a_thread_that_is_about_to_end_may_still_use_things() {
    /// Uses a value of the table when its thread ends.
    struct Late {
        table: Arc<HazardTable<Thing>>,
        tag: u64,
        found: mpsc::Sender<Option<u64>>,
    }
    impl Drop for Late {
        fn drop(&mut self) {
            let found = self.table.with(self.tag, |thing| *thing.value);
            self.found.send(found).expect("the test waits");
        }
    }
    std::thread_local! { static LATE: Cell<Option<Late>> = const { Cell::new(None) }; }
    let (table, dropped) = table();
    let table = Arc::new(table);
    let tag = table.add(Thing::new(3, &dropped));
    // The order in which thread-locals are dropped is open: once the thread's user is older than this one, once it is not.
    for is_used_first in [false, true] {
        let (found, is_found) = mpsc::channel();
        let table = Arc::clone(&table);
        let body = move || {
            if is_used_first {
                table.with(tag, |_| ());
            }
            LATE.set(Some(Late { table: Arc::clone(&table), tag, found }));
            table.with(tag, |_| ());
        };
        thread::spawn(body).join().expect("no panic");
        assert_eq!(is_found.recv(), Ok(Some(3)));
    }
    table.remove(tag);
    assert_eq!(count(&dropped), 1);
}

/// A value in use does not change. Each value is dropped once, whichever thread is the last user.
#[test]
fn threads_use_and_take_away_what_they_like() {
    const TIME: Duration = Duration::from_millis(300);
    let (table, dropped) = table();
    let added = AtomicUsize::new(0);
    let slots: [AtomicU64; 3] = std::array::from_fn(|_| AtomicU64::new(0));
    let is_over = AtomicBool::new(false);
    let (used, refused) = thread::scope(|scope| {
        let users: Vec<_> = (0..3)
            .map(|_| {
                scope.spawn(|| {
                    let (mut used, mut refused) = (0_u64, 0_u64);
                    while !is_over.load(Ordering::Relaxed) {
                        for slot in &slots {
                            let tag = slot.load(Ordering::Relaxed);
                            let value = table.with(tag, |thing| {
                                let before = *thing.value;
                                table.with(slots[0].load(Ordering::Relaxed), |other| *other.value);
                                (before, *thing.value)
                            });
                            assert!(
                                value.is_none_or(|(before, after)| before != 0 && before == after)
                            );
                            used += u64::from(value.is_some());
                            refused += u64::from(value.is_none());
                        }
                    }
                    (used, refused)
                })
            })
            .collect();
        let start = Instant::now();
        while start.elapsed() < TIME {
            for slot in &slots {
                let value = added.fetch_add(1, CountOrdering::Relaxed) as u64 + 1;
                let tag = table.add(Thing::new(value, &dropped));
                table.remove(slot.swap(tag, Ordering::Relaxed));
            }
        }
        is_over.store(true, Ordering::Relaxed);
        let sums = users.into_iter().map(|user| user.join().expect("no panic"));
        sums.fold((0, 0), |sum, (used, refused)| (sum.0 + used, sum.1 + refused))
    });
    let added = added.load(CountOrdering::Relaxed);
    assert_eq!(count(&dropped), added - slots.len(), "all but those that are still there");
    assert!(used > 0, "{used} used, {refused} refused");
    println!("hazard table: {added} things, {used} used, {refused} refused");
}
