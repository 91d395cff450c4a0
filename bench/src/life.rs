//! What it costs to make memory, to link an object into it, and to take linked objects back.
//!
//! Invariant: what is made is what is taken back, in every round; messages are counted, not assumed.

use std::fmt;
use std::time::Instant;

use farcall::controller::memory::FinalizedAlloc;
use farcall::controller::{Controller, ObjectLayer};
use farcall::jit::{ExecutionSession, ResourceTracker};
use farcall::link::ObjectFile;
use farcall::{PerProt, Prot};

use crate::report::word;
use crate::table::nanoseconds;
use crate::{Callee, Result, Spread, TinyObject, tiny_code};

const ROUNDS: usize = 11;
const TIMES: u32 = 1_000;
const OBJECTS: u32 = 1_000;
const PAGE: [u8; 4_096] = [0xcc; 4_096];
/// What making memory and giving it back may cost beyond writing to it.
const MEMORY_NS_MAX: f64 = 2_000.0;
/// What a link may cost beyond so many null calls.
const LINK_NS_MAX: f64 = 10_000.0;
const LINK_NULL_CALLS_MAX: f64 = 10.0;

/// What it costs to make memory, to link, and to remove what was linked.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Life {
    /// 4 KiB of code and 4 KiB of data allocated, finalized and deallocated, beyond writing them.
    pub memory: Made,
    /// An object of 8 functions with unwind information linked into a dylib and looked up.
    pub link: Made,
    /// A null call between those, in nanoseconds.
    pub null_ns: f64,
    /// That many linked objects with unwind information removed by one tracker.
    pub removal: Made,
    /// The same by a tracker for each.
    pub single_removal: Made,
}

/// What one kind of work costs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Made {
    /// Over the rounds: nanoseconds for each.
    pub each_ns: Spread,
    /// Messages for all of a round.
    pub messages: u64,
}

/// Makes, links and removes.
///
/// # Errors
/// When the executor is gone.
pub(crate) fn look(callee: &Callee) -> Result<Life> {
    let controller = callee.controller();
    let mut null_ns = Vec::new();
    let object = ObjectFile::parse("eight.o", eight())?;
    let memory = rounds(controller, TIMES, || beyond_writing(controller))?;
    let link = rounds(controller, TIMES, || {
        let mut took = 0.0;
        for _ in 0..TIMES {
            let start = Instant::now();
            let dylib = controller.create_dylib("eight");
            dylib.add_object(&object)?;
            let function = dylib.lookup("f7")?;
            took += nanoseconds_since(start);
            // What registers the unwind information goes ahead of the first call.
            controller.call(function, &[0; 8])?;
            let start = Instant::now();
            controller.call(function, &[0; 8])?;
            null_ns.push(nanoseconds_since(start));
            dylib.clear()?;
        }
        Ok(took)
    })?;
    let session = ExecutionSession::new();
    let (removal, single_removal) = removals(controller, &session)?;
    session.end_session()?;
    null_ns.sort_unstable_by(f64::total_cmp);
    let null_ns = null_ns.get(null_ns.len() / 2).copied().ok_or("no calls")?;
    Ok(Life { memory, link, null_ns, removal, single_removal })
}

/// The time that `work` measures in each round, for each of `count`.
fn rounds(
    controller: &Controller,
    count: u32,
    mut work: impl FnMut() -> Result<f64>,
) -> Result<Made> {
    let (mut each_ns, mut messages) = (Vec::new(), 0);
    for round in 0..=ROUNDS {
        let before = controller.stats().calls;
        let took = work()?;
        messages = controller.stats().calls - before;
        // The first round warms up.
        if round > 0 {
            each_ns.push(took / f64::from(count));
        }
    }
    Ok(Made { each_ns: Spread::of(each_ns).ok_or("no rounds")?, messages })
}

/// What making memory and giving it back takes in all, without the time of writing to it.
fn beyond_writing(controller: &Controller) -> Result<f64> {
    let mut spare =
        controller.allocate(PerProt { code: 4_096, data: 4_096, ..PerProt::default() })?;
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
            controller.allocate(PerProt { code: 4_096, data: 4_096, ..PerProt::default() })?;
        memory.write(Prot::Code, &PAGE);
        memory.write(Prot::Data, &PAGE);
        let memory: FinalizedAlloc = memory.finalize();
        controller.deallocate([memory])?;
    }
    Ok(nanoseconds_since(start) - writing)
}

/// Removes linked objects by one tracker for all, and by one for each.
fn removals(controller: &Controller, session: &ExecutionSession) -> Result<(Made, Made)> {
    let layer = ObjectLayer::new(session, controller);
    let dylib = session.create_dylib("many")?;
    let mut objects = Vec::new();
    for number in 0..OBJECTS {
        let object = TinyObject::new().function(&format!("f{number}"), tiny_code::NULL_CALL);
        objects.push(ObjectFile::parse("one.o", object.unwound().bytes())?);
    }
    let names: Vec<String> = (0..OBJECTS).map(|number| format!("f{number}")).collect();
    let remove = |trackers: &dyn Fn() -> Result<Vec<ResourceTracker>>| -> Result<Made> {
        let (mut each_ns, mut messages) = (Vec::new(), 0);
        for round in 0..=ROUNDS {
            let trackers = trackers()?;
            for (object, tracker) in objects.iter().zip(trackers.iter().cycle()) {
                layer.add(tracker, object)?;
            }
            let last = dylib.lookup_all(&names)?;
            let any = last.into_values().next().ok_or("nothing was found")?;
            // What registers the unwind information goes ahead of it.
            controller.call(any.address, &[0; 8])?;
            let before = controller.stats().calls;
            let start = Instant::now();
            for tracker in &trackers {
                tracker.remove()?;
            }
            let took = nanoseconds_since(start);
            messages = controller.stats().calls - before;
            if round > 0 {
                each_ns.push(took / f64::from(OBJECTS));
            }
        }
        Ok(Made { each_ns: Spread::of(each_ns).ok_or("no rounds")?, messages })
    };
    let together = remove(&|| Ok(vec![dylib.create_tracker()?]))?;
    let single = remove(&|| {
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

impl Life {
    /// True when making memory costs as little as it ought to.
    #[must_use]
    pub fn memory_is_met(&self) -> bool {
        self.memory.each_ns.median <= MEMORY_NS_MAX && self.memory.messages == 0
    }

    /// What a link may cost, in nanoseconds.
    #[must_use]
    pub fn link_ns_max(&self) -> f64 {
        LINK_NULL_CALLS_MAX * self.null_ns + LINK_NS_MAX
    }

    /// True when a link costs as little as it ought to.
    #[must_use]
    pub fn link_is_met(&self) -> bool {
        self.link.each_ns.median <= self.link_ns_max()
    }

    /// True when one message removes everything.
    #[must_use]
    pub fn removal_is_met(&self) -> bool {
        self.removal.messages == 1
    }
}

impl fmt::Display for Life {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let each = |made: &Made| nanoseconds(made.each_ns.median);
        writeln!(
            f,
            "memory   4 KiB code, 4 KiB data: {} ns beyond writing, {} messages (at most {MEMORY_NS_MAX}, 0: {})",
            each(&self.memory),
            self.memory.messages,
            word(self.memory_is_met())
        )?;
        writeln!(
            f,
            "link     8 functions with unwind information, looked up: {} ns (at most {}: {})",
            each(&self.link),
            nanoseconds(self.link_ns_max()),
            word(self.link_is_met())
        )?;
        writeln!(
            f,
            "remove   {OBJECTS} objects, one tracker: {} ns each, {} messages (1: {}), {} alone",
            each(&self.removal),
            self.removal.messages,
            word(self.removal_is_met()),
            each(&self.single_removal)
        )
    }
}
