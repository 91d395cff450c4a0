//! Generators, which supply what a dylib lacks.

use super::*;
use crate::error::ErrorKind;

/// A generator that defines what it is asked for, and counts.
fn generator(asked: &Arc<Mutex<Vec<String>>>) -> impl DefinitionGenerator + use<> {
    let asked = Arc::clone(asked);
    move |dylib: &JITDylib, _: LookupKind, names: &[(Arc<str>, SymbolLookupFlags)]| {
        for (name, _) in names {
            asked.lock().unwrap().push(name.to_string());
            if name.starts_with("gen") {
                dylib.define_absolute([(Arc::clone(name), at(9))])?;
            }
        }
        Ok(())
    }
}

/// Keeps requests.
#[derive(Clone, Default)]
struct Later(Arc<Mutex<Vec<GeneratorRequest>>>);

impl Later {
    fn request(&self) -> GeneratorRequest {
        let mut requests = self.0.lock().unwrap();
        assert_eq!(requests.len(), 1, "one lookup at a time");
        requests.pop().unwrap()
    }
}

impl DefinitionGenerator for Later {
    fn generate(&self, request: GeneratorRequest) {
        self.0.lock().unwrap().push(request);
    }
}

#[test]
fn generators_are_asked_for_missing_names_after_definitions() {
    let world = World::new();
    let asked = Arc::default();
    world.dylib.define_absolute([("foo", at(1))]).expect("defined");
    world.dylib.add_generator(generator(&asked)).expect("added");
    let found = world.dylib.lookup_all(["foo", "gen1"]).expect("found");
    assert_eq!((found["foo"].address.get(), found["gen1"].address.get()), (1, 9));
    assert_eq!(*asked.lock().unwrap(), ["gen1"]);
    world.dylib.lookup("gen1").expect("found");
    assert_eq!(asked.lock().unwrap().len(), 1, "it is there now");
}

#[test]
fn generators_are_asked_in_order_for_what_is_still_missing() {
    let world = World::new();
    let (first, second) = (Arc::default(), Arc::default());
    world.dylib.add_generator(generator(&first)).expect("added");
    world.dylib.add_generator(generator(&second)).expect("added");
    let error = world.dylib.lookup_all(["gen", "missing"]).expect_err("missing");
    assert_eq!(error.symbols(), ["missing"]);
    assert_eq!(first.lock().unwrap().len(), 2);
    assert_eq!(*second.lock().unwrap(), ["missing"]);
}

#[test]
fn names_of_an_earlier_dylib_are_not_generated() {
    let world = World::new();
    let (other, asked) = (world.another("other"), Arc::default());
    other.add_generator(generator(&asked)).expect("added");
    world.dylib.define_absolute([("gen1", at(1))]).expect("defined");
    let order = vec![(world.dylib.clone(), ALL), (other, ALL)];
    let told = world.look_in(order, SymbolState::Ready, &["gen1", "gen2"]).result().expect("found");
    assert_eq!((told["gen1"].address.get(), told["gen2"].address.get()), (1, 9));
    assert_eq!(*asked.lock().unwrap(), ["gen2"]);
}

#[test]
fn a_generator_may_suspend_the_lookup() {
    let world = World::new();
    let later = Later::default();
    world.dylib.add_generator(later.clone()).expect("added");
    let told = world.look_for(SymbolState::Ready, &["foo"]);
    let request = later.request();
    assert!(told.is_nothing());
    assert_eq!((request.dylib(), request.kind()), (&world.dylib, LookupKind::Static));
    assert_eq!(request.names(), [("foo".into(), SymbolLookupFlags::Required)]);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            request.dylib().define_absolute([("foo", at(1))]).expect("defined");
            request.done(Ok(()));
        });
    });
    assert_eq!(told.address("foo"), 1);
}

#[test]
fn one_lookup_at_a_time_uses_a_generator() {
    let world = World::new();
    let later = Later::default();
    world.dylib.add_generator(later.clone()).expect("added");
    let told = [["a"], ["b"], ["a"]].map(|names| world.look_for(SymbolState::Ready, &names));
    let request = later.request();
    assert_eq!(&*request.names()[0].0, "a");
    request.dylib().define_absolute([("a", at(1))]).expect("defined");
    request.done(Ok(()));
    assert_eq!(told[0].address("a"), 1);
    let request = later.request();
    assert_eq!(&*request.names()[0].0, "b");
    request.done(Ok(()));
    assert_eq!(told[1].error().symbols(), ["b"]);
    assert_eq!(told[2].address("a"), 1);
    assert!(later.0.lock().unwrap().is_empty(), "it is defined, so no generator is asked");
}

#[test]
fn errors_of_generators_fail_the_lookup() {
    let world = World::new();
    let later = Later::default();
    world.dylib.add_generator(later.clone()).expect("added");
    let told = world.look_for(SymbolState::Ready, &["foo"]);
    later.request().done(Err(Error::invalid("no archive")));
    assert_eq!(told.error().to_string(), "no archive");
    let told = world.look_for(SymbolState::Ready, &["foo"]);
    drop(later.request());
    assert!(told.error().to_string().contains("dropped a request"));
}

#[test]
fn archives_ignore_lookups_of_the_dlsym_kind() {
    let world = World::new();
    let archive =
        |dylib: &JITDylib, kind: LookupKind, _: &[(Arc<str>, SymbolLookupFlags)]| match kind {
            LookupKind::Static => dylib.define_absolute([("member", at(1))]),
            LookupKind::DLSym => Ok(()),
        };
    world.dylib.add_generator(archive).expect("added");
    let look = |kind| {
        let names = vec![("member".into(), SymbolLookupFlags::Required)];
        let order = vec![(world.dylib.clone(), ALL)];
        world.session.lookup(kind, order, names, SymbolState::Ready)
    };
    assert!(look(LookupKind::DLSym).expect_err("ignored").kind() == ErrorKind::SymbolsNotFound);
    assert!(look(LookupKind::Static).is_ok());
    assert!(look(LookupKind::DLSym).is_ok(), "it is there now");
}

#[test]
fn reexports_generators_pass_on_what_another_dylib_has() {
    let world = World::new();
    let other = world.another("other");
    other.define_absolute([("foo", at(1)), ("kept", at(2))]).expect("defined");
    let generator = ReexportsGenerator::new(&other, EXPORTED, |name| name != "kept");
    world.dylib.add_generator(generator).expect("added");
    assert_eq!(world.dylib.lookup("foo").expect("found").address.get(), 1);
    assert_eq!(world.dylib.lookup("kept").expect_err("not passed on").symbols(), ["kept"]);
}

/// As many generators as you like: nothing recurses over them.
#[test]
fn a_thousand_generators_that_answer_at_once() {
    let world = World::new();
    for _ in 0..1000 {
        let nothing = |_: &JITDylib, _: LookupKind, _: &[(Arc<str>, SymbolLookupFlags)]| Ok(());
        world.dylib.add_generator(nothing).expect("added");
    }
    assert!(
        world.dylib.lookup("foo").expect_err("not defined").kind() == ErrorKind::SymbolsNotFound
    );
}

#[test]
fn a_lookup_at_a_generator_fails_when_the_dylib_is_removed() {
    let world = World::new();
    let later = Later::default();
    world.dylib.add_generator(later.clone()).expect("added");
    let told = [["a"], ["b"]].map(|names| world.look_for(SymbolState::Ready, &names));
    world.session.remove_dylib(&world.dylib).expect("removed");
    assert!(told[1].error().kind() == ErrorKind::DylibDefunct);
    assert!(told[0].is_nothing(), "its generator has not answered");
    later.request().done(Ok(()));
    assert!(told[0].error().kind() == ErrorKind::DylibDefunct);
}
