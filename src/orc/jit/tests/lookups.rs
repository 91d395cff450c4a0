//! Lookups: order, flags, states, and the errors of those that fail.

use std::sync::Barrier;

use super::*;
use crate::error::ErrorKind;

#[test]
fn basic_successful_lookup() {
    let world = World::new();
    let asked = world.define(&["foo"]);
    assert_eq!(world.dylib.state_of("foo"), Some(SymbolState::NeverSearched));
    let resolved = world.look_for(SymbolState::Resolved, &["foo"]);
    let ready = world.look_for(SymbolState::Ready, &["foo"]);
    assert_eq!(world.dylib.state_of("foo"), Some(SymbolState::Materializing));
    let mut foo = asked.responsibility();
    assert!(resolved.is_nothing() && ready.is_nothing());
    foo.notify_resolved(&map(&[("foo", 1)])).expect("resolved");
    assert_eq!(world.dylib.state_of("foo"), Some(SymbolState::Resolved));
    assert_eq!(resolved.address("foo"), 1);
    assert!(ready.is_nothing());
    foo.notify_emitted(&[]).expect("emitted");
    assert_eq!(world.dylib.state_of("foo"), Some(SymbolState::Ready));
    assert_eq!(ready.address("foo"), 1);
}

#[test]
fn a_unit_is_asked_once_for_all_of_its_names() {
    let world = World::new();
    let asked = world.define(&["foo", "bar"]);
    let _first = world.look_for(SymbolState::Ready, &["foo"]);
    let mut both = asked.responsibility();
    let second = world.look_for(SymbolState::Ready, &["bar"]);
    assert!(!asked.is_asked());
    both.notify_resolved(&map(&[("foo", 1), ("bar", 2)])).expect("resolved");
    both.notify_emitted(&[]).expect("emitted");
    assert_eq!(second.address("bar"), 2);
}

#[test]
fn missing_required_names_are_all_named_and_no_unit_is_asked() {
    let world = World::new();
    let asked = world.define(&["foo"]);
    let error = world.look_for(SymbolState::Ready, &["no", "foo", "nor this", "no"]).error();
    assert!(error.kind() == ErrorKind::SymbolsNotFound, "{error}");
    assert_eq!(error.symbols(), ["no", "nor this"]);
    assert!(!asked.is_asked());
    assert_eq!(world.dylib.state_of("foo"), Some(SymbolState::NeverSearched));
}

#[test]
fn weakly_referenced_names_that_are_missing_are_absent() {
    let world = World::new();
    world.dylib.define_absolute([("foo", at(1))]).expect("defined");
    let weak = SymbolLookupFlags::WeaklyReferenced;
    let names = vec![("foo".into(), weak), ("missing".into(), weak)];
    let order = vec![(world.dylib.clone(), ALL)];
    let found = world.session.lookup(LookupKind::Static, order, names, SymbolState::Ready);
    assert_eq!(found.expect("no error"), [("foo".into(), at(1))].into());
}

#[test]
fn the_first_dylib_of_the_order_that_has_a_name_counts() {
    let world = World::new();
    let other = world.another("other");
    world.dylib.define_absolute([("both", at(1))]).expect("defined");
    other.define_absolute([("both", at(2)), ("only", at(3))]).expect("defined");
    let order = vec![(other.clone(), ALL), (world.dylib.clone(), ALL)];
    assert_eq!(world.look_in(order, SymbolState::Ready, &["both"]).address("both"), 2);
    let order = vec![(world.dylib.clone(), ALL), (other, ALL)];
    assert_eq!(world.look_in(order.clone(), SymbolState::Ready, &["both"]).address("both"), 1);
    assert_eq!(world.look_in(order, SymbolState::Ready, &["only"]).address("only"), 3);
}

#[test]
fn symbols_that_are_not_exported_match_only_with_match_all() {
    let world = World::new();
    let other = world.another("other");
    let hidden = Symbol { flags: SymbolFlags::NONE, ..at(1) };
    world.dylib.define_absolute([("foo", hidden)]).expect("defined");
    other.define_absolute([("foo", at(2))]).expect("defined");
    let look = |flags| {
        let order = vec![(world.dylib.clone(), flags), (other.clone(), EXPORTED)];
        world.look_in(order, SymbolState::Ready, &["foo"]).address("foo")
    };
    assert_eq!((look(ALL), look(EXPORTED)), (1, 2));
    let order = vec![(world.dylib.clone(), EXPORTED)];
    let error = world.look_in(order, SymbolState::Ready, &["foo"]).error();
    assert_eq!(error.symbols(), ["foo"]);
}

#[test]
fn a_dylib_links_to_itself_first_with_all_its_symbols() {
    let world = World::new();
    let other = world.another("other");
    let hidden = Symbol { flags: SymbolFlags::NONE, ..at(1) };
    world.dylib.define_absolute([("foo", hidden)]).expect("defined");
    other.define_absolute([("foo", at(2)), ("bar", at(3)), ("hid", hidden)]).expect("defined");
    assert_eq!(world.dylib.link_order().expect("it lives"), [(world.dylib.clone(), ALL)]);
    assert!(world.dylib.lookup("bar").expect_err("not there").kind() == ErrorKind::SymbolsNotFound);
    world.dylib.set_link_order(&[(other.clone(), EXPORTED)]).expect("set");
    assert_eq!(world.dylib.lookup("foo").expect("found").address.get(), 1);
    assert_eq!(world.dylib.lookup("bar").expect("found").address.get(), 3);
    assert!(world.dylib.lookup("hid").is_err());
    let own_last = [(other.clone(), EXPORTED), (world.dylib.clone(), EXPORTED)];
    world.dylib.set_link_order(&own_last).expect("set");
    assert_eq!(world.dylib.link_order().expect("it lives").len(), 3);
    world.session.remove_dylib(&other).expect("removed");
    assert_eq!(world.dylib.link_order().expect("it lives").len(), 2);
    assert!(
        world.dylib.set_link_order(&[(other, ALL)]).expect_err("gone").kind()
            == ErrorKind::DylibDefunct
    );
}

#[test]
fn side_effects_only_symbols_run_their_unit_without_result() {
    let world = World::new();
    let (init, asked) = unit(with_flags(&[("init", SymbolFlags::SIDE_EFFECTS_ONLY)]));
    world.dylib.define(init).expect("defined");
    let error = world.look_for(SymbolState::Ready, &["init"]).error();
    assert_eq!(error.symbols(), ["init"], "a required one is nowhere");
    assert!(!asked.is_asked());
    let told = Told::default();
    let noted = told.clone();
    let names = vec![("init".into(), SymbolLookupFlags::WeaklyReferenced)];
    let order = vec![(world.dylib.clone(), ALL)];
    let callback = move |found| noted.0.lock().unwrap().push(found);
    world.session.lookup_async(LookupKind::Static, order, names, SymbolState::Ready, callback);
    asked.responsibility().notify_emitted(&[]).expect("it needs no address");
    assert!(told.result().expect("it ran").is_empty());
}

#[test]
fn lookups_of_flags_ask_no_unit() {
    let world = World::new();
    let asked = world.define(&["foo"]);
    let order = vec![(world.dylib.clone(), ALL)];
    let names = ["foo", "missing"].map(|name| (name.into(), SymbolLookupFlags::Required)).into();
    let told = Arc::new(Mutex::new(None));
    let noted = Arc::clone(&told);
    let callback = move |flags| *noted.lock().unwrap() = Some(flags);
    world.session.lookup_flags_async(LookupKind::Static, order, names, callback);
    let flags = told.lock().unwrap().take().expect("told").expect("no error");
    assert_eq!(flags, [("foo".into(), SymbolFlags::EXPORTED)].into());
    assert!(!asked.is_asked());
}

#[test]
fn a_lookup_waits_for_all_of_its_names() {
    let world = World::new();
    let (foo, bar) = (world.define(&["foo"]), world.define(&["bar"]));
    let told = world.look_for(SymbolState::Ready, &["foo", "bar"]);
    for (asked, name, address) in [(foo, "foo", 1), (bar, "bar", 2)] {
        assert!(told.is_nothing());
        let mut one = asked.responsibility();
        one.notify_resolved(&map(&[(name, address)])).expect("resolved");
        one.notify_emitted(&[]).expect("emitted");
    }
    assert_eq!(told.result().expect("found").len(), 2);
}

#[test]
fn a_lookup_of_nothing_completes() {
    let world = World::new();
    assert!(world.look_for(SymbolState::Ready, &[]).result().expect("no error").is_empty());
}

#[test]
fn lookups_of_what_has_failed_fail_and_the_symbol_stays() {
    let world = World::new();
    let asked = world.define(&["foo", "bar"]);
    let first = world.look_for(SymbolState::Resolved, &["foo"]);
    asked.responsibility().fail(Error::invalid("it does not compile"));
    for told in [first, world.look_for(SymbolState::Ready, &["bar"])] {
        let error = told.error();
        assert!(error.kind() == ErrorKind::FailedToMaterialize, "{error}");
        assert!(error.to_string().contains("it does not compile"), "{error}");
        assert!(error.to_string().contains("main"), "{error}");
        assert!(error.symbols().iter().any(|name| name == "bar"));
    }
    assert!(world.dylib.state_of("foo").is_some());
    assert!(
        world.dylib.define_absolute([("foo", at(1))]).expect_err("there").kind()
            == ErrorKind::DuplicateDefinition
    );
}

#[test]
fn dylibs_of_other_sessions_are_refused() {
    let (world, other) = (World::new(), World::new());
    let order = vec![(other.dylib.clone(), ALL)];
    let error = world.look_in(order, SymbolState::Ready, &["foo"]).error();
    assert!(error.kind() == ErrorKind::InvalidArgument, "{error}");
}

#[test]
fn a_blocking_lookup_waits_for_another_thread() {
    let world = World::new();
    let asked = world.define(&["foo"]);
    let _started = world.look_for(SymbolState::Resolved, &["foo"]);
    let mut foo = asked.responsibility();
    let barrier = Barrier::new(2);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            barrier.wait();
            foo.notify_resolved(&map(&[("foo", 1)])).expect("resolved");
            foo.notify_emitted(&[]).expect("emitted");
        });
        barrier.wait();
        assert_eq!(world.dylib.lookup("foo").expect("found").address.get(), 1);
    });
}

/// A thread that runs the tasks cannot wait for one.
#[test]
fn a_blocking_lookup_in_a_task_is_refused_rather_than_hanging() {
    let world = World::new();
    world.define(&["never"]);
    world.dylib.define_absolute([("known", at(1))]).expect("defined");
    world.dylib.lookup("known").expect("found");
    let dylib = world.dylib.clone();
    let foo = Lazily::new("foo", Interface::exporting(["foo"]), move |responsibility| {
        assert_eq!(dylib.lookup("known").expect("it is ready").address.get(), 1);
        responsibility.fail(dylib.lookup("never").expect_err("it cannot come"));
    });
    world.dylib.define(foo).expect("defined");
    let error = world.dylib.lookup("foo").expect_err("failed");
    assert!(error.to_string().contains("lookup_async"), "{error}");
}

/// Each unit looks for the next one when it is asked: nothing recurses over that.
#[test]
fn a_chain_of_units_of_any_length() {
    const LENGTH: u64 = 20_000;
    let world = World::new();
    for number in 0..LENGTH {
        let (dylib, name) = (world.dylib.clone(), format!("f{number}"));
        let own = name.clone();
        let work = move |mut responsibility: MaterializationResponsibility| {
            if number + 1 == LENGTH {
                responsibility.notify_resolved(&map(&[(&own, number)])).expect("resolved");
                return responsibility.notify_emitted(&[]).expect("emitted");
            }
            let next = format!("f{}", number + 1);
            let session = responsibility.session();
            let order = vec![(dylib.clone(), ALL)];
            let names = vec![(next.as_str().into(), SymbolLookupFlags::Required)];
            let callback = move |found: Result<SymbolMap>| {
                assert_eq!(found.expect("found")[&*next].address.get(), number + 1);
                responsibility.notify_resolved(&map(&[(&own, number)])).expect("resolved");
                let groups = [group(&[&own], &dylib, &[&next])];
                responsibility.notify_emitted(&groups).expect("emitted");
            };
            session.lookup_async(LookupKind::Static, order, names, SymbolState::Resolved, callback);
        };
        let unit = Lazily::new(name.clone(), Interface::exporting([name]), work);
        world.dylib.define(unit).expect("defined");
    }
    assert_eq!(world.dylib.lookup("f0").expect("found").address.get(), 0);
}
