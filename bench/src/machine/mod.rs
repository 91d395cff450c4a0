//! The machine and the moment of a contest, without which no figure means anything.
//!
//! Invariant: reads files of the kernel; a value that cannot be read is "unknown", never a guess.

pub(crate) mod cpus;
pub(crate) mod load;
pub(crate) mod slice;

use std::fmt;
use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

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
            date: SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .map_or_else(|_| unknown(), |since| utc(since.as_secs())),
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

/// A time in seconds since 1970 as a date of the Gregorian calendar, to the minute.
fn utc(seconds: u64) -> String {
    let (mut days, minutes) = (seconds / 86_400, seconds / 60 % 1_440);
    let mut year = 1970;
    loop {
        let length = if is_leap(year) { 366 } else { 365 };
        if days < length {
            break;
        }
        days -= length;
        year += 1;
    }
    let february = if is_leap(year) { 29 } else { 28 };
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30] {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    format!("{year}-{month:02}-{:02} {:02}:{:02} UTC", days + 1, minutes / 60, minutes % 60)
}

fn is_leap(year: u64) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates() {
        assert_eq!(utc(0), "1970-01-01 00:00 UTC");
        assert_eq!(utc(951_782_399), "2000-02-28 23:59 UTC");
        assert_eq!(utc(951_782_400), "2000-02-29 00:00 UTC");
        assert_eq!(utc(1_735_689_599), "2024-12-31 23:59 UTC");
        assert_eq!(utc(4_107_542_400), "2100-03-01 00:00 UTC");
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
