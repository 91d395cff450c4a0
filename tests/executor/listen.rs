//! An executor that listens with a token is not held, and not ended, by peers that are no controllers (D15).

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::PROGRAM;

/// An executor that listens, and where.
struct Listening {
    child: Child,
    place: String,
}

impl Listening {
    fn start() -> Self {
        let mut command = Command::new(PROGRAM);
        // Without a token the first to come is the controller, as LLVM's tools are.
        let token = "a token that no scanner has, of 40 letters";
        command.arg("tcp:listen=127.0.0.1:0").env("FARCALL_TOKEN", token).stderr(Stdio::piped());
        let mut child = command.spawn().expect("an executor");
        let mut lines = BufReader::new(child.stderr.take().expect("piped")).lines();
        let place = lines
            .find_map(|line| Some(line.expect("text").strip_prefix("listening at ")?.to_owned()));
        let place = place.expect("a place");
        // It may say more later, and must be able to.
        std::thread::spawn(move || lines.for_each(drop));
        Self { child, place }
    }

    fn connect(&self) -> TcpStream {
        TcpStream::connect(&self.place).expect("it listens")
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn d15_half_a_header_does_not_hold_an_executor_for_ever() {
    let executor = Listening::start();
    let mut socket = executor.connect();
    socket.write_all(&[40, 0, 0, 0, 0, 0, 0, 0, 3, 0]).expect("a reader");
    socket.set_read_timeout(Some(Duration::from_secs(20))).expect("a limit");
    let mut bytes = [0; 4096];
    loop {
        match socket.read(&mut bytes) {
            // Its own announcement comes first.
            Ok(count) if count > 0 => {}
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                panic!("held for 20 s by half a header");
            }
            _ => break,
        }
    }
}

#[test]
fn d15_a_scan_of_ports_does_not_end_an_executor() {
    let mut executor = Listening::start();
    for scan in 0..5 {
        drop(executor.connect());
        std::thread::sleep(Duration::from_millis(200));
        let ended = executor.child.try_wait().expect("a child");
        assert!(ended.is_none(), "ended behind scan {scan}: {ended:?}");
    }
    drop(executor.connect());
}
