//! From objects to the end of `main`: `farcall run` against linkers and the executables that they make, in turns.
//!
//! With arguments that end the program at once, the race measures the way to `main`. All sides read their files from the page
//! cache, and the executables go to the folder for temporary files.
//!
//! Invariant: all sides get the same files and arguments and end with the same status, or there is no report.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use memmap2::MmapMut;

use crate::measure::budget::Allowance;
use crate::races::link_programs::{self, Generated, LinkProgram};
use crate::races::link_report::{LinkReport, LinkRow, LinkedProgram};
use crate::races::linkers::{self, Linker, quiet};
use crate::races::llvm_race::{self, timed};
use crate::{Origin, Result, SCHEMA, Spread};

/// Races of one command against the linkers of this machine.
#[derive(Debug)]
pub struct LinkRace {
    /// The path of `farcall`.
    pub farcall: PathBuf,
    /// The program and the flags.
    pub origin: Origin,
    /// The length of the run. Each program has one round at least.
    pub duration: Duration,
    /// The names of the generated programs to link; all if there is none.
    pub only: Vec<String>,
}

/// One way to link and run a program: commands that run one after the other.
struct Way {
    name: String,
    commands: Vec<Command>,
}

impl LinkRace {
    /// Links and runs the program of these objects and archives, libraries (as for `-l`) and arguments. Then LLVM's command and
    /// `farcall run` run it in turns, within the same time.
    ///
    /// # Errors
    /// When there is no linker, a linker refuses the program, or two sides end with different statuses.
    pub fn of_files(
        &self,
        files: &[PathBuf],
        libraries: &[String],
        args: &[std::ffi::OsString],
    ) -> Result<LinkReport> {
        let time = Allowance { until: Instant::now() + self.duration, rounds_max: usize::MAX };
        let program = LinkProgram::of_user(files, libraries, args);
        let (linkers, absent) = linkers::find()?;
        let raced = self.race(&program, &linkers, time.part(2))?;
        let llvm = llvm_race::race(&self.farcall, files, libraries, args, time)?;
        Ok(self.report(vec![raced], absent, Some(llvm)))
    }

    /// Generates programs of every size, and links and runs each.
    ///
    /// # Errors
    /// As [`LinkRace::of_files`], and when a program cannot be written or has no such name.
    pub fn of_generated(&self) -> Result<LinkReport> {
        let time = Allowance { until: Instant::now() + self.duration, rounds_max: usize::MAX };
        let names = Generated::ALL.map(Generated::name);
        if let Some(wrong) = self.only.iter().find(|name| !names.contains(name)) {
            let names = names.join(", ");
            return Err(format!("{wrong}: no program has this name; there are: {names}").into());
        }
        let is_wanted = |one: &Generated| self.only.is_empty() || self.only.contains(&one.name());
        let wanted: Vec<_> = Generated::ALL.into_iter().filter(is_wanted).collect();
        let (linkers, absent) = linkers::find()?;
        let mut programs = Vec::new();
        for (left, one) in (1..=wanted.len()).rev().zip(wanted) {
            let part = time.part(u32::try_from(left)?);
            programs.push(self.race(&one.write()?, &linkers, part)?);
        }
        Ok(self.report(programs, absent, None))
    }

    fn report(
        &self,
        programs: Vec<LinkedProgram>,
        absent: Vec<&'static str>,
        llvm: Option<llvm_race::LlvmReport>,
    ) -> LinkReport {
        LinkReport { schema: SCHEMA, origin: self.origin.clone(), programs, absent, llvm }
    }

    /// Runs all ways in turns for the time given. The first round is not counted, unless there is no other.
    fn race(
        &self,
        program: &LinkProgram,
        linkers: &[Linker],
        time: Allowance,
    ) -> Result<LinkedProgram> {
        let scratch = Scratch::new()?;
        let mut ours = quiet(&self.farcall);
        ours.current_dir(&program.folder).arg("run").args(&program.files);
        ours.args(program.library_flags()).arg("--").args(&program.args);
        let mut ways = vec![Way { name: "farcall run".to_owned(), commands: vec![ours] }];
        for linker in linkers {
            let output = scratch.0.join(linker.name);
            let mut run = quiet(&output);
            run.current_dir(&program.folder).args(&program.args);
            let commands = vec![linker.command(program, &output)?, run];
            ways.push(Way { name: format!("{} + exec", linker.name), commands });
        }
        let rounds = time.rounds(|| round(&mut ways, program))?;
        let names = ways.iter().map(|way| way.name.clone());
        let names = names.chain(program.copied.iter().map(|_| "a copy".to_owned()));
        let times = |way: usize| rounds.iter().map(move |round| round[way].as_secs_f64() * 1e3);
        let spread = |values: Vec<f64>| Spread::of(values).ok_or("no rounds");
        let mut rows = Vec::new();
        for (way, name) in names.enumerate() {
            let ratio = times(0).zip(times(way)).map(|(ours, theirs)| ours / theirs).collect();
            let ms = spread(times(way).collect())?;
            rows.push(LinkRow { name, ms, ratio: spread(ratio)? });
        }
        Ok(LinkedProgram {
            name: program.name.clone(),
            files: program.files.len(),
            bytes: link_programs::bytes(&program.folder, &program.files),
            objects: program.generated_objects(),
            rounds: rounds.len(),
            rows,
        })
    }
}

/// Runs each way once; the time of each.
fn round(ways: &mut [Way], program: &LinkProgram) -> Result<Vec<Duration>> {
    let (mut times, mut due) = (Vec::new(), program.status);
    for way in ways {
        let mut time = Duration::ZERO;
        let last = way.commands.len() - 1;
        for (at, command) in way.commands.iter_mut().enumerate() {
            let (status, taken) = timed(command)?;
            time += taken;
            if at < last && !status.success() {
                return Err(format!("{} refuses {}: {status}", way.name, program.name).into());
            }
            if at == last {
                let ended = status.code().unwrap_or(-1);
                let due = *due.get_or_insert(ended);
                if ended != due {
                    let (way, program) = (&way.name, &program.name);
                    return Err(format!("{way}: {program}: {status}, and {due} is due").into());
                }
            }
        }
        times.push(time);
    }
    if let Some(file) = &program.copied {
        times.push(copy(file)?);
    }
    Ok(times)
}

/// The time to copy a file of the page cache into new memory.
fn copy(path: &Path) -> Result<Duration> {
    let mut file = File::open(path)?;
    let bytes = usize::try_from(file.metadata()?.len())?;
    let started = Instant::now();
    let mut memory = MmapMut::map_anon(bytes)?;
    file.read_exact(&mut memory)?;
    Ok(started.elapsed())
}

/// A folder for executables, which is removed when dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Result<Scratch> {
        let folder = std::env::temp_dir().join(format!("farcall-link-race-{}", std::process::id()));
        std::fs::create_dir_all(&folder)?;
        Ok(Scratch(folder))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
