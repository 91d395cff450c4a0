//! Caller processes: further runs of this executable that make calls by order of the contest.
//!
//! The cost of a polled line depends on the virtual addresses of the loops that poll it. The kernel draws them when a process
//! starts, so one process measures one draw.
//!
//! Invariant: all timed work happens inside the caller process; no figure includes an order or an answer.

use std::cell::{Cell, RefCell};
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::rc::Rc;
use std::time::Duration;
use std::{env, fs};

use nix::sys::prctl;
use nix::sys::signal::Signal;
use nix::unistd::Pid;

use crate::callers::calling::Calling;
use crate::callers::turn::Turn;
use crate::processes::peer::{self, Peer};
use crate::{Callee, Contender, CpuPair, Result};

/// The start of the first argument of a caller process; the two CPUs follow, or [`ANY`]. A second argument is the folder of
/// a control group.
const ARGUMENT: &str = "--farcall-bench-caller=";
const ANY: &str = "any";
/// How long a process may take to end by itself, with its own peer and executor.
const END_PATIENCE: Duration = Duration::from_secs(1);
/// How much longer than ordered a turn may last.
const TURN_TIMEOUT: Duration = Duration::from_secs(30);

/// The CPUs and the control group of a caller process and its servers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Placement {
    /// The CPUs of the two sides; all that this process may use, for both sides, if absent.
    pub(crate) cpus: Option<CpuPair>,
    /// The folder of the control group; none if absent.
    pub(crate) group: Option<PathBuf>,
}

impl From<CpuPair> for Placement {
    fn from(cpus: CpuPair) -> Placement {
        Placement { cpus: Some(cpus), group: None }
    }
}

/// A process that makes calls on the caller's CPU, with a peer and an executor of its own on the server's.
///
/// It sleeps until it gets an order. The kernel ends it with the thread that started it.
#[derive(Debug)]
pub(crate) struct Caller {
    child: RefCell<Child>,
    control: UnixStream,
    rows: Cell<u64>,
}

impl Caller {
    /// Starts the process; pins nothing here.
    ///
    /// # Errors
    /// When the executable of this process cannot be started again.
    pub(crate) fn start(placement: &Placement) -> Result<Rc<Caller>> {
        let (control, theirs) = UnixStream::pair()?;
        let child = Command::new("/proc/self/exe")
            .arg0("farcall-bench-caller")
            .arg(placement.cpus.map_or_else(
                || format!("{ARGUMENT}{ANY}"),
                |cpus| format!("{ARGUMENT}{},{}", cpus.caller, cpus.server),
            ))
            .args(&placement.group)
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::null())
            .spawn()
            .map_err(|error| format!("starting this executable again as a caller: {error}"))?;
        Ok(Rc::new(Caller { child: RefCell::new(child), control, rows: Cell::new(0) }))
    }

    /// A row whose calls the process makes.
    ///
    /// # Errors
    /// When the row cannot be made there.
    pub(crate) fn row(self: &Rc<Self>, calling: Calling) -> Result<CallerRow> {
        let (kind, bytes) = calling.encode();
        let name = String::from_utf8(self.order([MAKE, kind, bytes])?)?;
        let index = self.rows.get();
        self.rows.set(index + 1);
        Ok(CallerRow { caller: Rc::clone(self), name, index, is_of_peer: calling.is_of_peer() })
    }

    /// Sends an order to the process, and returns the answer.
    fn order(&self, words: [u64; 3]) -> Result<Vec<u8>> {
        let exchange = || {
            (&self.control).write_all(&words.map(u64::to_le_bytes).concat())?;
            read_answer(&self.control)
        };
        let complain = |error: io::Error| match error.kind() {
            io::ErrorKind::WouldBlock => {
                format!("no answer for {TURN_TIMEOUT:?}: a call does not return")
            }
            _ => format!("a caller process ended: {error}"),
        };
        match exchange().map_err(complain)? {
            (0, answer) => Ok(answer),
            (_, error) => Err(String::from_utf8_lossy(&error).into()),
        }
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        // Fails for a process that is gone.
        let _ = self.control.shutdown(Shutdown::Both);
        peer::end(self.child.get_mut(), END_PATIENCE);
    }
}

/// A row whose calls a [`Caller`] makes and times.
#[derive(Debug)]
pub(crate) struct CallerRow {
    caller: Rc<Caller>,
    name: String,
    index: u64,
    is_of_peer: bool,
}

impl CallerRow {
    /// The times that the process answers with.
    fn order(&self, action: u64, calls: u32) -> Result<Vec<u64>> {
        let answer = self.caller.order([action, self.index, u64::from(calls)])?;
        Ok(words(&answer).collect())
    }

    /// Makes calls for this long.
    ///
    /// # Errors
    /// The first error of a call, or a call that does not return.
    pub(crate) fn turn(&self, length: Duration) -> Result<Turn> {
        let action = if self.is_of_peer { TURN_OF_PEER } else { TURN_OF_EXECUTOR };
        let order = [action, self.index, u64::try_from(length.as_micros())?];
        let control = &self.caller.control;
        control.set_read_timeout(Some(length + TURN_TIMEOUT))?;
        let answer = self.caller.order(order);
        control.set_read_timeout(None)?;
        let named = |error| format!("row \"{}\": {error}", self.name);
        Turn::decode(words(&answer.map_err(named)?))
    }
}

impl Contender for CallerRow {
    fn name(&self) -> &str {
        &self.name
    }

    fn prepare(&mut self, calls: u32) -> Result<()> {
        self.order(PREPARE, calls).map(drop)
    }

    fn rest(&mut self) -> Result<()> {
        self.order(REST, 0).map(drop)
    }

    fn call(&mut self) -> Result<()> {
        self.run(1).map(drop)
    }

    fn run(&mut self, calls: u32) -> Result<Duration> {
        let took_ns = self.order(RUN, calls)?;
        Ok(Duration::from_nanos(*took_ns.first().ok_or("a caller process gave no time")?))
    }

    fn sample(&mut self, calls: u32, samples_ns: &mut Vec<u64>) -> Result<()> {
        samples_ns.extend(self.order(SAMPLE, calls)?);
        Ok(())
    }
}

/// Orders: the second and third word are a kind of row and its bytes, or the index of a row and a number of calls.
const MAKE: u64 = 0;
const PREPARE: u64 = 1;
const RUN: u64 = 2;
const SAMPLE: u64 = 3;
const REST: u64 = 4;
/// The third word is a number of microseconds.
const TURN_OF_PEER: u64 = 5;
const TURN_OF_EXECUTOR: u64 = 6;

/// The placement in the arguments of a caller process; `None` if `argument`, the first one, is any other.
pub(crate) fn placement(argument: &str) -> Option<Placement> {
    let group = env::args_os().nth(2).map(PathBuf::from);
    let cpus = match argument.strip_prefix(ARGUMENT)? {
        ANY => None,
        cpus => Some(cpus.parse().ok()?),
    };
    Some(Placement { cpus, group })
}

/// The caller process from inside: carries out orders from its standard input until that ends.
pub(crate) fn serve_orders(placement: &Placement) -> Result<()> {
    // A parent that died before this line has closed the socket, which the loop notices.
    prctl::set_pdeathsig(Signal::SIGKILL)?;
    if let Some(group) = &placement.group {
        // 0 is the process that writes. The processes that it starts inherit the group.
        fs::write(group.join("cgroup.procs"), "0")
            .map_err(|error| format!("joining {}: {error}", group.display()))?;
    }
    let mut control = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let _pinned = placement.cpus.map(CpuPair::pin_caller).transpose()?;
    let (peer, callee) = match placement.cpus {
        Some(cpus) => (Peer::start(cpus)?, Callee::start(cpus)?),
        None => (Peer::start_unpinned()?, Callee::start_unpinned()?),
    };
    let executor = Pid::from_raw(callee.process().pid());
    let cpus = placement.cpus.map_or_else(CpuPair::first_two, Ok)?;
    let mut rows = Vec::new();
    let mut order = [0; 24];
    while read_order(&mut control, &mut order)? {
        let mut order = words(&order);
        let [action, second, third] = [(); 3].map(|()| order.next().unwrap_or_default());
        let make = || Calling::decode(second, third)?.start(cpus, &peer, &callee);
        let done = match action {
            TURN_OF_PEER => turn(&mut rows, second, third, Some(peer.pid()), executor),
            TURN_OF_EXECUTOR => turn(&mut rows, second, third, None, executor),
            _ => carry_out(&mut rows, action, second, third, make),
        };
        let (status, answer) = match done {
            Ok(answer) => (0_u64, answer),
            Err(error) => (1, error.to_string().into_bytes()),
        };
        let head = [status, answer.len() as u64].map(u64::to_le_bytes);
        control.write_all(&[&head.concat()[..], &answer].concat())?;
    }
    Ok(())
}

fn carry_out(
    rows: &mut Vec<Box<dyn Contender>>,
    action: u64,
    index: u64,
    calls: u64,
    make: impl FnOnce() -> Result<Box<dyn Contender>>,
) -> Result<Vec<u8>> {
    if action == MAKE {
        let row = make()?;
        let name = row.name().as_bytes().to_vec();
        rows.push(row);
        return Ok(name);
    }
    let row = row_of(rows, index)?;
    let calls = u32::try_from(calls)?;
    let mut times_ns = Vec::new();
    match action {
        PREPARE => row.prepare(calls)?,
        RUN => times_ns.push(u64::try_from(row.run(calls)?.as_nanos())?),
        SAMPLE => {
            times_ns.reserve(calls as usize);
            row.sample(calls, &mut times_ns)?;
        }
        REST => row.rest()?,
        other => return Err(format!("no order has the number {other}").into()),
    }
    Ok(times_ns.into_iter().flat_map(u64::to_le_bytes).collect())
}

/// Makes calls of a row for some microseconds. Its server is this peer or, if there is none, the executor.
fn turn(
    rows: &mut [Box<dyn Contender>],
    index: u64,
    micros: u64,
    peer: Option<Pid>,
    executor: Pid,
) -> Result<Vec<u8>> {
    let length = Duration::from_micros(micros);
    let row = &mut **row_of(rows, index)?;
    let turn = Turn::measure(row, length, peer.unwrap_or(executor), peer.is_some())?;
    Ok(turn.encode().into_iter().flat_map(u64::to_le_bytes).collect())
}

fn row_of(rows: &mut [Box<dyn Contender>], index: u64) -> Result<&mut Box<dyn Contender>> {
    let row = rows.get_mut(usize::try_from(index)?);
    row.ok_or_else(|| format!("an order to call in row {index}, which does not exist").into())
}

/// The 64-bit words of an order or an answer.
fn words(bytes: &[u8]) -> impl Iterator<Item = u64> + '_ {
    bytes.chunks_exact(8).map(|word| word.try_into().map_or(0, u64::from_le_bytes))
}

/// False at the end of the stream.
fn read_order(control: &mut UnixStream, order: &mut [u8]) -> Result<bool> {
    match control.read_exact(order) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(format!("reading an order: {error}").into()),
    }
}

/// Status and content.
fn read_answer(mut control: &UnixStream) -> io::Result<(u64, Vec<u8>)> {
    let (mut status, mut count) = ([0; 8], [0; 8]);
    control.read_exact(&mut status)?;
    control.read_exact(&mut count)?;
    let count = usize::try_from(u64::from_le_bytes(count)).map_err(io::Error::other)?;
    let mut answer = vec![0; count];
    control.read_exact(&mut answer)?;
    Ok((u64::from_le_bytes(status), answer))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cpus_of_a_caller_are_read_as_written() {
        let cpus = |argument| placement(argument).map(|placement| placement.cpus);
        let pair = CpuPair { caller: 3, server: 12 };
        assert_eq!(cpus("--farcall-bench-caller=3,12"), Some(Some(pair)));
        assert_eq!(cpus("--farcall-bench-caller=any"), Some(None));
        assert_eq!(cpus("--farcall-bench-caller=3"), None);
        assert_eq!(cpus("bench"), None);
    }

    struct Row;

    impl Contender for Row {
        fn name(&self) -> &str {
            "row"
        }
        fn call(&mut self) -> Result<()> {
            Ok(())
        }
        fn rest(&mut self) -> Result<()> {
            Err("cannot rest".into())
        }
    }

    #[test]
    fn orders_are_carried_out_by_the_row_that_they_name() {
        let mut rows: Vec<Box<dyn Contender>> = Vec::new();
        let mut order = |action, index, calls| {
            carry_out(&mut rows, action, index, calls, || Ok(Box::new(Row)))
                .map_err(|error| error.to_string())
        };
        assert!(order(RUN, 0, 1).unwrap_err().contains("row 0, which does not exist"));
        assert_eq!(order(MAKE, 0, 0).unwrap(), b"row");
        assert_eq!(order(PREPARE, 0, 8).unwrap(), b"");
        assert_eq!(order(RUN, 0, 5).unwrap().len(), 8);
        assert_eq!(order(SAMPLE, 0, 3).unwrap().len(), 3 * 8);
        assert_eq!(order(REST, 0, 0).unwrap_err(), "cannot rest");
        assert!(order(19, 0, 0).unwrap_err().contains("number 19"));
    }
}
