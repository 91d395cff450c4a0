//! The options that confine the executor.

use std::time::Duration;

use farcall::controller::Confinement;

use super::duration;

#[derive(clap::Args)]
pub(crate) struct Confine {
    /// Take rights from the program before it runs. An isolated program writes no files, makes no TCP connections, and signals and
    /// traces no process outside. Processes that it starts end with it. A strict one makes no system calls but for a session and for
    /// computing.
    #[arg(long, value_enum, value_name = "LEVEL")]
    confine: Option<ConfineLevel>,
    /// Confine as far as this kernel can. Otherwise nothing runs where it lacks a restriction.
    #[arg(long, requires = "confine")]
    allow_missing: bool,
    /// Limit the program's private memory: 256M, 1G. Memory for linked code does not count. With --confine strict the program gets
    /// no other memory.
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    memory: Option<u64>,
    /// End the program after this CPU time, in whole seconds: 2s, 1m.
    #[arg(long, value_name = "DUR", value_parser = seconds)]
    cpu: Option<u64>,
    /// Limit the program's open files to this number.
    #[arg(long, value_name = "COUNT")]
    descriptors: Option<u64>,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum ConfineLevel {
    Isolated,
    Strict,
}

impl Confine {
    /// True if the program has fewer rights.
    pub(crate) fn is_confined(&self) -> bool {
        self.confine.is_some()
    }

    /// The confinement that these options demand of the executor.
    pub(crate) fn confinement(&self) -> Confinement {
        let mut confinement = match self.confine {
            None => Confinement::new(),
            Some(ConfineLevel::Isolated) => Confinement::isolated(),
            Some(ConfineLevel::Strict) => Confinement::strict(),
        };
        if self.allow_missing {
            confinement = confinement.allow_missing();
        }
        if let Some(bytes) = self.memory {
            confinement = confinement.memory_bytes_max(bytes);
        }
        if let Some(seconds) = self.cpu {
            confinement = confinement.cpu_seconds_max(seconds);
        }
        if let Some(count) = self.descriptors {
            confinement = confinement.descriptors_max(count);
        }
        confinement
    }
}

/// Reads a number of bytes: 4096, 64K, 256M, 1G.
fn bytes(text: &str) -> Result<u64, String> {
    let split = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let shift = match unit {
        "" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        _ => return Err(format!("{text}: the unit is K, M or G")),
    };
    let number = number.parse::<u64>().map_err(|_| format!("{text}: not a number of bytes"))?;
    number.checked_mul(1 << shift).ok_or_else(|| format!("{text}: too many bytes"))
}

/// Reads a time of whole seconds.
fn seconds(text: &str) -> Result<u64, String> {
    let time: Duration = duration(text)?;
    match (time.as_secs(), time.subsec_nanos()) {
        (0, _) | (_, 1..) => Err(format!("{text}: the kernel counts CPU time in whole seconds")),
        (seconds, 0) => Ok(seconds),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_times_have_units() {
        assert_eq!(bytes("256M"), Ok(256 << 20));
        assert_eq!(bytes("4096"), Ok(4096));
        assert_eq!(seconds("1m"), Ok(60));
        for wrong in ["", "M", "1T", "1.5G", "99999999999G"] {
            assert!(bytes(wrong).is_err(), "{wrong}");
        }
        for wrong in ["0s", "500ms", "1.5s", "x"] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
    }
}
