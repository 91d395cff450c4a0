//! The machine and the moment of a contest, without which no figure means anything.
//!
//! Invariant: reads files of the kernel; a value that cannot be read is "unknown", never a guess.

pub(crate) mod cpus;
pub(crate) mod load;
pub(crate) mod slice;

use std::fmt;
use std::fs;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// The machine of a contest, and its time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// The processor's name, or its architecture where the kernel does not name it.
    pub cpu_model: String,
    /// CPUs that are online.
    pub cpus: usize,
    /// True if the processor reports a hypervisor, which may move CPUs during a contest.
    pub is_virtual: bool,
    /// Release of the kernel.
    pub kernel: String,
    /// Load average of the minute before the contest.
    pub load: String,
    /// Time of the report, UTC.
    pub date: String,
}

impl Machine {
    /// This machine, now.
    #[must_use]
    pub fn read() -> Machine {
        let cpuinfo = read("/proc/cpuinfo");
        let unknown = || "unknown".to_owned();
        Machine {
            cpu_model: field(&cpuinfo, "model name")
                .map_or_else(|| std::env::consts::ARCH.to_owned(), str::to_owned),
            cpus: cpuinfo.lines().filter(|line| key(line) == Some("processor")).count(),
            is_virtual: field(&cpuinfo, "flags")
                .is_some_and(|flags| flags.split(' ').any(|flag| flag == "hypervisor")),
            kernel: first_word(&read("/proc/sys/kernel/osrelease")).unwrap_or_else(unknown),
            load: first_word(&read("/proc/loadavg")).unwrap_or_else(unknown),
            date: date(Timestamp::now()),
        }
    }

    /// Processor and CPUs, on a line of their own: names of processors are long.
    pub(crate) fn processors(&self) -> String {
        let kind = if self.is_virtual { "virtual CPUs" } else { "CPUs" };
        format!("{}, {} {kind}", self.cpu_model, self.cpus)
    }

    /// Kernel, load and date.
    pub(crate) fn moment(&self) -> String {
        format!("Linux {}, load {}, {}", self.kernel, self.load, self.date)
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}", self.processors(), self.moment())
    }
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

fn first_word(text: &str) -> Option<String> {
    text.split_whitespace().next().map(str::to_owned)
}

fn key(line: &str) -> Option<&str> {
    Some(line.split_once(':')?.0.trim())
}

fn field<'a>(cpuinfo: &'a str, name: &str) -> Option<&'a str> {
    let line = cpuinfo.lines().find(|line| key(line) == Some(name))?;
    Some(line.split_once(':')?.1.trim())
}

/// A time as a date of the Gregorian calendar, UTC, to the minute.
fn date(time: Timestamp) -> String {
    time.strftime("%Y-%m-%d %H:%M UTC").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates() {
        let date = |seconds| date(Timestamp::from_second(seconds).unwrap());
        assert_eq!(date(0), "1970-01-01 00:00 UTC");
        assert_eq!(date(951_782_399), "2000-02-28 23:59 UTC");
        assert_eq!(date(4_107_542_400), "2100-03-01 00:00 UTC");
    }

    #[test]
    fn cpuinfo_fields() {
        let cpuinfo = "processor\t: 0\nmodel name\t: Some CPU: fast\nflags\t\t: fpu hypervisor\n";
        assert_eq!(field(cpuinfo, "model name"), Some("Some CPU: fast"));
        assert_eq!(field(cpuinfo, "flags"), Some("fpu hypervisor"));
        assert_eq!(field(cpuinfo, "model"), None);
    }

    #[test]
    fn this_machine_has_cpus_and_a_kernel() {
        let machine = Machine::read();
        assert!(machine.cpus >= 1);
        assert_ne!(machine.kernel, "unknown");
        assert_ne!(machine.date, "unknown");
    }
}
