//! The duties of a unit once it was asked.

use super::*;
use crate::error::ErrorKind;

#[test]
fn promised_symbols_are_resolved_before_they_are_emitted() {
    let world = World::new();
    let asked = world.define(&["foo", "bar"]);
    let told = world.look_for(SymbolState::Ready, &["foo"]);
    let mut both = asked.responsibility();
    both.notify_resolved(&map(&[("foo", 1)])).expect("some of them");
    let error = both.notify_emitted(&[]).expect_err("bar has no address");
    assert!(error.kind() == ErrorKind::MissingSymbolDefinitions, "{error}");
    assert_eq!(error.symbols(), ["bar"]);
    assert!(told.error().kind() == ErrorKind::FailedToMaterialize);
    assert_eq!(world.reported.lock().unwrap().len(), 1);
}

#[test]
fn symbols_that_were_not_promised_are_refused() {
    let world = World::new();
    let asked = world.define(&["foo"]);
    let told = world.look_for(SymbolState::Ready, &["foo"]);
    let mut foo = asked.responsibility();
    let error = foo.notify_resolved(&map(&[("foo", 1), ("more", 2)])).expect_err("more");
    assert!(error.kind() == ErrorKind::UnexpectedSymbolDefinitions, "{error}");
    assert_eq!(error.symbols(), ["more"]);
    assert_eq!(world.dylib.state_of("foo"), Some(SymbolState::Materializing));
    foo.notify_resolved(&map(&[("foo", 1)])).expect("it is still owed");
    let groups = [group(&["foo"], &world.dylib, &[]), group(&["foo"], &world.dylib, &[])];
    let error = foo.notify_emitted(&groups).expect_err("twice");
    assert!(error.kind() == ErrorKind::UnexpectedSymbolDefinitions, "{error}");
    assert!(told.error().kind() == ErrorKind::FailedToMaterialize);
}

#[test]
fn flags_have_to_be_those_promised_but_for_weak_and_common() {
    let world = World::new();
    let exported = SymbolFlags::EXPORTED;
    let (foo, asked) = unit(with_flags(&[("foo", exported | SymbolFlags::WEAK)]));
    world.dylib.define(foo).expect("defined");
    let _told = world.look_for(SymbolState::Ready, &["foo"]);
    let mut foo = asked.responsibility();
    let callable = Symbol { flags: exported | SymbolFlags::CALLABLE, ..at(1) };
    assert!(foo.notify_resolved(&[("foo".into(), callable)].into()).is_err());
    foo.notify_resolved(&[("foo".into(), at(1))].into()).expect("strong now");
    foo.notify_emitted(&[]).expect("emitted");
}

#[test]
fn dropping_a_responsibility_fails_it() {
    let world = World::new();
    let asked = world.define(&["foo"]);
    let told = world.look_for(SymbolState::Ready, &["foo"]);
    drop(asked.responsibility());
    let error = told.error();
    assert!(error.kind() == ErrorKind::FailedToMaterialize, "{error}");
    assert_eq!(world.reported.lock().unwrap().len(), 1);
}

#[test]
fn a_symbol_is_ready_when_all_that_it_reaches_is_emitted() {
    let world = World::new();
    let (a, b, c) = (world.define(&["a"]), world.define(&["b"]), world.define(&["c"]));
    let told = world.look_for(SymbolState::Ready, &["a"]);
    let mut a = a.responsibility();
    a.notify_resolved(&map(&[("a", 1)])).expect("resolved");
    a.notify_emitted(&[group(&["a"], &world.dylib, &["b"])]).expect("emitted");
    assert_eq!(world.dylib.state_of("a"), Some(SymbolState::Emitted));
    // Its dependencies are started, if no lookup has asked for them.
    let mut b = b.responsibility();
    b.notify_resolved(&map(&[("b", 2)])).expect("resolved");
    b.notify_emitted(&[group(&["b"], &world.dylib, &["a", "c"])]).expect("emitted");
    assert!(told.is_nothing());
    let mut c = c.responsibility();
    c.notify_resolved(&map(&[("c", 3)])).expect("resolved");
    assert!(told.is_nothing());
    c.notify_emitted(&[]).expect("emitted");
    assert_eq!(told.address("a"), 1);
    assert_eq!(world.dylib.state_of("b"), Some(SymbolState::Ready));
}

#[test]
fn names_in_no_group_depend_on_nothing() {
    let world = World::new();
    let both = world.define(&["foo", "bar"]);
    let _other = world.define(&["other"]);
    let bar = world.look_for(SymbolState::Ready, &["bar"]);
    let foo = world.look_for(SymbolState::Ready, &["foo"]);
    let mut both = both.responsibility();
    both.notify_resolved(&map(&[("foo", 1), ("bar", 2)])).expect("resolved");
    both.notify_emitted(&[group(&["foo"], &world.dylib, &["other"])]).expect("emitted");
    assert_eq!(bar.address("bar"), 2);
    assert!(foo.is_nothing());
}

#[test]
fn failure_takes_along_everything_that_waits_for_it() {
    let world = World::new();
    let other = world.another("other");
    let foo = world.define(&["foo"]);
    let (unit, bar) = unit(Interface::exporting(["bar"]));
    other.define(unit).expect("defined");
    let told = world.look_for(SymbolState::Ready, &["foo"]);
    let mut foo = foo.responsibility();
    foo.notify_resolved(&map(&[("foo", 1)])).expect("resolved");
    foo.notify_emitted(&[group(&["foo"], &other, &["bar"])]).expect("emitted");
    bar.responsibility().fail(Error::invalid("no"));
    let error = told.error();
    assert!(error.kind() == ErrorKind::FailedToMaterialize, "{error}");
    assert_eq!(error.symbols(), ["bar", "foo"]);
    assert!(error.to_string().contains("foo in main; bar in other (no)"), "{error}");
}

#[test]
fn dependants_of_failed_or_removed_symbols_fail() {
    let world = World::new();
    let failed = world.define(&["failed"]);
    let _told = world.look_for(SymbolState::Ready, &["failed"]);
    drop(failed.responsibility());
    for on in ["failed", "gone"] {
        let name = format!("depends on {on}");
        let asked = world.define(&[&name]);
        let told = world.look_for(SymbolState::Ready, &[&name]);
        let mut one = asked.responsibility();
        one.notify_resolved(&map(&[(&name, 1)])).expect("resolved");
        let emitted = one.notify_emitted(&[group(&[&name], &world.dylib, &[on])]);
        let error = emitted.expect_err("its dependency has failed");
        assert!(error.kind() == ErrorKind::UnsatisfiedSymbolDependencies, "{error}");
        assert_eq!(error.symbols(), [name]);
        let error = told.error();
        assert!(error.kind() == ErrorKind::FailedToMaterialize, "{error}");
    }
}

#[test]
fn an_emission_says_which_of_its_symbols_have_failed() {
    let world = World::new();
    let (good, bad) = (world.define(&["good"]), world.define(&["bad"]));
    let both = world.define(&["one", "other"]);
    let told =
        ["good", "bad", "one", "other"].map(|name| world.look_for(SymbolState::Ready, &[name]));
    drop(bad.responsibility());
    let reported = world.reported.lock().unwrap().len();
    let mut both = both.responsibility();
    both.notify_resolved(&map(&[("one", 1), ("other", 2)])).expect("resolved");
    let groups =
        [group(&["one"], &world.dylib, &["good"]), group(&["other"], &world.dylib, &["bad"])];
    let error = both.notify_emitted(&groups).expect_err("one of them");
    assert_eq!(error.symbols(), ["other"]);
    assert_eq!(world.reported.lock().unwrap().len(), reported, "it was told when bad failed");
    let mut good = good.responsibility();
    good.notify_resolved(&map(&[("good", 3)])).expect("resolved");
    good.notify_emitted(&[]).expect("emitted");
    assert_eq!((told[0].address("good"), told[2].address("one")), (3, 1));
    assert!(
        told[1].error().kind() == ErrorKind::FailedToMaterialize
            && told[3].error().kind() == ErrorKind::FailedToMaterialize
    );
}

#[test]
fn names_can_be_claimed_later() {
    let world = World::new();
    let asked = world.define(&["foo"]);
    let (weak, _asked) = unit(with_flags(&[("weak", SymbolFlags::EXPORTED)]));
    world.dylib.define(weak).expect("defined");
    let told = world.look_for(SymbolState::Ready, &["foo"]);
    let mut foo = asked.responsibility();
    let weak = SymbolFlags::EXPORTED | SymbolFlags::WEAK;
    let symbols = with_flags(&[("new", SymbolFlags::EXPORTED), ("weak", weak)]).symbols;
    let claimed = foo.define_materializing(symbols).expect("no strong duplicate");
    assert_eq!(claimed, names(&["new"]), "a weak loser is not claimed");
    let new = world.look_for(SymbolState::Ready, &["new"]);
    let error = foo.define_materializing(Interface::exporting(["weak", "newer"]).symbols);
    let error = error.expect_err("a duplicate");
    assert!(error.kind() == ErrorKind::DuplicateDefinition, "{error}");
    assert_eq!(error.symbols(), ["weak"]);
    assert_eq!(world.dylib.state_of("newer"), None);
    foo.notify_resolved(&map(&[("foo", 1), ("new", 2)])).expect("resolved");
    foo.notify_emitted(&[]).expect("emitted");
    assert_eq!((told.address("foo"), new.address("new")), (1, 2));
}

#[test]
fn nothing_can_be_claimed_for_a_tracker_that_is_defunct() {
    let world = World::new();
    let asked = world.define(&["foo"]);
    let _told = world.look_for(SymbolState::Ready, &["foo"]);
    let mut foo = asked.responsibility();
    world.dylib.clear().expect("cleared");
    let error = foo.define_materializing(Interface::exporting(["new"]).symbols).expect_err("gone");
    assert!(error.kind() == ErrorKind::TrackerDefunct, "{error}");
    assert_eq!(world.dylib.state_of("new"), None);
}

#[test]
fn a_defunct_tracker_takes_nothing_back_and_splits_nothing_off() {
    let world = World::new();
    let asked = world.define(&["foo", "bar"]);
    let _told = world.look_for(SymbolState::Ready, &["foo"]);
    let mut both = asked.responsibility();
    world.dylib.clear().expect("cleared");
    let (rest, rest_asked) = unit(Interface::exporting(["bar"]));
    assert!(both.replace(rest).expect_err("gone").kind() == ErrorKind::TrackerDefunct);
    assert_eq!(Arc::strong_count(&rest_asked.responsibility), 1, "its unit was dropped");
    assert!(both.delegate(["bar"]).expect_err("gone").kind() == ErrorKind::TrackerDefunct);
    assert!(both.requested_symbols().is_empty());
    let error = both.notify_emitted(&[]).expect_err("gone");
    assert!(error.kind() == ErrorKind::TrackerDefunct, "{error}");
    assert_eq!(world.dylib.state_of("bar"), None);
}

#[test]
fn a_replaced_unit_is_asked_for_again_at_a_lookup() {
    let world = World::new();
    let asked = world.define(&["foo", "bar"]);
    let told = world.look_for(SymbolState::Ready, &["foo"]);
    let mut both = asked.responsibility();
    assert_eq!(both.requested_symbols(), ["foo".into()].into());
    let (rest, rest_asked) = unit(Interface::exporting(["bar"]));
    both.replace(rest).expect("replaced");
    assert_eq!(world.dylib.state_of("bar"), Some(SymbolState::NeverSearched));
    both.notify_resolved(&map(&[("foo", 1)])).expect("resolved");
    both.notify_emitted(&[]).expect("bar is not owed any more");
    assert_eq!(told.address("foo"), 1);
    assert!(!rest_asked.is_asked());
    let told = world.look_for(SymbolState::Ready, &["bar"]);
    let mut bar = rest_asked.responsibility();
    bar.notify_resolved(&map(&[("bar", 2)])).expect("resolved");
    bar.notify_emitted(&[]).expect("emitted");
    assert_eq!(told.address("bar"), 2);
}

#[test]
fn a_unit_replaced_during_a_lookup_is_asked_for_at_once() {
    let world = World::new();
    let asked = world.define(&["foo"]);
    let told = world.look_for(SymbolState::Ready, &["foo"]);
    let mut foo = asked.responsibility();
    let (again, again_asked) = unit(Interface::exporting(["foo"]));
    foo.replace(again).expect("replaced");
    drop(foo);
    assert!(told.is_nothing(), "it owes nothing any more");
    let mut foo = again_asked.responsibility();
    foo.notify_resolved(&map(&[("foo", 1)])).expect("resolved");
    let (late, _asked) = unit(Interface::exporting(["foo"]));
    assert!(foo.replace(late).is_err(), "it has an address");
    foo.notify_emitted(&[]).expect("emitted");
    assert_eq!(told.address("foo"), 1);
    assert!(world.reported.lock().unwrap().is_empty());
}

#[test]
fn names_can_be_delegated() {
    let world = World::new();
    let asked = world.define(&["foo", "bar"]);
    let (foo, bar) = (
        world.look_for(SymbolState::Ready, &["foo"]),
        world.look_for(SymbolState::Ready, &["bar"]),
    );
    let mut rest = asked.responsibility();
    assert!(
        rest.delegate(["other"]).expect_err("not owed").kind()
            == ErrorKind::UnexpectedSymbolDefinitions
    );
    let mut part = rest.delegate(["bar"]).expect("delegated");
    drop(rest);
    assert!(foo.error().kind() == ErrorKind::FailedToMaterialize);
    assert!(bar.is_nothing());
    part.notify_resolved(&map(&[("bar", 2)])).expect("resolved");
    part.notify_emitted(&[]).expect("emitted");
    assert_eq!(bar.address("bar"), 2);
}

#[test]
fn the_initializer_goes_with_its_name() {
    let world = World::new();
    let mut interface =
        with_flags(&[("init", SymbolFlags::SIDE_EFFECTS_ONLY), ("foo", SymbolFlags::EXPORTED)]);
    interface.initializer = Some("init".into());
    let (unit, asked) = unit(interface);
    world.dylib.define(unit).expect("defined");
    let _told = world.look_for(SymbolState::Ready, &["foo"]);
    let mut both = asked.responsibility();
    assert_eq!(both.initializer().map(|name| &**name), Some("init"));
    let part = both.delegate(["init"]).expect("delegated");
    assert_eq!((both.initializer(), part.initializer().is_some()), (None, true));
}
