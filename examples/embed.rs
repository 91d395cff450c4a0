//! A program that embeds a session: a controller attaches, calls and leaves, and the session shuts down.

use std::os::unix::net::UnixStream;
use std::thread;

use farcall::controller::Client;
use farcall::executor::SimpleRemote;
use farcall::session::SessionBuilder;
use farcall::task::{TaskDispatcher, ThreadPool};
use farcall::{Connection, Result};

fn main() -> Result<()> {
    let pool = ThreadPool::new(4);
    let options = SessionBuilder::new(move |task| pool.dispatch(task))
        .function("greet", |_, name, reply| reply.send(Ok([b"hello, ", &name[..]].concat())))?
        .on_disconnect(|session, _| session.shutdown(|| println!("shut down")));
    let session = options.build()?;

    let (ours, theirs) = UnixStream::pair().expect("a pair of sockets");
    let process = thread::spawn(|| controller(theirs));
    session.attach(SimpleRemote::socket(ours)?)?;
    process.join().expect("no panic")?;
    session.wait()
}

/// Any process may be the controller; here it is a thread.
fn controller(socket: UnixStream) -> Result<()> {
    let client = Client::connect(Connection::socket(socket)?)?;
    let greet = client.symbol("greet").expect("offered by the session");
    println!("{}", String::from_utf8_lossy(&client.call(greet, b"world", None)?));
    Ok(())
}
