//! Linked code in a debugger's eyes: what is registered, by which debugger it is read, and when it is deregistered.
//!
//! The list that `__jit_debug_descriptor` begins is read from the executor's memory, as a debugger would; gdb itself joins in
//! where it is installed.

mod breakpoints;
mod core_file;

use std::fs;
use std::io::{Write, pipe};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use farcall::controller::plugin::{Finalizing, ObjectPlugin};
use farcall::controller::profile::DebugObjects;
use farcall::controller::{Executor, Process};
use farcall::link::{Archive, Image, ObjectFile};
use farcall::orc::MaterializationResponsibility;
use farcall::{ExecutorAddr, Result};

use crate::jit::objects::World;
use crate::testkit::corpus::{self, BRANCH_TARGETS, Build, gcc};
use crate::testkit::launch::FARCALL;
use crate::testkit::tools;

const DEBUG: Build<'static> = gcc(&["-O1", "-g", "-fPIC", BRANCH_TARGETS]);

/// No answer takes longer.
const TIMEOUT: Duration = Duration::from_secs(60);

fn profiled(build: Build<'_>) -> ObjectFile {
    let file = fs::read(corpus::object("profiled.c", build)).expect("just compiled");
    ObjectFile::parse("profiled.o", file).expect("an object")
}

/// A world whose layer tells debuggers of its links.
fn world() -> World {
    let world = World::new();
    world.layer.add_plugin(Arc::new(DebugObjects));
    world
}

/// The objects that are registered in an executor, the newest first.
fn registered(process: &Process) -> Vec<Vec<u8>> {
    let memory = process.memory_access();
    let word = |address: u64| memory.read::<u64>(&[ExecutorAddr::new(address)]).expect("there")[0];
    // Version and action are one word, what the action is about the next.
    let mut entry = word(descriptor(process) + 16);
    let mut objects = Vec::new();
    while entry != 0 {
        let (start, bytes) = (word(entry + 16), word(entry + 24));
        let range =
            farcall::AddrRange::sized(ExecutorAddr::new(start), bytes).expect("no overflow");
        objects.push(memory.read_buffers(&[range]).expect("it stays")[0].clone());
        entry = word(entry);
    }
    objects
}

/// Where the executor's descriptor is: as far from the start of its program as the program's file says.
fn descriptor(process: &Process) -> u64 {
    let program = Path::new(FARCALL).canonicalize().expect("it is there");
    let output = Command::new("nm").arg(&program).output().expect("nm is installed");
    let names = String::from_utf8(output.stdout).expect("text");
    let line = names.lines().find(|line| line.ends_with(" __jit_debug_descriptor"));
    let distance = line.and_then(|line| line.split(' ').next()).expect("it has one");
    let maps = fs::read_to_string(format!("/proc/{}/maps", process.pid())).expect("it runs");
    let first = maps.lines().find(|line| line.ends_with(program.to_str().expect("text")));
    let start = first.and_then(|line| line.split('-').next()).expect("it is mapped");
    let number = |text| u64::from_str_radix(text, 16).expect("a number");
    number(start) + number(distance)
}

/// The parts of an ELF file that are read here: name, flags and address of every section, and the sections and names of functions.
struct Elf {
    sections: Vec<(String, u64, u64)>,
    functions: Vec<(usize, String)>,
}

const ALLOC: u64 = 2;
const FUNCTION: u8 = 2;

impl Elf {
    fn read(file: &[u8]) -> Self {
        let number = |at: u64, bytes: usize| {
            let at = usize::try_from(at).expect("a file");
            let mut word = [0; 8];
            word[..bytes].copy_from_slice(&file[at..at + bytes]);
            u64::from_le_bytes(word)
        };
        let text = |table: u64, at: u64| {
            let start = usize::try_from(number(table + 24, 8) + at).expect("a file");
            let name = file[start..].split(|byte| *byte == 0).next().expect("a name");
            String::from_utf8(name.to_vec()).expect("text")
        };
        assert_eq!((&file[..4], number(16, 2)), (&b"\x7fELF"[..], 1), "a relocatable file");
        let header = |index: u64| number(40, 8) + 64 * index;
        let names = header(number(62, 2));
        let all: Vec<u64> = (0..number(60, 2)).map(header).collect();
        let section =
            |at: &u64| (text(names, number(*at, 4)), number(at + 8, 8), number(at + 16, 8));
        let symbols = *all.iter().find(|at| number(**at + 4, 4) == 2).expect("a symbol table");
        let strings = header(number(symbols + 40, 4));
        let starts =
            (0..number(symbols + 32, 8)).step_by(24).map(|at| number(symbols + 24, 8) + at);
        let functions = starts.filter(|at| number(at + 4, 1) & 15 == u64::from(FUNCTION));
        let function = |at: u64| {
            let section = usize::try_from(number(at + 6, 2)).expect("an index");
            (section, text(strings, number(at, 4)))
        };
        Self {
            sections: all.iter().map(section).collect(),
            functions: functions.map(function).collect(),
        }
    }

    /// The address of a section, if it is said to be in memory.
    fn address(&self, name: &str) -> Option<u64> {
        let mut all = self.sections.iter();
        let (_, flags, address) = all.find(|one| one.0 == name).expect("the object has it");
        (flags & ALLOC != 0).then_some(*address)
    }
}

#[test]
fn objects_are_registered_with_their_sections_addresses() {
    let world = world();
    let base = world.next();
    for (build, has_lines) in [(DEBUG, true), (gcc(&["-O1", "-fPIC", BRANCH_TARGETS]), false)] {
        let tracker = world.tracker();
        world.layer.add(&tracker, &profiled(build)).expect("added");
        let outer = world.dylib.lookup("outer").expect("found").address.get();
        let before = world.process.stats();
        let found = registered(&world.process);
        assert!(world.process.stats().calls > before.calls);
        let [object] = &found[..] else { panic!("{} objects", found.len()) };
        let elf = Elf::read(object);
        let text = elf.address(".text").expect("it is there");
        assert!(text <= outer && outer < text + 4096, "{text:#x}, {outer:#x}");
        assert!(elf.address(".bss").is_some_and(|address| address != 0));
        assert_eq!(elf.address(".note.gnu.property"), None, "it is not in memory");
        assert_eq!(elf.sections.iter().any(|one| one.0 == ".debug_line"), has_lines);
        tracker.remove().expect("removed");
        assert!(registered(&world.process).is_empty(), "it was taken back");
        assert_eq!(world.next(), base, "memory is left");
    }
}

#[test]
fn a_definition_that_lost_to_another_object_is_not_there() {
    const FIRST: Build<'static> = gcc(&["-O1", "-g", "-fPIC", "-ffunction-sections"]);
    const SECOND: Build<'static> = gcc(&[
        "-O1",
        "-g",
        "-fPIC",
        "-ffunction-sections",
        "-Douter=outer2",
        "-Dspin=spin2",
        "-Drounds=rounds2",
    ]);
    let world = world();
    let tracker = world.tracker();
    for build in [FIRST, SECOND] {
        world.layer.add(&tracker, &profiled(build)).expect("added");
    }
    for (name, is_first) in [("outer", true), ("outer2", false)] {
        world.dylib.lookup(name).expect("linked");
        let objects = registered(&world.process);
        let elf = Elf::read(&objects[0]);
        assert_eq!(elf.address(".text.shared").is_some(), is_first);
        let own = elf.sections.iter().position(|one| one.0 == ".text.shared");
        let shared = elf.functions.iter().find(|one| one.1 == "shared").expect("a function");
        let place = if is_first { own.expect("the object has it") } else { 0 };
        assert_eq!(shared.0, place, "it is undefined where it is not");
        assert!(elf.address(".text.inner").is_some_and(|address| address != 0));
    }
}

/// Does something when a link comes to a phase, after what other plugins have added.
struct At {
    phase: usize,
    work: Box<dyn Fn() -> Result<()> + Send + Sync>,
    reached: AtomicUsize,
}

impl At {
    fn reached(&self, phase: usize) -> Result<()> {
        self.reached.fetch_add(1, Ordering::Relaxed);
        if phase == self.phase { (self.work)() } else { Ok(()) }
    }
}

impl ObjectPlugin for At {
    fn fixed_up(&self, _: &MaterializationResponsibility, _: &mut Image) -> Result<()> {
        self.reached(0)
    }

    fn finalizing(&self, link: &mut Finalizing<'_>) -> Result<()> {
        assert!(link.objects().len() == 1 && link.symbols().get("outer").is_some());
        self.reached(1)
    }

    fn notify_emitted(&self, _: &MaterializationResponsibility) -> Result<()> {
        self.reached(2)
    }
}

#[test]
fn a_failed_or_removed_link_leaves_nothing_registered() {
    for (phase, is_removed) in (0..=2).flat_map(|phase| [(phase, false), (phase, true)]) {
        let world = world();
        let base = world.next();
        let dylib = world.dylib.clone();
        let work = move || match is_removed {
            true => dylib.clear(),
            false => Archive::parse("it fails here", "").map(drop),
        };
        let at = Arc::new(At { phase, work: Box::new(work), reached: AtomicUsize::new(0) });
        world.layer.add_plugin(Arc::clone(&at) as Arc<dyn ObjectPlugin>);
        world.layer.add(&world.tracker(), &profiled(DEBUG)).expect("added");
        let error = world.dylib.lookup("outer").expect_err("it goes").to_string();
        assert!(is_removed || error.contains("it fails here"), "phase {phase}: {error}");
        assert_eq!(at.reached.load(Ordering::Relaxed), if is_removed { 3 } else { phase + 1 });
        assert!(registered(&world.process).is_empty(), "phase {phase}, {is_removed}");
        assert_eq!(world.next(), base, "phase {phase}, {is_removed}: memory is left");
    }
}

#[test]
fn a_link_inside_of_a_handler_waits_for_no_registration() {
    // The thread that runs a handler also receives answers.
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let world = Arc::new(world());
        let tracker = world.tracker();
        world.layer.add(&tracker, &profiled(DEBUG)).expect("added");
        let inside = Arc::clone(&world);
        let found = Arc::new(Mutex::new(None));
        let kept = Arc::clone(&found);
        let tag = world.process.register_handler(move |_, _| {
            *kept.lock().expect("no panic") = Some(inside.dylib.lookup("outer"));
            Ok(())
        });
        let file = fs::read(corpus::object("calls_back.c", DEBUG)).expect("just compiled");
        let calls = Executor::from(&world.process).library("calls");
        calls.add_plugin(Arc::new(DebugObjects)).expect("added");
        calls
            .add_object(&ObjectFile::parse("calls_back.o", file).expect("an object"))
            .expect("added");
        let call = calls.lookup("back").expect("defined");
        world.process.call(call, &tag.get().to_le_bytes()).expect("it returns");
        world.process.remove_handler(tag);
        let found = found.lock().expect("no panic").take().expect("it was called");
        assert!(found.is_ok());
        assert_eq!(registered(&world.process).len(), 2);
        calls.clear().expect("cleared");
        assert_eq!(registered(&world.process).len(), 1);
        sender.send(()).expect("somebody waits");
    });
    receiver.recv_timeout(TIMEOUT).expect("no deadlock");
}

/// Says what gdb was good for, past the harness, which keeps the output of tests to itself.
fn say(what: &str) {
    writeln!(std::io::stdout().lock(), "gdb: {what}").expect("open");
}

/// The output of gdb when it is attached to a process.
fn gdb(pid: i32, commands: &[&str]) -> Option<String> {
    let mut gdb = Command::new("gdb");
    gdb.args(["-nx", "-batch", "-iex", "set debuginfod enabled off", "-p", &pid.to_string()]);
    gdb.args(commands.iter().flat_map(|command| ["-ex", command]));
    let output = gdb.output().ok()?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "gdb: {complaint}");
    Some(format!("{}\n{complaint}", String::from_utf8_lossy(&output.stdout)))
}

#[test]
fn gdb_names_functions_and_lines() {
    if !tools::is_here("gdb", "no debugger is attached") {
        return;
    }
    let world = world();
    let tracker = world.tracker();
    world.layer.add(&tracker, &profiled(DEBUG)).expect("added");
    // The code waits for a byte of a pipe of this process.
    let (reader, mut writer) = pipe().expect("a pipe");
    let path = format!("/proc/{}/fd/{}\0", std::process::id(), reader.as_raw_fd());
    let mut name = world.process.buffer(path.len() as u64).expect("memory");
    name.write(0, path.as_bytes());
    let open = world.dylib.lookup("open").expect("of the C library").address;
    let open = world.process.function::<extern "C" fn(ExecutorAddr, i32) -> i32>(open);
    let fd = open.call((name.address(), 0)).expect("a result");
    assert!(fd >= 0);
    let outer = world.dylib.lookup("outer").expect("found").address;
    let process = world.process.clone();
    let call = std::thread::spawn(move || {
        process.function::<extern "C" fn(i32) -> i32>(outer).call((fd,))
    });
    let pid = world.process.pid();
    let said = loop {
        let said = gdb(pid, &["thread apply all backtrace", "print rounds"]).expect("installed");
        // It may not have come there yet.
        if said.contains("outer") {
            break said;
        }
    };
    let frame = |name: &str, line: &str| {
        let is_frame = |text: &&str| text.contains(&format!(" {name} (")) && text.contains(line);
        assert!(said.lines().any(|text| is_frame(&text)), "{name} at {line}:\n{said}");
    };
    frame("inner", "profiled.c:8");
    frame("outer", "profiled.c:14");
    assert!(said.contains("$1 = 0"), "the variable:\n{said}");
    writer.write_all(b"x").expect("written");
    assert_eq!(call.join().expect("no panic").expect("a result"), 4);
    tracker.remove().expect("removed");
    let said = gdb(pid, &[&format!("info symbol {:#x}", outer.get())]).expect("installed");
    assert!(said.contains("No symbol matches"), "{said}");
    say("2 cases");
}
