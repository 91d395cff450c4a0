//! Executors that listen, with a token and without; and those behind a command's standard streams.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use farcall::controller::{Client, ExecutorBuilder};
use farcall::{Connection, ExecutorAddr, sps};

use super::{PROGRAM, ends_in_order, word, words, words_come_and_go};

const TOKEN: &str = "correct horse battery staple";
const VARIABLE: &str = "FARCALL_TOKEN";

/// Starts an executor that listens, and returns where.
fn listen(command: &mut Command) -> (Child, String) {
    let mut child = command.stderr(Stdio::piped()).spawn().expect("an executor");
    let mut line = String::new();
    BufReader::new(child.stderr.take().expect("piped")).read_line(&mut line).expect("a line");
    let place = line.trim_end().strip_prefix("listening at ").unwrap_or_else(|| panic!("{line}"));
    (child, place.to_owned())
}

fn with_token() -> Command {
    let mut command = Command::new(PROGRAM);
    command.arg("tcp:listen=0").env(VARIABLE, TOKEN);
    command
}

/// True when the other end is closed without a word.
fn is_let_go(mut socket: TcpStream) -> bool {
    socket.set_read_timeout(Some(Duration::from_secs(30))).expect("a timeout");
    match socket.read(&mut [0]) {
        Ok(count) => count == 0,
        Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
    }
}

#[test]
fn a_port_alone_is_this_machine_alone() {
    for place in ["tcp:listen=0", "tcp:listen=:0"] {
        let (child, place) = listen(Command::new(PROGRAM).arg(place).env_remove(VARIABLE));
        assert!(place.starts_with("127.0.0.1:"), "{place}");
        let socket = TcpStream::connect(place).expect("a socket");
        drop(Client::connect(Connection::socket(socket).expect("a stream")).expect("a setup"));
        ends_in_order(child);
    }
}

#[test]
fn an_address_for_other_machines_needs_a_token() {
    for place in ["tcp:listen=0.0.0.0:0", "tcp:listen=[::]:0"] {
        let mut command = Command::new(PROGRAM);
        let output = command.arg(place).env_remove(VARIABLE).output().expect("an executor");
        let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(125), "{complaint}");
        assert!(complaint.contains("token-file=") && complaint.contains("ssh"), "{complaint}");
    }
}

#[test]
fn a_client_with_the_token_is_served_after_others_without() {
    let (child, place) = listen(&mut with_token());
    let connect = || TcpStream::connect(&place).expect("a socket");
    // A port scan: connections that end at once, and ones that say something else.
    for _ in 0..20 {
        drop(connect());
    }
    let mut other = connect();
    other.write_all(b"GET / HTTP/1.1\r\n\r\n").expect("sent");
    assert!(is_let_go(other));
    // An LLVM controller would wait for the setup and send a call.
    let mut frame = connect();
    frame.write_all(&[32_u64, 3, 0, 0].map(u64::to_le_bytes).concat()).expect("sent");
    assert!(is_let_go(frame));
    let error = Client::connect_with_token(connect(), "correct horse").expect_err("another token");
    assert!(error.is_disconnected() && error.to_string().contains("token"), "{error:?}");
    let client = Client::connect_with_token(connect(), TOKEN).expect("a setup");
    words_come_and_go(&client);
    drop(client);
    ends_in_order(child);
}

#[test]
fn half_a_token_holds_no_client_up_for_long() {
    let (child, place) = listen(&mut with_token());
    let mut half = TcpStream::connect(&place).expect("a socket");
    half.write_all(b"fctok").expect("sent");
    let begun = Instant::now();
    let socket = TcpStream::connect(&place).expect("a socket");
    let client = Client::connect_with_token(socket, TOKEN).expect("a setup");
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
    assert!(is_let_go(half));
    // The time is for the token alone.
    std::thread::sleep(Duration::from_secs(6));
    words_come_and_go(&client);
    drop(client);
    ends_in_order(child);
}

/// A7.
#[test]
fn silent_connections_hold_up_no_client_with_the_token() {
    let (child, place) = listen(&mut with_token());
    let connect = || TcpStream::connect(&place).expect("a socket");
    // More than are waited for at a time.
    let silent: Vec<_> = (0..200).map(|_| connect()).collect();
    let begun = Instant::now();
    let client = Client::connect_with_token(connect(), TOKEN).expect("a setup");
    let took = begun.elapsed();
    // Each one alone would have 5 s.
    assert!(took < Duration::from_secs(4), "{took:?}");
    words_come_and_go(&client);
    assert!(silent.into_iter().all(is_let_go), "one client is served");
    words_come_and_go(&client);
    drop(client);
    ends_in_order(child);
}

#[test]
fn a_token_comes_from_a_file() {
    let path = std::env::temp_dir().join(format!("farcall-token-{}", std::process::id()));
    std::fs::write(&path, format!("{TOKEN}\n")).expect("a file");
    let file = format!("token-file={}", path.display());
    // It has precedence, and opens what other machines reach.
    let mut command = Command::new(PROGRAM);
    command.args(["tcp:listen=localhost:0", &file]).env(VARIABLE, "another one");
    let (child, place) = listen(&mut command);
    std::fs::remove_file(&path).expect("it is there");
    let socket = TcpStream::connect(&place).expect("a socket");
    words_come_and_go(&Client::connect_with_token(socket, TOKEN).expect("a setup"));
    ends_in_order(child);
    for args in [&["tcp:listen=0", "token-file=/no/such/file"][..], &["tcp:listen=0", "nonsense"]] {
        let output = Command::new(PROGRAM).args(args).output().expect("an executor");
        assert_eq!(output.status.code(), Some(125), "{args:?}");
    }
}

#[test]
fn an_executor_without_a_controller_ends_and_says_so() {
    let waits = |token: Option<&str>, seconds: &str| {
        let mut command = Command::new(PROGRAM);
        command.args(["tcp:listen=0", seconds]).env_remove(VARIABLE);
        command.envs(token.map(|token| (VARIABLE, token)));
        command
    };
    for (token, who) in [(None, "no controller has"), (Some(TOKEN), "no controller with the token")]
    {
        let (begun, mut command) = (Instant::now(), waits(token, "wait-seconds=1"));
        let mut child = command.stderr(Stdio::piped()).spawn().expect("an executor");
        let mut lines = BufReader::new(child.stderr.take().expect("piped")).lines();
        let place = lines.next().expect("a line").expect("text");
        // With a token, a client that says nothing does not make the time longer.
        let _silent = token.map(|_| TcpStream::connect(&place["listening at ".len()..]));
        let complaint = lines.map(|line| line.expect("text")).collect::<Vec<_>>().join("\n");
        assert_eq!(child.wait().expect("it ends").code(), Some(125), "{complaint}");
        for words in [who, "in 1 s", "wait-seconds=N", "tcp:listen=0"] {
            assert!(complaint.contains(words), "{complaint}");
        }
        assert!(begun.elapsed() >= Duration::from_secs(1), "{:?}", begun.elapsed());
    }
    for number in ["0", "-1", "soon", "0.5"] {
        let output = waits(None, &format!("wait-seconds={number}")).output().expect("an executor");
        let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(complaint.contains("say a whole number, 1 or more"), "{complaint}");
        assert_eq!(output.status.code(), Some(125));
    }
    // The time is for the connection, not for the session.
    let (child, place) = listen(&mut waits(None, "wait-seconds=1"));
    let socket = TcpStream::connect(&place).expect("a socket");
    let client = Client::connect(Connection::socket(socket).expect("a stream")).expect("a setup");
    std::thread::sleep(Duration::from_millis(1500));
    words_come_and_go(&client);
    drop(client);
    ends_in_order(child);
}

#[test]
fn a_client_behind_a_command() {
    // As `ssh` would, with a stage in between.
    let mut command = Command::new("sh");
    command.args(["-c", &format!("cat | {PROGRAM} stdio | cat")]);
    let client = ExecutorBuilder::command(command).expect("an executor");
    words_come_and_go(&client);

    let mut command = Command::new(PROGRAM);
    command.arg("stdio");
    let client = ExecutorBuilder::command(command).expect("an executor");
    words_come_and_go(&client);
    let begun = Instant::now();
    drop(client);
    assert!(begun.elapsed() < Duration::from_secs(30), "it ends by itself: {:?}", begun.elapsed());
}

#[test]
fn output_of_linked_code_is_no_part_of_the_stream() {
    let mut command = Command::new("sh");
    let printed = std::env::temp_dir().join(format!("farcall-printed-{}", std::process::id()));
    command.args(["-c", &format!("exec {PROGRAM} stdio 2>'{}'", printed.display())]);
    let client = ExecutorBuilder::command(command).expect("an executor");
    let symbol = |name: &str| client.symbol(name).expect("offered");
    // Functions of the C library, by the executor's look-up.
    let call = |function: &str, arg: i32| {
        let [instance, open, resolve] = ["Instance", "open_wrapper", "resolve_wrapper"]
            .map(|name| symbol(&format!("__llvm_orc_SimpleExecutorDylibManager_{name}")));
        let handle = client.call(open, &words(&[instance.get(), 0, 0]), None).expect("a handle");
        let mut args = words(&[word(&handle, 1), 1, function.len() as u64]);
        args.extend(function.bytes().chain([1]));
        let found = client.call(resolve, &args, None).expect("an address");
        let run = symbol("__llvm_orc_bootstrap_run_as_int_function_wrapper");
        let args = sps::to_bytes(&(ExecutorAddr::new(word(&found, 10)), arg));
        sps::from_bytes::<i32>(&client.call(run, &args, None).expect("a result")).expect("a number")
    };
    assert_eq!(call("putchar", 66), 66);
    assert_eq!(call("getchar", 0), -1, "there is nothing to read");
    drop(client);
    let text = std::fs::read_to_string(&printed).expect("a file");
    std::fs::remove_file(&printed).expect("it is there");
    assert!(text.contains('B'), "{text}");
}

#[test]
fn a_command_that_is_no_executor_is_told_of() {
    let start = |script: &str| {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        ExecutorBuilder::command(command).expect_err("no executor")
    };
    let error = start("exit 7");
    assert!(error.to_string().contains("exit status: 7"), "{error}");
    let error = start("echo what is this, that it is so long");
    assert!(!error.to_string().is_empty(), "{error}");
    let error = ExecutorBuilder::command(Command::new("/no/such/program")).expect_err("no program");
    assert!(error.to_string().contains("/no/such/program"), "{error}");
}

#[test]
fn a_command_that_does_not_end_is_ended() {
    let mut command = Command::new("sh");
    // It goes on when its streams have ended.
    command.args(["-c", &format!("{PROGRAM} stdio; exec sleep 1000")]);
    let client = ExecutorBuilder::command(command).expect("an executor");
    let begun = Instant::now();
    drop(client);
    let elapsed = begun.elapsed();
    assert!((Duration::from_secs(1)..Duration::from_secs(30)).contains(&elapsed), "{elapsed:?}");
}
