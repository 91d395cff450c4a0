//! How a process is ending, before the kernel has freed its memory.

use super::child::Ended;

/// `PF_EXITING`: the flag of a task that is ending.
const EXITING: u64 = 4;

/// How the process with this number ends, if it is ending; `None` when it runs on, or the system does not say.
///
/// The kernel knows the status as soon as the end begins. A process descriptor tells it only after the memory was freed, which
/// takes 100 ms for half a gigabyte. Source: `/proc/PID/stat`, fields 9 and 52 (proc(5)).
pub(crate) fn status(pid: i32) -> Option<Ended> {
    let line = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may hold any bytes.
    let (_, fields) = line.rsplit_once(") ")?;
    let fields: Vec<&str> = fields.split_whitespace().collect();
    let flags = fields.get(6)?.parse::<u64>().ok()?;
    let status = fields.get(49)?.parse::<i32>().ok()?;
    let is_stopped = matches!(fields.first(), Some(&("T" | "t")));
    if is_stopped || status == 0 && flags & EXITING == 0 {
        return None;
    }
    Some(match libc::WIFSIGNALED(status) {
        true => Ended::Killed(libc::WTERMSIG(status)),
        false => Ended::Exited(libc::WEXITSTATUS(status)),
    })
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn only_a_process_that_ends_says_how() {
        assert_eq!(status(std::process::id().cast_signed()), None);
        for (script, expected) in [
            ("exit 7", Ended::Exited(7)),
            ("exit 0", Ended::Exited(0)),
            ("kill -9 $$", Ended::Killed(9)),
        ] {
            let mut command = Command::new("sh");
            let mut child = command.args(["-c", script]).stdin(Stdio::null()).spawn().expect("sh");
            let pid = child.id().cast_signed();
            // A process that was not collected stays.
            let start = std::time::Instant::now();
            let found = loop {
                match status(pid) {
                    None if start.elapsed().as_secs() < 10 => std::thread::yield_now(),
                    found => break found,
                }
            };
            assert_eq!(found, Some(expected), "{script}");
            child.wait().expect("our own child");
        }
        assert_eq!(status(-1), None);
    }
}
