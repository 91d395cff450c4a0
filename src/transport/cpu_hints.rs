//! Where the two sides of a lane or a pipeline run.
//!
//! Each writes down its CPU when it waits for long, so that the other can tell that polling keeps its peer from running.
//! It is a hint: a side that has moved since costs the other some microseconds, and the next long wait corrects it.

use std::sync::Arc;

use super::lane::Side;
use crate::shm::{Segment, Words};
use crate::sync::Ordering;
use crate::sys::cpu;

/// One side's view of where both are.
#[derive(Debug)]
pub(super) struct CpuHints {
    ours: Words,
    theirs: Words,
    /// What is written down of this side.
    told: u64,
}

impl CpuHints {
    /// In the words with these numbers, the controller's first.
    pub(super) fn new(segment: &Arc<Segment>, words: [usize; 2], side: Side) -> Self {
        let [controller, executor] = words.map(|word| segment.view(word..word + 1));
        let (ours, theirs) = match side {
            Side::Controller => (controller, executor),
            Side::Executor => (executor, controller),
        };
        Self { ours, theirs, told: 0 }
    }

    /// Writes down where this side is, and says whether the other was last seen there.
    pub(super) fn share_cpu(&mut self) -> bool {
        let current = cpu::current();
        if current != self.told {
            self.told = current;
            self.ours[0].store(current, Ordering::Relaxed);
        }
        current != 0 && self.theirs[0].load(Ordering::Relaxed) == current
    }
}
