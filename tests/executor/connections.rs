//! Connections that a text names, opened by an executor of its own process and by a controller here.

use std::io::Read;
use std::os::fd::{IntoRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use farcall::controller::Client;
use farcall::executor::connectors;
use farcall::session::SessionBuilder;
use farcall::{Connection, Result};

use super::{PROGRAM, words_come_and_go};

const LONG: Duration = Duration::from_secs(60);

fn open(text: &str) -> Result<Connection> {
    Connection::open(&text.parse()?, LONG)
}

/// An executor that says on standard error why it trusts its controller.
fn executor(args: &[&str]) -> Command {
    let mut command = Command::new(PROGRAM);
    command.args(args).env("ORC_RT_LOG", "info").env_remove("ORC_RT_LOG_OUTPUT");
    command.env_remove("FARCALL_TOKEN").stderr(Stdio::piped());
    command
}

/// Uses the connection, ends it, and returns what the executor has said.
fn used(connection: Connection, mut child: Child) -> String {
    let client = Client::connect(connection).expect("a setup");
    words_come_and_go(&client);
    drop(client);
    let mut said = String::new();
    child.stderr.take().expect("piped").read_to_string(&mut said).expect("its words");
    assert!(child.wait().expect("an end").success(), "{said}");
    said
}

#[test]
fn an_executor_and_a_controller_meet_by_a_descriptor_of_either() {
    for args in [&["fd=0"][..], &["socket:adopt=0"], &["fd=0,0"], &["filedescs=0,0"], &["0", "0"]] {
        for transport in ["fd", "socket:adopt"] {
            let (ours, theirs) = UnixStream::pair().expect("sockets");
            let child = executor(args).stdin(OwnedFd::from(theirs)).spawn().expect("an executor");
            let connection = open(&format!("{transport}={}", ours.into_raw_fd()));
            let said = used(connection.expect("a connection"), child);
            assert!(said.contains("the controller is inherited"), "{args:?}: {said}");
        }
    }
}

#[test]
fn an_executor_connects_to_a_controller_that_listens() {
    let port = own_port(0);
    let waiting = thread::spawn(move || open(&format!("tcp:listen=:{port}")));
    let child = 'connected: loop {
        // Until the controller listens, the executor is refused and says so.
        let mut child = executor(&[&format!("tcp:connect=127.0.0.1:{port}")]);
        let mut child = child.spawn().expect("an executor");
        loop {
            if waiting.is_finished() {
                break 'connected child;
            }
            if let Some(status) = child.try_wait().expect("a child") {
                assert_eq!(status.code(), Some(125), "it is refused");
                break;
            }
            thread::sleep(Duration::from_millis(5));
        }
    };
    let connection = waiting.join().expect("no panic").expect("a connection");
    let said = used(connection, child);
    assert!(said.contains("not checked, and known by its address only"), "{said}");
}

#[test]
fn a_controller_connects_to_an_executor_that_listens() {
    let mut child = executor(&["tcp:listen=:0"]).spawn().expect("an executor");
    let mut line = Vec::new();
    let error = child.stderr.as_mut().expect("piped");
    while line.last() != Some(&b'\n') {
        let mut byte = [0];
        error.read_exact(&mut byte).expect("a line");
        line.push(byte[0]);
    }
    let line = String::from_utf8(line).expect("text");
    let place = line.trim_end().strip_prefix("listening at ").expect("a place");
    let connection = open(&format!("tcp:connect={place}")).expect("a connection");
    let said = used(connection, child);
    assert!(said.contains("not checked, and known by its address only"), "{said}");
}

#[test]
fn a_command_line_that_names_no_connection_is_refused() {
    for (arg, words) in [
        ("listen=4000", "say tcp:listen=4000"),
        ("udp:connect=localhost:4000", "say fd, socket or tcp"),
        ("fd=9999", "connection \"fd=9999\""),
        ("fd=0", "two pipes are fd=R,W"),
        ("tcp:connect=127.0.0.1:1", "connection \"tcp:connect=127.0.0.1:1\""),
        ("nonsense", "tcp:listen=HOST:PORT"),
    ] {
        let output = executor(&[arg]).stdin(Stdio::piped()).output().expect("an executor");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(125), "{arg}: {said}");
        assert!(said.contains(words), "{arg}: {said}");
    }
}

#[test]
fn a_hosts_session_and_a_client_meet_over_tcp_both_ways() {
    let [listen, connect] = ["tcp:listen", "tcp:connect"];
    for (port, ours, theirs) in [(1, listen, connect), (2, connect, listen)] {
        let [ours, theirs] = [ours, theirs].map(|words| format!("{words}=:{}", own_port(port)));
        let dispatch = |task: farcall::task::Task| drop(thread::spawn(|| task.run()));
        let session = SessionBuilder::new(dispatch).build().expect("a session");
        thread::scope(|scope| {
            scope.spawn(|| {
                let connection = until_the_other_listens(|| open(&theirs));
                words_come_and_go(&Client::connect(connection).expect("a setup"));
            });
            until_the_other_listens(|| connectors().connect(&ours, &session));
        });
    }
}

/// A port of this machine for one test of this process, which the system gives to no socket by itself. It was never listened
/// at: a child process that another test starts may hold such a listener for a moment after its end.
fn own_port(number: u16) -> u16 {
    let process = u16::try_from(std::process::id() % 4000).expect("a small number");
    20_000 + 3 * process + number
}

/// Connects again while the other side does not listen yet.
fn until_the_other_listens<T>(open: impl Fn() -> Result<T>) -> T {
    loop {
        match open() {
            Err(error) if error.to_string().contains("must listen before") => {
                thread::sleep(Duration::from_millis(5));
            }
            opened => return opened.expect("a connection"),
        }
    }
}
