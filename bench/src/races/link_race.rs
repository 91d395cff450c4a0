//! From objects to the end of `main`: `farcall run` against a linker and the executable it makes, in turns.
//!
//! With arguments that end the program at once, the time is that of the way to `main`. The linker is `ld.lld`, or else `ld`. It
//! is started directly, without a compiler's driver, and writes a dynamically linked executable into the folder for temporary
//! files. Both sides read their files from the page cache.
//!
//! Invariant: both sides get the same objects and arguments and end with the same status, or there is no report.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::contest::budget::Allowance;
use crate::races::llvm_race::{self, timed};
use crate::{LlvmReport, Origin, Result, SCHEMA, Spread};

/// Linkers, the preferred one first.
const LINKERS: [&str; 2] = ["ld.lld", "ld"];

/// A program, and the two ways to run it.
#[derive(Debug)]
pub struct LinkRace {
    ours: Command,
    linker: &'static str,
    link: Command,
    executable: Command,
    folder: PathBuf,
    /// The program, for the race against LLVM's command.
    program: Program,
}

/// The command and its input.
#[derive(Debug)]
struct Program {
    farcall: PathBuf,
    files: Vec<PathBuf>,
    libraries: Vec<String>,
    args: Vec<OsString>,
}

/// The figures of a race.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LinkReport {
    /// The version of the form of the JSON, as for [`Report`](crate::Report).
    pub schema: u32,
    /// The program and the flags.
    #[serde(flatten)]
    pub origin: Origin,
    /// Rounds, each with one run of either side.
    pub rounds: usize,
    /// Milliseconds from the start of `farcall run` to its end.
    #[serde(rename = "farcall_ms")]
    pub ours_ms: Spread,
    /// The linker.
    pub linker: &'static str,
    /// Milliseconds from the start of the linker to the end of the executable it has made.
    #[serde(rename = "linker_ms")]
    pub theirs_ms: Spread,
    /// Ours divided by theirs, round by round.
    pub ratio: Spread,
    /// The same program by LLVM's command, in turns with ours, after that.
    pub llvm: LlvmReport,
}

impl LinkRace {
    /// The race of the program of these objects and archives, libraries (as for `-l`) and arguments. `farcall` is the path of
    /// the command.
    ///
    /// # Errors
    /// When there is no linker or no C compiler, which knows the paths of the start files.
    pub fn new(
        farcall: &Path,
        files: &[PathBuf],
        libraries: &[String],
        args: &[OsString],
    ) -> Result<LinkRace> {
        let program = Program {
            farcall: farcall.to_owned(),
            files: files.to_vec(),
            libraries: libraries.to_vec(),
            args: args.to_vec(),
        };
        let libraries: Vec<_> = libraries.iter().map(|name| format!("-l{name}")).collect();
        let mut ours = quiet(farcall);
        ours.arg("run").args(files).args(&libraries).arg("--").args(args);

        let is_there = |linker: &&str| quiet(linker).arg("--version").status().is_ok();
        let linker =
            LINKERS.into_iter().find(is_there).ok_or("neither ld.lld nor ld is installed")?;
        let folder = std::env::temp_dir().join(format!("farcall-link-race-{}", std::process::id()));
        std::fs::create_dir_all(&folder)?;
        let output = folder.join("program");
        let mut link = quiet(linker);
        // Its errors go to the user.
        link.stderr(Stdio::inherit());
        link.args(["-pie", "--eh-frame-hdr", "--hash-style=gnu"]);
        link.args(["-dynamic-linker", "/lib64/ld-linux-x86-64.so.2", "-o"]).arg(&output);
        link.args([file_of_compiler("Scrt1.o")?, file_of_compiler("crti.o")?]);
        link.arg(file_of_compiler("crtbeginS.o")?);
        for name in ["libgcc.a", "libc.so"] {
            let path = file_of_compiler(name)?;
            link.arg("-L").arg(path.parent().unwrap_or(Path::new("/")));
        }
        link.args(["-L/lib/x86_64-linux-gnu", "-L/usr/lib/x86_64-linux-gnu"]);
        link.args(files).args(&libraries);
        link.args(["-lgcc", "--as-needed", "-lgcc_s", "--no-as-needed", "-lc"]);
        link.args([file_of_compiler("crtendS.o")?, file_of_compiler("crtn.o")?]);
        let mut executable = quiet(&output);
        executable.args(args);
        Ok(LinkRace { ours, linker, link, executable, folder, program })
    }

    /// Runs both sides in turns for about `duration`, with at least one round; then LLVM's command and `farcall run` in turns,
    /// within the same time. The first round of each is not counted.
    ///
    /// # Errors
    /// When the linker refuses the program, or the two sides end with different statuses.
    pub fn run(&mut self, origin: Origin, duration: Duration) -> Result<LinkReport> {
        let end = Instant::now() + duration;
        let time = Allowance { until: end, rounds_max: usize::MAX };
        let (linker_time, llvm_time) = (time.part(2), time);
        let rounds = linker_time.rounds(|| self.round())?;
        let millis = |times: Duration| times.as_secs_f64() * 1e3;
        let (ours, theirs): (Vec<f64>, Vec<f64>) =
            rounds.into_iter().map(|(ours, theirs)| (millis(ours), millis(theirs))).unzip();
        let ratios = ours.iter().zip(&theirs).map(|(ours, theirs)| ours / theirs).collect();
        let spread = |values| Spread::of(values).ok_or("no rounds");
        let Program { farcall, files, libraries, args } = &self.program;
        Ok(LinkReport {
            schema: SCHEMA,
            origin,
            rounds: ours.len(),
            ours_ms: spread(ours)?,
            linker: self.linker,
            theirs_ms: spread(theirs)?,
            ratio: spread(ratios)?,
            llvm: llvm_race::race(farcall, files, libraries, args, llvm_time)?,
        })
    }

    fn round(&mut self) -> Result<(Duration, Duration)> {
        let (our_status, ours) = timed(&mut self.ours)?;
        let (linked, link) = timed(&mut self.link)?;
        if !linked.success() {
            return Err(format!("the linker refuses the program: {:?}", self.link).into());
        }
        let (their_status, run) = timed(&mut self.executable)?;
        if our_status.code() != their_status.code() {
            let linker = self.linker;
            return Err(format!("farcall run: {our_status}; {linker}: {their_status}").into());
        }
        Ok((ours, link + run))
    }
}

impl Drop for LinkRace {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

impl LinkReport {
    /// The report as one JSON object on one line, without a final newline.
    ///
    /// # Errors
    /// None is known; the writer of the library could fail.
    pub fn to_json(&self) -> Result<String> {
        Ok(serde_json::to_string(self)?)
    }
}

impl fmt::Display for LinkReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut row = |name: &str, unit: &str, spread: Spread| {
            let Spread { lower_quartile: low, median, upper_quartile: high } = spread;
            writeln!(f, "{name:<16}{median:>9.2} {unit:<3}({low:.2} to {high:.2})")
        };
        row("farcall run", "ms", self.ours_ms)?;
        row(&format!("{} + exec", self.linker), "ms", self.theirs_ms)?;
        row("ratio", "", self.ratio)?;
        writeln!(f, "medians and quartiles of {} rounds taken in turns", self.rounds)?;
        write!(f, "{}", self.llvm)
    }
}

fn quiet(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// The path of one of the compiler's files.
fn file_of_compiler(name: &str) -> Result<PathBuf> {
    let output = Command::new("cc").arg(format!("-print-file-name={name}")).output()?;
    let path = PathBuf::from(String::from_utf8(output.stdout)?.trim_end());
    // An unknown name comes back as it was given.
    if path.is_absolute() { Ok(path) } else { Err(format!("cc has no {name}").into()) }
}
