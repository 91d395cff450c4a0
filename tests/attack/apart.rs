//! A test in a process of its own, under a watchdog.
//!
//! Invariant: when `run` returns, nothing of the other process's group runs any more.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Seek};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::{Pid, geteuid};

use crate::sources;

/// The name of the test that the other process runs.
const TEST: &str = "ATTACK_TEST";
/// Which of its cases.
const CASE: &str = "ATTACK_CASE";
/// The status of a process in which something was not over in time.
const HUNG: i32 = 102;

/// How a test is run in another process.
#[derive(Debug)]
pub(crate) struct Apart {
    bound: Duration,
    starter: Vec<&'static str>,
    /// The user and group that the other process has.
    user: Option<u32>,
}

impl Apart {
    /// The other process has `bound_s` seconds to end.
    pub(crate) fn within(bound_s: u64) -> Self {
        Self { bound: Duration::from_secs(bound_s), starter: Vec::new(), user: None }
    }

    /// A command with arguments starts the other process, as `env` and `taskset` do.
    pub(crate) fn started_by(mut self, starter: &[&'static str]) -> Self {
        self.starter = starter.to_vec();
        self
    }

    /// The other process is this user's, and of a group with the same number. `None` if this process cannot become that user.
    pub(crate) fn for_user(mut self, user: u32) -> Option<Self> {
        let own = geteuid();
        if !own.is_root() && own.as_raw() != user {
            println!("attack: skipped: only root can become another user");
            return None;
        }
        self.user = Some(user);
        Some(self)
    }

    /// Runs `body`, a closure of the test's own function, in another process.
    ///
    /// # Panics
    ///
    /// When that fails, dies, or does not end in time.
    pub(crate) fn run<F: FnOnce()>(self, body: F) {
        let name = name_of::<F>();
        if std::env::var(TEST).is_ok_and(|test| test == name) {
            // An end of the tests is this process's end as well.
            nix::sys::prctl::set_pdeathsig(Signal::SIGKILL).expect("Linux");
            return body();
        }
        let (ended, output) = self.again(&name, "");
        print!("{}", of_the_test(&output));
        match ended {
            // A name that is wrong runs nothing.
            Some(status) if status.success() => assert!(output.contains(" 1 passed;"), "{output}"),
            Some(status) => match status.signal() {
                Some(signal) => panic!("{name}: the host died of signal {signal}\n{output}"),
                None => panic!("{name}: {status}\n{output}"),
            },
            None => panic!("{name}: hang: not over after {:?}\n{output}", self.bound),
        }
    }

    /// Runs the test of this name in another process, which finds the case in [`case`]. Returns how it ended, unless it had to
    /// be stopped, and what it wrote.
    pub(crate) fn again(&self, name: &str, case: &str) -> (Option<ExitStatus>, String) {
        let test = command(name, case);
        let mut command = match self.starter.split_first() {
            None => test,
            Some((starter, args)) => {
                let mut command = Command::new(starter);
                command.args(args).arg(test.get_program()).args(test.get_args());
                command.envs(test.get_envs().filter_map(|(name, value)| Some((name, value?))));
                command
            }
        };
        command.envs(sources::all()).process_group(0);
        if let Some(user) = self.user {
            command.uid(user).gid(user);
        }
        let mut output = tempfile::tempfile().expect("a file");
        let copy = || output.try_clone().expect("a descriptor");
        command.stdin(Stdio::null()).stdout(copy()).stderr(copy());
        let mut child = command.spawn().expect("this program");
        let pid = Pid::from_raw(i32::try_from(child.id()).expect("a process number"));
        let deadline = Instant::now() + self.bound;
        let mut has_ended = false;
        while !has_ended && Instant::now() < deadline {
            // Not collected, so that its number stays its group's number.
            let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT | WaitPidFlag::WNOHANG;
            has_ended = !matches!(waitid(Id::Pid(pid), flags), Ok(WaitStatus::StillAlive));
            if !has_ended {
                thread::sleep(Duration::from_millis(5));
            }
        }
        let places = if has_ended { String::new() } else { where_threads_are(pid) };
        let _ = kill(Pid::from_raw(-pid.as_raw()), Signal::SIGKILL);
        let status = child.wait().expect("a child");
        let mut bytes = Vec::new();
        output.rewind().and_then(|()| output.read_to_end(&mut bytes)).expect("a file");
        let text = String::from_utf8_lossy(&bytes).into_owned();
        (has_ended.then_some(status), text + &places)
    }
}

/// This program, started again for one test, or a case of it. The environment has to tell it the compiled files.
pub(crate) fn command(name: &str, case: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args([name, "--exact", "--nocapture", "--test-threads=1"]);
    command.env(TEST, name).env(CASE, case);
    command
}

/// The task of this process for a test that has started several; none in the process that starts them.
pub(crate) fn case() -> Option<String> {
    std::env::var(CASE).ok().filter(|case| !case.is_empty())
}

/// Lines that a test has written, without the harness's lines.
fn of_the_test(output: &str) -> String {
    // The first stands behind what the harness has begun to say.
    let lines = output.lines().filter_map(|line| line.find("attack: ").map(|at| &line[at..]));
    lines.map(|line| format!("{line}\n")).collect()
}

/// The name of the test whose closure `F` is.
fn name_of<F>() -> String {
    let path = std::any::type_name::<F>();
    let name = path.split_once("::").map_or(path, |(_, name)| name);
    name.split("::{{closure}}").next().unwrap_or(name).to_owned()
}

/// The names of a process's threads, the system calls that they wait in, and how many of each there are.
fn where_threads_are(pid: Pid) -> String {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let mut counts = BTreeMap::<String, usize>::new();
    for task in tasks {
        let read = |name| fs::read_to_string(task.path().join(name)).unwrap_or_default();
        let place = format!("{}: {}", read("comm").trim(), read("wchan").trim());
        *counts.entry(place).or_default() += 1;
    }
    counts.iter().map(|(place, count)| format!("{count} threads {place}\n")).collect()
}

/// Does `work` on a thread of its own. When that takes longer than `bound`, this process ends with a line that says so: what hangs
/// cannot be dropped.
pub(crate) fn within<R: Send + 'static>(
    bound: Duration,
    what: &str,
    work: impl FnOnce() -> R + Send + 'static,
) -> R {
    let (sender, receiver) = mpsc::channel();
    let worker = thread::Builder::new().name("worker".to_owned());
    let worker = worker.spawn(move || sender.send(work())).expect("a thread");
    match receiver.recv_timeout(bound) {
        Ok(result) => result,
        Err(RecvTimeoutError::Disconnected) => {
            let payload = worker.join().expect_err("it has sent nothing");
            std::panic::resume_unwind(payload)
        }
        Err(RecvTimeoutError::Timeout) => {
            eprintln!("hang: {what}: not over after {bound:?}");
            eprint!("{}", where_threads_are(Pid::this()));
            std::process::exit(HUNG)
        }
    }
}
