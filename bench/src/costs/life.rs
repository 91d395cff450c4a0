//! The cost of allocating memory, of linking an object into it, and of removing linked objects.
//!
//! Invariant: each round removes all that it made; messages are counted, not assumed.

use std::fmt;
use std::time::Instant;

use farcall::controller::Process;
use farcall::controller::memory::FinalizedAlloc;
use farcall::link::ObjectFile;
use farcall::orc::ObjectLayer;
use farcall::orc::{ExecutionSession, ResourceTracker};
use farcall::{PerProt, Prot};
use serde::{Deserialize, Serialize};

use crate::figures::table::nanoseconds;
use crate::measure::budget::Allowance;
use crate::{Bar, Callee, Judged, Result, Spread, TinyObject, tiny_code};

const TIMES: u32 = 1_000;
const OBJECTS: u32 = 1_000;
const PAGE: [u8; 4_096] = [0xcc; 4_096];
/// Bar: allocating and deallocating memory, beyond writing to it.
const MEMORY_NS_MAX: f64 = 2_000.0;
/// Bar: a link, beyond this many null calls.
const LINK_NS_MAX: f64 = 10_000.0;
const LINK_NULL_CALLS_MAX: f64 = 10.0;

/// The cost of allocating memory, of linking, and of removing what was linked.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Life {
    /// 4 KiB of code and 4 KiB of data allocated, finalized and deallocated, beyond writing them.
    pub memory: Made,
    /// An object of 8 functions with unwind information linked into a dylib and looked up.
    pub link: Made,
    /// A null call between those, in nanoseconds.
    pub null_ns: f64,
    /// 1,000 linked objects with unwind information, removed by one tracker.
    pub removal: Made,
    /// The same by a tracker for each.
    pub single_removal: Made,
}

/// The cost of one kind of work.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Made {
    /// Over the rounds: nanoseconds for each.
    pub each_ns: Spread,
    /// Messages for all of one round.
    pub messages: u64,
}

/// Measures allocations, links and removals.
///
/// # Errors
/// When the executor is gone.
pub(crate) fn measure(callee: &Callee, time: Allowance) -> Result<Life> {
    let (executor, process) = (callee.executor(), callee.process());
    let mut null_ns = Vec::new();
    let object = ObjectFile::parse("eight.o", eight())?;
    let memory = rounds(process, time.part(4), || beyond_writing(process))?;
    let link = rounds(process, time.part(3), || {
        let mut took = 0.0;
        for _ in 0..TIMES {
            let start = Instant::now();
            let dylib = executor.library("eight");
            dylib.add_object(&object)?;
            let function = dylib.lookup("f7")?;
            took += nanoseconds_since(start);
            // The registration of unwind information goes ahead of the first call.
            process.call(function, &[0; 8])?;
            let start = Instant::now();
            process.call(function, &[0; 8])?;
            null_ns.push(nanoseconds_since(start));
            dylib.clear()?;
        }
        Ok(took)
    })?;
    let session = ExecutionSession::new();
    let (removal, single_removal) = removals(process, &session, time)?;
    session.end_session()?;
    null_ns.sort_unstable_by(f64::total_cmp);
    let null_ns = null_ns.get(null_ns.len() / 2).copied().ok_or("no calls")?;
    Ok(Life { memory, link, null_ns, removal, single_removal })
}

/// The time that `work` measures in each round, for each of [`TIMES`].
fn rounds(
    process: &Process,
    time: Allowance,
    mut work: impl FnMut() -> Result<f64>,
) -> Result<Made> {
    let rounds = time.rounds(|| {
        let before = process.stats().calls;
        let took = work()?;
        Ok((took / f64::from(TIMES), process.stats().calls - before))
    })?;
    Made::of(rounds)
}

/// The time to allocate and deallocate memory, less the time of writing to it.
fn beyond_writing(process: &Process) -> Result<f64> {
    let mut spare = process.allocate(PerProt { code: 4_096, data: 4_096, ..PerProt::default() })?;
    let start = Instant::now();
    for _ in 0..TIMES {
        spare.write(Prot::Code, &PAGE);
        spare.write(Prot::Data, &PAGE);
    }
    let writing = nanoseconds_since(start);
    drop(spare);
    let start = Instant::now();
    for _ in 0..TIMES {
        let mut memory =
            process.allocate(PerProt { code: 4_096, data: 4_096, ..PerProt::default() })?;
        memory.write(Prot::Code, &PAGE);
        memory.write(Prot::Data, &PAGE);
        let memory: FinalizedAlloc = memory.finalize();
        process.deallocate([memory])?;
    }
    Ok(nanoseconds_since(start) - writing)
}

/// Removes linked objects by one tracker for all, and by one for each.
fn removals(
    process: &Process,
    session: &ExecutionSession,
    time: Allowance,
) -> Result<(Made, Made)> {
    let layer = ObjectLayer::new(session, process);
    let dylib = session.create_dylib("many")?;
    let mut objects = Vec::new();
    for number in 0..OBJECTS {
        let object = TinyObject::new().function(&format!("f{number}"), tiny_code::NULL_CALL);
        objects.push(ObjectFile::parse("one.o", object.unwound().bytes())?);
    }
    let names: Vec<String> = (0..OBJECTS).map(|number| format!("f{number}")).collect();
    let remove = |time: Allowance, trackers: &dyn Fn() -> Result<Vec<ResourceTracker>>| {
        let rounds = time.rounds(|| {
            let trackers = trackers()?;
            for (object, tracker) in objects.iter().zip(trackers.iter().cycle()) {
                layer.add(tracker, object)?;
            }
            let last = dylib.lookup_all(&names)?;
            let any = last.into_values().next().ok_or("nothing was found")?;
            // The registration of unwind information goes ahead of this call.
            process.call(any.address, &[0; 8])?;
            let before = process.stats().calls;
            let start = Instant::now();
            for tracker in &trackers {
                tracker.remove()?;
            }
            let each_ns = nanoseconds_since(start) / f64::from(OBJECTS);
            Ok((each_ns, process.stats().calls - before))
        })?;
        Made::of(rounds)
    };
    let together = remove(time.part(2), &|| Ok(vec![dylib.create_tracker()?]))?;
    let single = remove(time, &|| {
        let trackers = (0..OBJECTS).map(|_| Ok(dylib.create_tracker()?));
        trackers.collect()
    })?;
    Ok((together, single))
}

/// An object of 8 functions, `f0` to `f7`, with unwind information.
fn eight() -> Vec<u8> {
    let names = (0..8).map(|number| format!("f{number}"));
    let object =
        names.fold(TinyObject::new(), |object, name| object.function(&name, tiny_code::NULL_CALL));
    object.unwound().bytes()
}

fn nanoseconds_since(start: Instant) -> f64 {
    start.elapsed().as_secs_f64() * 1e9
}

impl Made {
    /// From the nanoseconds for each and the messages of each round.
    fn of(rounds: Vec<(f64, u64)>) -> Result<Made> {
        let messages = rounds.last().ok_or("no rounds")?.1;
        let each_ns = Spread::of(rounds.into_iter().map(|(each_ns, _)| each_ns).collect());
        Ok(Made { each_ns: each_ns.ok_or("no rounds")?, messages })
    }
}

impl Life {
    /// The figures beside their bars.
    pub(crate) fn judged(&self) -> [Judged; 4] {
        let link_ns_max = (LINK_NULL_CALLS_MAX * self.null_ns + LINK_NS_MAX).round();
        let messages = |made: Made| Spread::exact(made.messages as f64);
        [
            Judged::new("memory, ns", self.memory.each_ns, Bar::AtMost(MEMORY_NS_MAX)),
            Judged::new("memory, messages", messages(self.memory), Bar::AtMost(0.0)),
            Judged::new("link, ns", self.link.each_ns, Bar::AtMost(link_ns_max)),
            Judged::new("remove objects, messages", messages(self.removal), Bar::AtMost(1.0)),
        ]
    }
}

impl fmt::Display for Life {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let each = |made: &Made| nanoseconds(made.each_ns.median);
        writeln!(
            f,
            "memory   4 KiB code, 4 KiB data: {} ns beyond writing, {} messages",
            each(&self.memory),
            self.memory.messages
        )?;
        let link = each(&self.link);
        writeln!(f, "link     8 functions with unwind information, looked up: {link} ns")?;
        writeln!(
            f,
            "remove   {OBJECTS} objects, one tracker: {} ns each, {} messages, {} alone",
            each(&self.removal),
            self.removal.messages,
            each(&self.single_removal)
        )
    }
}
