//! Plugins of an object layer: what they are told, and what a link leaves that is removed or fails at any of its phases.
//!
//! Invariant: after every removal and every failure the memory that a link had taken is free again.

use std::sync::{Arc, Mutex};

use farcall::controller::Process;
use farcall::controller::plugin::ObjectPlugin;
use farcall::link::{Archive, Image, LinkGraph};
use farcall::orc::ProcessSymbols;
use farcall::orc::{
    ExecutionSession, Interface, JITDylib, Lazily, LookupKind, MaterializationResponsibility,
    ResourceKey, ResourceTracker, Symbol, SymbolLookupFlags,
};
use farcall::{Error, ErrorKind, ExecutorAddr, Result};

use crate::jit::objects::{EXPORTED, World, object};
use crate::testkit::held::next;

/// Does something when a link comes to a phase.
struct At {
    phase: usize,
    work: Mutex<Option<Work>>,
}

type Work = Box<dyn FnOnce() -> Result<()> + Send>;

impl At {
    fn reached(&self, phase: usize) -> Result<()> {
        if phase != self.phase {
            return Ok(());
        }
        let work = self.work.lock().expect("no panic").take();
        work.map_or(Ok(()), |work| work())
    }
}

impl ObjectPlugin for At {
    fn prepare(&self, _: &MaterializationResponsibility, _: &mut LinkGraph) -> Result<()> {
        self.reached(0)
    }

    fn fixed_up(&self, _: &MaterializationResponsibility, image: &mut Image) -> Result<()> {
        assert!(image.symbols.address_of("digits").is_some());
        self.reached(4)
    }

    fn notify_emitted(&self, _: &MaterializationResponsibility) -> Result<()> {
        self.reached(5)
    }
}

/// An object that refers to one symbol that a generator supplies, with a unit that may keep it waiting.
fn link_with(world: &World, at: &Arc<At>) -> (ResourceTracker, Result<Symbol>) {
    let plugin = Arc::clone(at);
    world.layer.add_plugin(plugin);
    let tracker = world.tracker();
    world.layer.add(&tracker, &object(6)).expect("added");
    // Phases 1 to 3: what it refers to is looked for, asked for, and resolved.
    let snprintf = world.session.create_dylib("libc").expect("another");
    snprintf.add_generator(ProcessSymbols::new(&world.process)).expect("added");
    let real = snprintf.lookup("snprintf").expect("found");
    let of_generator = Arc::clone(at);
    let generator =
        move |dylib: &JITDylib, _: LookupKind, names: &[(Arc<str>, SymbolLookupFlags)]| {
            if names.iter().any(|(name, _)| name.contains("snprintf")) {
                of_generator.reached(1)?;
                let (name, at) = (names[0].0.to_string(), Arc::clone(&of_generator));
                let own = name.clone();
                let unit =
                    Lazily::new("libc", Interface::exporting([name]), move |mut responsibility| {
                        let outcome = at.reached(2).and_then(|()| {
                            let real = Symbol { flags: responsibility.symbols()[&*own], ..real };
                            responsibility.notify_resolved(&[(own.into(), real)].into())
                        });
                        match outcome.and_then(|()| at.reached(3)) {
                            Ok(()) => drop(responsibility.notify_emitted(&[])),
                            Err(error) => responsibility.fail(error),
                        }
                    });
                dylib.define(unit)?;
            }
            Ok(())
        };
    let libraries = world.session.create_dylib("libraries").expect("another");
    libraries.add_generator(generator).expect("added");
    let order = [(libraries, EXPORTED)];
    world.dylib.set_link_order(&order).expect("set");
    let result = world.dylib.lookup("digits");
    (tracker, result)
}

#[test]
fn a_tracker_removed_at_every_phase_of_a_link_leaves_nothing() {
    for phase in 0..=6 {
        let world = World::bare(ExecutionSession::new());
        let base = world.next();
        let dylib = world.dylib.clone();
        let work: Work = Box::new(move || dylib.clear());
        let at = Arc::new(At { phase, work: Mutex::new(Some(work)) });
        let (tracker, result) = link_with(&world, &at);
        if phase == 6 {
            assert_eq!(world.call("digits", 100), 3, "nothing was removed");
            tracker.remove().expect("removed");
        } else {
            let error = result.expect_err("the tracker has gone");
            assert!(error.kind() == ErrorKind::FailedToMaterialize, "phase {phase}: {error}");
            let reported = world.reported.lock().unwrap();
            assert_eq!(reported.len(), 1, "phase {phase}: {reported:?}");
            assert!(reported[0].contains("tracker"), "phase {phase}: {reported:?}");
        }
        assert!(tracker.is_defunct());
        assert_eq!(world.next(), base, "phase {phase}: memory is left");
        assert_eq!(world.dylib.state_of("digits"), None);
    }
}

#[test]
fn a_link_that_fails_at_any_phase_gives_everything_back() {
    for phase in 0..=5 {
        let world = World::bare(ExecutionSession::new());
        let base = world.next();
        let work: Work = Box::new(|| Archive::parse("it fails here", "").map(drop));
        let at = Arc::new(At { phase, work: Mutex::new(Some(work)) });
        let (_tracker, result) = link_with(&world, &at);
        // When what it refers to fails after it was resolved, the link is done, and fails with it.
        let error = result.expect_err("it fails");
        assert!(error.kind() == ErrorKind::FailedToMaterialize, "phase {phase}: {error}");
        assert!(error.to_string().contains("it fails here"), "phase {phase}: {error}");
        world.dylib.clear().expect("cleared");
        assert_eq!(world.next(), base, "phase {phase}: memory is left");
    }
}

/// Notes what it is told.
#[derive(Default)]
struct Noting(Mutex<Vec<String>>);

impl Noting {
    fn note(&self, what: &str) {
        self.0.lock().expect("no panic").push(what.to_owned());
    }
}

impl ObjectPlugin for Noting {
    fn prepare(&self, _: &MaterializationResponsibility, graph: &mut LinkGraph) -> Result<()> {
        self.note(if graph.defines("constant") { "prepare" } else { "prepare another" });
        Ok(())
    }

    fn fixed_up(&self, _: &MaterializationResponsibility, _: &mut Image) -> Result<()> {
        self.note("fixed up");
        Ok(())
    }

    fn notify_emitted(&self, _: &MaterializationResponsibility) -> Result<()> {
        self.note("emitted");
        Ok(())
    }

    fn notify_failed(&self, _: &MaterializationResponsibility, _: &Error) {
        self.note("failed");
    }

    fn notify_removing(&self, dylib: &JITDylib, _: ResourceKey) -> Result<()> {
        self.note(&format!("removing from {}", dylib.name()));
        Ok(())
    }

    fn notify_transferring(&self, _: &JITDylib, to: ResourceKey, from: ResourceKey) {
        self.note(if to == from { "to itself" } else { "transferring" });
    }
}

#[test]
fn plugins_are_told_of_all_that_happens_to_a_link() {
    let world = World::new();
    let noting = Arc::new(Noting::default());
    let plugin = Arc::clone(&noting);
    world.layer.add_plugin(plugin);
    let (first, second) = (world.tracker(), world.tracker());
    world.layer.add(&first, &object(11)).expect("added");
    world.layer.add(&second, &object(10)).expect("added");
    world.dylib.lookup("constant").expect("found");
    world.dylib.lookup("broken").expect_err("something is missing");
    first.transfer_to(&second).expect("emptied");
    second.remove().expect("removed");
    let told = [
        "prepare",
        "fixed up",
        "emitted",
        "prepare another",
        "failed",
        "transferring",
        "removing from main",
    ];
    assert_eq!(*noting.0.lock().unwrap(), told);
}

/// Where the next memory would be, whenever a link has failed.
struct Place {
    process: Process,
    places: Mutex<Vec<[ExecutorAddr; 3]>>,
}

impl ObjectPlugin for Place {
    fn notify_failed(&self, _: &MaterializationResponsibility, _: &Error) {
        self.places.lock().expect("no panic").push(next(&self.process));
    }
}

#[test]
fn memory_of_a_failed_link_is_free_when_plugins_hear_of_it() {
    for phase in 0..=4 {
        let world = World::bare(ExecutionSession::new());
        let base = world.next();
        let place = Arc::new(Place { process: world.process.clone(), places: Mutex::default() });
        world.layer.add_plugin(Arc::clone(&place) as Arc<dyn ObjectPlugin>);
        let work: Work = Box::new(|| Archive::parse("it fails here", "").map(drop));
        let at = Arc::new(At { phase, work: Mutex::new(Some(work)) });
        let (_tracker, result) = link_with(&world, &at);
        result.expect_err("it fails");
        // When what it refers to fails after it was resolved, the link goes on, and fails with it.
        let told = if phase == 3 { vec![] } else { vec![base] };
        assert_eq!(*place.places.lock().unwrap(), told, "phase {phase}");
    }
}

/// Releases at the second call, and calls what is about to be removed.
struct Refusing {
    process: Process,
    function: Mutex<ExecutorAddr>,
    results: Mutex<Vec<i32>>,
}

impl ObjectPlugin for Refusing {
    fn notify_removing(&self, _: &JITDylib, _: ResourceKey) -> Result<()> {
        let function = *self.function.lock().expect("no panic");
        let function = self.process.function::<extern "C" fn() -> i32>(function);
        let mut results = self.results.lock().expect("no panic");
        results.push(function.call(()).expect("it is still there"));
        match results.len() {
            1 => Err(Error::other("not now")),
            _ => Ok(()),
        }
    }
}

#[test]
fn a_plugin_that_refuses_a_removal_keeps_the_memory() {
    let world = World::new();
    let base = world.next();
    let refusing = Arc::new(Refusing {
        process: world.process.clone(),
        function: Mutex::new(ExecutorAddr::NULL),
        results: Mutex::default(),
    });
    world.layer.add_plugin(Arc::clone(&refusing) as Arc<dyn ObjectPlugin>);
    let mut taken = base;
    for removed in [false, true] {
        let tracker = world.tracker();
        world.layer.add(&tracker, &object(11)).expect("added");
        let symbol = world.dylib.lookup("constant").expect("found");
        *refusing.function.lock().unwrap() = symbol.address;
        let outcome = tracker.remove();
        assert_eq!(
            outcome.as_ref().err().map(ToString::to_string).as_deref(),
            (!removed).then_some("not now")
        );
        assert_eq!(world.dylib.state_of("constant"), None, "the name goes all the same");
        if !removed {
            taken = world.next();
        }
        assert_ne!(world.next(), base, "the first one is there until the session ends");
        assert_eq!(world.next(), taken);
    }
    assert_eq!(*refusing.results.lock().unwrap(), [42, 42]);
}
