//! Poll mode: a host drives an executor from its own loop.

use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use farcall::controller::Client;
use farcall::executor::Polled;
use farcall::limits::POLLED_CALLS_MAX;
use farcall::{Connection, ErrorKind, ExecutorAddr};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::{ANSWER, calls_back, word, words};

/// Tells a process of this test that it is the host, and what its socket carries.
const HOST: &str = "FARCALL_TEST_HOST";

/// Waits in the host's own loop until there is something to poll for, or a second has passed.
fn is_ready(polled: &Polled, milliseconds: u16) -> bool {
    let mut fds = [PollFd::new(polled.as_fd(), PollFlags::POLLIN)];
    poll(&mut fds, PollTimeout::from(milliseconds)).expect("ready or not") > 0
}

fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").expect("this process").count()
}

fn connection(socket: OwnedFd, is_shared: bool) -> Connection {
    let made = if is_shared { Connection::attach_shared } else { Connection::socket };
    made(socket).expect("a connection")
}

/// Runs as a host until the controller has gone; returns how many calls it served, in how many polls.
fn host(is_shared: bool) -> (usize, usize) {
    let socket = std::io::stdin().as_fd().try_clone_to_owned().expect("a socket");
    let before = threads();
    let mut polled = Polled::new(connection(socket, is_shared)).expect("a setup");
    let (mut calls, mut polls) = (0, 0);
    while !polled.has_ended() {
        assert!(is_ready(&polled, 60_000), "nobody calls");
        calls += polled.poll().expect("an orderly end");
        polls += 1;
        assert_eq!(threads(), before, "a thread was started");
    }
    assert!(is_ready(&polled, 0) && polled.poll().expect("nothing") == 0);
    (calls, polls)
}

/// Stores code in the executor and returns its address.
fn load(client: &Client, code: &[u8]) -> ExecutorAddr {
    let symbol = |name: &str| {
        client.symbol(&format!("__llvm_orc_SimpleExecutorMemoryManager_{name}")).expect("offered")
    };
    let instance = symbol("Instance").get();
    let slab = words(&[instance, 65536]);
    let slab = client.call(symbol("reserve_wrapper"), &slab, None).expect("a slab");
    let address = word(&slab, 1);
    let mut request = words(&[instance, 1]);
    request.push(1 | 4);
    request.extend(words(&[address, 4096, code.len() as u64]));
    request.extend(code);
    request.extend(words(&[0]));
    client.call(symbol("initialize_wrapper"), &request, None).expect("loaded");
    ExecutorAddr::new(address)
}

/// Calls the host in every way, slowly and quickly.
fn call_all(client: &Client) {
    let answer = load(client, ANSWER);
    let [context, dispatch] = ["ctx", "fn"].map(|name| {
        let name = format!("__llvm_orc_SimpleRemoteEPC_dispatch_{name}");
        client.symbol(&name).expect("offered").get()
    });
    let back = load(client, &calls_back(context, dispatch));
    client.register_handler(0x77, move |client, args, result| {
        // The host serves while a function of its own waits.
        let inner = client.call(answer, &[], None).map_err(|error| error.to_string())?;
        result.extend_from_slice(&inner);
        result.extend_from_slice(args);
        Ok(())
    });
    for round in 0..300 {
        assert_eq!(client.call(answer, &[], None).expect("a result"), words(&[42]));
        let args = vec![3; round * 7];
        let result = client.call(back, &args, None).expect("a result");
        assert!(result[..8] == words(&[42]) && result[8..] == args);
        if round % 100 == 99 {
            // The host goes to sleep.
            std::thread::sleep(Duration::from_millis(2));
        }
    }
    let large = vec![5; 3 << 20];
    assert!(client.call(back, &large, None).expect("a result")[8..] == large);
}

#[test]
fn a_host_in_poll_mode_has_no_thread_of_ours() {
    if let Ok(kind) = std::env::var(HOST) {
        let (calls, polls) = host(kind == "shared");
        // Those inside of others are not counted: they are served where the host's function waits.
        assert!((605..=610).contains(&calls) && polls > 3, "{calls} calls in {polls} polls");
        return;
    }
    for (kind, connect) in [
        ("shared", Connection::create_shared as fn(UnixStream) -> _),
        ("socket", Connection::socket),
    ] {
        let (ours, theirs) = UnixStream::pair().expect("a socket");
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        let name = "polled::a_host_in_poll_mode_has_no_thread_of_ours";
        command.args([name, "--exact", "--nocapture"]).env(HOST, kind);
        let command = command.stdin(Stdio::from(OwnedFd::from(theirs))).stdout(Stdio::null());
        let mut child = command.spawn().expect("a host");
        // The host alone has its end now.
        command.stdin(Stdio::null());
        let client = Client::connect(connect(ours).expect("a connection")).expect("a setup");
        call_all(&client);
        drop(client);
        assert!(child.wait().expect("it ends").success(), "{kind}");
    }
}

#[test]
fn a_host_that_is_gone_is_disconnected() {
    let (ours, theirs) = UnixStream::pair().expect("a socket");
    let ours = Connection::create_shared(ours).expect("memory");
    let process = std::thread::spawn(move || {
        let client = Client::connect(ours).expect("a setup");
        let info = client.symbol("farcall_process_info").expect("offered");
        // Until polling has ended.
        let error = std::iter::repeat_with(|| client.call(info, &[], None)).find_map(Result::err);
        let error = error.expect("without end");
        assert!(error.is_disconnected() && error.kind() != ErrorKind::Violation, "{error}");
    });
    let mut polled = Polled::new(connection(theirs.into(), true)).expect("a setup");
    while polled.poll().expect("open") == 0 {}
    // Long enough for the controller to be asleep most of the time; right in either case.
    std::thread::sleep(Duration::from_millis(5));
    drop(polled);
    process.join().expect("no panic");
}

#[test]
fn a_controller_that_is_gone_ends_the_session() {
    for has_word in [true, false] {
        let (ours, theirs) = UnixStream::pair().expect("a socket");
        let ours = Connection::create_shared(ours).expect("memory");
        let mut polled = Polled::new(connection(theirs.into(), true)).expect("a setup");
        assert!(is_ready(&polled, 0) && polled.poll().expect("open") == 0);
        assert!(!is_ready(&polled, 0));
        if has_word {
            drop(Client::connect(ours).expect("a setup"));
        } else {
            drop(ours);
        }
        assert!(is_ready(&polled, 1000));
        let ended = polled.poll();
        assert!(polled.has_ended() && is_ready(&polled, 0));
        match ended {
            Ok(calls) => assert!(has_word && calls == 0),
            Err(error) => assert!(
                !has_word && error.is_disconnected() && error.kind() != ErrorKind::Violation
            ),
        }
        assert_eq!(polled.poll().expect("nothing more"), 0);
    }
}

/// A client that calls without end gets this many calls at a time, and then the host's other work has its turn.
#[test]
fn one_poll_has_an_end() {
    use std::io::Write;
    const CALLS: usize = POLLED_CALLS_MAX * 3 + 5;
    let (mut ours, theirs) = UnixStream::pair().expect("a socket");
    let mut polled = Polled::new(connection(theirs.into(), false)).expect("a setup");
    let mut other = ours.try_clone().expect("a socket");
    let reader = std::thread::spawn(move || std::io::copy(&mut other, &mut std::io::sink()));
    let mut frames = Vec::new();
    for number in 0..CALLS as u64 {
        // Nothing is called at address 0.
        frames.extend(words(&[32, super::CALL, number, 0]));
    }
    ours.write_all(&frames).expect("sent");
    // And half of one more.
    ours.write_all(&words(&[32, super::CALL])).expect("sent");
    for _ in 0..3 {
        assert!(is_ready(&polled, 1000));
        assert_eq!(polled.poll().expect("open"), POLLED_CALLS_MAX);
    }
    assert!(is_ready(&polled, 1000));
    assert_eq!(polled.poll().expect("open"), 5);
    assert!(!is_ready(&polled, 0));
    ours.write_all(&words(&[CALLS as u64, 0])).expect("sent");
    assert!(is_ready(&polled, 1000));
    assert_eq!(polled.poll().expect("open"), 1);
    ours.shutdown(std::net::Shutdown::Write).expect("open");
    assert!(is_ready(&polled, 1000));
    assert_eq!(polled.poll().expect("an orderly end"), 0);
    assert!(polled.has_ended());
    drop(polled);
    reader.join().expect("no panic").expect("an end");
}

/// A controller that calls as quickly as it can is served from one poll to the next, and cannot keep the host in one.
#[test]
fn lingering_has_an_end_too() {
    let (ours, theirs) = UnixStream::pair().expect("a socket");
    let ours = Connection::create_shared(ours).expect("memory");
    let process = std::thread::spawn(move || {
        let client = Client::connect(ours).expect("a setup");
        let info = client.symbol("farcall_process_info").expect("offered");
        for _ in 0..1000 {
            client.call(info, &[], None).expect("a result");
        }
    });
    let mut polled = Polled::new(connection(theirs.into(), true)).expect("a setup");
    let (mut calls, begun) = (0, Instant::now());
    while !polled.has_ended() {
        assert!(begun.elapsed() < Duration::from_secs(120), "nobody calls");
        let served = polled.poll_for(Duration::from_micros(50)).expect("an orderly end");
        assert!(served <= POLLED_CALLS_MAX);
        if served == POLLED_CALLS_MAX {
            assert!(is_ready(&polled, 0), "there may be more");
        }
        calls += served;
    }
    assert_eq!(calls, 1000);
    process.join().expect("no panic");
}

#[test]
fn a_descriptor_that_cannot_be_waited_for_is_refused() {
    let (ours, _theirs) = UnixStream::pair().expect("a socket");
    let ours = Connection::create_shared(ours).expect("memory");
    assert!(
        Polled::new(ours).expect_err("the controller's end").kind() == ErrorKind::InvalidArgument
    );
}
