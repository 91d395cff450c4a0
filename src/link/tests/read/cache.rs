//! The cache: equal bytes are parsed once, and different bytes are never confused.

use std::thread;

use crate::ObjectCache;
use crate::read::object_cache::key;
use crate::tests::*;

fn object(value: u32) -> Vec<u8> {
    compile_bytes("a.o", "-xassembler", &format!(".data\n.globl x\nx: .long {value}\n"))
}

#[test]
fn the_same_bytes_are_parsed_once_whatever_their_name() {
    let cache = ObjectCache::new(1 << 20);
    let (one, two) = (object(1), object(2));
    let first = cache.parse("first.o", one.clone()).unwrap();
    let again = cache.parse("again.o", one).unwrap();
    assert!(first.shares_with(&again), "it was parsed twice");
    assert_eq!((first.name(), again.name()), ("first.o", "again.o"));
    let other = cache.parse("first.o", two).unwrap();
    assert!(!other.shares_with(&first));

    let error = failure(link(&[&first, &again], &[])).to_string();
    assert!(error.contains("first.o") && error.contains("again.o"), "{error}");
    for (object, value) in [(&first, 1), (&other, 2), (&again, 1)] {
        let image = link(&[object], &[]).unwrap();
        assert_eq!(i32_at(&image, address_of(&image, "x")), value);
    }
}

#[test]
fn files_that_look_alike_at_both_ends_are_told_apart() {
    let file = |value: u8| {
        let source = format!(".data\n.zero 10000\n.globl x\nx: .byte {value}\n.zero 10000\n");
        compile_bytes("a.o", "-xassembler", &source)
    };
    let files = [file(1), file(2)];
    assert_ne!(files[0], files[1]);
    assert_eq!(key(&files[0]), key(&files[1]), "they do not look alike");
    let cache = ObjectCache::new(1 << 20);
    for number in [0, 1, 0, 0, 1] {
        let object = cache.parse("a.o", files[number].clone()).unwrap();
        assert_eq!(object.bytes(), files[number]);
        let image = link(&[&object], &[]).unwrap();
        assert_eq!(usize::from(bytes_at(&image, address_of(&image, "x"))[0]), number + 1);
    }
}

#[test]
fn the_least_recently_used_object_leaves_a_full_cache() {
    let files = [object(1), object(2), object(3)];
    let cache = ObjectCache::new(2 * files[0].len());
    let parse = |number: usize| cache.parse("a.o", files[number].clone()).unwrap();
    let before = [parse(0), parse(1)];
    assert!(parse(0).shares_with(&before[0]));
    let third = parse(2);
    assert!(parse(0).shares_with(&before[0]) && parse(2).shares_with(&third));
    assert!(!parse(1).shares_with(&before[1]), "there was no room for it");
    assert!(!parse(0).shares_with(&before[0]), "the third was asked for later");

    let none = ObjectCache::new(files[0].len() - 1);
    let parse = || none.parse("a.o", files[0].clone()).unwrap();
    assert!(!parse().shares_with(&parse()));
}

#[test]
fn threads_may_use_it_at_the_same_time() {
    let files: Vec<_> = (0..8).map(object).collect();
    // The cache holds half of them, so it adds some while it drops others.
    let cache = ObjectCache::new(4 * files[0].len());
    thread::scope(|scope| {
        for first in 0..4 {
            let (cache, files) = (&cache, &files);
            scope.spawn(move || {
                for round in 0..200 {
                    let file = &files[(round + first) % files.len()];
                    assert_eq!(cache.parse("a.o", file.clone()).unwrap().bytes(), file);
                }
            });
        }
    });
}

#[test]
fn a_file_that_cannot_be_read_is_not_kept() {
    let cache = ObjectCache::new(1 << 20);
    for name in ["one.o", "two.o"] {
        let error = failure(cache.parse(name, &b"no object"[..])).to_string();
        assert!(error.starts_with(name), "{error}");
    }
}
