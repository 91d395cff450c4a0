//! Links over TCP. `FARCALL_TEST_EXECUTOR` may name an executor for another processor: `.ci/aarch64` runs these tests from each
//! processor to the other.
//!
//! Invariant: the objects are compiled for the executor's processor, and each output equals a native run's of the same program there.

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
        // Under an emulator, the dynamic linker may say something before.
        let place = lines
            .find_map(|line| Some(line.expect("text").strip_prefix("listening at ")?.to_owned()));
        let place = place.expect("a place");
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

/// Compilers for one processor, and a folder for what they make.
struct Compiler {
    prefix: &'static str,
    folder: TempDir,
}

impl Compiler {
    fn of(processor: Processor) -> Self {
        let prefix = match processor {
            own if own == Processor::HOST => "",
            Processor::Aarch64 => "aarch64-linux-gnu-",
            _ => "x86_64-linux-gnu-",
        };
        let folder = tempfile::tempdir().expect("a folder");
        let header = folder.path().join("farcall/linked.h");
        std::fs::create_dir(folder.path().join("farcall")).expect("a new folder");
        std::fs::write(header, LINKED_H).expect("a new file");
        Self { prefix, folder }
    }

    fn compile(&self, name: &str, flags: &[&str]) -> PathBuf {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/sources").join(name);
        let object = self.folder.path().join(name).with_extension("o");
        let compiler = if name.ends_with(".c") { "gcc" } else { "g++" };
        let files = ["-Wall", "-c", text(&source), "-o", text(&object)];
        self.run(compiler, &[flags, &files].concat());
        object
    }

    fn object(&self, name: &str, flags: &[&str]) -> ObjectFile {
        let bytes = std::fs::read(self.compile(name, flags)).expect("an object");
        ObjectFile::parse(name, bytes).expect("an object")
    }

    /// The output and the status of a native run of a program of these sources.
    fn native(&self, sources: &[&str], flags: &[&str], argument: &str) -> (String, i32) {
        let flags = [flags, &["-DNATIVE"]].concat();
        let objects: Vec<_> = sources.iter().map(|name| self.compile(name, &flags)).collect();
        let program = self.folder.path().join("native");
        let mut arguments: Vec<_> = objects.iter().map(|path| text(path)).collect();
        arguments.extend(["-o", text(&program), "-lm", "-pthread"]);
        self.run("g++", &arguments);
        let ran = Command::new(&program).arg(argument).output().expect("a program");
        let printed = String::from_utf8(ran.stdout).expect("text");
        (printed, ran.status.code().expect("a status"))
    }

    fn run(&self, compiler: &str, arguments: &[&str]) {
        let mut command = Command::new(format!("{}{compiler}", self.prefix));
        let ended = command.arg("-I").arg(self.folder.path()).args(arguments).output();
        let ended = ended.unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let complaint = String::from_utf8_lossy(&ended.stderr);
        assert!(ended.status.success(), "{command:?}: {complaint}");
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

/// The flags that matter for an executor with this processor.
fn flags_for(processor: Processor) -> [&'static [&'static str]; 3] {
    let last: &[&str] = match processor {
        // gcc has no large model for position-independent code there.
        Processor::Aarch64 => &["-O2", "-fPIC", "-mbranch-protection=standard"],
        _ => &["-O2", "-fPIC", "-mcmodel=large"],
    };
    [&["-O2", "-fPIC"], &["-O0", "-fPIE"], last]
}

#[test]
fn programs_linked_over_tcp_are_as_native() {
    let reached = Reached::start();
    let processor = reached.client.processor().expect("one that is known");
    assert_eq!(reached.printed(), "");
    let compiler = Compiler::of(processor);
    let mut cases = 0;
    for sources in [["cross.c", "cross_native.c"], ["exceptions_a.cpp", "exceptions_b.cpp"]] {
        for flags in flags_for(processor) {
            let reached = Reached::start();
            let client = &reached.client;
            add_up(client);
            let objects = sources.map(|name| compiler.object(name, flags));
            let image = client.link(objects.iter().map(Input::Object)).expect("linked");
            let status = image.run(["program", "word"]).expect("it returns");
            let error = image.run(["program"]).expect_err("it has run");
            assert!(error.to_string().contains("link it again"), "{error}");
            image.remove().expect("it is there");
            let got = (reached.printed(), status);
            let due = compiler.native(&sources, flags, "word");
            assert_eq!(got, due, "{sources:?} for {processor} with {flags:?}");
            assert!(got.0.lines().count() > 3, "{got:?}");
            cases += 1;
        }
    }
    println!("linked over TCP by {} for {processor}: {cases} cases", Processor::HOST);
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
fn missing_names_and_low_code_are_refused_over_tcp() {
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
