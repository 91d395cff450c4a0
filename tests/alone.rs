//! Tests that change the state of the whole process: each runs once more, alone in its own process.
//!
//! Invariant: a name that is no test's fails.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Set in the process that runs one test alone.
const VARIABLE: &str = "FARCALL_TEST_ALONE";
/// The file that this process makes when it has found the test.
const FOUND: &str = "FARCALL_TEST_ALONE_FOUND";
const TIMEOUT: Duration = Duration::from_secs(60);

/// Runs `body` in a new process that runs only the test with this name, which must call this function.
pub(crate) fn run(name: &str, body: impl FnOnce()) {
    if std::env::var(VARIABLE).is_ok_and(|chosen| chosen == name) {
        std::fs::write(std::env::var_os(FOUND).expect("a path"), "").expect("written");
        return body();
    }
    let folder = tempfile::tempdir().expect("a folder");
    let found = folder.path().join("found");
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args([name, "--exact", "--nocapture", "--test-threads=1"]).env(VARIABLE, name);
    command.env(FOUND, &found);
    let mut child = command.stdin(Stdio::null()).spawn().expect("this program");
    let begun = Instant::now();
    let status = loop {
        match child.try_wait().expect("our own child") {
            Some(status) => break status,
            None if begun.elapsed() > TIMEOUT => {
                // It may end just now.
                let _ = child.kill();
                panic!("{name}: not ended after {TIMEOUT:?}");
            }
            None => std::thread::sleep(Duration::from_millis(2)),
        }
    };
    assert!(status.success(), "{name}: {status}");
    assert!(found.exists(), "there is no test {name}");
}

/// From now on the kernel refuses one system call of this thread, and of the threads and processes that it starts, where all
/// `rules` hold. A rule is the number of an argument and the value of its lower half.
pub(crate) fn refuse(call: i64, rules: &[(u8, u64)], errno: i32) {
    use seccompiler::{SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition};

    let condition = |(argument, value): &(u8, u64)| {
        SeccompCondition::new(*argument, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, *value)
            .expect("an argument")
    };
    let rule = seccompiler::SeccompRule::new(rules.iter().map(condition).collect());
    let rules = rule.into_iter().collect();
    let filter = seccompiler::SeccompFilter::new(
        [(call, rules)].into(),
        SeccompAction::Allow,
        SeccompAction::Errno(errno.unsigned_abs()),
        std::env::consts::ARCH.try_into().expect("a processor with filters"),
    );
    let filter: seccompiler::BpfProgram = filter.expect("a filter").try_into().expect("a filter");
    seccompiler::apply_filter(&filter).expect("applied");
}
