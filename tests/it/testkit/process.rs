//! A process under test: started, fed, watched, signalled, and waited for, always under a deadline.
//!
//! Invariant: nothing here waits for ever, and no process outlives the value that started it.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// How long a program may take, loaded machines included, before the test fails.
const DEADLINE: Duration = Duration::from_secs(60);

/// How an emulator's line begins that tells of a signal which ends the program.
const EMULATOR: &[u8] = b"qemu: uncaught target signal ";

/// The variable that marks every process of one run, so that orphans are found too.
pub(crate) const MARK: &str = "CORPUS_RUN";

/// How a program ended and what it wrote.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Ended {
    /// The status a shell would show: the exit status, or 128 plus the signal.
    pub(crate) status: i32,
    /// True when the started process itself was ended by a signal.
    pub(crate) killed: bool,
    /// Everything it wrote to standard output.
    pub(crate) stdout: Vec<u8>,
    /// Everything it wrote to standard error, without the lines of an emulator.
    pub(crate) stderr: Vec<u8>,
}

impl Ended {
    /// Standard error as text.
    pub(crate) fn complaint(&self) -> String {
        String::from_utf8_lossy(&self.stderr).into_owned()
    }
}

impl std::fmt::Display for Ended {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let text =
            |bytes: &[u8]| String::from_utf8_lossy(&bytes[..bytes.len().min(4096)]).into_owned();
        writeln!(f, "status {}", self.status)?;
        writeln!(f, "stdout ({} bytes): {}", self.stdout.len(), text(&self.stdout))?;
        write!(f, "stderr ({} bytes): {}", self.stderr.len(), text(&self.stderr))
    }
}

/// Runs `command` to its end with `stdin` as its standard input.
pub(crate) fn run_to_end(command: Command, stdin: &[u8]) -> Ended {
    let mut running = Running::start(command);
    running.feed(stdin);
    running.end()
}

/// Writes a program: a file of these bytes at `path`, with the right to run it.
///
/// A shell writes it. A child that another test's thread starts has the open files of this process until it runs its own program. The
/// kernel refuses to run a file that a process may still write.
pub(crate) fn write_program(path: &Path, bytes: &[u8]) {
    let mut shell = Command::new("sh");
    shell.args(["-c", r#"cat >"$0" && chmod 755 "$0""#]).arg(path);
    let written = run_to_end(shell, bytes);
    assert_eq!(written.status, 0, "{written}");
}

/// Polls `condition` until it holds; panics with `what` after half a minute.
pub(crate) fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !condition() {
        assert!(Instant::now() < deadline, "still not so after 30 s: {what}");
        thread::sleep(Duration::from_millis(2));
    }
}

/// The number of threads of process `pid`. A thread that was joined may be listed for some time; the kernel marks it.
pub(crate) fn threads(pid: i32) -> usize {
    const PF_EXITING: u64 = 4;
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).expect("a process");
    let stats =
        tasks.flatten().filter_map(|task| std::fs::read_to_string(task.path().join("stat")).ok());
    let is_alive = |stat: &String| {
        let fields = stat.rsplit_once(") ").expect("a name in parentheses").1;
        let flags = fields.split(' ').nth(6).and_then(|flags| flags.parse::<u64>().ok());
        flags.expect("a number") & PF_EXITING == 0
    };
    stats.filter(is_alive).count()
}

/// A started program. Dropped before its end, it and all its marked descendants are killed.
#[derive(Debug)]
pub(crate) struct Running {
    child: Child,
    stdout: Stream,
    stderr: Stream,
    mark: String,
    deadline: Instant,
    ended: bool,
}

impl Running {
    /// Starts `command` with its three standard streams on pipes.
    pub(crate) fn start(mut command: Command) -> Running {
        static RUNS: AtomicU32 = AtomicU32::new(0);
        let run = RUNS.fetch_add(1, Ordering::Relaxed);
        let mark = format!("{}-{run}", std::process::id());
        command.env(MARK, &mark);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let stdout = Stream::read(child.stdout.take().expect("stdout is a pipe"));
        let stderr = Stream::read(child.stderr.take().expect("stderr is a pipe"));
        Running { child, stdout, stderr, mark, deadline: Instant::now() + DEADLINE, ended: false }
    }

    /// Sends `bytes` and then the end of the file to standard input, in the background.
    pub(crate) fn feed(&mut self, bytes: &[u8]) {
        let mut stdin = self.child.stdin.take().expect("fed only once");
        let bytes = bytes.to_vec();
        // A program may leave before it has read everything; its pipe is broken then, natively too.
        thread::spawn(move || stdin.write_all(&bytes));
    }

    /// Ends standard input.
    pub(crate) fn close_stdin(&mut self) {
        drop(self.child.stdin.take());
    }

    /// Waits until `text` has come on standard output.
    pub(crate) fn wait_for(&self, text: &str) {
        let found = self.stdout.wait(self.deadline, |state| {
            state.bytes.windows(text.len()).any(|window| window == text.as_bytes())
        });
        assert!(found, "standard output ended without {text:?}; stderr: {}", self.stderr.text());
    }

    /// Waits until `text` has come on standard error.
    pub(crate) fn wait_for_complaint(&self, text: &str) {
        let found = self.stderr.wait(self.deadline, |state| {
            state.bytes.windows(text.len()).any(|window| window == text.as_bytes())
        });
        assert!(found, "standard error ended without {text:?}: {}", self.stderr.text());
    }

    /// The standard output so far.
    pub(crate) fn written(&self) -> String {
        self.stdout.text()
    }

    /// Waits until no process can write to either output stream any more.
    pub(crate) fn wait_for_silence(&self) {
        let closed = |stream: &Stream| stream.wait(self.deadline, |state| state.closed);
        assert!(closed(&self.stdout) && closed(&self.stderr), "still open after {DEADLINE:?}");
    }

    /// Sends a signal to the started process itself.
    pub(crate) fn signal(&self, signal: Signal) {
        kill(self.pid(), signal)
            .expect("the child is not waited for yet, so its number is its own");
    }

    /// Sends a signal to the whole process group, of which the started process must be the leader.
    pub(crate) fn signal_group(&self, signal: Signal) {
        kill(Pid::from_raw(-self.pid().as_raw()), signal).expect("the child leads a group");
    }

    /// Every other live process of this run: descendants, and orphans that carry the mark.
    pub(crate) fn others(&self) -> Vec<Process> {
        let mark = format!("{MARK}={}", self.mark);
        let mut family = vec![self.pid().as_raw()];
        let mut found = Vec::new();
        let all = Process::all();
        for process in &all {
            let marked =
                process.environment().split(|byte| *byte == 0).any(|e| e == mark.as_bytes());
            if (marked || family.contains(&process.parent)) && process.pid != self.pid().as_raw() {
                family.push(process.pid);
                found.push(process.clone());
            }
        }
        found
    }

    /// Waits for the end of both output streams and of the process.
    pub(crate) fn end(mut self) -> Ended {
        self.close_stdin();
        let mut status: Option<ExitStatus> = None;
        let closed = self.stdout.wait(self.deadline, |state| state.closed)
            && self.stderr.wait(self.deadline, |state| state.closed);
        while closed && status.is_none() && Instant::now() < self.deadline {
            status = self.child.try_wait().expect("our own child");
            if status.is_none() {
                thread::sleep(Duration::from_millis(1));
            }
        }
        let Some(status) = status else {
            let (stdout, stderr) = (self.stdout.text(), self.stderr.text());
            panic!("not ended after {DEADLINE:?}; stdout: {stdout}\nstderr: {stderr}");
        };
        self.ended = true;
        Ended {
            killed: status.code().is_none(),
            status: status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0)),
            stdout: std::mem::take(&mut self.stdout.lock().bytes),
            stderr: without_emulator(&self.stderr.lock().bytes),
        }
    }

    fn pid(&self) -> Pid {
        Pid::from_raw(i32::try_from(self.child.id()).expect("process numbers fit in i32"))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        for process in self.others() {
            process.kill();
        }
        // It may be dead already; what is left to do is to take its status.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The lines that a program itself has written.
fn without_emulator(written: &[u8]) -> Vec<u8> {
    let lines = written.split_inclusive(|byte| *byte == b'\n');
    lines.filter(|line| !line.starts_with(EMULATOR)).collect::<Vec<_>>().concat()
}

/// A process by number and start time: a number used again is not taken for the old process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Process {
    pid: i32,
    parent: i32,
    started: u64,
}

impl Process {
    /// True once it runs no more: gone, or a zombie that its parent has not collected yet.
    pub(crate) fn is_gone(&self) -> bool {
        Process::read(self.pid).is_none_or(|now| now.started != self.started)
    }

    /// Kills it, unless it is gone.
    pub(crate) fn kill(&self) {
        if !self.is_gone() {
            // It may go in this very moment.
            let _ = kill(Pid::from_raw(self.pid), Signal::SIGKILL);
        }
    }

    /// Every process of the machine that is not a zombie, in the order of their numbers.
    fn all() -> Vec<Process> {
        let entries = fs::read_dir("/proc").expect("/proc is mounted");
        let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
        let mut pids: Vec<i32> = names.filter_map(|name| name.parse().ok()).collect();
        pids.sort_unstable();
        pids.into_iter().filter_map(Process::read).collect()
    }

    /// The process with this number, unless there is none or it is a zombie.
    fn read(pid: i32) -> Option<Process> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The second field is the name in parentheses, which may hold anything; the state follows.
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        let (state, parent, started) = (*fields.first()?, fields.get(1)?, fields.get(19)?);
        let alive = state != "Z" && state != "X";
        alive.then_some(Process {
            pid,
            parent: parent.parse().ok()?,
            started: started.parse().ok()?,
        })
    }

    /// Its arguments, the name of the program first; empty once it is gone.
    pub(crate) fn arguments(&self) -> Vec<String> {
        let line = fs::read(format!("/proc/{}/cmdline", self.pid)).unwrap_or_default();
        let arguments = line.split(|byte| *byte == 0);
        arguments.map(|one| String::from_utf8_lossy(one).into_owned()).collect()
    }

    fn environment(&self) -> Vec<u8> {
        fs::read(format!("/proc/{}/environ", self.pid)).unwrap_or_default()
    }
}

/// One output stream of a child, read by a thread of its own.
#[derive(Debug)]
struct Stream {
    shared: Arc<(Mutex<StreamState>, Condvar)>,
}

#[derive(Debug, Default)]
struct StreamState {
    bytes: Vec<u8>,
    closed: bool,
}

impl Stream {
    fn read(mut pipe: impl Read + Send + 'static) -> Stream {
        let shared = Arc::new((Mutex::new(StreamState::default()), Condvar::new()));
        let writer = Arc::clone(&shared);
        thread::spawn(move || {
            let mut chunk = [0; 4096];
            loop {
                let length = pipe.read(&mut chunk).unwrap_or(0);
                let mut state = writer.0.lock().expect("no reader panics with the lock");
                state.bytes.extend_from_slice(&chunk[..length]);
                state.closed = length == 0;
                writer.1.notify_all();
                if state.closed {
                    return;
                }
            }
        });
        Stream { shared }
    }

    /// Waits until `wanted` holds; false when the stream is closed or the deadline passes before.
    fn wait(&self, deadline: Instant, wanted: impl Fn(&StreamState) -> bool) -> bool {
        let mut state = self.lock();
        while !wanted(&state) {
            let left = deadline.saturating_duration_since(Instant::now());
            if state.closed || left.is_zero() {
                return false;
            }
            state = self.shared.1.wait_timeout(state, left).expect("no holder panics").0;
        }
        true
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.lock().bytes).into_owned()
    }

    fn lock(&self) -> MutexGuard<'_, StreamState> {
        self.shared.0.lock().expect("no holder of the lock panics")
    }
}

#[test]
fn a_program_runs_right_behind_its_write() {
    let folder = tempfile::tempdir().expect("a folder for the test");
    let is_done = AtomicBool::new(false);
    let run = |program: &Path| run_to_end(Command::new(program), b"").status;
    thread::scope(|scope| {
        // Children in which files of this process are open for a moment.
        scope.spawn(|| {
            while !is_done.load(Ordering::Relaxed) {
                assert_eq!(run(Path::new("true")), 0);
            }
        });
        for number in 0..100 {
            let program = folder.path().join(number.to_string());
            write_program(&program, b"#!/bin/sh\nexit 7\n");
            assert_eq!(run(&program), 7);
        }
        is_done.store(true, Ordering::Relaxed);
    });
}
