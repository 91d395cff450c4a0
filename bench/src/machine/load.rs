//! Other work on the machine, before a run and during it.
//!
//! Invariant: reads files of the kernel; a figure that cannot be read is 0 and warns of nothing.

use std::fs;
use std::thread;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{CpuPair, Machine};

/// The two CPUs are watched for this long.
const WINDOW: Duration = Duration::from_millis(100);
/// Above this one of the two CPUs is busy with other work.
const BUSY_PERCENT_MAX: f64 = 20.0;
/// Above this the time that a hypervisor takes moves the figures.
const STEAL_PERCENT_MAX: f64 = 2.0;

/// Other work on the machine just before a run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Load {
    /// The load average of the last minute, for each CPU of the machine.
    pub average_per_cpu: f64,
    /// The busy time of the busier of the two CPUs of the run within 100 ms, in percent.
    pub busy_percent: f64,
    /// The time that a hypervisor took from the worse of the two in these 100 ms, in percent.
    pub steal_percent: f64,
}

/// Times of CPUs since the machine started, in ticks of the kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ticks(Vec<CpuTicks>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct CpuTicks {
    all: u64,
    idle: u64,
    steal: u64,
}

impl Load {
    /// Watches for 100 ms, in which the calling thread sleeps.
    #[must_use]
    pub fn measure(cpus: CpuPair, machine: &Machine) -> Load {
        let before = Ticks::of(cpus);
        thread::sleep(WINDOW);
        let after = Ticks::of(cpus);
        let average: f64 = machine.load.parse().unwrap_or(0.0);
        Load {
            average_per_cpu: average / machine.cpus.max(1) as f64,
            busy_percent: before.percent(&after, |cpu| cpu.all - cpu.idle),
            steal_percent: before.percent(&after, |cpu| cpu.steal),
        }
    }

    /// The reason to distrust figures of this machine now; `None` if it is quiet.
    #[must_use]
    pub fn warning(&self) -> Option<String> {
        let Load { average_per_cpu, busy_percent, steal_percent } = *self;
        if busy_percent > BUSY_PERCENT_MAX {
            Some(format!(
                "other work took {busy_percent:.0} % of a CPU of this run before the start"
            ))
        } else if steal_percent > STEAL_PERCENT_MAX {
            Some(format!("the hypervisor took {steal_percent:.0} % of a CPU before the start"))
        } else if average_per_cpu >= 1.0 {
            Some(format!("the load average before the start was {average_per_cpu:.1} for each CPU"))
        } else {
            None
        }
    }
}

impl Ticks {
    /// The times of the two CPUs so far.
    pub(crate) fn of(cpus: CpuPair) -> Ticks {
        Ticks::parse(&fs::read_to_string("/proc/stat").unwrap_or_default(), cpus)
    }

    /// Of each CPU's line: user, nice, system, idle, iowait, irq, softirq, steal.
    fn parse(stat: &str, cpus: CpuPair) -> Ticks {
        let line = |cpu: usize| {
            let name = format!("cpu{cpu}");
            let line = stat.lines().find(|line| line.split(' ').next() == Some(&name))?;
            let ticks: Vec<u64> = line.split(' ').skip(1).take(8).flat_map(str::parse).collect();
            let [user, nice, system, idle, wait, irq, softirq, steal] = ticks.try_into().ok()?;
            let all = user + nice + system + idle + wait + irq + softirq + steal;
            Some(CpuTicks { all, idle: idle + wait, steal })
        };
        Ticks([cpus.caller, cpus.server].into_iter().filter_map(line).collect())
    }

    /// The share of `part` in a CPU's time between `self` and `after`, in percent, on the worse CPU.
    fn percent(&self, after: &Ticks, part: impl Fn(CpuTicks) -> u64) -> f64 {
        let shares = self.0.iter().zip(&after.0).map(|(before, after)| {
            let all = after.all.saturating_sub(before.all).max(1);
            let part = part(*after).saturating_sub(part(*before));
            100.0 * part as f64 / all as f64
        });
        shares.fold(0.0, f64::max)
    }

    /// A warning if a hypervisor took more than 2 % of the time between `self` and `after`.
    pub(crate) fn warning(&self, after: &Ticks) -> Option<String> {
        let percent = self.percent(after, |cpu| cpu.steal);
        (percent > STEAL_PERCENT_MAX)
            .then(|| format!("the hypervisor took {percent:.0} % of a CPU during the run"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEFORE: &str =
        "cpu  0 0 0 0\ncpu0 100 0 100 800 0 0 0 0 0 0\ncpu1 0 0 0 1000 0 0 0 0 0 0\n";
    const AFTER: &str =
        "cpu  0 0 0 0\ncpu0 130 0 120 840 0 0 0 10 0 0\ncpu1 0 0 0 1100 0 0 0 0 0 0\n";

    #[test]
    fn the_worse_cpu_counts() {
        let [before, after] =
            [BEFORE, AFTER].map(|stat| Ticks::parse(stat, CpuPair { caller: 1, server: 0 }));
        assert_eq!(before.percent(&after, |cpu| cpu.all - cpu.idle), 60.0);
        assert_eq!(before.percent(&after, |cpu| cpu.steal), 10.0);
        let warning = before.warning(&after).unwrap();
        assert_eq!(warning, "the hypervisor took 10 % of a CPU during the run");
        assert_eq!(before.warning(&before), None);
        let other = CpuPair { caller: 1, server: 1 };
        assert_eq!(Ticks::parse(BEFORE, other).warning(&Ticks::parse(AFTER, other)), None);
        assert_eq!(Ticks::parse("nothing", other), Ticks(Vec::new()));
    }

    #[test]
    fn a_quiet_machine_warns_of_nothing_and_a_busy_one_says_why() {
        let quiet = Load { average_per_cpu: 0.9, busy_percent: 20.0, steal_percent: 2.0 };
        assert_eq!(quiet.warning(), None);
        for (load, shown) in [
            (Load { busy_percent: 55.0, ..quiet }, "other work took 55 % of a CPU"),
            (Load { steal_percent: 3.0, ..quiet }, "the hypervisor took 3 % of a CPU"),
            (Load { average_per_cpu: 1.5, ..quiet }, "load average before the start was 1.5"),
        ] {
            assert!(load.warning().unwrap().contains(shown), "{load:?}");
        }
    }
}
