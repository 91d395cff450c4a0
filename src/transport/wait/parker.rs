//! What one side of a lane or a pipeline sleeps on: a word in their segment, or a doorbell in its place.

use std::sync::Arc;

use super::lifeline::Lifeline;
use crate::deadline::Deadline;
use crate::shm::Words;
use crate::sleep::{Doorbell, Parker};
use crate::sync::AtomicU64;
use crate::sys::futex;

/// A parker in a segment.
#[derive(Debug, Clone)]
pub(crate) struct SharedParker {
    word: Words,
    /// What is listened for and rung where the side that sleeps waits for other things as well.
    doorbell: Option<Arc<dyn Doorbell>>,
    lifeline: Lifeline,
}

impl SharedParker {
    /// A parker whose sleeper is woken when the lifeline is cut.
    pub(crate) fn new(word: Words, lifeline: Lifeline) -> Self {
        Self { word, doorbell: None, lifeline }
    }

    pub(in crate::transport) fn lifeline(&self) -> &Lifeline {
        &self.lifeline
    }

    /// The same with a doorbell.
    #[cfg(any(not(model), loom))]
    pub(in crate::transport) fn with_doorbell(&self, doorbell: Arc<dyn Doorbell>) -> Self {
        Self { doorbell: Some(doorbell), ..self.clone() }
    }

    /// Takes the rings of the doorbell so far. False when the ringing side is gone.
    pub(in crate::transport) fn drain(&self) -> bool {
        self.doorbell.as_ref().is_none_or(|doorbell| doorbell.drain())
    }
}

impl SharedParker {
    /// As [`Parker::park`], for some milliseconds at most, and cheaper: an answer is due within microseconds.
    pub(in crate::transport) fn park_briefly(&self, expected: u64, deadline: Deadline) {
        match &self.doorbell {
            None => futex::wait_briefly(self.word(), expected, deadline),
            Some(doorbell) => doorbell.listen(deadline),
        }
    }
}

impl Parker for SharedParker {
    fn word(&self) -> &AtomicU64 {
        &self.word[0]
    }

    fn look(&self) -> u64 {
        self.lifeline.end().look()
    }

    fn park(&self, expected: u64, seen: u64, deadline: Deadline) {
        match &self.doorbell {
            None => self.lifeline.sleep(self.word(), expected, seen, deadline),
            Some(doorbell) => doorbell.listen(deadline),
        }
    }

    fn unpark(&self) {
        match &self.doorbell {
            None => futex::wake(self.word()),
            Some(doorbell) => doorbell.ring(),
        }
    }
}
