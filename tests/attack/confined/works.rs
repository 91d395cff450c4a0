//! A confined executor does all that a session needs.

use std::fs;
use std::thread;
use std::time::Duration;

use farcall::PerProt;
use farcall::controller::Confinement;
use farcall::controller::confinement::{ConfinementLevel, Restriction};
use farcall::link::ObjectFile;
use nix::errno::Errno;
use nix::libc;

use super::{LEVELS, NONE, confinement, start};
use crate::apart::Apart;
use crate::filter;
use crate::session::launch;
use crate::sources;

/// Every level, and the last one with all its limits.
fn confinements() -> Vec<Confinement> {
    let limited = Confinement::strict()
        .memory_bytes_max(512 << 20)
        .cpu_seconds_max(60)
        .descriptors_max(64)
        .file_bytes_max(1 << 30);
    LEVELS.into_iter().map(confinement).chain([limited]).collect()
}

#[test]
fn a_session_does_all_it_can_at_every_level() {
    Apart::within(120).run(|| {
        for confinement in confinements() {
            let session = start(confinement);
            println!("attack: {}", session.process.confinement());
            assert_eq!(session.call("add", &[2, 3]).expect("a call"), 5);
            // Lanes that are opened later, and threads of linked code.
            thread::scope(|scope| {
                let calls = [0, 1, 2, 3].map(|number| {
                    let session = &session;
                    scope.spawn(move || session.call("add", &[number, 1]).expect("a lane"))
                });
                let sums = calls.map(|call| call.join().expect("no panic"));
                assert_eq!(sums, [1, 2, 3, 4]);
            });
            assert_eq!(session.call("start_threads", NONE).expect("threads"), 10);
            // Objects that are linked later, memory beyond the first slab, pipelines, deadlines.
            let dylib = session.executor.library("later");
            let object = fs::read(sources::path("ends")).expect("compiled");
            dylib
                .add_object(&ObjectFile::parse("ends.o", object).expect("an object"))
                .expect("added");
            let add = dylib.lookup("add").expect("linked");
            let sum = |a: u64, b: u64| [a.to_le_bytes(), b.to_le_bytes()].concat();
            let pipeline = session.process.pipeline().expect("a pipeline");
            let five = pipeline.submit(add, &sum(2, 3)).expect("submitted");
            let five = five.wait_timeout(Duration::from_secs(10)).expect("a result");
            assert_eq!(five[..8], 5_u64.to_le_bytes());
            let more = PerProt { data: 256 << 20, ..PerProt::default() };
            let memory = session.process.allocate(more).expect("another slab");
            drop(memory);
            let tag = session.process.register_handler(|args, result| {
                result.extend_from_slice(args);
                Ok(())
            });
            let back = dylib.lookup("back").expect("linked");
            let five = session.process.call(back, &sum(tag.get(), 5)).expect("called back");
            assert_eq!(five[..8], 5_u64.to_le_bytes());
            dylib.clear().expect("removed");
            // Crashes are reported as ever.
            let error = session.call("null", NONE).expect_err("it crashes");
            let message = error.to_string();
            assert!(message.contains("SIGSEGV, fault address 0x0, in null"), "{message}");
        }
    });
}

#[test]
fn an_executor_has_no_capability_and_no_new_privileges() {
    Apart::within(60).run(|| {
        for level in [ConfinementLevel::Isolated, ConfinementLevel::Strict] {
            let session = start(confinement(level));
            let enforced = session.process.confinement();
            assert!(enforced.enforces(Restriction::Privileges), "{enforced}");
            let status = fs::read_to_string(format!("/proc/{}/status", session.pid()));
            let status = status.expect("the executor lives");
            let field = |name: &str| {
                let line = status.lines().find_map(|line| line.strip_prefix(name));
                line.unwrap_or_else(|| panic!("{name}")).trim().to_owned()
            };
            assert_eq!(field("NoNewPrivs:"), "1", "{level}");
            for set in ["CapEff:", "CapPrm:", "CapInh:", "CapAmb:"] {
                assert_eq!(field(set), "0000000000000000", "{level}: {set}");
            }
            let limits = fs::read_to_string(format!("/proc/{}/limits", session.pid()));
            let limits = limits.expect("the executor lives");
            let cores = limits.lines().find(|line| line.starts_with("Max core file size"));
            let numbers: Vec<&str> = cores.expect("a limit").split_whitespace().collect();
            assert_eq!(numbers[4..6], ["0", "0"], "{level}");
        }
    });
}

#[test]
fn an_executor_without_confinement_keeps_its_rights() {
    Apart::within(60).run(|| {
        let session = start(Confinement::new());
        assert_eq!(session.process.confinement().to_string(), "default");
        let fields = |pid: &str| {
            let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("it lives");
            let kept = |line: &&str| line.starts_with("Cap") || line.starts_with("NoNewPrivs");
            let limits = fs::read_to_string(format!("/proc/{pid}/limits")).expect("it lives");
            (status.lines().filter(kept).map(str::to_owned).collect::<Vec<_>>(), limits)
        };
        assert_eq!(fields(&session.pid().to_string()), fields("self"));
    });
}

#[test]
fn a_limit_that_leaves_no_room_to_start_is_an_error() {
    Apart::within(60).run(|| {
        for tight in [
            Confinement::strict().memory_bytes_max(1 << 20),
            Confinement::strict().descriptors_max(4),
            Confinement::isolated().descriptors_max(0),
        ] {
            let error = launch().confine(tight.allow_missing()).start();
            let error = error.expect_err("there is no room");
            println!("attack: {tight:?}: {error}");
            assert!(error.to_string().contains("ended before it was ready"), "{error}");
        }
    });
}

/// A kernel without Landlock, as far as the executor can tell.
#[test]
fn a_rule_that_the_kernel_lacks_is_an_error_or_is_named() {
    Apart::within(60).run(|| {
        let without = |confinement| {
            let launch = launch().confine(confinement);
            let call = libc::SYS_landlock_create_ruleset;
            filter::launch_refusing(launch, &[call], Errno::ENOSYS).start()
        };
        let of_landlock = "file writes, tracing, signals, abstract sockets, descendants";
        let error = without(Confinement::isolated()).expect_err("it lacks much").to_string();
        for words in [of_landlock, "Landlock ABI is 0", "allow_missing"] {
            assert!(error.contains(words), "{error}");
        }
        let names = |confinement: Confinement| {
            let process = without(confinement.allow_missing())
                .expect("without them")
                .process()
                .expect("alive");
            let enforced = process.confinement();
            assert_eq!(enforced.landlock_abi(), 0);
            enforced.missing().map(|one| one.to_string()).collect::<Vec<_>>().join(", ")
        };
        assert_eq!(names(Confinement::isolated()), of_landlock);
        // The list of system calls is enough for all but one.
        assert_eq!(names(Confinement::strict()), "file reads");
        let error = without(Confinement::strict()).expect_err("it lacks one").to_string();
        assert!(error.contains("cannot restrict file reads"), "{error}");
    });
}
