//! Sessions that this program embeds, and this library's client as their controller.

use std::os::unix::net::UnixStream;
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use farcall::controller::Client;
use farcall::executor::{Options, Session, SimpleRemote};
use farcall::sps::{self, Expected};
use farcall::task::{TaskDispatcher, ThreadPool};
use farcall::{Connection, ExecutorAddr, Result};

/// Longer than anything here takes.
const LONG: Duration = Duration::from_secs(30);

/// Options whose tasks run on threads, and where the end of the connection comes out.
fn options() -> (Options, Receiver<std::result::Result<(), String>>) {
    let (sender, receiver) = mpsc::channel();
    let pool = ThreadPool::new(2);
    let options = Options::new(move |task| pool.dispatch(task))
        .function("echo", |_, args, reply| reply.send(Ok(args)))
        .and_then(|options| options.function("fails", |_, _, reply| reply.send(Err("no".into()))))
        .expect("functions")
        .on_error(|_, error| panic!("{error}"))
        .on_disconnect(move |_, cause| {
            // Nobody looks in some tests.
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
    let session = Session::new(options.expect("a function")).expect("a session");
    let (one, other) = UnixStream::pair().expect("sockets");
    let controller = thread::spawn(move || {
        let client = Client::connect(Connection::socket(one)?)?;
        client.register_handler(5, |client, args, result| {
            let echo = client.symbol("echo").ok_or("not offered")?;
            *result = client.call(echo, args).map_err(|error| error.to_string())?;
            result.push(b'!');
            Ok(())
        });
        let asks = client.symbol("asks").expect("offered");
        assert_eq!(client.call(asks, b"hello")?, b"hello!");
        let fails = client.symbol("fails").expect("offered");
        assert_eq!(client.call(fails, b"").expect_err("out of band").to_string(), "no");
        let info = client.symbol("farcall_process_info").expect("offered");
        let (triple, page, _): (String, u64, String) = sps::from_bytes(&client.call(info, &[])?)?;
        assert_eq!((triple.as_str(), page), (client.triple(), 4096));
        Result::Ok(())
    });
    session.attach(SimpleRemote::socket(other).expect("an access")).expect("attached");
    controller.join().expect("no panic").expect("calls");
    assert_eq!(end.recv_timeout(LONG).expect("an end"), Ok(()), "the client hung up");
}

#[test]
fn memory_of_a_session_is_released_at_its_shutdown() {
    let (options, _end) = options();
    let session = Session::new(options).expect("a session");
    let (one, other) = UnixStream::pair().expect("sockets");
    session.attach(SimpleRemote::socket(other).expect("an access")).expect("attached");
    let client = Client::connect(Connection::socket(one).expect("a connection")).expect("a client");
    let instance = client.symbol("orc_rt_ci_SimpleNativeMemoryMap_Instance").expect("offered");
    let reserve = client.symbol("orc_rt_ci_sps_SimpleNativeMemoryMap_reserve").expect("offered");
    let args = sps::to_bytes(&(instance, 1_u64 << 20));
    let slab: Expected<ExecutorAddr> =
        sps::from_bytes(&client.call(reserve, &args).expect("a result")).expect("decodes");
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
