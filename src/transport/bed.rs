//! What one side of a lane or a pipeline sleeps on: a word in their segment, or a bell in its place.

use std::sync::Arc;

use super::lifeline::Lifeline;
use crate::deadline::Deadline;
use crate::shm::Words;
use crate::sleep::{Bed, Bell};
use crate::sync::AtomicU64;
use crate::sys::futex;

/// What a side sleeps on, with its word in a segment.
#[derive(Debug, Clone)]
pub(crate) struct SharedBed {
    word: Words,
    /// The doorbell, where the sleeper waits for other things as well.
    bell: Option<Arc<dyn Bell>>,
    lifeline: Lifeline,
}

impl SharedBed {
    /// Makes one; its sleeper also wakes when the lifeline is cut.
    pub(crate) fn new(word: Words, lifeline: Lifeline) -> Self {
        Self { word, bell: None, lifeline }
    }

    pub(super) fn lifeline(&self) -> &Lifeline {
        &self.lifeline
    }

    /// The same with a bell.
    #[cfg(any(not(model), loom))]
    pub(super) fn with_bell(&self, bell: Arc<dyn Bell>) -> Self {
        Self { bell: Some(bell), ..self.clone() }
    }

    /// Drains the doorbell. False when the other end of it is gone.
    pub(super) fn hush(&self) -> bool {
        self.bell.as_ref().is_none_or(|bell| bell.hush())
    }
}

impl Bed for SharedBed {
    fn word(&self) -> &AtomicU64 {
        &self.word[0]
    }

    fn look(&self) -> u64 {
        self.lifeline.end().look()
    }

    fn lie_down(&self, expected: u64, seen: u64, deadline: Deadline) {
        match &self.bell {
            None => self.lifeline.sleep(self.word(), expected, seen, deadline),
            Some(bell) => bell.listen(deadline),
        }
    }

    fn rouse(&self) {
        match &self.bell {
            None => futex::wake(self.word()),
            Some(bell) => bell.ring(),
        }
    }
}
