//! Sessions that this program embeds, and this library's client as their controller.

use std::os::unix::net::UnixStream;
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use farcall::controller::Client;
use farcall::executor::{SharedLane, SimpleRemote};
use farcall::session::{Session, SessionBuilder};
use farcall::sps::{self, Expected};
use farcall::task::{TaskDispatcher, ThreadPool};
use farcall::{Connection, ErrorKind, ExecutorAddr, Result};

/// Longer than anything here takes.
const LONG: Duration = Duration::from_secs(30);

/// SessionBuilder whose tasks run on threads, and where the end of the connection comes out.
fn options() -> (SessionBuilder, Receiver<std::result::Result<(), String>>) {
    let (sender, receiver) = mpsc::channel();
    let pool = ThreadPool::new(2);
    let options = SessionBuilder::new(move |task| pool.dispatch(task))
        .function("echo", |_, args, reply| reply.send(Ok(args)))
        .and_then(|options| options.function("fails", |_, _, reply| reply.send(Err("no".into()))))
        .expect("functions")
        .on_error(|_, error| panic!("{error}"))
        .on_disconnect(move |_, cause| {
            // Some tests do not look.
            let _ = sender.send(cause.map_err(|error| error.to_string()));
        });
    (options, receiver)
}

#[test]
fn a_client_calls_the_session_and_is_called() {
    let (options, end) = options();
    let options = options.function("asks", |session, args, reply| {
        reply.send(session.call(5, args).map_err(|error| error.to_string()));
    });
    let session = options.expect("a function").build().expect("a session");
    let (one, other) = UnixStream::pair().expect("sockets");
    let process = thread::spawn(move || {
        let client = Client::connect(Connection::socket(one)?)?;
        client.register_handler(5, |client, args, result| {
            let echo = client.symbol("echo").ok_or("not offered")?;
            *result = client.call(echo, args, None).map_err(|error| error.to_string())?;
            result.push(b'!');
            Ok(())
        });
        let asks = client.symbol("asks").expect("offered");
        assert_eq!(client.call(asks, b"hello", None)?, b"hello!");
        let fails = client.symbol("fails").expect("offered");
        assert_eq!(client.call(fails, b"", None).expect_err("out of band").to_string(), "no");
        let info = client.symbol("farcall_process_info").expect("offered");
        let (triple, page, _): (String, u64, String) =
            sps::from_bytes(&client.call(info, &[], None)?)?;
        assert_eq!((triple.as_str(), page), (client.triple(), 4096));
        Result::Ok(())
    });
    session.attach(SimpleRemote::socket(other).expect("an access")).expect("attached");
    process.join().expect("no panic").expect("calls");
    assert_eq!(end.recv_timeout(LONG).expect("an end"), Ok(()), "the client hung up");
}

/// A session with a client at the other end of a lane that is passed over a socket.
fn over_a_lane(options: SessionBuilder) -> (Session, Client) {
    let (one, other) = UnixStream::pair().expect("sockets");
    let connection = Connection::create_shared(one).expect("a lane");
    let session = options.build().expect("a session");
    session.try_attach(|_| SharedLane::attach(other)).expect("attached");
    (session, Client::connect(connection).expect("a client"))
}

#[test]
fn a_lane_carries_calls_both_ways() {
    let (options, end) = options();
    let options = options.function("asks", |session, args, reply| {
        reply.send(session.call(5, args).map_err(|error| error.to_string()));
    });
    let (_session, client) = over_a_lane(options.expect("a function"));
    client.register_handler(5, |client, args, result| {
        let asks = client.symbol("asks").ok_or("not offered")?;
        *result = match args.split_first() {
            Some((_, rest)) => client.call(asks, rest, None).map_err(|error| error.to_string())?,
            None => Vec::new(),
        };
        result.push(7);
        Ok(())
    });
    let asks = client.symbol("asks").expect("offered");
    assert_eq!(client.call(asks, &[0; 20], None).expect("nested"), [7; 21]);
    let echo = client.symbol("echo").expect("offered");
    let large = vec![3; 3 << 20];
    assert!(client.call(echo, &large, None).expect("a result") == large);
    let fails = client.symbol("fails").expect("offered");
    let error = client.call(fails, &[], None).expect_err("out of band");
    assert!(error.kind() == ErrorKind::Remote && error.to_string() == "no", "{error:?}");
    drop(client);
    assert_eq!(end.recv_timeout(LONG).expect("an end"), Ok(()), "the client hung up");
}

#[test]
fn a_call_with_a_timeout_waits_for_a_call_that_timed_out() {
    for with in [over_a_lane, over_a_stream] {
        let (options, _end) = options();
        let options = options.function("pauses_and_asks", |session, args, reply| {
            thread::sleep(Duration::from_millis(500));
            reply.send(session.call(5, args).map_err(|error| error.to_string()));
        });
        let (_session, client) = with(options.expect("a function"));
        let [slow, echo] = ["pauses_and_asks", "echo"].map(|name| client.symbol(name).expect(name));
        // The handler runs while the client waits for the late answer, and calls in turn.
        client.register_handler(5, move |client, args, result| {
            let nested = client.call(echo, args, LONG).expect_err("a handler");
            assert_eq!(nested.kind(), ErrorKind::InvalidArgument, "{nested}");
            *result = client.call(echo, args, None)?;
            Ok(())
        });
        for _ in 0..2 {
            let late = client.call(slow, b"late", Duration::from_millis(10));
            assert_eq!(late.expect_err("it pauses").kind(), ErrorKind::Timeout);
            assert_eq!(client.call(echo, b"next", LONG).expect("an answer"), b"next");
        }
        let late = client.call(slow, b"late", Duration::from_millis(10));
        assert_eq!(late.expect_err("it pauses").kind(), ErrorKind::Timeout);
        let early = client.call(echo, b"next", Duration::from_millis(10));
        assert_eq!(early.expect_err("it pauses").kind(), ErrorKind::Timeout);
        assert_eq!(client.call(echo, b"last", None).expect("an answer"), b"last");
    }
}

#[test]
fn calls_of_a_session_at_rest_go_out_with_the_next_call() {
    let (options, _end) = options();
    let (session, client) = over_a_lane(options);
    client.register_handler(5, |_, args, result| {
        result.extend_from_slice(args);
        Ok(())
    });
    let (sender, receiver) = mpsc::channel();
    session.call_controller(5, vec![1], move |outcome| sender.send(outcome).expect("waited for"));
    assert!(receiver.try_recv().is_err());
    let echo = client.symbol("echo").expect("offered");
    while receiver.try_recv().is_err() {
        client.call(echo, b"x", None).expect("a result");
    }
}

/// A session with a client at the other end of a stream.
fn over_a_stream(options: SessionBuilder) -> (Session, Client) {
    let (one, other) = UnixStream::pair().expect("sockets");
    let session = options.build().expect("a session");
    session.attach(SimpleRemote::socket(other).expect("an access")).expect("attached");
    let client = Client::connect(Connection::socket(one).expect("a connection"));
    (session, client.expect("a client"))
}

#[test]
fn an_attending_thread_serves_calls_of_a_session_at_rest() {
    for connect in [over_a_lane, over_a_stream] {
        let (options, end) = options();
        let (session, client) = connect(options);
        client.register_handler(5, |client, args, result| {
            let refused = client.attend(LONG).expect_err("its caller waits");
            assert!(refused.kind() == ErrorKind::InvalidArgument, "{refused:?}");
            let echo = client.symbol("echo").ok_or("not offered")?;
            *result = client.call(echo, args, None).map_err(|error| error.to_string())?;
            Ok(())
        });
        assert_eq!(client.attend(Duration::from_millis(2)).expect("open"), 0, "nobody calls");
        let caller = session.clone();
        let calls = thread::spawn(move || {
            for number in 0..100_u8 {
                // Some come while the client waits, some before it does.
                thread::sleep(Duration::from_micros(u64::from(number % 3) * 300));
                assert_eq!(caller.call(5, vec![number; 30]).expect("a result"), [number; 30]);
            }
        });
        let mut served = 0;
        while served < 100 {
            let calls = client.attend(LONG).expect("open");
            assert!(calls > 0, "it returns when there was something");
            served += calls;
        }
        calls.join().expect("no panic");
        assert_eq!(served, 100);
        let echo = client.symbol("echo").expect("offered");
        assert_eq!(client.call(echo, b"goes on", None).expect("a result"), b"goes on");

        // The session ends with the wait.
        let ender = session.clone();
        let ends = thread::spawn(move || {
            thread::sleep(Duration::from_millis(3));
            ender.shutdown(|| {});
        });
        let error = client.attend(LONG).expect_err("it ends");
        assert!(error.is_disconnected() && error.to_string().contains("ended"), "{error:?}");
        ends.join().expect("no panic");
        session.wait().expect("it is over");
        assert_eq!(end.recv_timeout(LONG).expect("an end"), Ok(()));
    }
}

#[test]
fn a_client_handlers_panic_is_an_error_with_its_words() {
    let (options, _end) = options();
    let (session, client) = over_a_lane(options);
    client.register_handler(5, |_, args, _| panic!("{} bytes of nonsense", args.len()));
    let (sender, receiver) = mpsc::channel();
    session.call_controller(5, vec![1; 3], move |outcome| {
        let why = outcome.expect_err("it panicked").to_string();
        sender.send(why).expect("waited for");
    });
    let echo = client.symbol("echo").expect("offered");
    let why = loop {
        client.call(echo, b"x", None).expect("a result");
        if let Ok(why) = receiver.try_recv() {
            break why;
        }
    };
    assert!(why.contains("the handler panicked: 3 bytes of nonsense"), "{why}");
}

#[test]
fn a_lane_ends_inside_and_outside_of_a_call() {
    for inside in [true, false] {
        let (options, end) = options();
        let options = options.function("ends", |session, _, reply| {
            session.shutdown(|| {});
            // Too late for it.
            reply.send(Ok(Vec::new()));
        });
        let (session, client) = over_a_lane(options.expect("a function"));
        let function = client.symbol(if inside { "ends" } else { "echo" }).expect("offered");
        if !inside {
            session.shutdown(|| {});
        }
        let error = client.call(function, &[], None).expect_err("it ends");
        assert!(error.is_disconnected(), "{error:?}");
        // Outside, one comes if the call does before the end is seen.
        assert!(error.to_string().contains("ended the session") || !inside, "{error}");
        assert_eq!(end.recv_timeout(LONG).expect("an end"), Ok(()));
        session.wait().expect("it is over");
    }
}

#[test]
fn a_controller_that_is_gone_is_an_error_over_a_lane() {
    let (options, end) = options();
    let (one, other) = UnixStream::pair().expect("sockets");
    let connection = Connection::create_shared(one).expect("a lane");
    let session = options.build().expect("a session");
    session.try_attach(|_| SharedLane::attach(other)).expect("attached");
    drop(connection);
    let error = end.recv_timeout(LONG).expect("an end").expect_err("no hangup");
    assert!(error.contains("gone"), "{error}");
}

#[test]
fn calls_nest_deeper_than_the_pool_is_wide() {
    let pool = ThreadPool::new(1);
    let options = SessionBuilder::new(move |task| pool.dispatch(task));
    let options = options.function("asks", |session, args, reply| {
        reply.send(session.call(5, args).map_err(|error| error.to_string()));
    });
    let session = options.expect("a function").build().expect("a session");
    let (one, other) = UnixStream::pair().expect("sockets");
    session.attach(SimpleRemote::socket(other).expect("an access")).expect("attached");
    let client = Client::connect(Connection::socket(one).expect("a connection")).expect("a client");
    client.register_handler(5, |client, args, result| {
        let asks = client.symbol("asks").ok_or("not offered")?;
        *result = match args.split_first() {
            Some((_, rest)) => client.call(asks, rest, None).map_err(|error| error.to_string())?,
            None => Vec::new(),
        };
        result.push(1);
        Ok(())
    });
    let asks = client.symbol("asks").expect("offered");
    assert_eq!(client.call(asks, &[0; 30], None).expect("a result"), [1; 31]);
}

#[test]
fn memory_of_a_session_is_released_at_its_shutdown() {
    let (options, _end) = options();
    let session = options.build().expect("a session");
    let (one, other) = UnixStream::pair().expect("sockets");
    session.attach(SimpleRemote::socket(other).expect("an access")).expect("attached");
    let client = Client::connect(Connection::socket(one).expect("a connection")).expect("a client");
    let instance = client.symbol("orc_rt_ci_SimpleNativeMemoryMap_Instance").expect("offered");
    let reserve = client.symbol("orc_rt_ci_sps_SimpleNativeMemoryMap_reserve").expect("offered");
    let args = sps::to_bytes(&(instance, 1_u64 << 20));
    let slab: Expected<ExecutorAddr> =
        sps::from_bytes(&client.call(reserve, &args, None).expect("a result")).expect("decodes");
    let slab = slab.0.expect("a slab");
    let is_mapped = || {
        let maps = std::fs::read_to_string("/proc/self/maps").expect("maps");
        maps.lines().any(|line| line.starts_with(&format!("{:x}-", slab.get())))
    };
    assert!(is_mapped());
    session.detach(|| {});
    drop(client);
    session.call_with_keepalive("a look", || assert!(is_mapped(), "code may run on"));
    session.shutdown(|| {});
    session.wait().expect("it is over");
    assert!(!is_mapped());
}
