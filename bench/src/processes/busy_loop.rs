//! Busy loops: processes that want a CPU all the time.
//!
//! Invariant: the kernel ends a loop with the thread that started it. A loop whose parent died earlier ends by itself.

use std::hint::black_box;
use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use nix::sys::prctl;
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, getppid};

use crate::Result;
use crate::machine::cpus::pin_to;
use crate::processes::peer;

/// The start of the first argument of a loop; the number of the parent and a CPU follow, or [`ANY`].
const ARGUMENT: &str = "--farcall-bench-loop=";
const ANY: &str = "any";

/// Loops that run until this is dropped.
#[derive(Debug)]
pub(crate) struct BusyLoops(Vec<Child>);

impl BusyLoops {
    /// Starts a loop on each of these CPUs, or wherever this process may run, and waits until all of them run.
    ///
    /// # Errors
    /// When the executable of this process cannot be started again, or a loop cannot be pinned.
    pub(crate) fn start(cpus: &[Option<usize>]) -> Result<BusyLoops> {
        let mut loops = BusyLoops(Vec::with_capacity(cpus.len()));
        for cpu in cpus {
            let cpu = cpu.map_or_else(|| ANY.to_owned(), |cpu| cpu.to_string());
            let child = Command::new("/proc/self/exe")
                .arg0("farcall-bench-busy")
                .arg(format!("{ARGUMENT}{},{cpu}", Pid::this()))
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .spawn()
                .map_err(|error| format!("starting this executable again as a loop: {error}"))?;
            loops.0.push(child);
        }
        for child in &mut loops.0 {
            let mut byte = [0];
            let output = child.stdout.as_mut().ok_or("a loop without standard output")?;
            output.read_exact(&mut byte).map_err(|_| "a busy loop ended at once")?;
        }
        Ok(loops)
    }

    /// The number of loops.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Lets loop `index` run, or stops it.
    ///
    /// # Errors
    /// When the loop is gone.
    pub(crate) fn set_running(&self, index: usize, is_running: bool) -> Result<()> {
        let signal = if is_running { Signal::SIGCONT } else { Signal::SIGSTOP };
        Ok(kill(Pid::from_raw(self.0[index].id().cast_signed()), signal)?)
    }
}

impl Drop for BusyLoops {
    fn drop(&mut self) {
        for child in &mut self.0 {
            peer::end(child, Duration::ZERO);
        }
    }
}

/// The parent and the CPU in the first argument of a loop; `None` for any other argument.
pub(crate) fn of_argument(argument: &str) -> Option<(Pid, Option<usize>)> {
    let (parent, cpu) = argument.strip_prefix(ARGUMENT)?.split_once(',')?;
    let cpu = if cpu == ANY { None } else { Some(cpu.parse().ok()?) };
    Some((Pid::from_raw(parent.parse().ok()?), cpu))
}

/// The loop from inside; ends by a signal only.
pub(crate) fn run((parent, cpu): (Pid, Option<usize>)) -> Result<()> {
    prctl::set_pdeathsig(Signal::SIGKILL)?;
    // The parent may have died before that line.
    if getppid() != parent {
        return Ok(());
    }
    // Without a CPU of its own it may run wherever its parent may.
    if let Some(cpu) = cpu {
        pin_to(Pid::from_raw(0), &[cpu])?;
    }
    std::io::stdout().write_all(b"r")?;
    std::io::stdout().flush()?;
    let mut sum = 0_u64;
    loop {
        sum = black_box(sum.wrapping_add(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_reads_its_parent_and_its_cpu() {
        let parent = Pid::from_raw(17);
        assert_eq!(of_argument("--farcall-bench-loop=17,3"), Some((parent, Some(3))));
        assert_eq!(of_argument("--farcall-bench-loop=17,any"), Some((parent, None)));
        for other in ["--farcall-bench-loop=17", "--farcall-bench-loop=x,1", "bench"] {
            assert_eq!(of_argument(other), None, "{other}");
        }
    }
}
