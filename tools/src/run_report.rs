//! What `farcall run` reports of a run: a few lines for people, or one JSON object.

use std::fmt;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

use farcall::controller::{LinkReport, Stats};
use serde::Serialize;

use crate::status::{Failure, TOOL};

/// The number of the JSON object's form. It grows when a field is removed or means something else.
const SCHEMA: u32 = 1;
/// The path that stands for standard output.
const STANDARD_OUTPUT: &str = "-";

/// What was linked and sent, and how long each phase took, in microseconds.
#[derive(Debug, Serialize)]
pub(crate) struct RunReport {
    schema: u32,
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
}

/// How long the phases took that the link report does not have.
pub(crate) struct Phases {
    pub(crate) load: Duration,
    pub(crate) connect: Duration,
    pub(crate) run: Duration,
}

impl RunReport {
    /// `stats` are those from before `main` was called.
    pub(crate) fn new(link: LinkReport, stats: Stats, phases: &Phases) -> Self {
        Self {
            schema: SCHEMA,
            objects: link.objects,
            sections: link.sections,
            relocations: link.relocations,
            bytes: link.bytes,
            messages: stats.calls,
            round_trips_before_main: stats.round_trips,
            load_us: phases.load.as_micros(),
            connect_us: phases.connect.as_micros(),
            pull_us: link.pull.as_micros(),
            look_up_us: link.look_up.as_micros(),
            layout_us: link.layout.as_micros(),
            fixup_us: link.fixup.as_micros(),
            transfer_us: link.transfer.as_micros(),
            run_us: phases.run.as_micros(),
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
        let Self { load_us, connect_us, pull_us, look_up_us, .. } = self;
        let Self { layout_us, fixup_us, transfer_us, run_us, .. } = self;
        write!(
            f,
            "load {load_us} us, connect {connect_us} us, pull {pull_us} us, look up {look_up_us} us, \
             lay out {layout_us} us, fix up {fixup_us} us, transfer {transfer_us} us, run {run_us} us"
        )
    }
}

/// Where the JSON object goes. It is open before the program starts, so a path that cannot be written loses no run.
pub(crate) struct JsonFile<'a> {
    path: &'a Path,
    file: Box<dyn Write>,
}

impl<'a> JsonFile<'a> {
    /// Opens the file at `path`, and empties it; `-` is standard output.
    pub(crate) fn create(path: &'a Path) -> Result<Self, Failure> {
        if path.as_os_str() == STANDARD_OUTPUT {
            return Ok(Self { path, file: Box::new(io::stdout()) });
        }
        let file = File::create(path).map_err(|error| failed(path, &error))?;
        Ok(Self { path, file: Box::new(file) })
    }

    /// Writes the object and the end of its line.
    pub(crate) fn write(mut self, report: &RunReport) -> Result<(), Failure> {
        let written = serde_json::to_writer(&mut self.file, report).map_err(io::Error::from);
        let written = written.and_then(|()| writeln!(self.file)).and_then(|()| self.file.flush());
        written.map_err(|error| failed(self.path, &error))
    }
}

fn failed(path: &Path, error: &io::Error) -> Failure {
    Failure::new(TOOL, format_args!("--json {}: {error}", path.display()))
}
