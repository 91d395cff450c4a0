//! Symbols that are removed together.

use super::*;
use crate::error::ErrorKind;

/// Records its calls.
struct Noting {
    name: &'static str,
    log: Arc<Mutex<Vec<String>>>,
    fails: bool,
    /// The lookup whose result it checks when it is called.
    session: Option<JITDylib>,
}

impl ResourceManager for Noting {
    fn remove_resources(&self, dylib: &JITDylib, key: ResourceKey) -> Result<()> {
        // Outside of the lock, or this would hang.
        let there = self.session.as_ref().map(|dylib| dylib.state_of("foo"));
        let line = format!("{} remove {} {} {there:?}", self.name, dylib.name(), key.get());
        self.log.lock().unwrap().push(line);
        if self.fails { Err(Error::invalid(format!("{} is stuck", self.name))) } else { Ok(()) }
    }

    fn transfer_resources(&self, dylib: &JITDylib, to: ResourceKey, from: ResourceKey) {
        let line = format!("{} {} {} to {}", self.name, dylib.name(), from.get(), to.get());
        self.log.lock().unwrap().push(line);
    }
}

struct Noted {
    world: World,
    log: Arc<Mutex<Vec<String>>>,
}

impl Noted {
    fn new(fails: bool) -> Self {
        let (world, log) = (World::new(), Arc::new(Mutex::new(Vec::new())));
        for name in ["first", "second"] {
            let log = Arc::clone(&log);
            let session = (name == "first").then(|| world.dylib.clone());
            let manager = Arc::new(Noting { name, log, fails, session });
            world.session.register_resource_manager(manager);
        }
        Self { world, log }
    }

    fn log(&self) -> Vec<String> {
        std::mem::take(&mut self.log.lock().unwrap())
    }
}

#[test]
fn removal_calls_managers_in_reverse_order_without_the_lock() {
    let Noted { world, log } = &Noted::new(false);
    let tracker = world.dylib.create_tracker().expect("a tracker");
    let (foo, asked) = unit(Interface::exporting(["foo"]));
    world.dylib.define_with(&tracker, foo).expect("defined");
    world.dylib.define_absolute([("stays", at(1))]).expect("defined");
    tracker.remove().expect("removed");
    let key = tracker.key().get();
    let lines =
        [format!("second remove main {key} None"), format!("first remove main {key} Some(None)")];
    assert_eq!(*log.lock().unwrap(), lines);
    assert_eq!(Arc::strong_count(&asked.responsibility), 1, "its unit was dropped");
    assert_eq!(world.dylib.state_of("foo"), None);
    assert!(world.dylib.lookup("stays").is_ok());
    tracker.remove().expect("the second time nothing happens");
    assert_eq!(log.lock().unwrap().len(), 2);
    assert!(tracker.is_defunct());
}

/// Records the results of a lookup at each release of resources.
struct Looking {
    told: Told,
    was_nothing: Mutex<Vec<bool>>,
}

impl ResourceManager for Looking {
    fn remove_resources(&self, _: &JITDylib, _: ResourceKey) -> Result<()> {
        self.was_nothing.lock().unwrap().push(self.told.is_nothing());
        Ok(())
    }

    fn transfer_resources(&self, _: &JITDylib, _: ResourceKey, _: ResourceKey) {}
}

#[test]
fn lookups_that_wait_fail_after_the_managers_were_told() {
    let world = World::new();
    let _asked = world.define(&["foo"]);
    let told = world.look_for(SymbolState::Ready, &["foo"]);
    let looking = Arc::new(Looking { told: told.clone(), was_nothing: Mutex::default() });
    world.session.register_resource_manager(Arc::clone(&looking) as Arc<dyn ResourceManager>);
    world.dylib.clear().expect("cleared");
    assert_eq!(*looking.was_nothing.lock().unwrap(), [true]);
    assert!(told.error().kind() == ErrorKind::FailedToMaterialize);
}

#[test]
fn keys_are_never_used_again() {
    let world = World::new();
    let mut keys = Vec::new();
    for _ in 0..100 {
        let tracker = world.dylib.create_tracker().expect("a tracker");
        keys.push(tracker.key());
        if keys.len() % 2 == 0 {
            tracker.remove().expect("removed");
        }
    }
    keys.push(world.dylib.default_tracker().expect("a tracker").key());
    keys.sort_unstable();
    keys.dedup();
    assert_eq!(keys.len(), 101);
}

/// Code that runs while the session's lock is held.
const UNDER_THE_LOCK: [&str; 3] = ["discard", "transfer", "key"];

/// Says whether the session's lock is held, as it should be or not: another thread cannot look at a symbol then.
fn is_locked(dylib: &JITDylib, is_due: bool) -> bool {
    let (done, looked) = std::sync::mpsc::channel();
    let dylib = dylib.clone();
    std::thread::spawn(move || {
        let state = dylib.state_of("foo");
        let _ = done.send(state);
    });
    // A thread that must wait for the lock cannot be early; a thread that need not has time enough.
    let timeout = std::time::Duration::from_millis(if is_due { 200 } else { 20_000 });
    looked.recv_timeout(timeout).is_err()
}

/// Notes under which of its calls the lock is held.
struct Locked {
    dylib: JITDylib,
    log: Arc<Mutex<Vec<(&'static str, bool)>>>,
}

impl Locked {
    fn note(&self, what: &'static str) {
        let is_locked = is_locked(&self.dylib, UNDER_THE_LOCK.contains(&what));
        self.log.lock().unwrap().push((what, is_locked));
    }
}

impl ResourceManager for Locked {
    fn remove_resources(&self, _: &JITDylib, _: ResourceKey) -> Result<()> {
        self.note("remove");
        Ok(())
    }

    fn transfer_resources(&self, _: &JITDylib, _: ResourceKey, _: ResourceKey) {
        self.note("transfer");
    }
}

impl MaterializationUnit for Locked {
    fn name(&self) -> &str {
        "locked"
    }

    fn interface(&self) -> Interface {
        with_flags(&[("foo", SymbolFlags::EXPORTED | SymbolFlags::WEAK)])
    }

    fn materialize(self: Box<Self>, _: MaterializationResponsibility) {}

    fn discard(&mut self, _: &str, _: &str) {
        self.note("discard");
    }
}

#[test]
fn only_code_that_takes_note_runs_under_the_lock() {
    let world = World::new();
    let log = Arc::new(Mutex::new(Vec::new()));
    let locked = || Locked { dylib: world.dylib.clone(), log: Arc::clone(&log) };
    world.session.register_resource_manager(Arc::new(locked()));
    world.dylib.define(locked()).expect("defined");
    world.dylib.define_absolute([("foo", at(1))]).expect("it may");
    let [from, to] = [(); 2].map(|()| world.dylib.create_tracker().expect("a tracker"));
    from.transfer_to(&to).expect("emptied");
    let noted = locked();
    to.with_resource_key(|_| noted.note("key")).expect("it lives");
    to.remove().expect("removed");
    let asked = locked();
    let own = Lazily::new("own", Interface::exporting(["own"]), move |mut responsibility| {
        asked.note("unit");
        responsibility.with_resource_key(|_| asked.note("key")).expect("it lives");
        responsibility.notify_resolved(&map(&[("own", 1)])).expect("resolved");
        responsibility.notify_emitted(&[]).expect("emitted");
    });
    world.dylib.define(own).expect("defined");
    let generator = locked();
    let missing = move |_: &JITDylib, _: LookupKind, _: &[(Arc<str>, SymbolLookupFlags)]| {
        generator.note("generator");
        Ok(())
    };
    world.dylib.add_generator(missing).expect("added");
    let callback = locked();
    let order = vec![(world.dylib.clone(), ALL)];
    let names = ["own", "missing"].map(|name| (name.into(), SymbolLookupFlags::WeaklyReferenced));
    let told = move |found: Result<SymbolMap>| {
        assert_eq!(found.expect("found").len(), 1);
        callback.note("callback");
    };
    world.session.lookup_async(LookupKind::Static, order, names.into(), SymbolState::Ready, told);
    let due = [
        ("discard", true),
        ("transfer", true),
        ("key", true),
        ("remove", false),
        ("generator", false),
        ("unit", false),
        ("key", true),
        ("callback", false),
    ];
    assert_eq!(*log.lock().unwrap(), due);
}

#[test]
fn errors_of_managers_are_joined_and_all_are_told() {
    let noted = Noted::new(true);
    let error = noted.world.dylib.create_tracker().expect("a tracker").remove();
    let error = error.expect_err("both are stuck").to_string();
    assert_eq!(error, "second is stuck; first is stuck");
    assert_eq!(noted.log().len(), 2);
}

#[test]
fn removal_fails_lookups_that_wait_and_what_depends_on_it() {
    let world = World::new();
    let tracker = world.dylib.create_tracker().expect("a tracker");
    let (foo, foo_asked) = unit(Interface::exporting(["foo"]));
    world.dylib.define_with(&tracker, foo).expect("defined");
    let bar = world.define(&["bar"]);
    let told = [["foo"], ["bar"]].map(|names| world.look_for(SymbolState::Ready, &names));
    let mut bar = bar.responsibility();
    bar.notify_resolved(&map(&[("bar", 1)])).expect("resolved");
    bar.notify_emitted(&[group(&["bar"], &world.dylib, &["foo"])]).expect("emitted");
    tracker.remove().expect("removed");
    for told in told {
        let error = told.error();
        assert!(error.kind() == ErrorKind::FailedToMaterialize, "{error}");
    }
    // It comes back, and owes nothing any more.
    let mut foo = foo_asked.responsibility();
    let error = foo.notify_resolved(&map(&[("foo", 2)])).expect_err("gone");
    assert!(error.kind() == ErrorKind::TrackerDefunct, "{error}");
    foo.fail(error);
    assert_eq!(world.reported.lock().unwrap().len(), 1);
    assert_eq!(world.dylib.state_of("foo"), None);
    assert!(
        world.look_for(SymbolState::Ready, &["bar"]).error().kind()
            == ErrorKind::FailedToMaterialize
    );
}

#[test]
fn a_ready_symbol_stays_ready_without_its_dependencies() {
    let world = World::new();
    let tracker = world.dylib.create_tracker().expect("a tracker");
    let (foo, foo_asked) = unit(Interface::exporting(["foo"]));
    world.dylib.define_with(&tracker, foo).expect("defined");
    let bar_asked = world.define(&["bar"]);
    let told = world.look_for(SymbolState::Ready, &["foo", "bar"]);
    let (mut foo, mut bar) = (foo_asked.responsibility(), bar_asked.responsibility());
    foo.notify_resolved(&map(&[("foo", 1)])).expect("resolved");
    bar.notify_resolved(&map(&[("bar", 2)])).expect("resolved");
    foo.notify_emitted(&[]).expect("emitted");
    bar.notify_emitted(&[group(&["bar"], &world.dylib, &["foo"])]).expect("emitted");
    assert_eq!(told.result().expect("found").len(), 2);
    tracker.remove().expect("removed");
    assert_eq!(world.dylib.state_of("foo"), None);
    assert_eq!(world.dylib.lookup("bar").expect("found").address.get(), 2);
    world.dylib.define_absolute([("foo", at(3))]).expect("the name is free again");
    assert_eq!(world.dylib.lookup("foo").expect("found").address.get(), 3);
}

#[test]
fn a_tracker_can_be_emptied_into_another_one() {
    let noted = Noted::new(false);
    let dylib = &noted.world.dylib;
    let [from, to] = [(); 2].map(|()| dylib.create_tracker().expect("a tracker"));
    let (waiting, waiting_asked) = unit(Interface::exporting(["waiting"]));
    let (working, working_asked) = unit(Interface::exporting(["working"]));
    dylib.define_with(&from, waiting).expect("defined");
    dylib.define_with(&from, working).expect("defined");
    let told = noted.world.look_for(SymbolState::Ready, &["working"]);
    from.transfer_to(&from).expect("into itself nothing happens");
    assert!(!from.is_defunct() && noted.log().is_empty());
    from.transfer_to(&to).expect("emptied");
    let numbers = format!("main {} to {}", from.key().get(), to.key().get());
    assert_eq!(noted.log(), [format!("second {numbers}"), format!("first {numbers}")]);
    assert!(from.is_defunct());
    assert!(from.transfer_to(&to).expect_err("again").kind() == ErrorKind::TrackerDefunct);
    let (late, _late) = unit(Interface::exporting(["late"]));
    assert!(dylib.define_with(&from, late).expect_err("gone").kind() == ErrorKind::TrackerDefunct);
    from.remove().expect("nothing is left to remove");
    // The units at work have moved as well.
    let mut working = working_asked.responsibility();
    assert_eq!(working.with_resource_key(|key| key).expect("it lives"), to.key());
    working.notify_resolved(&map(&[("working", 1)])).expect("resolved");
    assert!(told.is_nothing());
    to.remove().expect("removed");
    assert!(told.error().kind() == ErrorKind::FailedToMaterialize);
    assert_eq!(Arc::strong_count(&waiting_asked.responsibility), 1, "its unit was dropped");
    let error = working.notify_emitted(&[]).expect_err("gone");
    assert!(error.kind() == ErrorKind::TrackerDefunct, "{error}");
}

#[test]
fn trackers_of_different_dylibs_do_not_mix() {
    let world = World::new();
    let other = world.another("other").create_tracker().expect("a tracker");
    let own = world.dylib.create_tracker().expect("a tracker");
    assert!(
        own.transfer_to(&other).expect_err("another dylib's").kind() == ErrorKind::InvalidArgument
    );
    let (foo, _asked) = unit(Interface::exporting(["foo"]));
    assert!(
        world.dylib.define_with(&other, foo).expect_err("as well").kind()
            == ErrorKind::InvalidArgument
    );
}

#[test]
fn dropping_the_last_reference_transfers_to_the_default_tracker() {
    let noted = Noted::new(false);
    let dylib = &noted.world.dylib;
    let tracker = dylib.create_tracker().expect("a tracker");
    let (foo, asked) = unit(Interface::exporting(["foo"]));
    dylib.define_with(&tracker, foo).expect("defined");
    let key = tracker.key().get();
    drop(tracker.clone());
    assert!(noted.log().is_empty());
    drop(tracker);
    let default = dylib.default_tracker().expect("a tracker");
    assert_eq!(noted.log()[0], format!("second main {key} to {}", default.key().get()));
    assert!(dylib.state_of("foo").is_some());
    default.remove().expect("removed");
    assert_eq!(dylib.state_of("foo"), None);
    assert_eq!(Arc::strong_count(&asked.responsibility), 1, "its unit was dropped");
}

#[test]
fn the_default_tracker_has_the_rest_and_comes_again() {
    let world = World::new();
    let tracker = world.dylib.create_tracker().expect("a tracker");
    let (foo, _foo) = unit(Interface::exporting(["foo"]));
    world.dylib.define_with(&tracker, foo).expect("defined");
    let _bar = world.define(&["bar"]);
    let default = world.dylib.default_tracker().expect("a tracker");
    let first = default.key();
    drop(default);
    assert_eq!(world.dylib.default_tracker().expect("a tracker").key(), first);
    world.dylib.default_tracker().expect("a tracker").remove().expect("removed");
    assert_eq!(world.dylib.state_of("bar"), None);
    assert!(world.dylib.state_of("foo").is_some());
    let _again = world.define(&["bar"]);
    assert_ne!(world.dylib.default_tracker().expect("a tracker").key(), first);
}

#[test]
fn clear_removes_every_tracker_and_the_dylib_stays_usable() {
    let noted = Noted::new(false);
    let dylib = &noted.world.dylib;
    let tracker = dylib.create_tracker().expect("a tracker");
    let (foo, _foo) = unit(Interface::exporting(["foo"]));
    dylib.define_with(&tracker, foo).expect("defined");
    let _bar = noted.world.define(&["bar"]);
    dylib.clear().expect("cleared");
    assert!(tracker.is_defunct());
    assert_eq!((dylib.state_of("foo"), dylib.state_of("bar")), (None, None));
    assert_eq!(noted.log().len(), 4);
    dylib.define_absolute([("foo", at(1))]).expect("usable");
    assert!(dylib.lookup("foo").is_ok());
}

#[test]
fn with_resource_key_runs_only_while_the_tracker_lives() {
    let world = World::new();
    let tracker = world.dylib.create_tracker().expect("a tracker");
    assert_eq!(tracker.with_resource_key(|key| key).expect("it lives"), tracker.key());
    tracker.remove().expect("removed");
    let error = tracker.with_resource_key(|_| panic!("it does not")).expect_err("gone");
    assert!(error.kind() == ErrorKind::TrackerDefunct, "{error}");
}

/// The tracker is removed at each phase of a materialization: its lookup gets 1 result, and nothing is left.
#[test]
fn a_tracker_removed_at_every_phase_tells_the_unit_once() {
    for phase in 0..4 {
        let world = World::new();
        let asked = world.define(&["foo"]);
        let told = world.look_for(SymbolState::Ready, &["foo"]);
        let mut foo = asked.responsibility();
        let remove = |at| {
            if at == phase {
                world.dylib.clear().expect("cleared")
            }
        };
        remove(0);
        let outcome = foo.notify_resolved(&map(&[("foo", 1)]));
        remove(1);
        let outcome = outcome.and_then(|()| foo.with_resource_key(|_| remove(9)));
        remove(2);
        let outcome = match outcome {
            Ok(()) => foo.notify_emitted(&[]),
            Err(error) => {
                foo.fail(error);
                Err(Error::tracker_defunct())
            }
        };
        remove(3);
        assert_eq!(outcome.is_ok(), phase == 3);
        assert_eq!(world.reported.lock().unwrap().len(), usize::from(phase < 3), "phase {phase}");
        assert_eq!(told.result().is_ok(), phase == 3);
        assert_eq!(world.dylib.state_of("foo"), None);
    }
}
