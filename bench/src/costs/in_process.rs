//! The cost of a call in the same process: by a pointer to a linked function, and by its handle, beside a native function. And the time
//! to the first result of 2,000 functions.
//!
//! The native function lies in a mapping beside the shared libraries, as the linked one does. Some processors take longer for code that
//! is more than 4 GiB away.
//!
//! Invariant: all three run the same instructions. Their calls depend on each other, and each of them is through a pointer.
#![allow(unsafe_code, reason = "calls code by pointers")]

use std::fmt;
use std::hint::black_box;
use std::time::Instant;

use farcall::controller::{Executor, ExecutorBuilder};
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
/// Functions that are linked for the first result.
const FUNCTIONS: usize = 2_000;
/// The bars of the first result: all functions are of one object, or each has an object of its own.
const ONE_OBJECT_MS_MAX: f64 = 2.0;
const MANY_OBJECTS_MS_MAX: f64 = 20.0;

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
    /// Milliseconds from the bytes of an object with 2,000 functions to the result of one.
    pub one_object_ms: Spread,
    /// The same for 2,000 objects in one library.
    pub many_objects_ms: Spread,
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
    let [one, many] = [FUNCTIONS, 1].map(objects);
    let mut rounds = Vec::new();
    time.rounds(|| {
        // The native one first and last: a round in which the processor changes its speed has two unlike ones.
        let before = by_pointer(native)?;
        let pointer = by_pointer(linked)?;
        let after = by_pointer(native)?;
        let call = timed(|number| Ok(function.call((number,))?))?;
        let firsts = [first_result_ms(&executor, &one)?, first_result_ms(&executor, &many)?];
        rounds.push([(before + after) / 2.0, pointer, call, firsts[0], firsts[1]]);
        Ok(pointer)
    })?;
    let of = |value: fn(&[f64; 5]) -> f64| {
        Spread::of(rounds.iter().map(value).collect()).ok_or("no rounds")
    };
    Ok(InProcess {
        count: CALLS,
        native_ns: of(|round| round[0])?,
        pointer_ns: of(|round| round[1])?,
        pointer_by_native: of(|round| round[1] / round[0])?,
        call_ns: of(|round| round[2])?,
        one_object_ms: of(|round| round[3])?,
        many_objects_ms: of(|round| round[4])?,
    })
}

/// The bytes of objects that define the functions together, each of them this many.
fn objects(functions: usize) -> Vec<Vec<u8>> {
    let define = |first: usize| {
        let names = (first..first + functions).map(|number| format!("next{number}"));
        let add = |object: TinyObject, name: String| object.function(&name, tiny_code::NEXT);
        names.fold(TinyObject::new(), add).bytes()
    };
    (0..FUNCTIONS).step_by(functions).map(define).collect()
}

/// Milliseconds from the bytes of objects to the result of the last function, in a library of their own.
fn first_result_ms(executor: &Executor, objects: &[Vec<u8>]) -> Result<f64> {
    let objects = objects.to_vec();
    let start = Instant::now();
    let library = executor.library("first result");
    for object in objects {
        library.add_object(&ObjectFile::parse("next.o", object)?)?;
    }
    let name = format!("next{}", FUNCTIONS - 1);
    let result = library.function::<extern "C" fn(i64) -> i64>(&name).call((41,))?;
    let took = start.elapsed();
    library.clear()?;
    if result != 42 {
        return Err(format!("{result} after the addition of 1 to 41").into());
    }
    Ok(took.as_secs_f64() * 1e3)
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
            Judged::new(
                "in process, 2,000 functions, ms",
                self.one_object_ms,
                Bar::AtMost(ONE_OBJECT_MS_MAX),
            ),
            Judged::new(
                "in process, 2,000 objects, ms",
                self.many_objects_ms,
                Bar::AtMost(MANY_OBJECTS_MS_MAX),
            ),
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
        )?;
        let [one, many] =
            [self.one_object_ms, self.many_objects_ms].map(|one| format!("{:.1}", one.median));
        writeln!(
            f,
            "in process the first result of an object of 2,000 functions: {one} ms; of 2,000 objects: {many} ms"
        )
    }
}
