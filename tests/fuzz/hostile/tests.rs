//! The cases find the planted faults, and no others.

use crate::deadline::Deadline;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::pipeline_script;
use super::script::{self, Tried};
use super::{Totals, clean_up};
use crate::error::Result;
use crate::ring::LINE_WORDS;
use crate::shm::{Segment, Words};
use crate::sync::Ordering;
use crate::transport::{Incoming, Lane, Transport};
use crate::wire::Kind;
use crate::wire::baton::Word;
use crate::wire::layout::BATON_WORD;
use crate::wire::pipeline::{EXECUTOR_PARKER_WORD, RESULTS_WORD};

/// The planted fault of a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Planted {
    Nothing,
    /// Checks the length of a message, and reads it again to use it.
    Length,
    /// Reads an argument twice more.
    Argument,
    /// Waits for a valid word without end.
    EndlessWait,
}

/// A lane with a fault: after each message it reads the segment once more.
struct Faulty {
    lane: Lane,
    planted: Planted,
    baton: Words,
}

impl Transport for Faulty {
    fn code_written(&mut self) {
        self.lane.code_written();
    }

    fn send(&mut self, kind: Kind, target: u64, payload: &[u8], deadline: Deadline) -> Result<()> {
        self.lane.send(kind, target, payload, deadline)
    }

    fn post(
        &mut self,
        kind: Kind,
        sequence: u64,
        target: u64,
        payload: &[u8],
        deadline: Deadline,
    ) -> Result<()> {
        self.lane.post(kind, sequence, target, payload, deadline)
    }

    fn receive(&mut self, deadline: Deadline, message: &mut Incoming) -> Result<bool> {
        if !self.lane.receive(deadline, message)? {
            return Ok(false);
        }
        let look = |word: usize| self.baton[word].load(Ordering::Relaxed);
        match self.planted {
            Planted::Nothing => {}
            Planted::Length => {
                // It was judged before.
                let bytes = usize::try_from(look(0) >> 6 & 63).unwrap_or(0);
                assert!(message.payload().len() > 48 || bytes <= 48, "out of the line");
            }
            Planted::Argument => drop((look(3), look(3))),
            Planted::EndlessWait => while Word::decode(look(0)).is_none() {},
        }
        Ok(true)
    }

    fn settle(&mut self, sequence: u64) {
        self.lane.settle(sequence);
    }
}

impl Tried for Faulty {}

/// Runs cases of a lane until one fails; says which, and why.
fn first_failure(planted: Planted, cases: u64) -> Option<(u64, String)> {
    first_that_fails(cases, |number, totals| {
        script::run(number, totals, |lane, segment| {
            let baton = segment.view(BATON_WORD..BATON_WORD + LINE_WORDS);
            Faulty { lane, planted, baton }
        });
    })
}

/// The same for a pipeline, with the fault behind each result.
fn first_failure_of_a_pipeline(planted: Planted, cases: u64) -> Option<(u64, String)> {
    let fault = |segment: &Segment| {
        let look = |word: usize| segment.words()[word].load(Ordering::Relaxed);
        match planted {
            Planted::Nothing => {}
            Planted::Length | Planted::Argument => {
                let word = RESULTS_WORD + 2 * LINE_WORDS + 3;
                look(word);
                look(word);
            }
            Planted::EndlessWait => while look(EXECUTOR_PARKER_WORD) != 77 {},
        }
    };
    first_that_fails(cases, |number, totals| pipeline_script::run(number, totals, fault))
}

fn first_that_fails(cases: u64, case: impl Fn(u64, &mut Totals)) -> Option<(u64, String)> {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let failure = (0..cases).find_map(|number| {
        let mut totals = Totals::default();
        let panic = catch_unwind(AssertUnwindSafe(|| case(number, &mut totals))).err()?;
        clean_up();
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        Some((number, text.unwrap_or_default()))
    });
    std::panic::set_hook(hook);
    failure
}

#[test]
fn planted_faults_are_found() {
    const CASES: u64 = 20_000;
    assert_eq!(first_failure(Planted::Nothing, CASES), None);
    let found = |planted, words: &str| {
        let (number, text) = first_failure(planted, CASES).expect("a planted fault");
        println!("lane fuzz: {planted:?} is found by case {number}: {text}");
        assert!(text.contains(words), "{planted:?}: {text}");
    };
    found(Planted::Length, "out of the line");
    found(Planted::Argument, "looked at twice");
    found(Planted::EndlessWait, "no end");
}

#[test]
fn planted_faults_of_pipelines_are_found() {
    const CASES: u64 = 20_000;
    assert_eq!(first_failure_of_a_pipeline(Planted::Nothing, CASES), None);
    for (planted, words) in
        [(Planted::Argument, "looked at twice"), (Planted::EndlessWait, "no end")]
    {
        let found = first_failure_of_a_pipeline(planted, CASES);
        let (number, text) = found.expect("a planted fault");
        println!("lane fuzz: {planted:?} in a pipeline is found by case {number}: {text}");
        assert!(text.contains(words), "{planted:?}: {text}");
    }
}

#[test]
fn a_hostile_executor_does_no_harm() {
    let mut totals = Totals::default();
    for number in 0..20_000 {
        super::run(number, &mut totals);
    }
    println!("{totals}");
    assert!(totals.has_all(100), "{totals}");
}
