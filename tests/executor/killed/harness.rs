//! The killing: a process that is started to die at a given point, a watch over the survivor, and the counts. Tests of peers
//! that did not start each other use it, and so do the tests of `it`.
//!
//! Invariant: a point counts only when the victim was seen to die of SIGKILL, there.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{Id, WaitPidFlag, waitid};
use nix::unistd::Pid;

use super::left::Left;

/// The role of a process in a test: the survivor, or which victim.
pub(super) const ROLE: &str = "FARCALL_TEST_KILLED";
/// Where a victim dies: the name of a point, and how often it is passed before.
pub(super) const POINT: &str = "FARCALL_TEST_KILLED_AT";
/// How a victim says where it is.
pub(super) const MARK: &str = "point: ";
/// Everything here takes less time.
pub(super) const STUCK: Duration = Duration::from_secs(30);

/// Runs the test of this name once more, in a process of its own that survives all points; prints how many they were.
pub(super) fn survive_apart(test: &str) {
    let mut survivor = again(test, "survivor");
    // A heap for each thread would take much address space.
    let output = survivor.env("MALLOC_ARENA_MAX", "1").output().expect("this program");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{}\n{stdout}\n{stderr}", output.status);
    let counts: Vec<_> = stdout.lines().filter(|line| line.starts_with("killed: ")).collect();
    assert!(!counts.is_empty(), "no points: {stdout}");
    counts.iter().for_each(|line| println!("{line}"));
}

/// A test in another process.
pub(super) fn again(test: &str, role: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args([test, "--exact", "--nocapture", "--test-threads=1"]).env(ROLE, role);
    command
}

/// A place in a victim's code: this process ends here if it was told so.
pub(super) fn point(name: &str) {
    static PASSED: Mutex<BTreeMap<String, usize>> = Mutex::new(BTreeMap::new());
    let number = {
        let mut passed = PASSED.lock().unwrap_or_else(PoisonError::into_inner);
        let number = passed.entry(name.to_owned()).or_default();
        *number += 1;
        *number
    };
    let place = format!("{name} #{number}");
    let _ = std::io::stderr().write_all(format!("{MARK}{place}\n").as_bytes());
    if std::env::var(POINT).is_ok_and(|wanted| wanted == place) {
        let _ = kill(Pid::this(), Signal::SIGKILL);
        // Until the kernel does.
        loop {
            std::thread::park();
        }
    }
}

/// A process that is to be killed.
pub(super) struct Victim {
    child: Child,
    stderr: BufReader<ChildStderr>,
    /// The points that it has passed, as far as they were read.
    pub(super) passed: Vec<String>,
    complaints: String,
}

impl Victim {
    /// Starts it with one end of a pair of sockets, to die where `point` says; returns the other end.
    pub(super) fn start(mut command: Command, point: Option<&str>) -> (Self, OwnedFd) {
        let (ours, theirs) = UnixStream::pair().expect("sockets");
        command.stdin(Stdio::from(OwnedFd::from(theirs)));
        command.stdout(Stdio::null()).stderr(Stdio::piped()).env(POINT, point.unwrap_or_default());
        let mut child = command.spawn().expect("a victim");
        let stderr = BufReader::new(child.stderr.take().expect("piped"));
        let victim = Self { child, stderr, passed: Vec::new(), complaints: String::new() };
        (victim, ours.into())
    }

    pub(super) fn pid(&self) -> Pid {
        Pid::from_raw(i32::try_from(self.child.id()).expect("a process number"))
    }

    /// Waits until the process has ended, without taking its status.
    pub(super) fn wait(&self) {
        let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT;
        waitid(Id::Pid(self.pid()), flags).expect("a child");
    }

    /// True when there was a line.
    pub(super) fn read_line(&mut self) -> bool {
        let mut line = String::new();
        let bytes = self.stderr.read_line(&mut line).unwrap_or(0);
        match line.trim_end().strip_prefix(MARK) {
            Some(place) => self.passed.push(place.to_owned()),
            None => self.complaints.push_str(&line),
        }
        bytes > 0
    }

    /// Waits for its end; returns what killed it, and the points that it passed.
    pub(super) fn end(mut self) -> (Option<i32>, Vec<String>) {
        while self.read_line() {}
        let status = self.child.wait().expect("a child");
        assert!(
            status.signal().is_some() || status.success(),
            "the victim failed by itself: {status}\n{}",
            self.complaints
        );
        (status.signal(), self.passed)
    }
}

/// The work so far, and a watch over it.
pub(super) struct Points {
    counts: BTreeMap<String, usize>,
    left: Option<Left>,
}

/// The point that is being tried, and since when.
static CURRENT: Mutex<Option<(String, Instant)>> = Mutex::new(None);

impl Points {
    pub(super) fn start() -> Self {
        std::thread::spawn(|| {
            loop {
                std::thread::sleep(Duration::from_millis(200));
                let current = CURRENT.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some((what, since)) = &*current
                    && since.elapsed() > STUCK
                {
                    eprintln!("stuck at: {what}");
                    std::process::exit(3);
                }
            }
        });
        Self { counts: BTreeMap::new(), left: None }
    }

    /// Tries a point of a kind. Nothing of it may stay.
    pub(super) fn dies(&mut self, kind: &str, what: &str, work: impl FnOnce(&str)) {
        self.runs(kind, what, work);
        *self.counts.entry(kind.to_owned()).or_default() += 1;
    }

    /// The same for a run in which no process dies.
    pub(super) fn runs<R>(&mut self, kind: &str, what: &str, work: impl FnOnce(&str) -> R) -> R {
        let what = format!("{kind}: {what}");
        *CURRENT.lock().unwrap_or_else(PoisonError::into_inner) =
            Some((what.clone(), Instant::now()));
        let result = work(&what);
        match &self.left {
            Some(left) => left.expect_nothing_more(&what),
            // Things that the first run makes once are not left behind.
            None => self.left = Some(Left::at_rest()),
        }
        result
    }

    /// Says how many points there were. Fails with fewer kinds of them than are known to be.
    pub(super) fn report(&self, kinds: usize) {
        for (kind, count) in &self.counts {
            assert!(*count > 0, "{kind} has no points");
            println!("killed: {count} points, {kind}");
        }
        println!("killed: {} cases", self.counts.values().sum::<usize>());
        assert!(self.counts.len() >= kinds, "only {} kinds", self.counts.len());
    }
}
