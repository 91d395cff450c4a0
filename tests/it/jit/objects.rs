//! Sessions over an executor: objects that are linked at the first lookup of their symbols, and removed by trackers.
//!
//! Invariant: after every removal and every failure the memory that a link had taken is free again: the same place is handed
//! out as before.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use farcall::controller::Process;
use farcall::link::{Archive, ObjectFile};
use farcall::orc::{ArchiveMembers, ObjectLayer, ProcessSymbols};
use farcall::orc::{
    ExecutionSession, Interface, JITDylib, JITDylibLookupFlags, Lazily, LookupKind,
    MaterializationResponsibility, ResourceTracker, Symbol, SymbolLookupFlags, SymbolState,
};
use farcall::{Error, ErrorKind, ExecutorAddr};

use farcall_bench::{TinyObject, tiny_code};

use crate::testkit::corpus::{self, gcc};
use crate::testkit::held::Held;
use crate::testkit::held::next;
use crate::testkit::launch;

pub(crate) struct World {
    pub(crate) process: Process,
    pub(crate) session: ExecutionSession,
    pub(crate) layer: ObjectLayer,
    pub(crate) dylib: JITDylib,
    pub(crate) reported: Arc<Mutex<Vec<String>>>,
}

impl World {
    pub(crate) fn new() -> Self {
        let world = Self::bare(ExecutionSession::new());
        world.dylib.add_generator(ProcessSymbols::new(&world.process)).expect("added");
        world
    }

    /// Without process symbols.
    pub(crate) fn bare(session: ExecutionSession) -> Self {
        let launch = launch::builder();
        let process = launch.start().expect("an executor").process().expect("an executor");
        let reported = Arc::new(Mutex::new(Vec::new()));
        let noted = Arc::clone(&reported);
        session.set_error_reporter(move |error| {
            noted.lock().expect("no panic").push(error.to_string())
        });
        let layer = ObjectLayer::new(&session, &process);
        let dylib = session.create_dylib("main").expect("the first");
        Self { process, session, layer, dylib, reported }
    }

    fn add(&self, part: u32) {
        let tracker = self.dylib.default_tracker().expect("a tracker");
        self.layer.add(&tracker, &object(part)).expect("added");
    }

    pub(crate) fn tracker(&self) -> ResourceTracker {
        self.dylib.create_tracker().expect("a tracker")
    }

    pub(crate) fn call(&self, name: &str, argument: i32) -> i32 {
        self.call_in(&self.dylib, name, argument)
    }

    pub(crate) fn call_in(&self, dylib: &JITDylib, name: &str, argument: i32) -> i32 {
        let address = dylib.lookup(name).expect("found").address;
        let function = self.process.function::<extern "C" fn(i32) -> i32>(address);
        function.call((argument,)).expect("a result")
    }

    /// Where the next memory of each protection would be.
    pub(crate) fn next(&self) -> [ExecutorAddr; 3] {
        next(&self.process)
    }
}

fn built(part: u32, flags: &[&str]) -> ObjectFile {
    let part = format!("-DPART={part}");
    let flags = [&["-O2", "-fPIC", &part], flags].concat();
    let file = std::fs::read(corpus::object("jit.c", gcc(&flags))).expect("just compiled");
    ObjectFile::parse(format!("jit{part}.o"), file).expect("an object")
}

pub(crate) fn object(part: u32) -> ObjectFile {
    built(part, &[])
}

pub(crate) const EXPORTED: JITDylibLookupFlags = JITDylibLookupFlags::MatchExportedSymbolsOnly;

#[test]
fn objects_that_refer_to_each_other_in_a_circle() {
    let world = World::new();
    world.add(1);
    world.add(2);
    assert_eq!(world.dylib.state_of("odd"), Some(SymbolState::NeverSearched));
    assert_eq!((world.call("even", 10), world.call("even", 7)), (1, 0));
    assert_eq!(world.dylib.state_of("odd"), Some(SymbolState::Ready), "what it reaches is ready");
}

#[test]
fn lookup_across_dylibs() {
    let world = World::new();
    let other = world.session.create_dylib("other").expect("another");
    world.dylib.add_to_link_order(&other).expect("set");
    other.add_to_link_order(&world.dylib).expect("set");
    world.add(1);
    world.layer.add(&other.default_tracker().expect("a tracker"), &object(2)).expect("added");
    assert_eq!((world.call("even", 4), world.call("odd", 4)), (1, 0));
    other.clear().expect("cleared");
    assert!(other.lookup("odd").is_err());
    assert!(other.lookup("even").is_ok(), "it was ready, and its code stays");
}

#[test]
fn symbols_of_the_process_come_with_one_message() {
    let world = World::new();
    world.add(6);
    let before = world.process.stats();
    assert_eq!(world.call("digits", 12345), 5);
    let after = world.process.stats();
    assert_eq!(after.round_trips - before.round_trips, 2, "a lookup, and the call");
    assert!(world.dylib.lookup("snprintf").is_ok());
}

#[test]
fn a_function_is_ready_when_what_it_calls_itself_is() {
    let world = World::new();
    let slow = Arc::new(Mutex::new(None));
    let kept = Arc::clone(&slow);
    let interface = Interface::exporting(["slow"]);
    let unit = Lazily::new("slow", interface, move |mut responsibility| {
        let symbol = Symbol::exported(ExecutorAddr::new(0x7f00_0000_0000));
        responsibility.notify_resolved(&[("slow".into(), symbol)].into()).expect("resolved");
        *kept.lock().expect("no panic") = Some(responsibility);
    });
    world.dylib.define(unit).expect("defined");
    let tracker = world.tracker();
    world.layer.add(&tracker, &built(17, &["-ffunction-sections"])).expect("added");
    assert_eq!(world.call("quick", 0), 1);
    assert_eq!(world.dylib.state_of("needs"), Some(SymbolState::Emitted));
    let slow: MaterializationResponsibility = slow.lock().unwrap().take().expect("asked");
    slow.notify_emitted(&[]).expect("emitted");
    assert_eq!(world.dylib.state_of("needs"), Some(SymbolState::Ready));
}

#[test]
fn weak_definitions_give_way_to_the_first_one_of_the_dylib() {
    let world = World::new();
    let base = world.next();
    world.add(3);
    world.add(4);
    assert_eq!((world.call("fourth", 0), world.call("third", 0)), (3, 3));
    world.dylib.clear().expect("cleared");
    world.add(3);
    world.add(4);
    world.add(5);
    assert_eq!((world.call("fourth", 0), world.call("third", 0)), (5, 5));
    let tracker = world.tracker();
    let error = world.layer.add(&tracker, &object(5)).expect_err("there is one");
    assert!(error.kind() == ErrorKind::DuplicateDefinition, "{error}");
    world.dylib.clear().expect("cleared");
    assert_eq!(world.next(), base);
}

#[test]
fn weakly_referenced_names_without_a_definition_are_null() {
    let world = World::new();
    world.add(15);
    assert_eq!(world.call("has_maybe", 0), -1);
}

#[test]
fn hidden_names_are_for_the_same_dylib_only() {
    let world = World::new();
    let other = world.session.create_dylib("other").expect("another");
    other.set_link_order(&[(world.dylib.clone(), EXPORTED)]).expect("set");
    world.add(13);
    world.add(14);
    assert_eq!((world.call("open_secret", 0), world.call("tell", 0)), (13, 13));
    world.layer.add(&other.default_tracker().expect("a tracker"), &object(14)).expect("added");
    let error = other.lookup("tell").expect_err("it is hidden");
    assert!(
        error.kind() == ErrorKind::FailedToMaterialize && error.to_string().contains("secret"),
        "{error}"
    );
}

#[test]
fn missing_symbols_fail_with_all_names_and_free_everything() {
    let world = World::new();
    let base = world.next();
    world.add(10);
    world.add(11);
    let error = world.dylib.lookup("broken").expect_err("two are missing");
    assert!(error.kind() == ErrorKind::FailedToMaterialize, "{error}");
    assert_eq!(error.symbols(), ["broken"]);
    assert!(error.to_string().contains("missing_one, missing_two"), "{error}");
    assert_eq!(world.reported.lock().unwrap().len(), 1);
    assert_eq!(world.call("constant", 0), 42);
    world.dylib.clear().expect("cleared");
    assert_eq!(world.next(), base);
}

#[test]
fn code_with_addresses_of_32_bits_is_refused() {
    let world = World::new();
    let object = built(16, &["-fno-pic"]);
    let low: Vec<u8> =
        std::fs::read(corpus::object("jit.c", gcc(&["-O2", "-fno-pic", "-DPART=6"]))).unwrap();
    let low = ObjectFile::parse("low.o", low).expect("an object");
    let tracker = world.tracker();
    world.layer.add(&tracker, &object).expect("added");
    world.layer.add(&tracker, &low).expect("added");
    let error = world.dylib.lookup("digits").expect_err("it is low").to_string();
    assert!(error.contains("-fPIC"), "{error}");
}

#[test]
fn code_with_addresses_of_32_bits_has_a_layer_of_its_own() {
    let world = World::bare(ExecutionSession::new());
    let low = ObjectLayer::for_low_code(&world.session, &world.process);
    world.dylib.add_generator(ProcessSymbols::for_low_code(&world.process)).expect("added");
    let objects = [
        built(18, &["-fno-pic"]),
        built(19, &["-fno-pic"]),
        object(6),
        built(1, &["-fno-pic"]),
        object(2),
    ];
    let mut places = Vec::new();
    for _ in 0..3 {
        let tracker = world.tracker();
        objects.iter().for_each(|object| low.add(&tracker, object).expect("added"));
        assert_eq!((world.call("bump_shared", 0), world.call("standard_output", 0)), (22, 1));
        assert_eq!((world.call("digits", 123), world.call("even", 7)), (3, 0));
        let names = ["bump_shared", "shared_count", "digits", "odd"];
        let found = world.dylib.lookup_all(names).expect("found");
        assert!(found.values().all(|symbol| symbol.address.get() < 1 << 31), "{found:?}");
        places.push(found);
        tracker.remove().expect("removed");
    }
    assert_eq!(places[0], places[1]);
    assert_eq!(places[1], places[2]);
    // A near layer beside it reaches what is low by way of tables.
    let tracker = world.tracker();
    low.add(&tracker, &objects[1]).expect("added");
    world.layer.add(&tracker, &object(18)).expect("added");
    assert_eq!(world.call("bump_shared", 0), 22);
    assert!(world.dylib.lookup("bump_shared").expect("found").address.get() > 1 << 32);
}

/// The thread that completes a lookup runs its callback. No other thread has to receive what that waits for.
#[test]
fn a_callback_may_wait_for_the_executor() {
    let world = World::new();
    world.add(6);
    let (process, result) = (world.process.clone(), Arc::new(AtomicU64::new(0)));
    let kept = Arc::clone(&result);
    let callback = move |found: farcall::Result<farcall::orc::SymbolMap>| {
        let digits = found.expect("found")["digits"].address;
        let digits = process.function::<extern "C" fn(i32) -> i32>(digits);
        let sum: i32 =
            [1, 22, 333].map(|number| digits.call((number,)).expect("a result")).iter().sum();
        kept.store(u64::try_from(sum).expect("a few"), Ordering::Relaxed);
    };
    let order = world.dylib.link_order().expect("it lives");
    let names = vec![("digits".into(), SymbolLookupFlags::Required)];
    world.session.lookup_async(LookupKind::Static, order, names, SymbolState::Ready, callback);
    assert_eq!(result.load(Ordering::Relaxed), 6);
}

#[test]
fn a_closure_compiles_at_a_lookup_and_not_before() {
    let world = World::new();
    let compiled = Arc::new(AtomicU64::new(0));
    for (part, names) in [(1, ["even"]), (2, ["odd"]), (6, ["digits"])] {
        let (layer, compiled) = (world.layer.clone(), Arc::clone(&compiled));
        let interface = ObjectLayer::interface(&object(part)).expect("an interface");
        assert!(interface.symbols.keys().map(|name| &**name).eq(names));
        let compile = move |responsibility: MaterializationResponsibility| {
            compiled.fetch_add(1, Ordering::Relaxed);
            layer.emit(responsibility, &object(part));
        };
        world.dylib.define(Lazily::new(names[0], interface, compile)).expect("defined");
    }
    assert_eq!(world.call("odd", 3), 1);
    assert_eq!(compiled.load(Ordering::Relaxed), 2, "digits is not wanted");
    assert_eq!(world.call("even", 3), 0);
    assert_eq!(compiled.load(Ordering::Relaxed), 2);
}

#[test]
fn removal_of_many_objects_by_one_tracker_is_one_message() {
    let world = World::new();
    let base = world.next();
    let names = ["even", "odd", "third", "digits", "initialized", "constant", "open_secret"];
    for (flags, messages) in [(&[][..], 1), (&["-fno-asynchronous-unwind-tables"], 0)] {
        let tracker = world.tracker();
        // The one with an initializer has something to undo in any case.
        let parts = [1, 2, 3, 6, 7, 11, 13].into_iter().filter(|part| messages > 0 || *part != 7);
        parts.for_each(|part| world.layer.add(&tracker, &built(part, flags)).expect("added"));
        for number in 0..1000 {
            let tiny =
                TinyObject::new().function(&format!("f{number}"), &tiny_code::constant(number));
            let tiny = ObjectFile::parse("tiny.o", tiny.bytes()).expect("an object");
            world.layer.add(&tracker, &tiny).expect("added");
        }
        let names = names.into_iter().filter(|name| messages > 0 || *name != "initialized");
        let tiny: Vec<String> = (0..1000).map(|number| format!("f{number}")).collect();
        world.dylib.lookup_all(names.chain(tiny.iter().map(|name| &**name))).expect("found");
        // Posted calls go first.
        assert_eq!(world.call("even", 2), 1);
        let before = world.process.stats();
        tracker.remove().expect("removed");
        let after = world.process.stats();
        assert_eq!(after.calls - before.calls, messages);
        assert_eq!(after.round_trips - before.round_trips, messages);
        assert_eq!(world.next(), base);
    }
}

#[test]
fn symbols_moved_to_another_tracker_go_with_that_tracker() {
    let world = World::new();
    let base = world.next();
    let (first, second) = (world.tracker(), world.tracker());
    world.layer.add(&first, &object(11)).expect("added");
    assert_eq!(world.call("constant", 0), 42);
    first.transfer_to(&second).expect("emptied");
    first.remove().expect("nothing to remove");
    assert_eq!(world.call("constant", 0), 43);
    drop(first);
    second.remove().expect("removed");
    assert_eq!(world.next(), base);
}

#[test]
fn thread_locals_of_another_object() {
    let world = World::new();
    world.add(9);
    world.add(8);
    assert_eq!((world.call("bump", 0), world.call("bump", 0)), (6, 7));
    let error = world.dylib.lookup("per_thread");
    assert!(error.is_ok(), "its place from the thread pointer");
}

#[test]
fn initializers_run_once_when_they_are_asked_for() {
    let world = World::new();
    world.add(7);
    world.add(11);
    assert_eq!(world.call("initialized", 0), 0);
    world.layer.initialize(&world.session, &world.dylib).expect("they run");
    world.layer.initialize(&world.session, &world.dylib).expect("there are none left");
    assert_eq!(world.call("initialized", 0), 41);
    assert_eq!(world.dylib.state_of("constant"), Some(SymbolState::NeverSearched));
    world.dylib.clear().expect("cleared");
    world.add(7);
    world.layer.initialize(&world.session, &world.dylib).expect("it is linked for that");
    assert_eq!(world.call("initialized", 0), 41);
}

#[test]
fn archives_supply_the_members_that_are_looked_for() {
    let world = World::new();
    let base = world.next();
    let objects = [11, 12, 10].map(|part| {
        let part = format!("-DPART={part}");
        corpus::object("jit.c", gcc(&["-O2", "-fPIC", &part]))
    });
    let file = std::fs::read(corpus::archive("jit", &objects)).expect("just made");
    let archive = Archive::parse("libjit.a", file).expect("an archive");
    world.dylib.add_generator(ArchiveMembers::new(&world.layer, &archive)).expect("added");
    let names = vec![("twice".into(), SymbolLookupFlags::Required)];
    let order = world.dylib.link_order().expect("it lives");
    let found = world.session.lookup(LookupKind::DLSym, order, names, SymbolState::Ready);
    assert!(found.expect_err("ignored").kind() == ErrorKind::SymbolsNotFound);
    assert_eq!(world.call("twice", 0), 84);
    assert!(world.dylib.state_of("constant").is_some());
    assert!(world.dylib.state_of("broken").is_none(), "nobody needs it");
    world.dylib.clear().expect("cleared");
    assert_eq!(world.next(), base);
}

#[test]
fn objects_are_lent_to_any_number_of_sessions() {
    let object = object(11);
    let worlds = [(); 3].map(|()| World::new());
    std::thread::scope(|scope| {
        for world in &worlds {
            scope.spawn(|| {
                for _ in 0..50 {
                    let tracker = world.tracker();
                    world.layer.add(&tracker, &object).expect("added");
                    assert_eq!((world.call("constant", 0), world.call("constant", 0)), (42, 43));
                    tracker.remove().expect("removed");
                }
            });
        }
    });
}

#[test]
fn the_end_of_the_session_gives_everything_back() {
    let world = World::new();
    let base = world.next();
    world.add(1);
    world.add(2);
    assert_eq!(world.call("even", 0), 1);
    world.session.end_session().expect("ended");
    assert_eq!(world.next(), base);
    assert!(world.dylib.lookup("even").expect_err("over").kind() == ErrorKind::DylibDefunct);
}

#[test]
fn when_the_executor_is_gone_removal_says_so_and_lookups_fail() {
    let world = World::new();
    world.add(6);
    world.add(11);
    assert_eq!(world.call("constant", 0), 42);
    world.process.kill();
    let error: Error = world.dylib.lookup("digits").expect_err("it cannot be asked");
    assert!(error.to_string().contains("died") || error.is_disconnected(), "{error}");
    let error = world.dylib.clear().expect_err("it cannot be told");
    assert!(error.is_disconnected(), "{error}");
}

/// Adds an object, calls it and removes it, `rounds` times; what the executor holds stays what it was.
fn come_and_go(rounds: u64) -> [Held; 2] {
    let world = World::new();
    let parts = [object(11), object(12), object(6)];
    let base = world.next();
    let mut warm = None;
    for round in 0..rounds {
        let tracker = world.tracker();
        for part in &parts {
            world.layer.add(&tracker, part).expect("added");
        }
        assert_eq!(world.call("twice", 0), 84);
        tracker.remove().expect("removed");
        if round == rounds / 10 {
            warm = Some(Held::of(world.process.pid()));
        }
    }
    assert_eq!(world.next(), base, "every byte is free again");
    [warm.expect("there are more rounds"), Held::of(world.process.pid())]
}

fn is_flat([warm, held]: [Held; 2]) {
    assert!(held.resident_bytes <= warm.resident_bytes + (256 << 10), "{warm:?}, then {held:?}");
    assert!(held.descriptors() <= warm.descriptors(), "{warm:?}, then {held:?}");
    // Thousands more would belong to the rounds. A thread of the executor's may start late, with two heaps and stacks.
    assert!(held.mappings <= warm.mappings + 8, "{warm:?}, then {held:?}");
}

#[test]
fn objects_that_come_and_go_leave_nothing() {
    is_flat(come_and_go(3_000));
}

#[test]
#[ignore = "a minute: .ci/run runs it"]
fn soak_objects_that_come_and_go() {
    let start = std::time::Instant::now();
    let held = come_and_go(34_000);
    is_flat(held);
    println!(
        "soak: 102000 objects added, linked and removed in {:.1?}; resident {} KiB, then {} KiB",
        start.elapsed(),
        held[0].resident_bytes >> 10,
        held[1].resident_bytes >> 10
    );
}

#[test]
fn aliases_of_linked_functions() {
    let world = World::new();
    world.add(11);
    let alias = farcall::orc::Alias {
        aliasee: "constant".into(),
        flags: farcall::orc::SymbolFlags::EXPORTED,
    };
    world.dylib.define_aliases(BTreeMap::from([("other".into(), alias)])).expect("defined");
    assert_eq!((world.call("other", 0), world.call("constant", 0)), (42, 43));
}
