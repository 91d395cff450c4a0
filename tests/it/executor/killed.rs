//! An executor that its controller has started is killed, by SIGKILL, at every point of what linked code goes through. So is
//! the controller. The other one ends each call once and soon, and keeps nothing.
//!
//! The test of the same name in `tests/executor`, whose harness this is, has peers that did not start each other, over lanes
//! and streams.

#[path = "../../executor/killed/harness.rs"]
mod harness;
#[path = "../../executor/killed/left.rs"]
mod left;

use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use farcall::controller::calls::Bytes;
use farcall::controller::{CallOptions, Executor, ExecutorBuilder, Library, OnDeadline, Process};
use farcall::link::ObjectFile;
use farcall::{Error, ErrorKind, ExecutorAddr, Result};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use self::harness::{Points, ROLE, Victim, again, point, survive_apart};
use crate::testkit::corpus::{self, PLAIN};
use crate::testkit::launch;
use crate::testkit::process::until;

const NAME: &str = "executor::killed::a_launched_peer_that_is_killed_anywhere_leaves_nothing";
/// Tells the program `killed.c` where to die.
const MOMENT: &str = "KILLED_AT";
/// Marks a victim and the executor that it has started.
const FAMILY: &str = "FARCALL_TEST_KILLED_FAMILY";

/// Where `killed.c` dies.
const MOMENTS: [&str; 9] = [
    "posted initialize",
    "initializer",
    "main",
    "call",
    "nested call",
    "call, behind a call back",
    "thread, behind a call back",
    "exit handler",
    "finalizer",
];
/// Moments that are tried while calls go to and fro.
const DELAYS: u32 = 24;

#[test]
fn a_launched_peer_that_is_killed_anywhere_leaves_nothing() {
    match std::env::var(ROLE).as_deref() {
        Err(_) => survive_apart(NAME),
        Ok("survivor") => {
            let mut points = Points::start();
            executors(&mut points);
            controllers(&mut points);
            points.report(4);
        }
        Ok(_) => victim(),
    }
}

fn launch(moment: &str) -> ExecutorBuilder {
    launch::builder().env(MOMENT, moment)
}

/// `killed.c`, not linked yet.
fn dylib(executor: &Executor) -> Library {
    let dylib = executor.library("killed");
    let file = fs::read(corpus::object("killed.c", PLAIN)).expect("just compiled");
    dylib.add_object(&ObjectFile::parse("killed.o", file).expect("an object")).expect("added");
    dylib
}

/// The error of a call whose executor was killed.
fn is_death(error: &Error, what: &str) {
    let death = error.death().unwrap_or_else(|| panic!("{what}: {error:?}"));
    assert_eq!((death.signal, death.exit_status), (Some(9), None), "{what}: {error}");
}

fn is_dead<T: std::fmt::Debug>(outcome: Result<T>, what: &str) {
    is_death(&outcome.expect_err("nobody is there"), what);
}

/// All that linked code goes through.
fn converse(executor: &Executor) -> Result<()> {
    let dylib = dylib(executor);
    dylib.link()?;
    let functions = ["function", "nested", "from_thread"].map(|name| dylib.lookup(name));
    let [function, nested, from_thread] = functions;
    let (function, nested, from_thread) = (function?, nested?, from_thread?);
    assert_eq!(dylib.run_main(["killed"])?, 7);
    let process = executor.process()?;
    let weak = process.downgrade();
    let tag = process.register_handler(move |_, result| {
        point("in a handler");
        let process = weak.upgrade().ok_or("the session is over")?;
        let inner = process.call(nested, &[]).map_err(|error| error.to_string())?;
        point("in a handler, behind a nested call");
        result.extend_from_slice(&inner);
        Ok(())
    });
    for called in [function, from_thread] {
        assert_eq!(process.call(called, &tag.get().to_le_bytes())?, [0; 8]);
        point("behind a call");
    }
    dylib.clear()?;
    point("behind a deinitialize");
    Ok(())
}

fn pid(process: &Process) -> Pid {
    Pid::from_raw(process.pid())
}

/// Kills the executor; waiting threads learn of it later.
fn kills(pid: Pid) {
    kill(pid, Signal::SIGKILL).expect("nobody has waited for it");
}

fn executors(points: &mut Points) {
    let inside = "executor that was launched, in linked code";
    points.runs(inside, "nobody dies", |what| {
        let executor = launch("").start().expect("an executor");
        let process = executor.process().expect("a process");
        converse(&executor).expect(what);
        assert_eq!(process.exit(3).expect("it ends"), 3);
    });
    for moment in MOMENTS {
        points.dies(inside, moment, |what| {
            let executor = launch(moment).start().expect("an executor");
            let process = executor.process().expect("a process");
            is_dead(converse(&executor), what);
            is_dead(process.call(ExecutorAddr::new(1), &[]), what);
            is_dead(process.exit(0), what);
        });
    }
    let outside = "executor that was launched, from outside";
    points.dies(outside, "started, and not connected", |what| {
        let spawned = launch("").spawn().expect("started");
        until("there is a child", || !children().is_empty());
        children().into_iter().for_each(kills);
        // It may have been ready before.
        is_dead(spawned.connect().and_then(|executor| converse(&executor)), what);
    });
    points.dies(outside, "connected", |what| {
        let executor = launch("").start().expect("an executor");
        let process = executor.process().expect("a process");
        kills(pid(&process));
        is_dead(converse(&executor), what);
    });
    points.dies(outside, "between a posted initialize and the call behind it", |what| {
        let executor = launch("").start().expect("an executor");
        let process = executor.process().expect("a process");
        let dylib = dylib(&executor);
        let before = process.stats().round_trips;
        dylib.link().expect("it lives");
        let function = dylib.lookup("nested").expect("linked");
        assert_eq!(process.stats().round_trips, before + 1, "for names, not for actions");
        kills(pid(&process));
        is_dead(process.call(function, &[]), what);
        is_dead(dylib.clear(), what);
    });
    points.dies(outside, "with calls under way on lanes and in a pipeline", |what| {
        let executor = launch("").start().expect("an executor");
        let process = executor.process().expect("a process");
        let dylib = dylib(&executor);
        let waits = dylib.lookup("wait_for_ever").expect("linked");
        let pipeline = process.pipeline().expect("it lives");
        let batch = pipeline.submit_batch([(waits, &[1][..]); 20]).expect("it lives");
        let late = process.function::<Bytes>(waits).call_with(
            &CallOptions::new().timeout(Duration::from_millis(1)).on_deadline(OnDeadline::Abandon),
            &[],
        );
        assert!(late.expect_err("it waits for ever").kind() == ErrorKind::Timeout, "{what}");
        let ended = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    is_dead(process.call(waits, &[2; 99]), what);
                    ended.fetch_add(1, Ordering::Relaxed);
                });
            }
            std::thread::sleep(Duration::from_millis(3));
            kills(pid(&process));
            batch.for_each(|result| {
                is_dead(result.map(<[u8]>::len), what);
                ended.fetch_add(1, Ordering::Relaxed);
            });
        });
        assert_eq!(ended.into_inner(), 24, "{what}: each once");
        is_dead(pipeline.submit(waits, &[]).and_then(|submitted| submitted.wait()), what);
    });
    for step in 0..DELAYS {
        let delay = Duration::from_micros(61) * step;
        points.dies("executor that was launched, at any moment", &format!("{delay:?}"), |what| {
            let executor = launch("").start().expect("an executor");
            let process = executor.process().expect("a process");
            let dylib = dylib(&executor);
            let function = dylib.lookup("function").expect("linked");
            let tag = process.register_handler(|_, result| {
                result.extend_from_slice(&[0; 8]);
                Ok(())
            });
            std::thread::scope(|scope| {
                for _ in 0..2 {
                    scope.spawn(|| {
                        let calls = std::iter::repeat_with(|| {
                            process.call(function, &tag.get().to_le_bytes())
                        });
                        let error = calls.into_iter().find_map(Result::err).expect("no end");
                        is_death(&error, what);
                    });
                }
                std::thread::sleep(delay);
                kills(pid(&process));
            });
        });
    }
}

fn children() -> Vec<Pid> {
    let tasks = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let lists = tasks.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    let numbers = lists.flat_map(|list| {
        list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>()
    });
    numbers.map(Pid::from_raw).collect()
}

/// A controller that is to be killed.
fn victim() {
    point("before the launch");
    let spawned = launch("").spawn().expect("started");
    point("started, and not connected");
    let executor = spawned.connect().expect("an executor");
    let process = executor.process().expect("a process");
    point("connected");
    converse(&executor).expect("it lives");
    let dylib = dylib(&executor);
    let waits = dylib.lookup("wait_for_ever").expect("linked");
    point("between a posted initialize and the call behind it");
    let pipeline = process.pipeline().expect("it lives");
    let _batch = pipeline.submit_batch([(waits, &[1][..]); 20]).expect("it lives");
    let late = process.function::<Bytes>(waits).call_with(
        &CallOptions::new().timeout(Duration::from_millis(1)).on_deadline(OnDeadline::Abandon),
        &[],
    );
    assert!(late.expect_err("it waits for ever").kind() == ErrorKind::Timeout);
    point("with calls under way on a lane and in a pipeline");
    assert_eq!(process.exit(0).expect("it ends"), 0);
    point("behind the end");
}

/// The processes of a family that run.
fn family(mark: &str) -> Vec<String> {
    let mark = format!("{FAMILY}={mark}");
    let processes = fs::read_dir("/proc").expect("Linux").flatten();
    let belongs = |path: &std::path::Path| {
        let environment = fs::read(path.join("environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes())
    };
    let paths = processes.map(|entry| entry.path()).filter(|path| belongs(path));
    paths.map(|path| path.to_string_lossy().into_owned()).collect()
}

fn controllers(points: &mut Points) {
    let kind = "controller of an executor that it has launched";
    let run = |number: usize, place: Option<&str>, what: &str| {
        let mut command = again(NAME, "controller");
        let mark = format!("{}-{number}", std::process::id());
        command.env(FAMILY, &mark);
        let (victim, _socket) = Victim::start(command, place);
        victim.wait();
        until(&format!("{what}: no executor is left"), || family(&mark).is_empty());
        victim.end()
    };
    let (signal, listed) = points.runs(kind, "nobody dies", |what| run(0, None, what));
    assert!(signal.is_none() && listed.len() >= 12, "{listed:?}");
    for (number, place) in (1..).zip(&listed) {
        points.dies(kind, place, |what| {
            let (signal, passed) = run(number, Some(place), what);
            assert!(signal == Some(9) && passed.contains(place), "{what}: {passed:?}");
        });
    }
}
