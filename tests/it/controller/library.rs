//! The library as a JIT author uses it: launch, link, look up, call, remove.

use farcall::controller::{ExecutorBuilder, Library, Process, Stats};
use farcall::link::{Archive, ObjectFile};
use farcall::{ErrorKind, ExecutorAddr, PerProt};
use farcall_bench::{TinyObject, tiny_code};

use crate::testkit::corpus;
use crate::testkit::held::next;
use crate::testkit::launch;

fn constant(name: &str, value: u64) -> ObjectFile {
    launch::tiny_object(&TinyObject::new().function(name, &tiny_code::constant(value)))
}

fn call(process: &Process, dylib: &Library, name: &str) -> u64 {
    let function = dylib.lookup(name).expect("defined");
    let result = process.call(function, &[0; 16]).expect("a result");
    u64::from_le_bytes(result.try_into().expect("8 bytes"))
}

#[test]
fn functions_are_called_with_bytes_and_answer_bytes() {
    let executor = launch::executor();
    let process = executor.process().expect("a process");
    assert!(process.triple().starts_with(std::env::consts::ARCH), "{}", process.triple());
    let dylib = executor.library("d");
    dylib
        .add_object(&launch::tiny_object(&TinyObject::new().function("add", tiny_code::ADD)))
        .expect("added");
    let add = dylib.lookup("add").expect("defined");
    let mut sum = Vec::new();
    for number in 0..10_000_u64 {
        sum.clear();
        let args = [number.to_le_bytes(), 7_u64.to_le_bytes()].concat();
        process.call_into(add, &args, &mut sum).expect("a result");
        assert_eq!(sum, (number + 7).to_le_bytes());
    }
    let large = [1_u64.to_le_bytes(), 2_u64.to_le_bytes()].concat().repeat(1 << 16);
    let result = process.call(add, &large).expect("a megabyte travels");
    assert_eq!(result, 3_u64.to_le_bytes());
}

/// A call of removed code would end the host, if the code is in its process.
#[test]
fn a_function_is_looked_up_again_behind_a_clear() {
    let executor = launch::executor();
    let library = executor.library("d");
    let answer = library.function::<extern "C" fn() -> u64>("answer");
    for value in [41, 42] {
        library.add_object(&constant("answer", value)).expect("added");
        assert_eq!(answer.call(()).expect("a result"), value);
        assert_eq!(answer.clone().submit(()).expect("submitted").wait().expect("one"), value);
        library.clear().expect("cleared");
        let error = answer.call(()).expect_err("removed");
        assert_eq!(error.kind(), ErrorKind::SymbolsNotFound, "{error}");
    }
}

/// U5: what the dylib's own objects do not define, its shared libraries do.
#[test]
fn a_dylib_finds_functions_of_libraries_that_it_opened() {
    type Root = extern "C" fn(f64) -> f64;
    let executor = launch::executor();
    let process = executor.process().expect("a process");
    let maths = executor.library("maths");
    maths.add_library("libm.so.6").expect("added");
    for _ in 0..2 {
        let root =
            maths.function::<Root>("cbrt").bind().expect("found").call((27.0,)).expect("a result");
        assert!((root - 3.0).abs() < 1e-12, "{root}");
    }
    let error = maths.lookup("no_such_function").expect_err("missing");
    assert_eq!(error.kind(), ErrorKind::SymbolsNotFound, "{error}");
    assert_eq!(error.symbols(), ["no_such_function"]);
    let other = executor.library("other");
    assert_eq!(other.lookup("cbrt").expect_err("no library").kind(), ErrorKind::SymbolsNotFound);

    maths.add_object(&constant("cbrt", 7)).expect("an own definition");
    assert_eq!(call(&process, &maths, "cbrt"), 7);
    maths.clear().expect("cleared");
    assert_eq!(maths.lookup("cbrt").expect_err("forgotten").kind(), ErrorKind::SymbolsNotFound);

    let absent = executor.library("absent");
    absent.add_library("libno_such_library.so").expect("added");
    let error = absent.lookup("cbrt").expect_err("no such library").to_string();
    assert!(error.contains("libno_such_library.so"), "{error}");
}

#[test]
fn a_look_up_in_a_dead_session_is_an_error() {
    let executor = launch::executor();
    let process = executor.process().expect("a process");
    let dylib = executor.library("dead");
    dylib.define("address", ExecutorAddr::new(0x1000)).expect("defined");
    dylib.add_object(&constant("value", 7)).expect("added");
    assert_eq!(dylib.lookup("address").expect("alive").get(), 0x1000);
    assert_eq!(call(&process, &dylib, "value"), 7);
    process.kill();
    assert!(process.process_info().expect_err("dead").death().is_some());
    for name in ["address", "value", "nowhere"] {
        let error = dylib.lookup(name).expect_err("dead");
        assert_eq!(error.kind(), ErrorKind::Died, "{name}: {error}");
        assert_eq!(error.death().and_then(|death| death.signal), Some(9), "{error}");
    }
}

#[test]
fn hidden_names_are_seen_by_links_of_their_dylib_only() {
    let executor = launch::executor();
    let process = executor.process().expect("a process");
    for build in [corpus::PLAIN, corpus::gcc(&["-O2", "-fPIC"]), corpus::LOW] {
        let objects = ["hidden_first.c", "hidden_second.c"].map(|name| {
            let file = std::fs::read(corpus::object(name, build)).expect("compiled");
            ObjectFile::parse(name, file).expect("an object")
        });
        let dylib = executor.library("d");
        for object in &objects {
            dylib.add_object(object).expect("added");
            dylib.link().expect("linked");
        }
        assert_eq!(call(&process, &dylib, "second"), 0x0107_0606);
        assert_eq!(call(&process, &dylib, "second"), 0x0107_0707);
        assert!(dylib.lookup("hidden_next").is_err(), "it is not for who looks it up");
        let again = dylib.add_object(&objects[0]).expect_err("its names are there");
        assert!(again.to_string().contains("is defined in d already"), "{again}");

        let other = executor.library("other");
        other.add_object(&objects[1]).expect("added");
        let error = other.link().expect_err("they are hidden").to_string();
        assert!(error.contains("hidden_next"), "{error}");
        dylib.clear().expect("cleared");
        dylib.add_object(&objects[1]).expect("added");
        assert!(dylib.link().is_err(), "they are gone");
    }
}

#[test]
fn a_later_link_takes_no_second_copy_of_an_archives_member() {
    let first = corpus::object("hidden_first.c", corpus::PLAIN);
    let file = std::fs::read(corpus::archive("hidden", &[first])).expect("just made");
    let archive = Archive::parse("libhidden.a", file).expect("an archive");
    let executor = launch::executor();
    let dylib = executor.library("d");
    dylib.add_archive(&archive).expect("added");
    for (name, target, objects) in [("f", "first_shared", 2), ("g", "hidden_next", 1)] {
        let caller = TinyObject::new()
            .function(name, tiny_code::JUMP)
            .call_at(tiny_code::JUMP_TARGET, target);
        dylib.add_object(&launch::tiny_object(&caller)).expect("added");
        assert_eq!(dylib.link().expect("linked").objects, objects);
    }
}

#[test]
fn one_object_is_lent_to_many_dylibs_and_executors() {
    let shared = constant("f", 5);
    for _ in 0..2 {
        let executor = launch::executor();
        let process = executor.process().expect("a process");
        let dylibs = ["a", "b"].map(|name| executor.library(name));
        for dylib in &dylibs {
            dylib.add_object(&shared).expect("added");
            assert_eq!(call(&process, dylib, "f"), 5);
        }
        assert_ne!(dylibs[0].lookup("f").expect("a"), dylibs[1].lookup("f").expect("b"));
    }
}

#[test]
fn a_later_link_refers_to_an_earlier_one() {
    let executor = launch::executor();
    let process = executor.process().expect("a process");
    let dylib = executor.library("d");
    dylib.add_object(&constant("f", 6)).expect("added");
    dylib.link().expect("linked");
    // jmp f
    let caller =
        TinyObject::new().function("g", tiny_code::JUMP).call_at(tiny_code::JUMP_TARGET, "f");
    dylib.add_object(&launch::tiny_object(&caller)).expect("added");
    assert_eq!(call(&process, &dylib, "g"), 6);

    let error = dylib.add_object(&constant("f", 7)).expect_err("f is there already");
    assert!(error.is_link() && error.to_string().contains('f'), "{error}");
    assert_eq!(call(&process, &dylib, "g"), 6, "what was linked stays");
}

#[test]
fn all_undefined_symbols_are_named() {
    let executor = launch::executor();
    let process = executor.process().expect("a process");
    let dylib = executor.library("needy");
    let [first, second] = tiny_code::CALLS_TARGETS;
    let needy = TinyObject::new()
        .function("f", tiny_code::CALLS)
        .call_at(first, "nobody")
        .call_at(second, "no_one");
    dylib.add_object(&launch::tiny_object(&needy)).expect("added");
    let error = dylib.link().expect_err("undefined");
    assert_eq!(error.symbols(), ["no_one", "nobody"]);
    assert!(error.is_link());

    let error = dylib.lookup("f").expect_err("forgotten");
    assert_eq!(error.symbols(), ["f"]);
    dylib.add_object(&constant("f", 1)).expect("the dylib is still of use");
    assert_eq!(call(&process, &dylib, "f"), 1);
}

#[test]
fn removed_code_makes_room_at_once() {
    let executor = launch::executor();
    let process = executor.process().expect("a process");
    let mut first = None;
    for version in 0..100 {
        let dylib = executor.library("d");
        dylib.add_object(&constant("f", version)).expect("added");
        let address = dylib.lookup("f").expect("defined");
        assert_eq!(call(&process, &dylib, "f"), version, "never an earlier version");
        assert_eq!(*first.get_or_insert(address), address, "the same pages again");
        dylib.clear().expect("cleared");
        assert!(dylib.lookup("f").is_err());
    }
}

/// The messages, posted ahead of the next call, that publish this many pieces of code. There are none where instruction caches see stores.
fn published(process: &Process, pieces: u64) -> u64 {
    if process.symbol("farcall_code_publish").is_some() { pieces } else { 0 }
}

#[test]
fn finalizing_without_actions_sends_nothing() {
    let executor = launch::executor();
    let process = executor.process().expect("a process");
    let before = process.stats();
    let dylib = executor.library("d");
    dylib.add_object(&constant("f", 1)).expect("added");
    let report = dylib.link().expect("linked");
    dylib.clear().expect("cleared");
    let calls = before.calls + published(&process, 1);
    assert_eq!(process.stats(), Stats { calls, ..before });
    assert_eq!(report.objects, 1);
}

#[test]
fn memory_in_flight_is_freed_by_its_drop_finalized_memory_not() {
    let process = launch::process();
    let before = process.stats();
    let place = || next(&process);
    let base = place();
    assert_eq!(place(), base, "it was dropped");
    let memory = [(); 3].map(|()| {
        process.allocate(PerProt { code: 1, constants: 1, data: 1 }).expect("room").finalize()
    });
    assert_eq!(memory[0].address(), base[0]);
    assert_ne!(place(), base);
    process.deallocate(memory).expect("all three");
    assert_eq!(place(), base);
    let nothing = process.allocate(PerProt::default()).expect("no room is needed").finalize();
    assert!(nothing.address().is_null());
    process.deallocate([nothing]).expect("nothing to give back");
    let calls = before.calls + published(&process, 3);
    assert_eq!(process.stats(), Stats { calls, ..before }, "no message");
}

#[test]
fn finalized_memory_that_is_dropped_is_caught_in_debug_builds() {
    let process = launch::process();
    let memory =
        process.allocate(PerProt { code: 1, ..PerProt::default() }).expect("room").finalize();
    let dropped = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(memory)));
    assert_eq!(dropped.is_err(), cfg!(debug_assertions));
    drop(process.allocate(PerProt::default()).expect("no room is needed").finalize());
}

#[test]
fn a_foreign_function_of_the_contract_is_an_error() {
    let executor = launch::executor();
    let process = executor.process().expect("a process");
    let error = process.call(farcall::ExecutorAddr::NULL, &[]).expect_err("nothing there");
    assert!(error.kind() == ErrorKind::Remote, "{error:?}");
    let dylib = executor.library("d");
    dylib.add_object(&constant("f", 3)).expect("added");
    assert_eq!(call(&process, &dylib, "f"), 3, "the session goes on");
}

#[test]
fn a_crash_names_the_function_and_a_new_executor_works() {
    let poke =
        launch::tiny_object(&TinyObject::new().function("poke", &tiny_code::poke(0xdad_beef)));
    let executor = launch::executor();
    let first = executor.process().expect("a process");
    let dylib = executor.library("d");
    dylib.add_object(&poke).expect("added");
    let function = dylib.lookup("poke").expect("defined");
    let error = first.call(function, &[]).expect_err("it crashes");
    let death = error.death().expect("a death");
    assert_eq!(death.signal, Some(11));
    assert_eq!(death.fault_address, Some(0xdad_beef));
    assert!(death.location.as_ref().is_some_and(|at| at.contains("poke+0x")), "{death}");
    for _ in 0..2 {
        let again = first.call(function, &[]).expect_err("it stays dead");
        assert_eq!(again.death().and_then(|death| death.signal), Some(11));
    }
    assert!(dylib.clear().is_ok(), "nothing was registered, so nobody has to be told");

    let second = launch::executor();
    let dylib = second.library("d");
    dylib.add_object(&constant("f", 9)).expect("added");
    assert_eq!(call(&second.process().expect("alive"), &dylib, "f"), 9);
}

#[test]
fn a_killed_executor_ends_the_call_that_waits() {
    let executor = launch::executor();
    let process = executor.process().expect("a process");
    let dylib = executor.library("d");
    let spin = launch::tiny_object(&TinyObject::new().function("spin", tiny_code::SPIN));
    dylib.add_object(&spin).expect("added");
    let function = dylib.lookup("spin").expect("defined");
    let killer = process.downgrade();
    let clone = process.clone();
    let caller = std::thread::spawn(move || clone.call(function, &[]));
    std::thread::sleep(std::time::Duration::from_millis(20));
    killer.kill();
    let error = caller.join().expect("no panic").expect_err("killed");
    assert_eq!(error.death().and_then(|death| death.signal), Some(9), "{error}");
}

#[test]
fn a_closed_session_ends_every_call_that_waits() {
    let executor = launch::executor();
    let process = executor.process().expect("a process");
    let dylib = executor.library("d");
    let spin = launch::tiny_object(&TinyObject::new().function("spin", tiny_code::SPIN));
    dylib.add_object(&spin).expect("added");
    let function = dylib.lookup("spin").expect("defined");
    let (sender, receiver) = std::sync::mpsc::channel();
    process.on_death(move |error| _ = sender.send(error)).expect("a thread");
    let pending = process.pipeline().expect("a pipeline").submit(function, &[]).expect("sent");
    let callers: Vec<_> = (0..8)
        .map(|_| {
            let clone = process.clone();
            std::thread::spawn(move || clone.call(function, &[]))
        })
        .collect();
    std::thread::sleep(std::time::Duration::from_millis(50));
    assert!(!process.has_ended() && process.death().is_none());
    process.close();
    assert_eq!(process.pid(), 0, "the process has ended");
    for caller in callers {
        let error = caller.join().expect("no panic").expect_err("closed");
        assert_eq!(error.kind(), ErrorKind::Disconnected, "{error}");
    }
    let later = [
        pending.wait().expect_err("closed"),
        process.call(function, &[]).expect_err("closed"),
        dylib.lookup("spin").expect_err("closed"),
        process.exit(0).expect_err("closed"),
    ];
    for error in later {
        assert_eq!(error.to_string().matches("the session was closed").count(), 1, "{error}");
        assert_eq!(error.kind(), ErrorKind::Disconnected, "{error}");
    }
    assert!(process.has_ended() && process.death().is_none(), "it was closed");
    process.close();
    assert!(receiver.recv().is_err(), "a close is no death");
}

#[test]
fn tags_without_a_handler_have_one_for_all() {
    let executor = launch::executor();
    let process = executor.process().expect("a process");
    let dylib = executor.library("d");
    let ask = ObjectFile::parse(
        "ask.o",
        std::fs::read(corpus::object("controlled.c", corpus::PLAIN)).expect("compiled"),
    );
    dylib.add_object(&ask.expect("an object")).expect("added");
    dylib.define("host_scale", ExecutorAddr::new(0x10)).expect("defined");
    let ask = dylib.lookup("ask").expect("defined");
    let call = |tag: u64, args: &[u8]| process.call(ask, &[&tag.to_le_bytes(), args].concat());
    let error = call(7 << 40, b"one").expect_err("no handler");
    assert!(
        error.to_string().contains("no handler is registered for tag 0x70000000000"),
        "{error}"
    );
    let other = |tag: u64, args: &[u8], result: &mut Vec<u8>| {
        result.extend(args.iter().rev());
        result.extend_from_slice(&tag.to_le_bytes());
        Ok(())
    };
    process.handle_other_tags(other).expect("the first");
    assert_eq!(
        call(7 << 40, b"one").expect("answered"),
        [&b"eno"[..], &(7_u64 << 40).to_le_bytes()].concat()
    );
    let own = process.register_handler(|_, result| {
        result.extend_from_slice(b"own");
        Ok(())
    });
    assert_eq!(call(own.get(), b"").expect("answered"), b"own");
    let error = process.handle_other_tags(other).expect_err("the second");
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
}

#[test]
fn an_executor_that_cannot_start_is_an_error() {
    let error =
        ExecutorBuilder::new().program("/nonexistent/executor").start().expect_err("no program");
    assert!(error.to_string().contains("/nonexistent/executor"), "{error}");
    let error = ExecutorBuilder::new().program("/bin/false").start().expect_err("no executor");
    assert_eq!(error.death().and_then(|death| death.exit_status), Some(1), "{error}");
}

/// The answer of a wrapper function of `low_wrapper.c`.
fn low_address(process: &Process, dylib: &Library, name: &str) -> u64 {
    let address = call(process, dylib, name);
    assert!(address < 1 << 31, "{name} says {address:#x}");
    address
}

#[test]
fn code_with_32_bit_addresses_lies_low_beside_near_code() {
    let file = std::fs::read(corpus::object("low_wrapper.c", corpus::LOW)).expect("compiled");
    let low = ObjectFile::parse("low_wrapper.o", file).expect("an object");
    let executor = launch::executor();
    let process = executor.process().expect("a process");
    let mut trips = Vec::new();
    let mut places = std::collections::HashSet::new();
    for version in 0..200 {
        let before = process.stats().round_trips;
        let dylib = executor.library("low");
        dylib.add_object(&low).expect("added");
        dylib.link().expect("linked");
        trips.push(process.stats().round_trips - before);
        let near = executor.library("near");
        near.add_object(&constant("f", version)).expect("added");
        let counter = low_address(&process, &dylib, "low_count");
        assert_eq!(low_address(&process, &dylib, "low_count"), counter);
        let stdout = low_address(&process, &dylib, "low_stdout");
        places.insert((counter, stdout));
        assert_eq!(call(&process, &near, "f"), version);
        assert!(near.lookup("f").expect("defined").get() > 1 << 32);
        assert!(dylib.lookup("low_count").expect("defined").get() < 1 << 31);
        near.clear().expect("cleared");
        dylib.clear().expect("cleared");
    }
    assert_eq!(places.len(), 1, "the same pages, and one place for the library's variable");
    assert_eq!(trips[..3], [2, 1, 1], "the first link has memory reserved");
}

#[test]
fn code_added_to_low_code_lies_low_too() {
    let file = std::fs::read(corpus::object("low_wrapper.c", corpus::LOW)).expect("compiled");
    let low = ObjectFile::parse("low_wrapper.o", file).expect("an object");
    let executor = launch::executor();
    let process = executor.process().expect("a process");
    let dylib = executor.library("low");
    dylib.add_object(&low).expect("added");
    dylib.link().expect("linked");
    let later = TinyObject::new()
        .function("later", tiny_code::JUMP)
        .call_at(tiny_code::JUMP_TARGET, "low_count");
    dylib.add_object(&launch::tiny_object(&later)).expect("added");
    assert!(dylib.lookup("later").expect("defined").get() < 1 << 31);
    low_address(&process, &dylib, "later");
}

#[test]
fn near_code_follows_a_variable_that_low_code_has_had_moved() {
    let executor = launch::executor();
    let process = executor.process().expect("a process");
    let link = |name: &str, build| {
        let file = std::fs::read(corpus::object("low_wrapper.c", build)).expect("compiled");
        let dylib = executor.library(name);
        dylib.add_object(&ObjectFile::parse(name, file).expect("an object")).expect("added");
        dylib.link().expect("linked");
        dylib
    };
    let before = link("before", corpus::PLAIN);
    assert!(call(&process, &before, "low_stdout") > 1 << 32, "the library's own");
    let low = link("low", corpus::LOW);
    let stdout = low_address(&process, &low, "low_stdout");
    let after = link("after", corpus::PLAIN);
    assert_eq!(low_address(&process, &after, "low_stdout"), stdout);
    let wide = link("wide", corpus::gcc(&["-O2", "-fPIC"]));
    assert_eq!(low_address(&process, &wide, "low_stdout"), stdout);
    assert!(wide.lookup("low_count").expect("defined").get() > 1 << 32, "it reaches everything");
}

#[test]
fn a_refused_object_leaves_the_library_as_it_was() {
    let executor = launch::executor();
    let library = executor.library("d");
    library.define_handler("handled", |number: i64| number + 1).expect("defined");
    library.add_object(&constant("linked", 1)).expect("added");
    library.link().expect("linked");
    library.add_object(&constant("first", 7)).expect("added");
    for name in ["first", "linked", "handled"] {
        let error = library.add_object(&constant(name, 8)).expect_err("there is one");
        assert!(error.to_string().contains(name), "{error}");
    }
    library.add_object(&constant("second", 9)).expect("added");
    let process = executor.process().expect("a process");
    assert_eq!(["linked", "first", "second"].map(|name| call(&process, &library, name)), [1, 7, 9]);
}
