//! Sessions: dylibs that come and go, tasks, and the end.

use super::*;
use crate::error::ErrorKind;
use crate::task::{Inline, Queueing, TaskDispatcher, ThreadPool};

#[test]
fn dylibs_have_names_of_their_own() {
    let world = World::new();
    assert_eq!(world.session.dylib("main"), Some(world.dylib.clone()));
    assert!(
        world.session.create_dylib("main").expect_err("there is one").kind()
            == ErrorKind::InvalidArgument
    );
    world.session.remove_dylib(&world.dylib).expect("removed");
    assert_eq!(world.session.dylib("main"), None);
    world.session.remove_dylib(&world.dylib).expect("the second time nothing happens");
    assert_ne!(world.session.create_dylib("main").expect("the name is free"), world.dylib);
}

#[test]
fn a_dylib_that_was_removed_is_defunct() {
    let world = World::new();
    let tracker = world.dylib.create_tracker().expect("a tracker");
    let asked = world.define(&["foo"]);
    let told = world.look_for(SymbolState::Ready, &["foo"]);
    world.session.remove_dylib(&world.dylib).expect("removed");
    assert!(told.error().kind() == ErrorKind::FailedToMaterialize);
    drop(asked.responsibility());
    assert!(tracker.is_defunct());
    let (bar, _asked) = unit(Interface::exporting(["bar"]));
    for outcome in [
        world.dylib.define(bar).map(|_| ()),
        world.dylib.create_tracker().map(|_| ()),
        world.dylib.default_tracker().map(|_| ()),
        world.dylib.lookup("foo").map(|_| ()),
        world.dylib.set_link_order(&[]),
    ] {
        let error = outcome.expect_err("gone");
        assert!(error.kind() == ErrorKind::DylibDefunct, "{error}");
        assert!(error.to_string().contains("main"), "{error}");
    }
    let told = world.look_for(SymbolState::Ready, &["foo"]);
    assert!(told.error().kind() == ErrorKind::DylibDefunct);
}

#[test]
fn the_error_reporter_receives_every_failure() {
    let world = World::new();
    let [first, second] = ["first", "second"].map(|name| {
        let asked = world.define(&[name]);
        let _told = world.look_for(SymbolState::Ready, &[name]);
        asked
    });
    first.responsibility().fail(Error::invalid("why not"));
    world.session.report_error(&Error::invalid("by hand"));
    assert_eq!(*world.reported.lock().unwrap(), ["why not", "by hand"]);
    let others: Arc<Mutex<Vec<String>>> = Arc::default();
    let noted = Arc::clone(&others);
    world.session.set_error_reporter(move |error| noted.lock().unwrap().push(error.to_string()));
    second.responsibility().fail(Error::invalid("why then"));
    assert_eq!(*others.lock().unwrap(), ["why then"]);
    assert_eq!(world.reported.lock().unwrap().len(), 2);
}

/// Tries to define something in the dylib whose resources go.
struct Defining(Mutex<Vec<String>>);

impl ResourceManager for Defining {
    fn remove_resources(&self, dylib: &JITDylib, _: ResourceKey) -> Result<()> {
        let error = dylib.define_absolute([("late", at(1))]).expect_err("it is closing");
        assert!(error.kind() == ErrorKind::DylibDefunct, "{error}");
        let error = dylib.create_tracker().expect_err("it is closing");
        self.0.lock().unwrap().push(error.to_string());
        Ok(())
    }

    fn transfer_resources(&self, _: &JITDylib, _: ResourceKey, _: ResourceKey) {}
}

#[test]
fn nothing_is_defined_in_a_dylib_that_is_about_to_be_removed() {
    let world = World::new();
    let manager = Arc::new(Defining(Mutex::default()));
    world.session.register_resource_manager(Arc::clone(&manager) as Arc<dyn ResourceManager>);
    let _asked = world.define(&["foo"]);
    world.session.remove_dylib(&world.dylib).expect("removed");
    assert_eq!(*manager.0.lock().unwrap(), ["the dylib main was removed"]);
}

#[test]
fn each_mistake_has_a_kind_of_its_own() {
    let world = World::new();
    let dylib = &world.dylib;
    dylib.define_absolute([("there", at(1))]).expect("defined");
    let given = |name: &str| {
        let asked = world.define(&[name]);
        let _told = world.look_for(SymbolState::Resolved, &[name]);
        asked.responsibility()
    };
    let busy = given("busy");
    let mut unexpected = given("unexpected");
    let mut unsatisfied = given("unsatisfied");
    unsatisfied.notify_resolved(&map(&[("unsatisfied", 1)])).expect("resolved");
    drop(given("failed"));
    let tracker = dylib.create_tracker().expect("a tracker");
    tracker.remove().expect("removed");
    let gone = world.another("gone");
    world.session.remove_dylib(&gone).expect("removed");
    let errors = [
        tracker.with_resource_key(|_| ()).expect_err("defunct"),
        gone.lookup("there").map(drop).expect_err("removed"),
        world.look_for(SymbolState::Ready, &["failed"]).error(),
        dylib.lookup("missing").map(drop).expect_err("not defined"),
        dylib.remove(["busy"]).expect_err("on its way"),
        given("promised").notify_emitted(&[]).expect_err("it has no address"),
        unexpected.notify_resolved(&map(&[("more", 1)])).expect_err("not promised"),
        dylib.define_absolute([("there", at(2))]).expect_err("twice"),
        unsatisfied
            .notify_emitted(&[group(&["unsatisfied"], dylib, &["failed"])])
            .expect_err("it depends on what has failed"),
    ];
    let kinds = [
        ErrorKind::TrackerDefunct,
        ErrorKind::DylibDefunct,
        ErrorKind::FailedToMaterialize,
        ErrorKind::SymbolsNotFound,
        ErrorKind::SymbolsCouldNotBeRemoved,
        ErrorKind::MissingSymbolDefinitions,
        ErrorKind::UnexpectedSymbolDefinitions,
        ErrorKind::DuplicateDefinition,
        ErrorKind::UnsatisfiedSymbolDependencies,
    ];
    assert_eq!(errors.each_ref().map(Error::kind), kinds, "{errors:?}");
    drop(busy);
}

/// Notes which dylib's resources go.
struct Order(Arc<Mutex<Vec<String>>>);

impl ResourceManager for Order {
    fn remove_resources(&self, dylib: &JITDylib, _: ResourceKey) -> Result<()> {
        self.0.lock().unwrap().push(dylib.name().to_owned());
        Ok(())
    }

    fn transfer_resources(&self, _: &JITDylib, _: ResourceKey, _: ResourceKey) {}
}

#[test]
fn the_end_removes_dylibs_in_reverse_order_of_creation() {
    let world = World::new();
    let order: Arc<Mutex<Vec<String>>> = Arc::default();
    world.session.register_resource_manager(Arc::new(Order(Arc::clone(&order))));
    let others = ["a", "z", "b"].map(|name| world.another(name));
    for dylib in others.iter().chain([&world.dylib]) {
        dylib.define_absolute([("foo", at(1))]).expect("defined");
    }
    let asked = world.define(&["never"]);
    let told = world.look_for(SymbolState::Ready, &["never"]);
    world.session.end_session().expect("ended");
    assert_eq!(*order.lock().unwrap(), ["b", "z", "a", "main"]);
    assert!(told.error().kind() == ErrorKind::FailedToMaterialize);
    drop(asked.responsibility());
    assert!(
        world.session.create_dylib("late").expect_err("over").kind() == ErrorKind::DylibDefunct
    );
    world.session.end_session().expect("the second time nothing happens");
    assert_eq!(order.lock().unwrap().len(), 4);
}

#[test]
fn a_manager_that_was_taken_back_is_not_told() {
    let world = World::new();
    let order: Arc<Mutex<Vec<String>>> = Arc::default();
    let manager: Arc<dyn ResourceManager> = Arc::new(Order(Arc::clone(&order)));
    world.session.register_resource_manager(Arc::clone(&manager));
    world.session.deregister_resource_manager(&manager);
    world.dylib.default_tracker().expect("a tracker").remove().expect("removed");
    assert!(order.lock().unwrap().is_empty());
    assert_eq!(Arc::strong_count(&manager), 1);
}

#[test]
fn units_and_callbacks_are_tasks_of_the_dispatcher() {
    let queue = Arc::new(Queueing::new());
    let session = ExecutionSession::with_dispatcher(Arc::clone(&queue) as Arc<dyn TaskDispatcher>);
    let step = || queue.pop_front().map(|task| task.run()).is_some();
    let dylib = session.create_dylib("main").expect("the first");
    dylib.define_absolute([("foo", at(1))]).expect("defined");
    let told = Told::default();
    let noted = told.clone();
    let names = vec![("foo".into(), SymbolLookupFlags::Required)];
    let order = vec![(dylib.clone(), ALL)];
    let callback = move |found| noted.0.lock().unwrap().push(found);
    session.lookup_async(LookupKind::Static, order, names, SymbolState::Ready, callback);
    assert_eq!(dylib.state_of("foo"), Some(SymbolState::Materializing));
    assert!(step(), "the unit");
    assert_eq!(dylib.state_of("foo"), Some(SymbolState::Ready));
    assert!(told.is_nothing());
    assert!(step(), "the callback");
    assert_eq!(told.address("foo"), 1);
    assert!(!step());
}

#[test]
fn a_task_that_is_refused_fails_what_it_would_have_done() {
    let shut = Inline::new();
    shut.shutdown();
    let session = ExecutionSession::with_dispatcher(Arc::new(shut));
    let dylib = session.create_dylib("main").expect("the first");
    dylib.define_absolute([("foo", at(1))]).expect("defined");
    let error = dylib.lookup("foo").expect_err("no thread has run it");
    assert!(error.kind() == ErrorKind::FailedToMaterialize, "{error}");
    let told = Told::default();
    let noted = told.clone();
    let callback = move |found| noted.0.lock().unwrap().push(found);
    let order = vec![(dylib, ALL)];
    session.lookup_async(LookupKind::Static, order, vec![], SymbolState::Ready, callback);
    assert!(told.error().is_disconnected());
}

#[test]
fn a_callback_learns_that_the_session_is_gone() {
    let told = {
        let world = World::new();
        let later: Arc<Mutex<Vec<GeneratorRequest>>> = Arc::default();
        struct Keep(Arc<Mutex<Vec<GeneratorRequest>>>);
        impl DefinitionGenerator for Keep {
            fn generate(&self, request: GeneratorRequest) {
                self.0.lock().unwrap().push(request);
            }
        }
        world.dylib.add_generator(Keep(Arc::clone(&later))).expect("added");
        let told = world.look_for(SymbolState::Ready, &["a"]);
        let waiting = world.look_for(SymbolState::Ready, &["b"]);
        world.session.end_session().expect("ended");
        assert!(waiting.error().kind() == ErrorKind::DylibDefunct);
        later.lock().unwrap().clear();
        told
    };
    told.error();
}

/// Real threads: each lookup of many starts a chain of units, and all find what they should.
#[test]
fn units_of_many_threads_at_once() {
    let pool = Arc::new(ThreadPool::new(2));
    let session = ExecutionSession::with_dispatcher(Arc::clone(&pool) as Arc<dyn TaskDispatcher>);
    let dylib = session.create_dylib("main").expect("the first");
    for number in 0..64_u64 {
        let (dylib_of_unit, name) = (dylib.clone(), format!("f{number}"));
        let own = name.clone();
        let work = move |mut responsibility: MaterializationResponsibility| {
            // Tasks may wait: the pool has as many threads as it takes.
            let next = format!("f{}", number / 2);
            let below = if number == 0 {
                0
            } else {
                dylib_of_unit.lookup(&next).expect("found").address.get()
            };
            responsibility.notify_resolved(&map(&[(&own, below + number)])).expect("resolved");
            let groups = [group(
                &[&own],
                &dylib_of_unit,
                if number == 0 { vec![] } else { vec![&*next] }.as_slice(),
            )];
            responsibility.notify_emitted(&groups).expect("emitted");
        };
        dylib
            .define(Lazily::new(name.clone(), Interface::exporting([name]), work))
            .expect("defined");
    }
    let sum = |mut number: u64| {
        std::iter::from_fn(|| {
            let now = number;
            number /= 2;
            (now > 0).then_some(now)
        })
        .sum::<u64>()
    };
    std::thread::scope(|scope| {
        for thread in 0..8_u64 {
            let dylib = &dylib;
            scope.spawn(move || {
                for number in (thread..64).step_by(3) {
                    let found = dylib.lookup(&format!("f{number}")).expect("found").address.get();
                    assert_eq!(found, sum(number));
                }
            });
        }
    });
    session.end_session().expect("ended");
    pool.shutdown();
}
