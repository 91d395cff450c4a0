//! Definitions beside each other: weak, common and strong.

use super::*;
use crate::error::ErrorKind;

const WEAK: SymbolFlags = SymbolFlags::WEAK;
const COMMON: SymbolFlags = SymbolFlags::COMMON;
const STRONG: SymbolFlags = SymbolFlags::EXPORTED;

#[test]
fn two_strong_definitions_are_a_duplicate_and_nothing_is_added() {
    let world = World::new();
    let first = world.define(&["foo", "bar"]);
    let (second, asked) = unit(Interface::exporting(["new", "bar", "foo"]));
    let error = world.dylib.define(second).expect_err("defined");
    assert!(error.kind() == ErrorKind::DuplicateDefinition, "{error}");
    assert_eq!(error.symbols(), ["bar", "foo"]);
    assert_eq!(world.dylib.state_of("new"), None);
    assert_eq!((first.discarded(), asked.discarded()), (vec![], vec![]));
}

#[test]
fn the_first_weak_definition_stays() {
    for flags in [WEAK, COMMON] {
        let world = World::new();
        let (first, first_asked) = unit(with_flags(&[("foo", STRONG | flags)]));
        world.dylib.define(first).expect("defined");
        let (second, second_asked) = unit(with_flags(&[("foo", STRONG | flags), ("bar", STRONG)]));
        world.dylib.define(second).expect("defined");
        assert_eq!(second_asked.discarded(), ["main:foo"]);
        let told = world.look_for(SymbolState::Resolved, &["foo", "bar"]);
        first_asked
            .responsibility()
            .notify_resolved(&[("foo".into(), flagged(1, STRONG | flags))].into())
            .expect("resolved");
        let mut second = second_asked.responsibility();
        assert_eq!(second.symbols().len(), 1, "it has lost foo");
        second.notify_resolved(&map(&[("bar", 2)])).expect("resolved");
        assert_eq!(told.address("foo"), 1);
    }
}

fn flagged(address: u64, flags: SymbolFlags) -> Symbol {
    Symbol { flags, ..at(address) }
}

#[test]
fn a_weak_definition_gives_way_to_a_present_strong_one() {
    let world = World::new();
    world.dylib.define_absolute([("foo", at(1))]).expect("defined");
    let (weak, asked) = unit(with_flags(&[("foo", STRONG | WEAK)]));
    world.dylib.define(weak).expect("no error");
    assert_eq!(asked.discarded(), ["main:foo"]);
    assert_eq!(world.dylib.lookup("foo").expect("found").address.get(), 1);
}

#[test]
fn a_strong_definition_overrides_an_unsearched_weak_one() {
    let world = World::new();
    let (weak, asked) = unit(with_flags(&[("foo", STRONG | WEAK), ("bar", STRONG)]));
    world.dylib.define(weak).expect("defined");
    world.dylib.define_absolute([("foo", at(1))]).expect("it may");
    assert_eq!(asked.discarded(), ["main:foo"]);
    assert_eq!(world.dylib.lookup("foo").expect("found").address.get(), 1);
    assert!(!asked.is_asked());
    let _told = world.look_for(SymbolState::Ready, &["bar"]);
    assert_eq!(asked.responsibility().symbols().len(), 1);
}

#[test]
fn a_unit_of_which_nothing_is_left_is_dropped() {
    let world = World::new();
    let (weak, asked) = unit(with_flags(&[("foo", STRONG | WEAK)]));
    world.dylib.define(weak).expect("defined");
    world.dylib.define_absolute([("foo", at(1))]).expect("it may");
    assert_eq!(Arc::strong_count(&asked.responsibility), 1);
}

#[test]
fn a_strong_definition_keeps_a_materializing_weak_one() {
    let world = World::new();
    let (weak, asked) = unit(with_flags(&[("foo", STRONG | WEAK)]));
    world.dylib.define(weak).expect("defined");
    let told = world.look_for(SymbolState::Ready, &["foo"]);
    let error = world.dylib.define_absolute([("foo", at(1))]).expect_err("too late");
    assert!(error.kind() == ErrorKind::DuplicateDefinition, "{error}");
    assert_eq!(error.symbols(), ["foo"]);
    assert!(told.is_nothing() && asked.discarded().is_empty());
}

#[test]
fn removing_names() {
    let world = World::new();
    let asked = world.define(&["foo", "bar"]);
    world.dylib.define_absolute([("ready", at(1))]).expect("defined");
    world.dylib.lookup("ready").expect("found");
    world.dylib.remove(["foo", "ready"]).expect("never searched, or ready");
    assert_eq!(asked.discarded(), ["main:foo"]);
    assert_eq!(world.dylib.state_of("ready"), None);
    let error = world.dylib.remove(["bar", "missing", "absent"]).expect_err("not there");
    assert!(error.kind() == ErrorKind::SymbolsNotFound, "{error}");
    assert_eq!(error.symbols(), ["absent", "missing"]);
    let _told = world.look_for(SymbolState::Ready, &["bar"]);
    let error = world.dylib.remove(["bar"]).expect_err("it is materializing");
    assert!(error.kind() == ErrorKind::SymbolsCouldNotBeRemoved, "{error}");
    assert_eq!(error.symbols(), ["bar"]);
    assert_eq!(world.dylib.state_of("bar"), Some(SymbolState::Materializing));
    // A failed symbol may be taken out.
    drop(asked.responsibility());
    world.dylib.remove(["bar"]).expect("it has failed");
}

#[test]
fn flags_have_llvms_numbers() {
    let flags = [
        (SymbolFlags::WEAK, 1),
        (SymbolFlags::COMMON, 2),
        (SymbolFlags::ABSOLUTE, 3),
        (SymbolFlags::EXPORTED, 4),
        (SymbolFlags::CALLABLE, 5),
        (SymbolFlags::SIDE_EFFECTS_ONLY, 6),
    ];
    for (flag, bit) in flags {
        assert_eq!(flag.bits(), 1 << bit);
        assert_eq!(SymbolFlags::from_bits(1 << bit), flag);
        assert_eq!(flag.is_strong(), bit > 2);
    }
    assert_eq!(
        SymbolFlags::from_bits(0b1000_0001),
        SymbolFlags::NONE,
        "failed symbols say so otherwise"
    );
}

#[test]
fn absolute_symbols() {
    let world = World::new();
    let number = flagged(7, STRONG | SymbolFlags::ABSOLUTE);
    world.dylib.define_absolute([("number", number), ("foo", at(1))]).expect("defined");
    assert_eq!(world.dylib.state_of("foo"), Some(SymbolState::NeverSearched));
    assert_eq!(world.dylib.lookup("number").expect("found"), number);
    assert_eq!(world.dylib.state_of("foo"), Some(SymbolState::Ready), "they come together");
}

#[test]
fn an_alias_has_its_aliasees_address_and_readiness() {
    let world = World::new();
    let asked = world.define(&["foo"]);
    world.dylib.define_aliases(aliases(&[("bar", "foo"), ("chained", "bar")])).expect("defined");
    let told = world.look_for(SymbolState::Ready, &["chained", "bar"]);
    let mut foo = asked.responsibility();
    foo.notify_resolved(&map(&[("foo", 5)])).expect("resolved");
    assert!(told.is_nothing());
    foo.notify_emitted(&[]).expect("emitted");
    let found = told.result().expect("found");
    assert_eq!((found["bar"].address, found["chained"].address), (at(5).address, at(5).address));
}

#[test]
fn an_alias_that_stands_for_itself_fails() {
    let world = World::new();
    world.dylib.define_aliases(aliases(&[("one", "two")])).expect("defined");
    world.dylib.define_aliases(aliases(&[("two", "three")])).expect("defined");
    world.dylib.define_aliases(aliases(&[("three", "one"), ("self", "self")])).expect("defined");
    for name in ["one", "self"] {
        let error = world.dylib.lookup(name).expect_err("a circle");
        assert!(error.kind() == ErrorKind::FailedToMaterialize, "{error}");
    }
    assert!(world.reported.lock().unwrap().iter().any(|error| error.contains("names itself")));
}

#[test]
fn an_alias_of_what_is_not_there_fails() {
    let world = World::new();
    world.dylib.define_aliases(aliases(&[("bar", "missing")])).expect("defined");
    let error = world.dylib.lookup("bar").expect_err("nothing there");
    assert!(error.kind() == ErrorKind::FailedToMaterialize, "{error}");
    assert!(error.to_string().contains("missing"), "{error}");
}

#[test]
fn reexports_have_other_dylibs_symbols_under_names_of_their_own() {
    let world = World::new();
    let other = world.another("other");
    let hidden = flagged(2, SymbolFlags::NONE);
    other.define_absolute([("foo", at(1)), ("hidden", hidden)]).expect("defined");
    world.dylib.define_reexports(&other, EXPORTED, aliases(&[("bar", "foo")])).expect("defined");
    world.dylib.define_reexports(&other, EXPORTED, aliases(&[("h", "hidden")])).expect("defined");
    world.dylib.define_reexports(&other, ALL, aliases(&[("all", "hidden")])).expect("defined");
    assert_eq!(world.dylib.lookup("bar").expect("found").address.get(), 1);
    assert_eq!(world.dylib.lookup("all").expect("found").address.get(), 2);
    assert!(world.dylib.lookup("h").is_err());
}
