//! The executor's program, driven from outside: by frames that this test writes itself, as an LLVM controller would, and by
//! the library's own client.
//!
//! Invariant: nothing of the library encodes or decodes what `Raw` sends and receives.

mod connections;
mod cross;
mod deadlock;
mod embedded;
mod killed;
mod listen;
mod listening;
mod llvm;
mod log;
mod polled;

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use farcall::controller::Client;
use farcall::{Connection, ErrorKind, ExecutorAddr, sps};

const PROGRAM: &str = env!("CARGO_BIN_EXE_farcall-executor");

/// LLVM's opcodes.
const SETUP: u64 = 0;
const RESULT: u64 = 2;
const CALL: u64 = 3;

/// A controller that knows bytes only.
struct Raw {
    to: ChildStdin,
    from: ChildStdout,
    names: HashMap<String, u64>,
    next: u64,
}

fn words(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"))
}

/// Cuts a length and as many bytes from the front.
fn cut<'a>(rest: &mut &'a [u8]) -> &'a [u8] {
    let bytes = usize::try_from(word(rest, 0)).expect("a length");
    let (front, behind) = rest[8..].split_at(bytes);
    *rest = behind;
    front
}

impl Raw {
    /// Starts the executor on pipes, and reads its first frame.
    fn start(args: &[&str]) -> (Child, Self) {
        let mut command = Command::new(PROGRAM);
        Self::spawn(command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()))
    }

    /// The same, of a command whose standard streams are pipes.
    fn spawn(command: &mut Command) -> (Child, Self) {
        let mut child = command.spawn().expect("an executor");
        let (to, from) = (child.stdin.take().expect("piped"), child.stdout.take().expect("piped"));
        let mut raw = Self { to, from, names: HashMap::new(), next: 0 };
        let (opcode, sequence, tag, payload) = raw.receive();
        assert_eq!((opcode, sequence, tag), (SETUP, 0, 0));
        let mut rest = &payload[..];
        assert_eq!(cut(&mut rest), b"x86_64-unknown-linux-gnu");
        assert_eq!((word(rest, 0), word(rest, 8)), (4096, 0), "page size, no named bytes");
        let count = word(rest, 16);
        rest = &rest[24..];
        for _ in 0..count {
            let name = String::from_utf8(cut(&mut rest).to_vec()).expect("a name");
            let address = word(rest, 0);
            rest = &rest[8..];
            assert!(raw.names.insert(name, address).is_none(), "a name twice");
        }
        assert!(rest.is_empty() && count > 60, "{count} names, {} bytes left", rest.len());
        (child, raw)
    }

    fn send(&mut self, opcode: u64, sequence: u64, tag: u64, payload: &[u8]) {
        // As LLVM does: header and payload apart.
        let header = words(&[32 + payload.len() as u64, opcode, sequence, tag]);
        self.to.write_all(&header).expect("a reader");
        self.to.write_all(payload).expect("a reader");
    }

    fn receive(&mut self) -> (u64, u64, u64, Vec<u8>) {
        let mut header = [0; 32];
        self.from.read_exact(&mut header).expect("a header");
        let mut payload = vec![0; usize::try_from(word(&header, 0)).expect("a size") - 32];
        self.from.read_exact(&mut payload).expect("a payload");
        (word(&header, 8), word(&header, 16), word(&header, 24), payload)
    }

    fn begin(&mut self, function: u64, args: &[u8]) -> u64 {
        let sequence = self.next;
        self.next += 1;
        self.send(CALL, sequence, function, args);
        sequence
    }

    fn call(&mut self, function: u64, args: &[u8]) -> Vec<u8> {
        let sequence = self.begin(function, args);
        let (opcode, answered, tag, payload) = self.receive();
        assert_eq!((opcode, answered, tag), (RESULT, sequence, 0));
        payload
    }

    fn memory(&self, what: &str) -> u64 {
        self.names[&format!("__llvm_orc_SimpleExecutorMemoryManager_{what}")]
    }

    /// Reserves memory and stores code in it; returns its address.
    fn load(&mut self, code: &[u8]) -> u64 {
        let instance = self.memory("Instance");
        let slab = self.call(self.memory("reserve_wrapper"), &words(&[instance, 65536]));
        assert_eq!((slab[0], slab.len()), (1, 9), "a value");
        let address = word(&slab, 1);
        let mut request = words(&[instance, 1]);
        request.push(1 | 4);
        request.extend(words(&[address, 4096, code.len() as u64]));
        request.extend(code);
        request.extend(words(&[0]));
        let base = self.call(self.memory("initialize_wrapper"), &request);
        assert_eq!((base[0], word(&base, 1)), (1, address));
        address
    }

    /// Closes the pipe to the executor, and waits until it has ended in order.
    fn end(self, mut child: Child) {
        let Self { to, mut from, .. } = self;
        drop(to);
        let mut rest = Vec::new();
        from.read_to_end(&mut rest).expect("an end");
        assert!(rest.is_empty(), "{rest:?}");
        assert_eq!(child.wait().expect("it ends").code(), Some(0));
    }
}

/// `mov eax, 42; mov edx, 8; ret`: a wrapper function that returns 42 in place.
const ANSWER: &[u8] = b"\xb8\x2a\x00\x00\x00\xba\x08\x00\x00\x00\xc3";

/// A wrapper function that passes its arguments to handler 0x77 of the controller and returns what that does.
fn calls_back(context: u64, dispatch: u64) -> Vec<u8> {
    let mut code = b"\x48\x89\xf1\x48\x89\xfa".to_vec();
    code.extend(b"\x48\xbf");
    code.extend(context.to_le_bytes());
    code.extend(b"\xbe\x77\x00\x00\x00\x48\xb8");
    code.extend(dispatch.to_le_bytes());
    code.extend(b"\xff\xe0");
    code
}

#[test]
fn an_llvm_controller_runs_code_and_is_called_back() {
    for args in [&["filedescs=0,1"][..], &["0", "1"], &["test-jitloadergdb", "filedescs=0,1"]] {
        let (child, mut raw) = Raw::start(args);
        let answer = raw.load(ANSWER);
        assert_eq!(raw.call(answer, b""), words(&[42]));

        let prefix = "__llvm_orc_SimpleRemoteEPC_dispatch";
        let [context, dispatch] = ["ctx", "fn"].map(|name| raw.names[&format!("{prefix}_{name}")]);
        let back = raw.load(&calls_back(context, dispatch));
        for (round, size) in [0, 8, 9, 1 << 20].into_iter().enumerate() {
            let payload = vec![7; size];
            let outer = raw.begin(back, &payload);
            let (opcode, inner, tag, args) = raw.receive();
            assert_eq!((opcode, inner, tag), (CALL, round as u64 + 1, 0x77));
            assert!(args == payload);
            // The executor serves while it waits.
            assert_eq!(raw.call(answer, b""), words(&[42]));
            raw.send(RESULT, inner, 0, &[&args[..], b"back"].concat());
            let (opcode, answered, _, result) = raw.receive();
            assert_eq!((opcode, answered, result.len()), (RESULT, outer, size + 4));
        }

        let write = raw.names["__llvm_orc_bootstrap_mem_write_uint64s_wrapper"];
        let read = raw.names["__llvm_orc_bootstrap_mem_read_uint64s_wrapper"];
        assert_eq!(raw.call(read, &words(&[1, 0])), b"", "no word for a failure");
        assert_eq!(raw.call(write, &words(&[0])), b"");

        let run = raw.names["__llvm_orc_bootstrap_run_as_int_function_wrapper"];
        // lea eax, [rdi + rdi]; ret
        let doubles = raw.load(b"\x8d\x04\x3f\xc3");
        let args = [&words(&[doubles])[..], &21_i32.to_le_bytes()].concat();
        assert_eq!(raw.call(run, &args), 42_i32.to_le_bytes());
        let run = raw.names["__llvm_orc_bootstrap_run_as_main_wrapper"];
        // mov eax, edi; ret: the number of arguments
        let main = raw.load(b"\x89\xf8\xc3");
        let args = [&words(&[main, 2, 1])[..], b"a", &words(&[1]), b"b"].concat();
        assert_eq!(raw.call(run, &args), 2_i64.to_le_bytes());

        let manager = "__llvm_orc_SimpleExecutorDylibManager";
        let [instance, open, resolve] = ["Instance", "open_wrapper", "resolve_wrapper"]
            .map(|name| raw.names[&format!("{manager}_{name}")]);
        let handle = raw.call(open, &words(&[instance, 0, 0]));
        assert_eq!((handle[0], handle.len()), (1, 9));
        let mut args = words(&[word(&handle, 1), 3]);
        for (name, required) in [("printf", 0), ("no_such", 1), ("no_such", 0)] {
            args.extend(words(&[name.len() as u64]));
            args.extend(name.bytes().chain([required]));
        }
        let found = raw.call(resolve, &args);
        // A value; three of them: there, absent, there at 0.
        assert_eq!((found[0], word(&found, 1), found.len()), (1, 3, 9 + 11 + 1 + 11));
        assert!(word(&found, 10) != 0 && found[9] == 1 && found[18..20] == [0x10, 0]);
        assert_eq!((found[20], found[21], word(&found, 22)), (0, 1, 0));

        let instance = raw.memory("Instance");
        for what in ["deinitialize_wrapper", "release_wrapper"] {
            let function = raw.memory(what);
            assert_eq!(raw.call(function, &words(&[instance, 1, answer])), [0], "{what}");
        }
        raw.end(child);
    }
}

#[test]
fn nonsense_ends_the_executor_with_a_reason() {
    for (bytes, reason) in [
        (words(&[31, CALL, 0, 0]), "31 bytes"),
        (words(&[32, 9, 0, 0]), "opcode 9"),
        (words(&[32, RESULT, 5, 0]), "Result 5"),
        (words(&[64, CALL, 0, 0]), "0 of 32 bytes"),
    ] {
        let mut command = Command::new(PROGRAM);
        let pipes = command.arg("filedescs=0,1").stdin(Stdio::piped());
        let pipes = pipes.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = pipes.spawn().expect("an executor");
        child.stdin.take().expect("piped").write_all(&bytes).expect("a reader");
        let ended = child.wait_with_output().expect("it ends");
        let complaint = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert_eq!(ended.status.code(), Some(125), "{complaint}");
        assert!(complaint.contains(reason), "{reason}: {complaint}");
    }
}

/// Reads and writes a word of the executor's, and is told of an address that has none.
fn words_come_and_go(client: &Client) {
    let symbol = |name: &str| client.symbol(name).expect("offered");
    let reserve = symbol("orc_rt_ci_sps_SimpleNativeMemoryMap_reserve");
    let instance = symbol("farcall_session_instance");
    let slab =
        client.call(reserve, &sps::to_bytes(&(instance, 65536_u64)), None).expect("a result");
    let slab: sps::Expected<ExecutorAddr> = sps::from_bytes(&slab).expect("decodes");
    assert!(!slab.0.expect("a slab").is_null());
    let read = symbol("orc_rt_ci_sps_mem_read_uint64s");
    let null = sps::to_bytes(&(vec![ExecutorAddr::NULL],));
    let error = client.call(read, &null, None).expect_err("nothing is at null");
    assert!(error.kind() == ErrorKind::Remote && !error.to_string().is_empty(), "{error}");
    let none = client.call(read, &words(&[0]), None).expect("goes on");
    assert_eq!(none, words(&[0]));
    let (memory, access) = (client.native_memory(), client.memory_access());
    let slab = memory.reserve(65536).expect("a slab");
    access.write([(slab, 7_u64)]).expect("it is writable");
    assert_eq!(access.read::<u64>(&[slab]).expect("it is readable"), [7]);
    memory.release(&[slab]).expect("it is there");
    assert!(access.read::<u64>(&[slab]).expect_err("it is gone").kind() == ErrorKind::Remote);
    assert_eq!(client.process_info().expect("it is asked").page_bytes, 4096);
}

/// Waits for the end of an executor that was let go of.
fn ends_in_order(mut child: Child) {
    assert_eq!(child.wait().expect("it ends").code(), Some(0));
}

#[test]
fn a_client_over_tcp() {
    let mut command = Command::new(PROGRAM);
    let mut child =
        command.arg("tcp:listen=127.0.0.1:0").stderr(Stdio::piped()).spawn().expect("an executor");
    let stderr: ChildStderr = child.stderr.take().expect("piped");
    let mut line = String::new();
    BufReader::new(stderr).read_line(&mut line).expect("a line");
    let place = line.trim_end().strip_prefix("listening at ").expect("a place").to_owned();
    let socket = TcpStream::connect(place).expect("a socket");
    let client = Client::connect(Connection::socket(socket).expect("a stream")).expect("a setup");
    assert_eq!(client.triple(), "x86_64-unknown-linux-gnu");
    words_come_and_go(&client);
    drop(client);
    ends_in_order(child);
}

#[test]
fn a_client_in_the_same_process() {
    let (ours, theirs) = UnixStream::pair().expect("a socket");
    let ours = Connection::create_shared(ours).expect("memory");
    let executor = std::thread::spawn(|| {
        farcall::executor::serve(Connection::attach_shared(theirs).expect("a lane"))
    });
    let client = Client::connect(ours).expect("a setup");
    words_come_and_go(&client);
    drop(client);
    executor.join().expect("no panic").expect("an orderly end");
}

#[test]
fn a_client_over_a_named_segment_and_its_end() {
    let start = |how: &str| {
        let name = format!("it-{}-{how}", std::process::id());
        // It may come before the name is there.
        let command = format!(
            "until {PROGRAM} segment={name} 2>/dev/null; do s=$?; [ $s = 125 ] || exit $s; done"
        );
        let child = Command::new("sh").args(["-c", &command]).spawn().expect("a shell");
        let made = Connection::create_named(&name, Duration::from_secs(60)).expect("a segment");
        assert!(!std::fs::exists(format!("/dev/shm/farcall-{name}")).expect("a directory"));
        (child, Client::connect(made).expect("a setup"))
    };
    let (child, client) = start("orderly");
    words_come_and_go(&client);
    drop(client);
    ends_in_order(child);

    let (mut child, client) = start("killed");
    words_come_and_go(&client);
    let exit = client.symbol("farcall_process_exit").expect("offered");
    let error = client.call(exit, &9_u32.to_le_bytes(), None).expect_err("it has ended");
    assert!(error.is_disconnected() && error.kind() != ErrorKind::Violation, "{error:?}");
    assert!(client.call(exit, &[], None).expect_err("it has ended").is_disconnected());
    assert_eq!(child.wait().expect("it ends").code(), Some(9));
}
