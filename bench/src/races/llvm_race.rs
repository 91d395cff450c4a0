//! A program in another process from the start of the command to its end: `farcall run` against LLVM's `llvm-jitlink
//! -oop-executor`, in turns, where that is installed.
//!
//! Invariant: both sides get the same objects and arguments and end with the same status, or there are no figures.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use crate::races::jitlink::{ABSENT, Jitlink};
use serde::{Deserialize, Serialize};

use crate::measure::budget::Allowance;
use crate::{Result, Spread, TinyObject};

/// The comparison with LLVM.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum LlvmReport {
    /// LLVM is not installed on this machine.
    Absent,
    /// LLVM does not run the program.
    Refused {
        /// The version.
        tool: String,
        /// Its complaint.
        why: String,
    },
    /// Both have run the program.
    Ran {
        /// The version.
        tool: String,
        /// Rounds, each with one run of either side.
        rounds: usize,
        /// Milliseconds from the start of `farcall run` to its end.
        #[serde(rename = "farcall_ms")]
        ours_ms: Spread,
        /// The same of LLVM's.
        #[serde(rename = "llvm_ms")]
        theirs_ms: Spread,
        /// Ours divided by theirs, round by round.
        ratio: Spread,
    },
}

/// A program that takes longer than this is not compared.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Parts of the C library. LLVM's executor has them, and LLVM's linker does not read the files by which linkers find them.
const OF_EVERY_PROCESS: [&str; 5] = ["c", "m", "dl", "pthread", "rt"];
/// Folders of libraries that linkers search by themselves.
const FOLDERS: [&str; 2] = ["-L/lib/x86_64-linux-gnu", "-L/usr/lib/x86_64-linux-gnu"];

/// Races with a program that does nothing, so that the race measures the way to its `main` and back. `farcall` is the path of
/// the command.
///
/// # Errors
/// When the program cannot be written to the folder for temporary files, or `farcall run` fails.
pub(crate) fn empty_program(farcall: &Path, time: Allowance) -> Result<LlvmReport> {
    // xor eax, eax; ret
    let object = TinyObject::new().function("main", &[0x31, 0xc0, 0xc3]).bytes();
    let path = std::env::temp_dir().join(format!("farcall-empty-{}.o", std::process::id()));
    std::fs::write(&path, object)?;
    let report = race(farcall, std::slice::from_ref(&path), &[], &[], time);
    std::fs::remove_file(path)?;
    report
}

/// Races with a program of these objects, libraries (as for `-l`) and arguments, while `time` allows. The first round
/// is not counted.
///
/// # Errors
/// When one of the two cannot be started.
pub(crate) fn race(
    farcall: &Path,
    files: &[PathBuf],
    libraries: &[String],
    args: &[OsString],
    time: Allowance,
) -> Result<LlvmReport> {
    let Some(jitlink) = Jitlink::find() else { return Ok(LlvmReport::Absent) };
    let tool = jitlink.name();
    let named = libraries.iter().map(|name| format!("-l{name}"));
    let mut ours = Command::new(farcall);
    ours.arg("run").args(files).args(named).arg("--").args(args);
    let mut theirs = jitlink.command();
    theirs.args(files).args(FOLDERS);
    let others = libraries.iter().filter(|name| !OF_EVERY_PROCESS.contains(&name.as_str()));
    theirs.args(others.map(|name| format!("-l{name}")));
    if !args.is_empty() {
        theirs.arg("--args").args(args);
    }
    for command in [&mut ours, &mut theirs] {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    }
    let (our_status, _) = timed(&mut ours)?;
    if let Some(why) = objection(&mut theirs, our_status)? {
        return Ok(LlvmReport::Refused { tool, why });
    }
    theirs.stderr(Stdio::null());
    let (mut our_times, mut their_times) = (Vec::new(), Vec::new());
    while our_times.is_empty() || our_times.len() < time.rounds_max && Instant::now() < time.until {
        let (ours, our_time) = timed(&mut ours)?;
        let started = Instant::now();
        let status = end(&mut theirs)?;
        let their_time = started.elapsed();
        if ours != our_status || status.and_then(|status| status.code()) != our_status.code() {
            let why = format!("once {ours}, theirs {status:?}, after {our_status}");
            return Ok(LlvmReport::Refused { tool, why });
        }
        our_times.push(our_time.as_secs_f64() * 1e3);
        their_times.push(their_time.as_secs_f64() * 1e3);
    }
    let ratios = our_times.iter().zip(&their_times).map(|(ours, theirs)| ours / theirs).collect();
    let rounds = our_times.len();
    let spread = |values| Spread::of(values).ok_or("no rounds");
    Ok(LlvmReport::Ran {
        tool,
        rounds,
        ours_ms: spread(our_times)?,
        theirs_ms: spread(their_times)?,
        ratio: spread(ratios)?,
    })
}

/// The reason why a command does not run a program that ends with this status: its error, another status, or a timeout.
fn objection(command: &mut Command, due: ExitStatus) -> Result<Option<String>> {
    // Not a pipe: a process that it leaves behind would keep that open.
    let path = std::env::temp_dir().join(format!("farcall-said-{}", std::process::id()));
    command.stderr(std::fs::File::create(&path)?);
    let status = end(command)?;
    let said = std::fs::read(&path)?;
    std::fs::remove_file(&path)?;
    let Some(status) = status else {
        return Ok(Some(format!("it has not ended after {TIMEOUT:?}")));
    };
    let complaint = String::from_utf8_lossy(&said);
    let first = complaint.lines().next().map(str::to_owned);
    let why = first.unwrap_or_else(|| format!("{status}; farcall run: {due}"));
    Ok((status.code() != due.code()).then_some(why))
}

/// Waits for the end of a command; kills it after [`TIMEOUT`] and returns `None`. LLVM's command sometimes hangs when its program
/// fails.
pub(crate) fn end(command: &mut Command) -> Result<Option<ExitStatus>> {
    let mut child = command.spawn().map_err(|error| format!("{command:?}: {error}"))?;
    let started = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if started.elapsed() > TIMEOUT {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        std::thread::sleep(Duration::from_micros(50));
    }
}

/// Runs a command to its end, and returns the time that it took.
pub(crate) fn timed(command: &mut Command) -> Result<(ExitStatus, Duration)> {
    let started = Instant::now();
    let status = command.status().map_err(|error| format!("{command:?}: {error}"))?;
    Ok((status, started.elapsed()))
}

impl fmt::Display for LlvmReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LlvmReport::Absent => writeln!(f, "{ABSENT}"),
            LlvmReport::Refused { tool, why } => {
                writeln!(f, "{tool}: does not run it, no comparison: {why}")
            }
            LlvmReport::Ran { tool, rounds, ours_ms, theirs_ms, ratio } => {
                writeln!(f, "llvm     {tool}")?;
                let (ours, theirs, ratio) = (ours_ms.median, theirs_ms.median, ratio.median);
                writeln!(
                    f,
                    "llvm     -oop-executor {theirs:.2} ms, farcall run {ours:.2} ms: ratio {ratio:.3} \
                     ({rounds} runs in turns)"
                )
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_outcome_is_one_short_row() {
        assert_eq!(LlvmReport::Absent.to_string(), "LLVM 22: not installed here, no comparison\n");
        let json = |report: &LlvmReport| serde_json::to_string(report).unwrap();
        assert_eq!(json(&LlvmReport::Absent), r#"{"outcome":"absent"}"#);
        let (tool, why) = ("llvm-jitlink of LLVM 22.1.8".to_owned(), "no \"main\"".to_owned());
        let refused = LlvmReport::Refused { tool: tool.clone(), why };
        assert_eq!(
            refused.to_string(),
            "llvm-jitlink of LLVM 22.1.8: does not run it, no comparison: no \"main\"\n"
        );
        assert!(json(&refused).ends_with(r#""why":"no \"main\""}"#), "{}", json(&refused));
        let even = |value| Spread { lower_quartile: value, median: value, upper_quartile: value };
        let (ours_ms, theirs_ms, ratio) = (even(1.125), even(22.5), even(0.05));
        let ran = LlvmReport::Ran { tool, rounds: 20, ours_ms, theirs_ms, ratio };
        assert_eq!(
            ran.to_string(),
            "llvm     llvm-jitlink of LLVM 22.1.8\n\
             llvm     -oop-executor 22.50 ms, farcall run 1.12 ms: ratio 0.050 (20 runs in turns)\n"
        );
        let read: LlvmReport = serde_json::from_str(&json(&ran)).unwrap();
        assert_eq!(read, ran);
        assert!(json(&ran).contains(r#""llvm_ms":{"lower_quartile":22.5,"#), "{}", json(&ran));
    }
}
