//! The report of `farcall run` about a run: a few lines for people, or one JSON object.

use std::fmt;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use farcall::controller::{LinkReport, Stats};
use serde::Serialize;

use super::steps::{Step, Steps};
use crate::advice;
use crate::status::{Failure, TOOL};

/// The number of the JSON object's form. It is increased when a field is removed or changes its meaning.
const SCHEMA: u32 = 1;
/// The path that means standard output.
const STANDARD_OUTPUT: &str = "-";

/// The sizes that were linked and sent, and the time of each phase in microseconds.
#[derive(Debug, Serialize)]
pub(crate) struct RunReport {
    schema: u32,
    /// The exit code of `farcall run`.
    exit_code: i32,
    objects: u64,
    sections: u64,
    relocations: u64,
    bytes: u64,
    messages: u64,
    round_trips_before_main: u64,
    load_us: u128,
    connect_us: u128,
    pull_us: u128,
    look_up_us: u128,
    layout_us: u128,
    fixup_us: u128,
    transfer_us: u128,
    run_us: u128,
    /// The same steps, each with what it took from the system.
    steps: Vec<Step>,
}

impl RunReport {
    /// `stats` are from before the call of `main`.
    pub(crate) fn new(exit_code: i32, link: LinkReport, stats: Stats, steps: &Steps) -> Self {
        let time_us = |name| steps.time_us(name);
        Self {
            schema: SCHEMA,
            exit_code,
            objects: link.objects,
            sections: link.sections,
            relocations: link.relocations,
            bytes: link.bytes,
            messages: stats.calls,
            round_trips_before_main: stats.round_trips,
            load_us: time_us("load"),
            connect_us: time_us("connect"),
            pull_us: time_us("pull"),
            look_up_us: time_us("look up"),
            layout_us: time_us("lay out"),
            fixup_us: time_us("fix up"),
            transfer_us: time_us("transfer"),
            run_us: time_us("run"),
            steps: steps.all.clone(),
        }
    }
}

impl fmt::Display for RunReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { objects, sections, relocations, bytes, .. } = self;
        writeln!(
            f,
            "linked {objects} objects: {sections} sections, {relocations} relocations, {bytes} bytes"
        )?;
        let Self { messages, round_trips_before_main, .. } = self;
        writeln!(f, "sent {messages} messages, {round_trips_before_main} round trips before main")?;
        let steps: Vec<_> = self.steps.iter().map(Step::to_string).collect();
        f.write_str(&steps.join("\n"))
    }
}

/// A file of JSON that an option names. It is opened before the program starts, so a path that cannot be written costs no run.
pub(crate) struct JsonFile<'a> {
    option: &'static str,
    path: &'a Path,
    file: Box<dyn Write>,
}

impl<'a> JsonFile<'a> {
    /// Opens the file at `path` and empties it. `-` is standard output.
    ///
    /// # Errors
    ///
    /// If the file cannot be written, or holds an object. In `--json a.o` the user has forgotten the name.
    pub(crate) fn create(option: &'static str, path: &'a Path) -> Result<Self, Failure> {
        if path.as_os_str() == STANDARD_OUTPUT {
            return Ok(Self { option, path, file: Box::new(io::stdout()) });
        }
        if advice::is_linkable(path) {
            let why = format!(
                "holds an object or an archive, and is not overwritten; {option} takes a file of its own, or -"
            );
            return Err(failed(option, path, &why));
        }
        let file = File::create(path).map_err(|error| failed(option, path, &error))?;
        Ok(Self { option, path, file: Box::new(file) })
    }

    /// Writes the object and the end of its line.
    pub(crate) fn write(mut self, report: &impl Serialize) -> Result<(), Failure> {
        let written = serde_json::to_writer(&mut self.file, report).map_err(io::Error::from);
        let written = written.and_then(|()| writeln!(self.file)).and_then(|()| self.file.flush());
        written.map_err(|error| failed(self.option, self.path, &error))
    }
}

fn failed(option: &str, path: &Path, error: &dyn fmt::Display) -> Failure {
    Failure::new(TOOL, format_args!("{option} {}: {error}", path.display()))
}
