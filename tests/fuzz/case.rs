//! One case of the linker, and the rules that it is judged by.
//!
//! Invariant: a case is a function of its number and the corpus.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use farcall::internals::readers;
use farcall::link::Processor;
use farcall_base::random::Random;
use farcall_fuzz::{Attempt, Program, damaged, is_fault};
use nix::time::{ClockId, clock_gettime};

use crate::allocator::peak_of;
use crate::corpus;

pub(crate) const NAME: &str = "link fuzz";

/// A link may take [`MEMORY_TIMES`] times the bytes of its files, plus [`MEMORY_BYTES`], plus the bytes of the image.
const MEMORY_TIMES: usize = 16;
const MEMORY_BYTES: usize = 64 << 10;

/// How long a case may keep a processor busy.
const BUSY_MAX: Duration = Duration::from_millis(500);

/// Larger images are not made. A damaged file may ask for more than any controller can allocate.
const IMAGE_BYTES_MAX: u64 = 16 << 20;

/// One case in this number is a program that is linked by several numbers of threads.
const CASES_FOR_THREADS: u64 = 40;

/// One case in this number is a message of the control socket.
const CASES_FOR_CONTROL: u64 = 100;

/// Memory of a controller's end of a session, and of a message.
const CONTROL_BYTES: usize = 64 << 10;

/// The results of many cases.
#[derive(Debug, Default)]
pub(crate) struct Totals {
    /// Sets of archives that were linked by 1, 2 and 8 threads into equal images.
    by_threads: u64,
    linked: u64,
    refused: u64,
    fields: u64,
    /// Messages of the control socket that were decoded, and those that were refused.
    messages: [u64; 2],
    busiest: Duration,
    /// In percent of what is allowed.
    memory: usize,
}

/// The files that the cases damage, and the processor that the cases are for.
pub(crate) struct Corpus {
    processor: Processor,
    files: Vec<Vec<u8>>,
}

/// Makes the files that the cases damage. Without a name the processor is x86-64.
///
/// # Errors
/// There is no processor of this name.
pub(crate) fn prepare(processor: Option<String>) -> Result<Corpus, String> {
    let processor = match processor.as_deref() {
        None | Some("x86-64") => Processor::X86_64,
        Some("aarch64") => Processor::Aarch64,
        Some(other) => return Err(format!("{other} is no processor: x86-64 and aarch64 are")),
    };
    Ok(Corpus { processor, files: corpus::build(processor) })
}

/// Runs a case.
///
/// # Errors
/// Says what the linker did wrong.
pub(crate) fn run(number: u64, corpus: &Corpus, totals: &mut Totals) -> Result<(), String> {
    let Corpus { processor, files } = corpus;
    let mut random = Random::new(number);
    if number.is_multiple_of(CASES_FOR_THREADS) {
        let link = || Program::of_many(&mut random, *processor).by_threads();
        let members = catch_unwind(AssertUnwindSafe(link)).map_err(|_| "it panicked")??;
        totals.by_threads += u64::from(members.is_some_and(|members| members > 0));
        return Ok(());
    }
    if number % CASES_FOR_CONTROL == 1 {
        return control(&mut random, totals);
    }
    let start = busy();
    let outcome = if random.one_in(10) {
        let program = Program::random(&mut random, *processor);
        let bytes = program.objects.iter().map(Vec::len).sum();
        judge(bytes, totals, || Attempt::program(&program))
    } else {
        let file = damaged(&mut random, files);
        judge(file.len(), totals, || Attempt::file(&file))
    };
    let taken = busy().saturating_sub(start);
    totals.busiest = totals.busiest.max(taken);
    if taken > BUSY_MAX {
        return Err(format!("it took {taken:?} of a processor, and {BUSY_MAX:?} are allowed"));
    }
    outcome
}

/// Gives a damaged message of the control socket to its reader.
fn control(random: &mut Random, totals: &mut Totals) -> Result<(), String> {
    let mut bytes = readers::control_message(random.index(usize::MAX), random.word());
    for _ in 0..random.below(4) {
        let at = random.index(bytes.len());
        bytes[at] = random.word().to_le_bytes()[0];
    }
    if random.one_in(3) {
        bytes.resize(random.index(4 * bytes.len()), random.word().to_le_bytes()[0]);
    }
    let read = || peak_of(|| readers::control(&bytes));
    let read = catch_unwind(AssertUnwindSafe(read));
    let (is_decoded, peak) = read.map_err(|_| format!("it panicked at {bytes:x?}"))?;
    totals.messages[usize::from(!is_decoded)] += 1;
    totals.count_memory(peak, CONTROL_BYTES)
}

fn judge(
    bytes: usize,
    totals: &mut Totals,
    read: impl Fn() -> farcall::Result<Attempt>,
) -> Result<(), String> {
    let mut work = || {
        let most = MEMORY_TIMES * bytes + MEMORY_BYTES;
        let (attempt, peak) = peak_of(&read);
        totals.count_memory(peak, most)?;
        let attempt = match attempt {
            Ok(attempt) => attempt,
            Err(error) if is_fault(&error) => return Err(error.to_string()),
            Err(_) => return Ok(None),
        };
        if attempt.bytes() > IMAGE_BYTES_MAX {
            return Ok(None);
        }
        let image = usize::try_from(attempt.bytes()).unwrap_or(usize::MAX);
        let (made, peak) = peak_of(|| attempt.make());
        totals.count_memory(peak, most + image)?;
        match made.and_then(|made| made.verify()) {
            Ok(verified) => Ok(Some(verified)),
            Err(error) if is_fault(&error) => Err(error.to_string()),
            Err(_) => Ok(None),
        }
    };
    let verified = catch_unwind(AssertUnwindSafe(&mut work)).map_err(|_| "it panicked")??;
    match verified {
        Some(verified) => {
            totals.linked += 1;
            totals.fields += verified.fields;
        }
        None => totals.refused += 1,
    }
    Ok(())
}

/// How long this thread kept a processor busy.
fn busy() -> Duration {
    let time = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID);
    time.map(Duration::from).expect("the clock of a thread can be read")
}

impl Totals {
    fn count_memory(&mut self, peak: i64, most: usize) -> Result<(), String> {
        let peak = usize::try_from(peak).unwrap_or(0);
        self.memory = self.memory.max(peak.saturating_mul(100) / most);
        if peak > most {
            return Err(format!("it took {peak} bytes of memory, and {most} are allowed"));
        }
        Ok(())
    }

    /// True when at least `least` files were linked, and at least `least` refused; of messages a few at least.
    #[cfg(test)]
    pub(crate) fn has_both(&self, least: u64) -> bool {
        let messages = self.messages.into_iter().all(|count| count >= least / CASES_FOR_CONTROL);
        self.linked >= least && self.refused >= least && messages
    }

    /// Adds the totals of other cases.
    pub(crate) fn add(&mut self, other: &Totals) {
        self.by_threads += other.by_threads;
        self.linked += other.linked;
        self.refused += other.refused;
        self.fields += other.fields;
        self.messages = [0, 1].map(|at| self.messages[at] + other.messages[at]);
        self.busiest = self.busiest.max(other.busiest);
        self.memory = self.memory.max(other.memory);
    }
}

impl fmt::Display for Totals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Totals { by_threads, linked, refused, fields, messages, busiest, memory } = self;
        let [decoded, damaged] = messages;
        write!(
            f,
            "{linked} linked with {fields} fields checked, {refused} refused; the longest took {busiest:?} \
             of a processor, the largest {memory}% of the memory allowed; {decoded} messages decoded, {damaged} refused; \
             {by_threads} sets of archives by 1, 2 and 8 threads"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deeds_that_the_linker_may_not_do_are_seen() {
        let mut totals = Totals::default();
        let mut judge = |read: fn() -> farcall::Result<Attempt>| judge(0, &mut totals, read);
        assert_eq!(judge(|| panic!("planted")).unwrap_err(), "it panicked");
        let memory = judge(|| {
            drop(vec![0_u8; MEMORY_BYTES + 1]);
            Attempt::file(&[])
        });
        assert!(memory.unwrap_err().contains("65537 bytes of memory"));
        assert_eq!(judge(|| Attempt::file(&[])), Ok(()));
    }
}
