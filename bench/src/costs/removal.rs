//! The cost of deallocating memory, by one message for many and by a message for each.
//!
//! Invariant: both ways remove the same regions, filled in the same way, in turns; only the removal is timed.

use std::fmt;
use std::hint::black_box;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::time::{Duration, Instant};

use farcall::controller::Client;
use farcall::controller::memory::{NativeMemory, Segment};
use farcall::sps::AllocGroup;
use farcall::{Connection, ExecutorAddr, Prot};
use memmap2::{Mmap, MmapMut};
use serde::{Deserialize, Serialize};

use crate::figures::table::{nanoseconds, ratio};
use crate::measure::budget::Allowance;
use crate::processes::peer::Peer;
use crate::transports::executor;
use crate::{Bar, Callee, Judged, Result, Size, Spread};

const REGIONS: u32 = 1_000;
const SLABS: u32 = 100;
const PAGE_BYTES: u64 = 4_096;
/// The code of a page.
const CODE: [u8; 64] = [0xc3; 64];
/// The cost of a message for each, in times of one message for all.
const BAR: Bar = Bar::AtLeast(20.0);

/// The cost of deallocating memory, over both ways to an executor.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Removal {
    /// Over a Unix stream, as for controllers that share no memory: the messages are the cost.
    pub stream: Removals,
    /// Over a lane, where a message costs less than the kernel's work for one region.
    pub lane: Removals,
    /// The kernel alone, without an executor: as many pages of code are made writable and emptied.
    pub kernel: Removed,
}

/// The cost of deallocating memory, over one way.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Removals {
    /// Regions of a page of code.
    pub regions: Removed,
    /// Slabs of 16 pages that were never touched.
    pub slabs: Removed,
}

/// Both ways to remove many of a kind.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Removed {
    /// The number removed in a round.
    pub count: u32,
    /// Over the rounds: nanoseconds for each, with one message for all.
    pub together_ns: Spread,
    /// Over the rounds: nanoseconds for each, with a message for each.
    pub single_ns: Spread,
    /// Over the rounds: the cost of the second way in times of the first.
    pub ratio: Spread,
}

/// Removes regions of one page of code each, and slabs that are never touched, in both ways.
///
/// # Errors
/// When an executor refuses or is gone.
pub(crate) fn measure(callee: &Callee, peer: &Rc<Peer>, time: Allowance) -> Result<Removal> {
    let (ours, theirs) = UnixStream::pair()?;
    let slot = peer.install(&executor::SERVICE, Size::WORD, &[theirs.as_fd()])?;
    drop(theirs);
    slot.serve(1)?;
    let client = Client::connect(Connection::socket(ours)?)?;
    Ok(Removal {
        stream: removals(client.native_memory(), time.part(2))?,
        lane: removals(callee.process().native_memory(), time.part(2))?,
        kernel: kernel(time)?,
    })
}

fn removals(memory: NativeMemory<'_>, time: Allowance) -> Result<Removals> {
    let slab = memory.reserve(u64::from(REGIONS) * PAGE_BYTES)?;
    let regions = compare(
        REGIONS,
        time.part(2),
        || (0..REGIONS).map(|number| region(memory, slab, number)).collect(),
        |bases| Ok(memory.deinitialize(bases)?),
    )?;
    memory.release(&[slab])?;
    let slabs = compare(
        SLABS,
        time,
        || (0..SLABS).map(|_| Ok(memory.reserve(16 * PAGE_BYTES)?)).collect(),
        |slabs| Ok(memory.release(slabs)?),
    )?;
    Ok(Removals { regions, slabs })
}

/// Initializes a page of code.
fn region(memory: NativeMemory<'_>, slab: ExecutorAddr, number: u32) -> Result<ExecutorAddr> {
    let start = ExecutorAddr::new(slab.get() + u64::from(number) * PAGE_BYTES);
    let group = AllocGroup::standard(Prot::Code);
    let segment = Segment { group, start, bytes: PAGE_BYTES, content: &CODE };
    Ok(memory.initialize(&[segment], &[])?)
}

fn compare(
    count: u32,
    time: Allowance,
    make: impl Fn() -> Result<Vec<ExecutorAddr>>,
    remove: impl Fn(&[ExecutorAddr]) -> Result<()>,
) -> Result<Removed> {
    Removed::measure(
        count,
        time,
        || {
            let all = make()?;
            let start = Instant::now();
            remove(&all)?;
            Ok(start.elapsed())
        },
        || {
            let all = make()?;
            let start = Instant::now();
            for address in &all {
                remove(std::slice::from_ref(address))?;
            }
            Ok(start.elapsed())
        },
    )
}

/// Makes pages of code writable and empty, in this process: all at once, and one by one.
fn kernel(time: Allowance) -> Result<Removed> {
    let page_bytes = usize::try_from(PAGE_BYTES)?;
    let empty = |page: &mut [u8]| page[..CODE.len()].copy_from_slice(&black_box([0; CODE.len()]));
    Removed::measure(
        REGIONS,
        time,
        || {
            let mut all = MmapMut::map_anon(REGIONS as usize * page_bytes)?;
            for page in all.chunks_exact_mut(page_bytes) {
                page[..CODE.len()].copy_from_slice(&CODE);
            }
            let all = all.make_exec()?;
            let start = Instant::now();
            let mut all = all.make_mut()?;
            all.chunks_exact_mut(page_bytes).for_each(empty);
            Ok(start.elapsed())
        },
        || {
            let map = |_| MmapMut::map_anon(page_bytes);
            let all: Vec<MmapMut> = (0..REGIONS).map(map).collect::<std::io::Result<_>>()?;
            let fill = |mut page: MmapMut| {
                page[..CODE.len()].copy_from_slice(&CODE);
                page.make_exec()
            };
            let all: Vec<Mmap> = all.into_iter().map(fill).collect::<std::io::Result<_>>()?;
            let mut emptied = Vec::with_capacity(all.len());
            let start = Instant::now();
            for page in all {
                let mut page = page.make_mut()?;
                empty(&mut page);
                emptied.push(page);
            }
            Ok(start.elapsed())
        },
    )
}

impl Removed {
    /// Each closure returns the time to remove all.
    fn measure(
        count: u32,
        time: Allowance,
        all_together: impl Fn() -> Result<Duration>,
        one_by_one: impl Fn() -> Result<Duration>,
    ) -> Result<Removed> {
        let each = |took: Duration| took.as_secs_f64() * 1e9 / f64::from(count);
        let rounds = time.rounds(|| Ok((each(all_together()?), each(one_by_one()?))))?;
        let (together, single): (Vec<f64>, Vec<f64>) = rounds.into_iter().unzip();
        let ratio = together.iter().zip(&single).map(|(one, many)| many / one).collect();
        let spread = |values| Spread::of(values).ok_or("no rounds");
        Ok(Removed {
            count,
            together_ns: spread(together)?,
            single_ns: spread(single)?,
            ratio: spread(ratio)?,
        })
    }

    fn line(&self, f: &mut fmt::Formatter<'_>, what: &str) -> fmt::Result {
        let (together, single) = (self.together_ns.median, self.single_ns.median);
        writeln!(
            f,
            "remove   {} {what}: {} ns each together, {} alone: {} times",
            self.count,
            nanoseconds(together),
            nanoseconds(single),
            ratio(self.ratio.median)
        )
    }
}

impl Removal {
    /// The ratios beside their bar.
    pub(crate) fn judged(&self) -> impl Iterator<Item = Judged> {
        let Removal { stream, lane, .. } = self;
        let all = [
            ("regions, stream", stream.regions),
            ("slabs, stream", stream.slabs),
            ("regions, lane", lane.regions),
            ("slabs, lane", lane.slabs),
        ];
        all.into_iter().map(|(what, removed)| {
            Judged::new(format!("remove {what}: alone / together"), removed.ratio, BAR)
        })
    }
}

impl fmt::Display for Removal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.stream.regions.line(f, "regions, stream")?;
        self.stream.slabs.line(f, "slabs, stream")?;
        self.lane.regions.line(f, "regions, lane")?;
        self.lane.slabs.line(f, "slabs, lane")?;
        let Removed { count, together_ns, single_ns, ratio: times } = self.kernel;
        writeln!(
            f,
            "remove   {count} pages, kernel alone: {} ns each together, {} alone: {} times",
            nanoseconds(together_ns.median),
            nanoseconds(single_ns.median),
            ratio(times.median)
        )
    }
}
