//! The cost of a call in the same process: by a pointer to a linked function, and by its handle, beside a native function.
//!
//! The native function lies in a mapping beside the shared libraries, as the linked one does. Some processors take longer for code that
//! is more than 4 GiB away.
//!
//! Invariant: all three run the same instructions. Their calls depend on each other, and each of them is through a pointer.
#![allow(unsafe_code, reason = "calls code by pointers")]

use std::fmt;
use std::hint::black_box;
use std::time::Instant;

use farcall::controller::ExecutorBuilder;
use farcall::link::ObjectFile;
use memmap2::{Mmap, MmapMut};
use serde::{Deserialize, Serialize};

use crate::figures::table::ratio;
use crate::measure::budget::Allowance;
use crate::{Bar, Judged, Result, Spread, TinyObject, tiny_code};

const CALLS: u32 = 20_000;
const PAGE_BYTES: usize = 4096;
/// The bar of a call by a pointer, as a ratio to a native one.
const RATIO_MAX: f64 = 1.05;
/// The bar of a call by a handle.
const NS_MAX: f64 = 15.0;

/// The cost of a call of a function of one integer.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct InProcess {
    /// Calls of each kind in each round.
    pub count: u32,
    /// Over the rounds: nanoseconds for each native call through a pointer.
    pub native_ns: Spread,
    /// The same for a pointer to a linked function.
    pub pointer_ns: Spread,
    /// The second divided by the first.
    pub pointer_by_native: Spread,
    /// Nanoseconds for each call of a bound function.
    pub call_ns: Spread,
}

type Next = unsafe extern "C" fn(i64) -> i64;

/// A page of native code.
struct Native(Mmap);

impl Native {
    fn new() -> Result<Self> {
        let mut page = MmapMut::map_anon(PAGE_BYTES)?;
        page.get_mut(..tiny_code::NEXT.len())
            .ok_or("a short page")?
            .copy_from_slice(tiny_code::NEXT);
        Ok(Self(page.make_exec()?))
    }

    fn function(&self) -> Next {
        // SAFETY: the page begins with a function of this type, and can be executed.
        unsafe { std::mem::transmute::<*const u8, Next>(self.0.as_ptr()) }
    }
}

/// Calls the function in each of the three ways.
///
/// # Errors
/// When the executor cannot be started, or a call fails.
pub(crate) fn measure(time: Allowance) -> Result<InProcess> {
    let executor = ExecutorBuilder::new().in_process().start()?;
    let library = executor.library("next");
    let object = TinyObject::new().function("next", tiny_code::NEXT);
    library.add_object(&ObjectFile::parse("next.o", object.bytes())?)?;
    let function = library.function::<extern "C" fn(i64) -> i64>("next").bind()?;
    let linked = function.pointer()?;
    let page = Native::new()?;
    let native = page.function();
    let mut rounds = Vec::new();
    time.rounds(|| {
        // The native one first and last: a round in which the processor changes its speed has two unlike ones.
        let before = by_pointer(native)?;
        let pointer = by_pointer(linked)?;
        let after = by_pointer(native)?;
        let call = timed(|number| Ok(function.call((number,))?))?;
        rounds.push([(before + after) / 2.0, pointer, call]);
        Ok(pointer)
    })?;
    let of = |value: fn(&[f64; 3]) -> f64| {
        Spread::of(rounds.iter().map(value).collect()).ok_or("no rounds")
    };
    Ok(InProcess {
        count: CALLS,
        native_ns: of(|round| round[0])?,
        pointer_ns: of(|round| round[1])?,
        pointer_by_native: of(|round| round[1] / round[0])?,
        call_ns: of(|round| round[2])?,
    })
}

fn by_pointer(function: Next) -> Result<f64> {
    let function = black_box(function);
    // SAFETY: both functions take any number.
    timed(|number| Ok(unsafe { function(number) }))
}

/// Nanoseconds for each call of a function that adds 1.
#[inline(always)]
fn timed(mut next: impl FnMut(i64) -> Result<i64>) -> Result<f64> {
    let mut number = 0;
    let start = Instant::now();
    for _ in 0..CALLS {
        number = next(number)?;
    }
    let took = start.elapsed();
    if number != i64::from(CALLS) {
        return Err(format!("{number} after {CALLS} additions of 1").into());
    }
    Ok(took.as_secs_f64() * 1e9 / f64::from(CALLS))
}

impl InProcess {
    /// The figures beside their bars.
    pub(crate) fn judged(&self) -> Vec<Judged> {
        vec![
            Judged::new(
                "in process, pointer / native",
                self.pointer_by_native,
                Bar::AtMost(RATIO_MAX),
            ),
            Judged::new("in process, call, ns", self.call_ns, Bar::AtMost(NS_MAX)),
        ]
    }
}

impl fmt::Display for InProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [native, pointer, call] =
            [self.native_ns, self.pointer_ns, self.call_ns].map(|one| format!("{:.1}", one.median));
        let by_native = ratio(self.pointer_by_native.median);
        writeln!(
            f,
            "in process a linked function by its pointer: {pointer} ns, {by_native} of a native one ({native} ns); by call: {call} ns"
        )
    }
}
