//! How a process is ending, before the kernel has freed its memory.

/// How a child ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    Exited(i32),
    Killed(i32),
    /// Another part of this process has collected the child, and the kernel no longer knows how it ended.
    Unknown,
}

/// `PF_EXITING`: the flag of a task that is ending.
const EXITING: u64 = 4;

/// How the process with this number ends, if it is ending; `None` when it runs on, or the system does not say.
///
/// The kernel knows the status as soon as the end begins. A process descriptor tells it only after the memory was freed, which
/// takes 100 ms for half a gigabyte. Source: `/proc/PID/stat`, fields 9 and 52 (proc(5)).
pub(crate) fn status(pid: i32) -> Option<Ended> {
    let line = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields = fields(&line)?;
    let flags = flags(&fields)?;
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

/// True when every thread of the process is ending, or will as soon as it runs: the kernel has sent it `SIGKILL`. Sources:
/// `/proc/PID/task/TID/stat`, field 9, and `SigPnd` in `status` (proc(5)).
pub(crate) fn is_ending(pid: i32) -> bool {
    let Ok(threads) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return false };
    threads.flatten().all(|thread| {
        let read = |file| std::fs::read_to_string(thread.path().join(file)).unwrap_or_default();
        let line = read("stat");
        // A thread whose files are gone has ended.
        let Some(flags) = fields(&line).and_then(|fields| flags(&fields)) else { return true };
        let status = read("status");
        let pending = status.lines().find_map(|line| line.strip_prefix("SigPnd:"));
        let pending = pending.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
        flags & EXITING != 0 || pending.is_none_or(|mask| mask >> (libc::SIGKILL - 1) & 1 == 1)
    })
}

/// True while the kernel writes the core of the process with this number. Source: `CoreDumping` of `/proc/PID/status` (proc(5)).
pub(crate) fn is_dumping(pid: i32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let word = status.lines().find_map(|line| line.strip_prefix("CoreDumping:"));
    word.is_some_and(|word| word.trim() == "1")
}

/// The fields behind the name, which is in parentheses and may hold any bytes.
fn fields(line: &str) -> Option<Vec<&str>> {
    Some(line.rsplit_once(") ")?.1.split_whitespace().collect())
}

fn flags(fields: &[&str]) -> Option<u64> {
    fields.get(6)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;
    use crate::error::Death;

    /// The ground has names of its own, since it depends on no library.
    #[test]
    fn every_signal_has_the_name_that_the_system_gives_it() {
        let mut death = Death::default();
        for signal in nix::sys::signal::Signal::iterator() {
            death.signal = Some(signal as i32);
            assert_eq!(death.to_string(), format!("executor died by {signal}"));
        }
        for number in [-1, 0, 32, 64] {
            death.signal = Some(number);
            assert_eq!(death.to_string(), format!("executor died by signal {number}"));
        }
    }

    #[test]
    fn only_a_process_that_ends_says_how() {
        let this = std::process::id().cast_signed();
        assert_eq!((status(this), is_ending(this)), (None, false));
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
            assert_eq!((found, is_ending(pid)), (Some(expected), true), "{script}");
            child.wait().expect("our own child");
        }
        assert_eq!(status(-1), None);
    }
}
