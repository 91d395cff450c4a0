//! Links over TCP. The executor is of this processor, or the one that `FARCALL_TEST_EXECUTOR` names: `.ci/aarch64` names one for the
//! other processor, and runs these tests for both.
//!
//! Invariant: the objects are compiled for the executor's processor, and each output is that of the same program run natively there.

use std::io::{BufRead, BufReader, Read};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use farcall::controller::{Client, ExecutorBuilder};
use farcall::executor::LINKED_H;
use farcall::link::{Archive, Input, ObjectBuilder, ObjectFile, Processor};
use farcall::{Connection, ErrorKind};
use tempfile::TempDir;

use super::PROGRAM;

/// An executor that listens, and the client that has connected to it.
struct Reached {
    client: Client,
    child: Child,
}

impl Reached {
    fn start() -> Self {
        let program = std::env::var_os("FARCALL_TEST_EXECUTOR").unwrap_or_else(|| PROGRAM.into());
        let mut command = Command::new(program);
        let pipes = command.arg("tcp:listen=127.0.0.1:0").stdout(Stdio::piped());
        let mut child = pipes.stderr(Stdio::piped()).spawn().expect("an executor");
        let mut lines = BufReader::new(child.stderr.take().expect("piped")).lines();
        let line = lines.next().expect("a line").expect("text");
        let place = line.strip_prefix("listening at ").expect("a place");
        let socket = TcpStream::connect(place).expect("it listens");
        let connection = Connection::socket(socket).expect("a stream");
        std::thread::spawn(move || lines.for_each(|line| eprintln!("{}", line.expect("text"))));
        Self { client: Client::connect(connection).expect("a setup"), child }
    }

    /// Ends the session, and returns what the executor has printed.
    fn printed(self) -> String {
        let Self { client, mut child } = self;
        drop(client);
        let mut text = String::new();
        child.stdout.take().expect("piped").read_to_string(&mut text).expect("text");
        assert_eq!(child.wait().expect("it ends").code(), Some(0), "{text}");
        text
    }
}

/// A compiler for one processor, and a folder for what it makes.
struct Compiler {
    command: &'static str,
    folder: TempDir,
}

impl Compiler {
    fn of(processor: Processor) -> Self {
        let command = match processor {
            Processor::HOST => "cc",
            Processor::Aarch64 => "aarch64-linux-gnu-gcc",
            _ => "x86_64-linux-gnu-gcc",
        };
        let folder = tempfile::tempdir().expect("a folder");
        let header = folder.path().join("farcall/linked.h");
        std::fs::create_dir(folder.path().join("farcall")).expect("a new folder");
        std::fs::write(header, LINKED_H).expect("a new file");
        Self { command, folder }
    }

    fn compile(&self, name: &str, flags: &[&str]) -> PathBuf {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/sources").join(name);
        let object = self.folder.path().join(name).with_extension("o");
        self.run(&[&["-Wall", "-c"], flags, &[text(&source), "-o", text(&object)]].concat());
        object
    }

    fn object(&self, name: &str, flags: &[&str]) -> ObjectFile {
        let bytes = std::fs::read(self.compile(name, flags)).expect("an object");
        ObjectFile::parse(name, bytes).expect("an object")
    }

    /// What a native run prints, and its status.
    fn native(&self, flags: &[&str], argument: &str) -> (String, i32) {
        let objects = ["cross.c", "cross_native.c"]
            .map(|name| self.compile(name, &[flags, &["-DNATIVE"]].concat()));
        let program = self.folder.path().join("native");
        let [one, other] = objects.each_ref().map(|path| text(path));
        self.run(&[one, other, "-o", text(&program), "-lm", "-pthread"]);
        let ran = Command::new(&program).arg(argument).output().expect("a program");
        let printed = String::from_utf8(ran.stdout).expect("text");
        (printed, ran.status.code().expect("a status"))
    }

    fn run(&self, arguments: &[&str]) {
        let mut command = Command::new(self.command);
        let ended = command.arg("-I").arg(self.folder.path()).args(arguments).output();
        let ended = ended.unwrap_or_else(|error| panic!("{}: {error}", self.command));
        let complaint = String::from_utf8_lossy(&ended.stderr);
        assert!(ended.status.success(), "{arguments:?}: {complaint}");
    }
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a plain path")
}

/// The handler that cross.c calls.
fn add_up(client: &Client) {
    client.register_handler(7, |_, args, result| {
        let (words, _) = args.as_chunks::<8>();
        let sum: i64 = words.iter().map(|word| i64::from_le_bytes(*word)).sum();
        result.extend_from_slice(&sum.to_le_bytes());
        Ok(())
    });
}

#[test]
fn a_program_linked_over_tcp_is_as_native() {
    let processor = Reached::start().client.processor().expect("one that is known");
    let compiler = Compiler::of(processor);
    let all = [&["-O2", "-fPIC"][..], &["-O0", "-fPIE"], &["-O2", "-fPIC", "-mcmodel=large"]];
    let branches = ["-O2", "-fPIC", "-mbranch-protection=standard"];
    for flags in all.into_iter().chain([&branches[..]]) {
        let is_here = match (processor, flags[flags.len() - 1]) {
            // gcc has no large model for position-independent code there.
            (Processor::Aarch64, last) => last != "-mcmodel=large",
            (_, last) => last != branches[2],
        };
        if !is_here {
            continue;
        }
        let reached = Reached::start();
        let client = &reached.client;
        add_up(client);
        let objects = ["cross.c", "cross_native.c"].map(|name| compiler.object(name, flags));
        let image = client.link(objects.iter().map(Input::Object)).expect("linked");
        let status = image.run(["cross", "word"]).expect("it returns");
        let error = image.run(["cross"]).expect_err("it has run");
        assert!(error.to_string().contains("link it again"), "{error}");
        image.remove().expect("it is there");
        let got = (reached.printed(), status);
        assert_eq!(got, compiler.native(flags, "word"), "{processor} {flags:?}");
        assert_eq!((got.1, got.0.lines().count()), (7, 5), "{got:?}");
    }
}

#[test]
fn functions_and_data_linked_over_tcp_are_used() {
    let reached = Reached::start();
    let client = &reached.client;
    let compiler = Compiler::of(client.processor().expect("one that is known"));
    let objects =
        ["cross.c", "cross_native.c"].map(|name| compiler.object(name, &["-O2", "-fPIC"]));
    let link = || client.link(objects.iter().map(Input::Object)).expect("linked");
    // Each image has thread-locals of its own.
    let images = [link(), link()];
    for (round, image) in (6..10).flat_map(|round| images.iter().map(move |one| (round, one))) {
        image.initialize().expect("it has initializers");
        let reversed = image.address_of("reversed").expect("it is defined");
        assert_eq!(client.call(reversed, b"abcdefghij", None).expect("a result"), {
            [b"jihgfedcba", &[round][..]].concat()
        });
    }
    let [first, second] = images.each_ref().map(|one| one.address_of("shared_count"));
    let counts = [first, second].map(|one| one.expect("it is defined"));
    assert_eq!(client.memory_access().read::<u32>(&counts).expect("readable"), [12, 12]);
    let mut images = images.into_iter();
    images.next().expect("one").remove().expect("it is there");
    drop(images);
    assert!(client.memory_access().read::<u32>(&counts).is_err(), "they are gone");
    // Their room for thread-locals is free again.
    (0..200).for_each(|_| link().remove().expect("it is there"));
    assert_eq!(reached.printed(), "");
}

/// An object with a function, for this processor.
fn object_for(processor: Processor, name: &str) -> ObjectFile {
    let mut object = ObjectBuilder::for_processor(name, processor);
    object.function("nothing", [0; 4]);
    object.build().expect("an object")
}

#[test]
fn an_object_for_another_processor_is_one_clear_line() {
    let reached = Reached::start();
    let here = reached.client.processor().expect("one that is known");
    let other = match here {
        Processor::X86_64 => Processor::Aarch64,
        _ => Processor::X86_64,
    };
    let [own, wrong] = [object_for(here, "own.o"), object_for(other, "wrong.o")];
    let error = reached.client.link([Input::Object(&own), Input::Object(&wrong)]).expect_err("two");
    let line =
        format!("wrong.o is for {other}, and the executor for {here}: compile it for {here}");
    assert_eq!((error.kind(), error.to_string()), (ErrorKind::Link, line));
    let error = reached.client.link([Input::Object(&own)]).map(|one| one.address_of("nothing"));
    assert!(error.expect("its own").is_some());
    assert_eq!(reached.printed(), "");

    // A process shares memory with its executor, which has this processor.
    let executor = ExecutorBuilder::new().program(PROGRAM).start().expect("an executor");
    let library = executor.library("wrong");
    let other = match Processor::HOST {
        Processor::X86_64 => Processor::Aarch64,
        _ => Processor::X86_64,
    };
    let error = library.add_object(&object_for(other, "wrong.o")).expect_err("it is for another");
    let here = Processor::HOST;
    let line = format!("wrong.o is for {other}, and this link for {here}: compile it for {here}");
    assert_eq!((error.kind(), error.to_string()), (ErrorKind::Link, line));
}

#[test]
fn what_a_link_over_tcp_cannot_find_or_hold_is_refused() {
    let reached = Reached::start();
    let client = &reached.client;
    let processor = client.processor().expect("one that is known");
    let compiler = Compiler::of(processor);
    let objects = [compiler.object("cross.c", &["-O2", "-fPIC"])];
    let error = client.link(objects.iter().map(Input::Object)).expect_err("a name is missing");
    let missing: Vec<_> = error.symbols().iter().map(|name| name.to_string()).collect();
    assert_eq!(missing, ["shared_count"], "{error}");
    if processor == Processor::X86_64 {
        let low = compiler.object("cross.c", &["-O2", "-fno-pic"]);
        let error = client.link([Input::Object(&low)]).expect_err("32-bit addresses").to_string();
        assert!(error.contains("compile it with -fPIC or -fPIE"), "{error}");
    }
    let none = Archive::parse("none.a", b"!<arch>\n".to_vec()).expect("an empty archive");
    let image = client.link([Input::Archive(&none)]).expect("nothing is wrong with nothing");
    let error = image.run::<&str>([]).expect_err("there is no main").to_string();
    assert!(error.contains("main"), "{error}");
    image.initialize().expect("nothing to do");
    image.remove().expect("it is there");
    assert_eq!(reached.printed(), "");
}
