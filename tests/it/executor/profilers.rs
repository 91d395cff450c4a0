//! Linked code in a profiler's eyes: the map and the dump that are written for it. A reader of the tests reads them back, and
//! so does perf where it is installed.
//!
//! Invariant: the files are read byte by byte, and nothing is left over.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::ops::Range;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;

use farcall::controller::Executor;
use farcall::controller::profile::{JitDump, PerfMap};
use farcall::link::ObjectFile;
use farcall::{AddrRange, ExecutorAddr};

use crate::jit::objects::World;
use crate::testkit::corpus::{self, Build, UNWIND, gcc};
use crate::testkit::launch::{self, FARCALL};
use crate::testkit::tools;

const DEBUG: Build<'static> = gcc(&["-O1", "-g", "-fPIC"]);

fn parsed(name: &str, build: Build<'_>) -> ObjectFile {
    let file = fs::read(corpus::object(name, build)).expect("just compiled");
    ObjectFile::parse(name, file).expect("an object")
}

fn range(function: &Range<u64>) -> AddrRange {
    let [start, end] = [function.start, function.end].map(ExecutorAddr::new);
    AddrRange { start, end }
}

/// The functions that a map lists, in order. It consists of nothing else.
fn read_map(path: &Path) -> Vec<(String, Range<u64>)> {
    let text = fs::read_to_string(path).expect("a map");
    assert!(text.is_empty() || text.ends_with('\n'));
    let line = |line: &str| {
        let mut words = line.splitn(3, ' ');
        let mut number = || u64::from_str_radix(words.next().expect("a word"), 16);
        let (start, bytes) = (number().expect("hexadecimal"), number().expect("hexadecimal"));
        let name = words.next().expect("a name").to_owned();
        assert_eq!(format!("{start:x} {bytes:x} {name}"), line);
        (name, start..start + bytes)
    };
    text.lines().map(line).collect()
}

#[test]
fn a_map_lists_functions_of_every_link_and_stays() {
    let world = World::new();
    let map = Arc::new(PerfMap::create(&world.process).expect("made"));
    let path = map.path().to_owned();
    assert_eq!(path, Path::new("/tmp").join(format!("perf-{}.map", world.process.pid())));
    world.layer.add_plugin(Arc::clone(&map) as _);
    let tracker = world.tracker();
    world.layer.add(&tracker, &parsed("profiled.c", DEBUG)).expect("added");
    assert_eq!(read_map(&path), [], "nothing is linked yet");
    let before = world.process.stats().calls;
    let outer = world.dylib.lookup("outer").expect("linked").address.get();
    let calls = world.process.stats().calls - before;
    assert!(calls <= 2, "{calls} calls: a lookup, and unwind information");
    let first = read_map(&path);
    let mut names: Vec<_> = first.iter().map(|(name, _)| &**name).collect();
    names.sort_unstable();
    assert_eq!(names, ["inner", "outer", "read@plt", "shared", "spin"]);
    for (function, place) in &first {
        let mut symbols = Command::new("nm");
        let output = symbols.arg("-S").arg(corpus::object("profiled.c", DEBUG)).output();
        let listed = String::from_utf8(output.expect("nm is installed").stdout).expect("text");
        let line = listed.lines().find(|line| line.ends_with(&format!(" {function}")));
        let bytes = line.and_then(|line| line.split(' ').nth(1));
        let bytes = bytes.map_or(8, |bytes| u64::from_str_radix(bytes, 16).expect("a size"));
        assert_eq!(place.end - place.start, bytes, "{function}");
        assert!(function != "outer" || place.start == outer);
    }
    tracker.remove().expect("removed");
    assert_eq!(read_map(&path), first, "what was removed has been there");
    // A dylib's links are listed as well.
    let dylib = Executor::from(&world.process).library("another");
    dylib.add_plugin(Arc::clone(&map) as _).expect("added");
    dylib.add_object(&parsed("counter.c", DEBUG)).expect("added");
    dylib.link().expect("linked");
    assert!(read_map(&path).len() > first.len());
    drop((dylib, map, world));
    assert!(read_map(&path).starts_with(&first), "it stays when the executor has gone");
    fs::remove_file(path).expect("removed");
}

#[test]
fn an_earlier_process_file_is_replaced_and_no_link_followed() {
    let process = launch::process();
    let folder = tempfile::tempdir().expect("a folder");
    let victim = folder.path().join("victim");
    fs::write(&victim, "precious").expect("written");
    let map = format!("/tmp/perf-{}.map", process.pid());
    let dump = folder.path().join(format!("jit-{}.dump", process.pid()));
    for path in [Path::new(&map), &dump] {
        std::os::unix::fs::symlink(&victim, path).expect("linked");
    }
    drop(PerfMap::create(&process).expect("made"));
    drop(JitDump::create(&process, folder.path()).expect("made"));
    for path in [Path::new(&map), &dump] {
        assert!(!fs::symlink_metadata(path).expect("it is there").is_symlink());
    }
    assert_eq!(fs::read_to_string(&victim).expect("it is there"), "precious");
    fs::remove_file(map).expect("removed");
    let missing = folder.path().join("missing");
    let error = JitDump::create(&process, &missing).expect_err("no such folder").to_string();
    assert!(error.contains("missing/jit-"), "{error}");
    process.kill();
    while process.pid() != 0 {
        std::thread::yield_now();
    }
    assert!(PerfMap::create(&process).is_err_and(|error| error.is_disconnected()));
}

/// Addresses, with their lines, discriminators and files.
type Lines = Vec<(u64, u32, u32, String)>;

/// A record of a dump.
#[derive(Debug, PartialEq)]
enum Record {
    Load { place: Range<u64>, number: u64, name: String, code: Vec<u8> },
    Lines { function: u64, lines: Lines },
    Close,
}

/// Reads numbers and texts off the front of bytes.
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn split_front(&mut self, count: usize) -> &'a [u8] {
        let (front, rest) = self.0.split_at(count);
        self.0 = rest;
        front
    }

    fn half(&mut self) -> u32 {
        u32::from_le_bytes(self.split_front(4).try_into().expect("four"))
    }

    fn word(&mut self) -> u64 {
        u64::from_le_bytes(self.split_front(8).try_into().expect("eight"))
    }

    fn text(&mut self) -> String {
        let end = self.0.iter().position(|byte| *byte == 0).expect("an end");
        let text = String::from_utf8(self.split_front(end).to_vec()).expect("text");
        assert_eq!(self.split_front(1), [0]);
        text
    }
}

/// The records of a dump about a process. It consists of nothing else, and their times never go back.
fn read_dump(path: &Path, pid: i32) -> Vec<Record> {
    let file = fs::read(path).expect("a dump");
    let pid = u32::try_from(pid).expect("a number");
    let mut bytes = Bytes(&file);
    assert_eq!(bytes.split_front(4), b"DTiJ", "the magic number, the low byte first");
    let header = [1, 40, 62, 0, pid];
    assert_eq!([(); 5].map(|()| bytes.half()), header, "version, size, machine, padding, process");
    let mut last = bytes.word();
    assert_eq!(bytes.word(), 0, "no flags");
    let mut records = Vec::new();
    while !bytes.0.is_empty() {
        let (kind, size, time) = (bytes.half(), bytes.half() as usize, bytes.word());
        assert!(time >= last);
        last = time;
        let mut rest = Bytes(bytes.split_front(size - 16));
        records.push(match kind {
            0 => {
                assert_eq!([rest.half(), rest.half()], [pid, pid], "process and thread");
                let (start, address) = (rest.word(), rest.word());
                assert_eq!(start, address);
                let (count, number, name) = (rest.word(), rest.word(), rest.text());
                let code = rest.split_front(usize::try_from(count).expect("a size")).to_vec();
                Record::Load { place: start..start + count, number, name, code }
            }
            2 => {
                let (function, count) = (rest.word(), rest.word());
                let mut line = || (rest.word(), rest.half(), rest.half(), rest.text());
                Record::Lines { function, lines: (0..count).map(|_| line()).collect() }
            }
            3 => Record::Close,
            _ => panic!("record {kind}"),
        });
        assert!(rest.0.is_empty(), "{} bytes are left of a record", rest.0.len());
    }
    records
}

/// The functions of a dump with their lines, after checking that those come first.
fn functions(records: &[Record]) -> BTreeMap<String, (Range<u64>, Lines)> {
    let mut found = BTreeMap::new();
    let mut pending = None;
    let mut next = 0;
    for record in records {
        match record {
            Record::Lines { function, lines } => {
                assert!(pending.replace((*function, lines.clone())).is_none());
            }
            Record::Load { place, number, name, .. } => {
                assert_eq!(*number, next, "functions are numbered");
                next += 1;
                let lines = pending.take().map_or(Vec::new(), |(function, lines)| {
                    assert_eq!(function, place.start);
                    assert!(lines.iter().all(|line| place.contains(&line.0)));
                    assert!(lines.is_sorted_by_key(|line| line.0));
                    lines
                });
                found.insert(name.clone(), (place.clone(), lines));
            }
            Record::Close => assert!(pending.is_none()),
        }
    }
    found
}

#[test]
fn a_dump_has_the_code_the_lines_and_an_end() {
    let folder = tempfile::tempdir().expect("a folder");
    let world = World::new();
    let pid = world.process.pid();
    let dump = Arc::new(JitDump::create(&world.process, folder.path()).expect("made"));
    let path = dump.path().to_owned();
    assert_eq!(path, folder.path().join(format!("jit-{pid}.dump")));
    // The mapping by which perf finds the file.
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).expect("it runs");
    let mark = maps.lines().find(|line| line.ends_with(path.to_str().expect("text")));
    assert!(mark.is_some_and(|line| line.contains(" r-xp 00000000 ")), "{mark:?}");
    assert_eq!(read_dump(&path, pid), []);

    world.layer.add_plugin(Arc::clone(&dump) as _);
    let tracker = world.tracker();
    world.layer.add(&tracker, &parsed("profiled.c", DEBUG)).expect("added");
    let outer = world.dylib.lookup("outer").expect("linked").address.get();
    let records = read_dump(&path, pid);
    let found = functions(&records);
    let names: Vec<_> = found.keys().map(|name| &**name).collect();
    assert_eq!(names, ["inner", "outer", "read@plt", "shared", "spin"]);
    assert_eq!(found["outer"].0.start, outer);
    let memory = world.process.memory_access();
    for record in &records {
        if let Record::Load { place, code, .. } = record {
            assert_eq!(memory.read_buffers(&[range(place)]).expect("it is there")[0], *code);
        }
    }
    let source = corpus::source("profiled.c");
    for (name, first, last, one) in
        [("inner", 6, 11, 8), ("outer", 13, 16, 14), ("spin", 18, 24, 21)]
    {
        let (place, lines) = &found[name];
        assert_eq!((lines[0].0, lines[0].1), (place.start, first), "{name} begins there");
        assert!(lines.iter().all(|line| (first..=last).contains(&line.1)), "{name}: {lines:?}");
        assert!(lines.iter().any(|line| line.1 == one), "{name}: {lines:?}");
        assert!(lines.iter().all(|line| Path::new(&line.3) == source), "{name}: {lines:?}");
    }
    assert!(found["read@plt"].1.is_empty(), "a stub has no source");

    // A removal need not be said; the next code goes behind it.
    tracker.remove().expect("removed");
    let tracker = world.tracker();
    world.layer.add(&tracker, &parsed("profiled.c", DEBUG)).expect("added");
    world.dylib.lookup("outer").expect("linked");
    let both = read_dump(&path, pid);
    assert_eq!(both[..records.len()], records);
    assert_eq!(both.len(), 2 * records.len());
    world.process.kill();
    drop((world, dump, tracker));
    let whole = read_dump(&path, pid);
    assert_eq!((&whole[..both.len()], &whole[both.len()..]), (&both[..], &[Record::Close][..]));
}

#[test]
fn lines_come_from_every_form_of_debug_information() {
    const RUST: [&str; 4] = ["-Cpanic=unwind", "-g", "-Copt-level=1", "-Crelocation-model=pic"];
    assert!(RUST.contains(&UNWIND));
    let mut builds = vec![
        ("profiled.c", gcc(&["-O1", "-fPIC", "-gdwarf-5"]), true),
        ("profiled.c", gcc(&["-O1", "-fPIC", "-gdwarf-4"]), true),
        ("profiled.c", gcc(&["-O1", "-fPIC", "-gdwarf-3"]), true),
        ("profiled.c", gcc(&["-O1", "-fPIC", "-g", "-ffunction-sections"]), true),
        ("profiled.c", gcc(&["-O1", "-fPIC", "-g", "-gz=zlib"]), false),
        ("profiled.c", gcc(&["-O1", "-fPIC"]), false),
        ("profiled.rs", gcc(&RUST), true),
    ];
    if tools::is_here("clang", "the lines of its objects") {
        builds.push(("profiled.c", corpus::clang(&["-O1", "-fPIC", "-g"]), true));
    }
    let folder = tempfile::tempdir().expect("a folder");
    for (name, build, has_lines) in builds {
        let world = World::new();
        let dump = JitDump::create(&world.process, folder.path()).expect("made");
        let path = dump.path().to_owned();
        world.layer.add_plugin(Arc::new(dump));
        world.layer.add(&world.tracker(), &parsed(name, build)).expect("added");
        world.dylib.lookup("spin").expect("linked");
        let found = functions(&read_dump(&path, world.process.pid()));
        let (place, lines) = &found["spin"];
        // Inlined code may come from elsewhere.
        assert!(lines.iter().all(|line| line.3.starts_with('/')), "{name} {build:?}: {lines:?}");
        let first = lines.first().map(|line| (line.0, line.3.clone()));
        let source = corpus::source(name).to_str().expect("text").to_owned();
        assert_eq!(first, has_lines.then_some((place.start, source)), "{name} {build:?}");
    }
}

/// Says what perf was good for, past the harness, which keeps the output of tests to itself.
fn say(what: &str) {
    writeln!(std::io::stdout().lock(), "perf: {what}").expect("open");
}

/// Runs a tool to its end.
fn run(tool: &str, args: &[&str]) -> Option<Output> {
    Command::new(tool).args(args).output().ok()
}

#[test]
fn perf_names_functions_by_the_map_and_by_the_dump() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name).to_str().expect("text").to_owned();
    let (raw, injected) = (at("raw.data"), at("injected.data"));
    let probe = run("perf", &["record", "-q", "-e", "cpu-clock", "-o", &raw, "true"]);
    if !probe.is_some_and(|output| output.status.success()) {
        tools::skip("perf", "not installed, or not allowed to count here");
        return;
    }
    let object = corpus::object("profiled.c", gcc(&["-O1", "-g", "-fPIC", "-DWITH_MAIN"]));
    let object = object.to_str().expect("text");
    let folder_name = folder.path().to_str().expect("text");
    let farcall = FARCALL;
    let record = ["record", "-q", "-k", "mono", "-e", "cpu-clock", "-o", &raw, farcall, "run"];
    let options = ["--perf-map", "--jitdump", folder_name, object];
    let recorded = run("perf", &[&record[..], &options].concat()).expect("it was there");
    assert!(recorded.status.success(), "{}", String::from_utf8_lossy(&recorded.stderr));
    let report = |data: &str| {
        let output = run("perf", &["report", "--stdio", "-F", "overhead,dso,symbol", "-i", data]);
        String::from_utf8(output.expect("it was there").stdout).expect("text")
    };
    let by_map = report(&raw);
    let line =
        by_map.lines().find(|line| line.contains("spin")).unwrap_or_else(|| panic!("{by_map}"));
    assert!(line.contains("[JIT]"), "{line}");
    let inject = run("perf", &["inject", "--jit", "-i", &raw, "-o", &injected]);
    assert!(inject.is_some_and(|output| output.status.success()));
    let by_dump = report(&injected);
    let line =
        by_dump.lines().find(|line| line.contains("spin")).unwrap_or_else(|| panic!("{by_dump}"));
    assert!(line.contains("jitted-"), "{line}");
    let files = fs::read_dir(folder.path()).expect("a folder").flatten();
    let dumps = files.filter_map(|file| {
        let name = file.file_name().into_string().ok()?;
        Some(name.strip_prefix("jit-")?.strip_suffix(".dump")?.to_owned())
    });
    for pid in dumps {
        fs::remove_file(format!("/tmp/perf-{pid}.map")).expect("it is of the same process");
    }
    say("2 cases");
}
