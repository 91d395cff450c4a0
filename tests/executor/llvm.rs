//! Messages that controllers of LLVM 22 send and an executor has to take:
//!
//! - segments that are no whole pages;
//! - objects for debuggers that are never taken back;
//! - unwind records with gaps between them;
//! - requests for shared memory with a name.
//!
//! The requests are written byte by byte, so these tests run without LLVM. `.ci/llvm` runs LLVM's own tools.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::{ANSWER, CALL, PROGRAM, RESULT, Raw, calls_back, cut, word, words};

const PAGE: u64 = 4096;

const READ: u8 = 1;
const WRITE: u8 = 2;
const EXECUTE: u8 = 4;
const FINALIZE: u8 = 8;

/// A segment: its group, its address, its size, its content.
type Segment<'a> = (u8, u64, u64, &'a [u8]);

/// An action: its function and its arguments.
type Action = (u64, Vec<u8>);

const NOTHING: Action = (0, Vec::new());

/// A value or the text of an error: LLVM's `Expected`.
fn expected(answer: &[u8]) -> Result<u64, String> {
    match answer {
        [1, value @ ..] => Ok(word(value, 0)),
        [0, text @ ..] => Err(String::from_utf8(cut(&mut &*text).to_vec()).expect("text")),
        _ => panic!("{answer:?}"),
    }
}

/// Success or the text of an error: LLVM's `Error`.
fn status(answer: &[u8]) -> Result<(), String> {
    match answer {
        [0] => Ok(()),
        [1, text @ ..] => Err(String::from_utf8(cut(&mut &*text).to_vec()).expect("text")),
        _ => panic!("{answer:?}"),
    }
}

fn encoded(actions: &[(Action, Action)]) -> Vec<u8> {
    let mut bytes = words(&[actions.len() as u64]);
    for (function, args) in actions.iter().flat_map(|(one, other)| [one, other]) {
        bytes.extend(words(&[*function, args.len() as u64]));
        bytes.extend(args);
    }
    bytes
}

impl Raw {
    fn reserve(&mut self, bytes: u64) -> Result<u64, String> {
        let args = words(&[self.memory("Instance"), bytes]);
        expected(&self.call(self.memory("reserve_wrapper"), &args))
    }

    fn initialize(
        &mut self,
        segments: &[Segment<'_>],
        actions: &[(Action, Action)],
    ) -> Result<u64, String> {
        let mut args = words(&[self.memory("Instance"), segments.len() as u64]);
        for (group, start, bytes, content) in segments {
            args.push(*group);
            args.extend(words(&[*start, *bytes, content.len() as u64]));
            args.extend(*content);
        }
        args.extend(encoded(actions));
        expected(&self.call(self.memory("initialize_wrapper"), &args))
    }

    /// Calls a function of the memory manager that takes a list of addresses.
    fn undo(&mut self, what: &str, addresses: &[u64]) -> Result<(), String> {
        let args = words(&[self.memory("Instance"), addresses.len() as u64]);
        status(&self.call(self.memory(what), &[args, words(addresses)].concat()))
    }

    fn read(&mut self, address: u64) -> u64 {
        let read = self.names["__llvm_orc_bootstrap_mem_read_uint64s_wrapper"];
        word(&self.call(read, &words(&[1, address])), 8)
    }

    /// Looks a symbol up in the whole process.
    fn find(&mut self, name: &str) -> Option<u64> {
        let manager = "__llvm_orc_SimpleExecutorDylibManager";
        let [instance, resolve] =
            ["Instance", "resolve_wrapper"].map(|name| self.names[&format!("{manager}_{name}")]);
        let args = [&words(&[instance, 1, name.len() as u64])[..], name.as_bytes(), &[1]].concat();
        let found = self.call(resolve, &args);
        assert_eq!((found[0], word(&found, 1)), (1, 1), "{name}");
        (found[9] == 1).then(|| word(&found, 10))
    }

    fn mapper(&self, what: &str) -> u64 {
        self.names[&format!("__llvm_orc_ExecutorSharedMemoryMapperService_{what}")]
    }

    /// Reserves shared memory; returns its address and its name.
    fn reserve_named(&mut self, bytes: u64) -> Result<(u64, String), String> {
        let args = words(&[self.mapper("Instance"), bytes]);
        let answer = self.call(self.mapper("Reserve"), &args);
        let address = expected(&answer)?;
        let name = cut(&mut &answer[9..]).to_vec();
        Ok((address, String::from_utf8(name).expect("text")))
    }

    fn initialize_named(
        &mut self,
        slab: u64,
        segments: &[(u8, u64, u64)],
        actions: &[(Action, Action)],
    ) -> Result<u64, String> {
        let mut args = words(&[self.mapper("Instance"), slab, segments.len() as u64]);
        for (group, start, bytes) in segments {
            args.push(*group);
            args.extend(words(&[*start, *bytes]));
        }
        args.extend(encoded(actions));
        expected(&self.call(self.mapper("Initialize"), &args))
    }

    fn undo_named(&mut self, what: &str, addresses: &[u64]) -> Result<(), String> {
        let args = words(&[self.mapper("Instance"), addresses.len() as u64]);
        status(&self.call(self.mapper(what), &[args, words(addresses)].concat()))
    }
}

fn start() -> (Child, Raw) {
    Raw::start(&["filedescs=0,1"])
}

fn refused(outcome: Result<u64, String>, why: &str) {
    let error = outcome.expect_err(why);
    assert!(error.contains(why), "{why}: {error}");
}

#[test]
fn segments_are_rounded_up_to_pages() {
    let (child, mut raw) = start();
    let slab = raw.reserve(4 * PAGE).expect("memory");
    let [code, constants, data] = [0, 1, 2].map(|page| slab + page * PAGE);
    let segments = |code: &'static [u8]| {
        // As `lli -remote-mcjit` sends them: no constants.
        [
            (READ | EXECUTE, slab, code.len() as u64, code),
            (READ, constants, 0, &b""[..]),
            (READ | WRITE, data, 9, b"12345678"),
        ]
    };
    for round in 0..3 {
        assert_eq!(raw.initialize(&segments(ANSWER), &[]), Ok(code), "round {round}");
        assert_eq!(raw.call(code, b""), words(&[42]));
        assert_eq!(raw.read(data).to_le_bytes(), *b"12345678");
        assert_eq!(raw.read(data + 8), 0, "zeros behind it");
        refused(raw.initialize(&segments(ANSWER), &[]), "in use");
        raw.undo("deinitialize_wrapper", &[code]).expect("it is there");
    }

    // A request has an address, even if nothing in it stays.
    let empty = [(READ | EXECUTE, code, 0, &b""[..]), (READ, code, 0, b"")];
    assert_eq!(raw.initialize(&empty, &[]), Ok(code));
    raw.undo("deinitialize_wrapper", &[code]).expect("it is there");
    let passing = [(READ | FINALIZE, constants, 3, &b"abc"[..])];
    assert_eq!(raw.initialize(&passing, &[]), Ok(constants));
    raw.undo("deinitialize_wrapper", &[constants]).expect("it is there");
    // `lli` reserves nothing at its end, and expects no address.
    assert_eq!(raw.reserve(0), Ok(0));
    assert_eq!(raw.initialize(&[(READ, 0, 0, b"")], &[]), Ok(0));

    refused(raw.reserve(u64::MAX), "not a positive multiple");
    refused(raw.initialize(&[(READ, code, 2, b"abc")], &[]), "3 bytes of content");
    refused(raw.initialize(&[(READ, code, 0, b"abc")], &[]), "3 bytes of content");
    refused(raw.initialize(&[(READ, code, u64::MAX, b"")], &[]), "overflow");
    refused(raw.initialize(&[(READ, code + 1, 3, b"abc")], &[]), "not whole pages");
    refused(raw.initialize(&[(READ, code, 4 * PAGE + 1, b"")], &[]), "not inside one slab");
    refused(raw.initialize(&[], &[]), "without regions");
    raw.undo("release_wrapper", &[slab]).expect("nothing is left in it");
    raw.end(child);
}

/// The address of the list that debuggers read: as far from the start of the program as the program's file says.
fn debugger_list(executor: &Child) -> u64 {
    let program = Path::new(PROGRAM).canonicalize().expect("it is there");
    let names = Command::new("nm").arg(&program).output().expect("nm is installed");
    let names = String::from_utf8(names.stdout).expect("text");
    let line = names.lines().find(|line| line.ends_with(" __jit_debug_descriptor"));
    let distance = line.and_then(|line| line.split(' ').next()).expect("it has one");
    let maps = fs::read_to_string(format!("/proc/{}/maps", executor.id())).expect("it runs");
    let first = maps.lines().find(|line| line.ends_with(program.to_str().expect("text")));
    let start = first.and_then(|line| line.split('-').next()).expect("it is mapped");
    let number = |text| u64::from_str_radix(text, 16).expect("a number");
    number(start) + number(distance) + 16
}

/// The addresses of the objects that a debugger finds, the newest first.
fn known_objects(raw: &mut Raw, list: u64) -> Vec<u64> {
    let mut objects = Vec::new();
    let mut entry = raw.read(list);
    while entry != 0 {
        objects.push(raw.read(entry + 16));
        entry = raw.read(entry);
    }
    objects
}

#[test]
fn debuggers_forget_objects_with_their_memory() {
    let (child, mut raw) = start();
    let list = debugger_list(&child);
    let register = raw.names["llvm_orc_registerJITLoaderGDBAllocAction"];
    // The object's range, and whether the debugger is told at once; nothing takes it back.
    let object = |start: u64, bytes: u64| {
        let args = [words(&[start, start + bytes]), vec![1]].concat();
        ((register, args), NOTHING)
    };
    let slab = raw.reserve(16 * PAGE).expect("memory");
    let [one, other] = [slab, slab + 4 * PAGE];
    for (bytes, round) in [(100, 0), (200, 1), (3 * PAGE, 2), (100, 3)] {
        let segments = |start| [(READ, start, 4 * PAGE, &b"an object"[..])];
        raw.initialize(&segments(one), &[object(one, bytes)]).expect("registered");
        raw.initialize(&segments(other), &[object(other, bytes)]).expect("registered");
        assert_eq!(known_objects(&mut raw, list), [other, one], "round {round}");
        raw.undo("deinitialize_wrapper", &[one]).expect("it is there");
        assert_eq!(known_objects(&mut raw, list), [other], "round {round}");
        raw.undo("deinitialize_wrapper", &[other]).expect("it is there");
        assert_eq!(known_objects(&mut raw, list), [0; 0], "round {round}");
    }
    let segment = [(READ, one, PAGE, &b"an object"[..])];
    raw.initialize(&segment, &[object(one, 100), object(one, 50)]).expect("replaced");
    assert_eq!(known_objects(&mut raw, list), [one]);
    // Records of a failed request go with its memory, and so do the records in a slab that is released.
    let segment = [(READ, other, PAGE, &b"an object"[..])];
    let failing = [object(other, 100), object(other, 0)];
    refused(raw.initialize(&segment, &failing), "an empty object");
    assert_eq!(known_objects(&mut raw, list), [one]);
    raw.undo("release_wrapper", &[slab]).expect("it is there");
    assert_eq!(known_objects(&mut raw, list), [0; 0]);
    raw.end(child);
}

#[test]
fn unwind_records_behind_gaps_are_taken() {
    let (child, mut raw) = start();
    let [add, remove] = ["register", "deregister"]
        .map(|what| raw.names[&format!("llvm_orc_{what}EHFrameAllocAction")]);
    let slab = raw.reserve(PAGE).expect("memory");
    // JITLink leaves gaps where it has stripped a record, of zeros or of what was in its memory before.
    for gap in [0, 0xffff_f000, 20] {
        let gap = u32::to_le_bytes(gap);
        // A CIE, a gap, an FDE, a gap of two words, the end.
        let mut frames = vec![20, 0, 0, 0, 0, 0, 0, 0, 1, b'z', b'R', 0, 1, 0x78, 16, 1, 0];
        frames.extend([0x0c, 7, 8, 0x90, 1, 0, 0]);
        frames.extend(gap);
        frames.extend([28, 0, 0, 0, 32, 0, 0, 0]);
        frames.extend([words(&[0x1234_0000, 16]), vec![0; 8]].concat());
        let behind = frames.len() as u64;
        frames.extend([gap, gap, [0; 4]].concat());
        let range = words(&[slab, slab + frames.len() as u64]);
        let actions = [((add, range.clone()), (remove, range))];
        for _ in 0..2 {
            let segment = [(READ, slab, frames.len() as u64, &frames[..])];
            assert_eq!(raw.initialize(&segment, &actions), Ok(slab));
            let after = raw.read(slab + behind).to_le_bytes();
            assert_eq!(after[..4], [0; 4], "a zero word ends the records");
            raw.undo("deinitialize_wrapper", &[slab]).expect("deregistered");
        }
    }
    raw.end(child);
}

/// Opens shared memory as `shm_open` does, and removes its name.
fn opened(name: &str) -> File {
    let path = format!("/dev/shm{name}");
    let file = File::options().read(true).write(true).open(&path).expect("it is there");
    fs::remove_file(path).expect("it is there");
    file
}

#[test]
fn shared_memory_is_mapped_by_both_sides() {
    let (child, mut raw) = start();
    let (slab, name) = raw.reserve_named(16 * PAGE - 5).expect("memory");
    let file = opened(&name);
    assert_eq!(file.metadata().expect("of a file").len(), 16 * PAGE, "rounded up");
    let [code, data] = [slab + PAGE, slab + 2 * PAGE];
    let code_bytes = ANSWER.len() as u64;
    let segments = [
        (READ | EXECUTE, code, code_bytes),
        (READ | WRITE, data, 8),
        (READ, slab + 3 * PAGE, 0),
        (READ | WRITE | FINALIZE, slab + 4 * PAGE, 8),
    ];
    for answer in [42_u8, 43, 44] {
        // `mov eax, ANSWER`.
        let code_content = [&ANSWER[..1], &[answer], &ANSWER[2..]].concat();
        file.write_all_at(&code_content, PAGE).expect("room");
        file.write_all_at(&u64::from(answer).to_le_bytes(), 2 * PAGE).expect("room");
        assert_eq!(raw.initialize_named(slab, &segments, &[]), Ok(code));
        assert_eq!(raw.call(code, b""), words(&[u64::from(answer)]));
        assert_eq!(raw.read(data), u64::from(answer));
        let write = raw.names["__llvm_orc_bootstrap_mem_write_uint64s_wrapper"];
        assert_eq!(raw.call(write, &words(&[1, data, 7])), b"");
        let mut seen = [0; 8];
        file.read_exact_at(&mut seen, 2 * PAGE).expect("there");
        assert_eq!(u64::from_le_bytes(seen), 7, "both sides have the same memory");
        refused(raw.initialize_named(slab, &segments, &[]), "in use");
        raw.undo_named("Deinitialize", &[code]).expect("it is there");
        raw.undo_named("Deinitialize", &[code]).expect_err("it is gone");
    }

    // Dealloc actions of what is left run with the release.
    let (private, data) = (raw.reserve(PAGE).expect("memory"), READ | WRITE);
    raw.initialize(&[(data, private, 8, &[0; 8])], &[]).expect("memory");
    let write = raw.names["__llvm_orc_bootstrap_mem_write_uint64s_wrapper"];
    let note = |value| (write, words(&[1, private, value]));
    let segment = [(READ, slab, 1)];
    raw.initialize_named(slab, &segment, &[(note(5), note(6))]).expect("memory");
    assert_eq!(raw.read(private), 5);
    raw.undo_named("Release", &[slab]).expect("it is there");
    assert_eq!(raw.read(private), 6);
    raw.undo_named("Release", &[slab]).expect_err("it is gone");
    raw.end(child);
}

#[test]
fn shared_memory_is_not_taken_on_trust() {
    let (child, mut raw) = start();
    let (slab, name) = raw.reserve_named(4 * PAGE).expect("memory");
    let (other, _) = raw.reserve_named(4 * PAGE).expect("memory");
    let private = raw.reserve(4 * PAGE).expect("memory");
    let one = |start, bytes| [(READ, start, bytes)];
    refused(raw.initialize_named(private, &one(private, 8), &[]), "no shared memory with a name");
    refused(raw.initialize_named(slab + PAGE, &one(slab, 8), &[]), "no shared memory with a name");
    refused(raw.initialize_named(0, &one(0, 8), &[]), "no shared memory with a name");
    for (start, bytes) in [
        (other, 8),
        (private, 8),
        (slab - PAGE, 2 * PAGE),
        (slab + 3 * PAGE, PAGE + 1),
        (slab + PAGE, u64::MAX),
        (u64::MAX, 8),
        (0, 0),
    ] {
        refused(raw.initialize_named(slab, &one(start, bytes), &[]), "not inside");
    }
    refused(raw.initialize_named(slab, &one(slab + 8, 8), &[]), "not whole pages");
    let twice = [(READ, slab, 8), (READ | WRITE, slab, 8)];
    refused(raw.initialize_named(slab, &twice, &[]), "overlap");
    refused(raw.initialize_named(slab, &[], &[]), "without regions");
    refused(raw.reserve_named(u64::MAX).map(|(address, _)| address), "overflow");
    refused(raw.reserve_named(u64::MAX - PAGE + 1).map(|(address, _)| address), "bytes");
    refused(raw.reserve_named(0).map(|(address, _)| address), "");
    let missing = raw.mapper("Instance") + 8;
    let answer = raw.call(raw.mapper("Reserve"), &words(&[missing, PAGE]));
    assert_eq!(answer, b"", "no session is there");
    assert_eq!(raw.initialize_named(slab, &one(slab, 8), &[]), Ok(slab), "nothing was claimed");

    // No controller has opened the two, so the executor removes their names.
    let path = format!("/dev/shm{name}");
    File::open(&path).expect("it is there");
    raw.end(child);
    assert!(File::open(&path).is_err(), "{path} is left");
}

/// LLVM 22 answers with an empty result where a handler fails. Later versions send the message, as a result of another kind.
#[test]
fn an_out_of_band_error_of_a_handler_ends_its_call_only() {
    let (child, mut raw) = start();
    let prefix = "__llvm_orc_SimpleRemoteEPC_dispatch";
    let [context, dispatch] = ["ctx", "fn"].map(|name| raw.names[&format!("{prefix}_{name}")]);
    let back = raw.load(&calls_back(context, dispatch));
    let answer = raw.load(ANSWER);
    let message = [words(&[15]), b"no such handler".to_vec()].concat();
    for (kind, payload) in [(1, &message[..]), (0, b"a value"), (1, b"damaged")] {
        let outer = raw.begin(back, b"");
        let (opcode, inner, ..) = raw.receive();
        assert_eq!(opcode, CALL);
        raw.send(RESULT, inner, kind, payload);
        let result = if kind == 0 { payload } else { b"" };
        assert_eq!(raw.receive(), (RESULT, outer, 0, result.to_vec()), "LLVM 22 knows no other");
        assert_eq!(raw.call(answer, b""), words(&[42]), "the session goes on");
    }
    raw.end(child);
}

/// LLVM's controllers may run no static initializers, of which `<iostream>` has one.
#[test]
fn streams_of_cpp_are_initialized_when_looked_up() {
    let (child, mut raw) = start();
    for stream in ["_ZSt4cout", "_ZSt5wcerr"] {
        match raw.find(stream) {
            // The first word of an initialized stream is the address of its class's functions.
            Some(stream) => assert_ne!(raw.read(stream), 0),
            None => println!("{stream}: libstdc++ is not installed: 0 cases"),
        }
    }
    raw.end(child);
}

/// Starts an executor whose standard error can be read.
fn start_with_error() -> (Child, Raw) {
    let mut command = Command::new(PROGRAM);
    let command = command.arg("filedescs=0,1").stdin(Stdio::piped()).stdout(Stdio::piped());
    Raw::spawn(command.stderr(Stdio::piped()))
}

/// The words of an executor that dies by SIGSEGV, on standard error; it must die soon.
fn last_line(mut child: Child) -> String {
    let began = Instant::now();
    let status = loop {
        match child.try_wait().expect("it is a child") {
            Some(status) => break status,
            None => std::thread::sleep(Duration::from_millis(5)),
        }
        assert!(began.elapsed() < Duration::from_secs(30), "it does not die");
    };
    assert_eq!(status.signal(), Some(nix::libc::SIGSEGV));
    let mut complaint = String::new();
    let mut stderr = child.stderr.take().expect("piped");
    stderr.read_to_string(&mut complaint).expect("text");
    assert_eq!(complaint.lines().count(), 1, "{complaint}");
    complaint
}

#[test]
fn a_crash_is_named_on_standard_error() {
    let (child, mut raw) = start_with_error();
    raw.begin(0xda_dbee_f000, b"");
    let line = last_line(child);
    let part = "farcall: executor died by SIGSEGV, fault address 0xdadbeef000";
    assert!(line.starts_with(part), "{line}");
}

/// Names come from the objects that are registered with debuggers.
#[test]
fn a_crash_names_the_function_of_a_debug_object() {
    let source = "void nothing(void) {}\nvoid stores(void) { *(volatile int *)0xdadbeef = 1; }\n";
    let folder = std::env::temp_dir().join(format!("farcall-llvm-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder");
    let (input, output) = (folder.join("stores.c"), folder.join("stores.o"));
    fs::write(&input, source).expect("written");
    let mut compiler = Command::new("cc");
    let compiler = compiler.args(["-O1", "-c", "-o"]).args([&output, &input]);
    assert!(compiler.status().expect("a compiler").success());
    let mut object = fs::read(&output).expect("just compiled");
    fs::remove_dir_all(folder).expect("removed");

    let (child, mut raw) = start_with_error();
    let slab = raw.reserve(8 * PAGE).expect("memory");
    // As LLVM does: the headers of the object's sections get their addresses.
    let at = |at: usize, bytes: usize| {
        let mut number = [0; 8];
        number[..bytes].copy_from_slice(&object[at..at + bytes]);
        usize::try_from(u64::from_le_bytes(number)).expect("a file")
    };
    let (headers, count) = (at(40, 8), at(60, 2));
    let is_code = |header: &usize| at(header + 8, 8) & 4 != 0 && at(header + 32, 8) > 0;
    let header = (0..count).map(|index| headers + 64 * index).find(is_code).expect("code");
    let (start, bytes) = (at(header + 24, 8), at(header + 32, 8));
    let code = object[start..start + bytes].to_vec();
    object[header + 16..header + 24].copy_from_slice(&slab.to_le_bytes());
    let place = slab + 4 * PAGE;
    let range = words(&[place, place + object.len() as u64]);
    let register = raw.names["llvm_orc_registerJITLoaderGDBAllocAction"];
    let segments = [
        (READ | EXECUTE, slab, code.len() as u64, &code[..]),
        (READ, place, object.len() as u64, &object[..]),
    ];
    raw.initialize(&segments, &[((register, [range, vec![1]].concat()), NOTHING)]).expect("memory");
    raw.begin(slab + (code.len() as u64).min(1), b"");
    let line = last_line(child);
    assert!(line.contains("fault address 0xdadbeef, in stores+0x"), "{line}");
}

/// The unwinder holds its lock in such a crash, and the search for callers would wait for it.
#[test]
fn a_crash_inside_the_unwinder_ends_the_process() {
    let (child, mut raw) = start_with_error();
    let search = raw.find("_Unwind_Find_FDE").expect("of the C compiler's library");

    // Records that are registered, and then changed: the way from the FDE to its CIE leads nowhere.
    let mut frames = vec![20, 0, 0, 0, 0, 0, 0, 0, 1, b'z', b'R', 0, 1, 0x78, 16, 1, 0];
    frames.extend([0x0c, 7, 8, 0x90, 1, 0, 0]);
    frames.extend([28, 0, 0, 0, 28, 0, 0, 0]);
    frames.extend([words(&[0x1234_0000, 16]), vec![0; 12]].concat());
    let slab = raw.reserve(PAGE).expect("memory");
    let register = raw.names["llvm_orc_registerEHFrameAllocAction"];
    let range = words(&[slab, slab + frames.len() as u64]);
    let segment = [(READ | WRITE, slab, frames.len() as u64, &frames[..])];
    raw.initialize(&segment, &[((register, range), NOTHING)]).expect("registered");
    let write = raw.names["__llvm_orc_bootstrap_mem_write_uint32s_wrapper"];
    let args = [&words(&[1, slab + 28])[..], &0x7000_0000_u32.to_le_bytes()].concat();
    assert_eq!(raw.call(write, &args), b"");
    raw.begin(search, b"an address");
    let line = last_line(child);
    assert!(line.starts_with("farcall: executor died by SIGSEGV, fault address 0x"), "{line}");
}
