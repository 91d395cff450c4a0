//! `TaskGroupTest`.

use super::*;
use crate::session::{TaskGroup, Token};

fn count_complete(group: &TaskGroup) -> Count {
    let count = Count::default();
    group.add_on_complete(count.counting());
    count
}

fn token(group: &TaskGroup) -> Token {
    group.acquire("a test").expect("open")
}

#[test]
fn trivial_construction_and_destruction() {
    let group = TaskGroup::new();
    let count = count_complete(&group);
    drop(group);
    assert_eq!(count.get(), 0, "it is open");
}

#[test]
fn single_token_then_close() {
    let group = TaskGroup::new();
    let count = count_complete(&group);
    drop(token(&group));
    assert_eq!(count.get(), 0);
    group.close();
    assert_eq!(count.get(), 1);
}

#[test]
fn close_with_no_tokens() {
    let group = TaskGroup::new();
    let count = count_complete(&group);
    group.close();
    assert_eq!(count.get(), 1);
}

#[test]
fn token_from_closed_group() {
    let group = TaskGroup::new();
    group.close();
    assert!(group.acquire("late").is_none());
}

#[test]
fn acquire_after_close_via_direct_api() {
    let group = TaskGroup::new();
    let held = token(&group);
    group.close();
    assert!(group.acquire("late").is_none(), "although one is held");
    drop(held);
    assert!(group.acquire("later").is_none());
}

#[test]
fn copy_token() {
    let group = TaskGroup::new();
    let first = token(&group);
    let copy = first.try_clone().expect("open");
    let count = count_complete(&group);
    group.close();
    assert!(first.try_clone().is_none(), "a copy of a closed group is none");
    drop(first);
    assert_eq!(count.get(), 0);
    drop(copy);
    assert_eq!(count.get(), 1);
}

#[test]
fn move_token() {
    let group = TaskGroup::new();
    let first = token(&group);
    group.close();
    let count = count_complete(&group);
    let moved = first;
    assert_eq!((count.get(), group.running().len()), (0, 1));
    drop(moved);
    assert_eq!(count.get(), 1);
}

#[test]
fn copy_assignment_releases_old() {
    let (one, other) = (TaskGroup::new(), TaskGroup::new());
    let mut held = [token(&one)];
    assert_eq!(one.running().len(), 1);
    let source = token(&other);
    held[0] = source.try_clone().expect("open");
    assert_eq!((one.running().len(), other.running().len()), (0, 2));
    drop((held, source));
}

#[test]
fn move_assignment_releases_old() {
    let (one, other) = (TaskGroup::new(), TaskGroup::new());
    let mut held = [token(&one)];
    assert_eq!(one.running().len(), 1);
    held[0] = token(&other);
    assert_eq!((one.running().len(), other.running().len()), (0, 1));
    drop(held);
}

#[test]
fn copy_assignment_from_closed_group() {
    let (one, other) = (TaskGroup::new(), TaskGroup::new());
    let source = token(&other);
    other.close();
    let mut held = Some(token(&one));
    assert!(held.is_some());
    held = source.try_clone();
    assert!(held.is_none());
    assert_eq!(one.running().len(), 0, "the old one is released all the same");
}

#[test]
fn self_copy_assignment() {
    let group = TaskGroup::new();
    let mut held = token(&group);
    held = held.try_clone().expect("open");
    assert_eq!(group.running().len(), 1);
    drop(held);
}

#[test]
fn add_on_complete_after_completion() {
    let group = TaskGroup::new();
    group.close();
    assert_eq!(count_complete(&group).get(), 1, "at once");
}

#[test]
fn add_on_complete_while_tasks_pending() {
    let group = TaskGroup::new();
    let held = token(&group);
    group.close();
    let count = count_complete(&group);
    assert_eq!(count.get(), 0);
    drop(held);
    assert_eq!(count.get(), 1);
}

#[test]
fn multiple_callbacks() {
    let group = TaskGroup::new();
    let log = Log::default();
    for name in ["one", "two", "three"] {
        group.add_on_complete(log.noting(name));
    }
    group.close();
    assert_eq!(log.take(), ["one", "two", "three"], "the first that came is the first");
}

#[test]
fn multiple_tokens() {
    let group = TaskGroup::new();
    let mut held: Vec<_> = (0..10).map(|_| token(&group)).collect();
    let count = count_complete(&group);
    group.close();
    while held.pop().is_some() {
        assert_eq!(count.get(), usize::from(held.is_empty()));
    }
}

#[test]
fn close_is_idempotent() {
    let group = TaskGroup::new();
    let count = count_complete(&group);
    let held = token(&group);
    group.close();
    group.close();
    drop(held);
    group.close();
    assert_eq!(count.get(), 1);
}

#[test]
fn token_keeps_task_group_alive() {
    let group = TaskGroup::new();
    let count = count_complete(&group);
    let held = token(&group);
    group.close();
    drop(group);
    assert_eq!(count.get(), 0);
    drop(held);
    assert_eq!(count.get(), 1);
}

#[test]
fn token_from_token_source() {
    let group = TaskGroup::new();
    let source = group.clone();
    let held = token(&source);
    assert_eq!(group.running().len(), 1);
    drop(held);
}

#[test]
fn token_from_closed_token_source() {
    let group = TaskGroup::new();
    let source = group.clone();
    group.close();
    assert!(source.acquire("late").is_none());
}

#[test]
fn token_source_keeps_task_group_alive() {
    let group = TaskGroup::new();
    let count = count_complete(&group);
    let source = group.clone();
    drop(group);
    source.close();
    assert_eq!(count.get(), 1);
}

#[test]
fn token_source_does_not_hold_token() {
    let group = TaskGroup::new();
    let source = group.clone();
    let count = count_complete(&group);
    group.close();
    assert_eq!(count.get(), 1, "although there is a source");
    drop(source);
}

#[test]
fn running_tasks_are_named() {
    let group = TaskGroup::new();
    let held = group.acquire("an infinite loop").expect("open");
    assert!(group.running()[0].starts_with("an infinite loop for "), "{:?}", group.running());
    assert!(format!("{held:?} {group:?}").contains("an infinite loop"));
}

#[test]
fn concurrent_tokens() {
    let group = TaskGroup::new();
    let count = count_complete(&group);
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| (0..1000).for_each(|_| drop(token(&group))));
        }
    });
    assert_eq!(count.get(), 0);
    group.close();
    assert_eq!(count.get(), 1);
}

#[test]
fn concurrent_add_on_complete_and_close() {
    for _ in 0..200 {
        let group = TaskGroup::new();
        let count = Count::default();
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..5).for_each(|_| group.add_on_complete(count.counting())));
            }
            scope.spawn(|| group.close());
        });
        assert_eq!(count.get(), 20, "each exactly once");
    }
}

#[test]
fn concurrent_acquire_and_close() {
    for _ in 0..200 {
        let group = TaskGroup::new();
        let (granted, completed) = (Count::default(), Count::default());
        let running = granted.clone();
        let seen = completed.clone();
        group.add_on_complete(move || {
            assert_eq!(running.get(), 0, "it completes when nothing runs");
            seen.up();
        });
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    while let Some(token) = group.acquire("a test") {
                        granted.0.fetch_add(1, Ordering::SeqCst);
                        granted.0.fetch_sub(1, Ordering::SeqCst);
                        drop(token);
                    }
                });
            }
            scope.spawn(|| group.close());
        });
        assert_eq!(completed.get(), 1);
    }
}
