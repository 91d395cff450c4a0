//! The CPUs on which the two sides of a lane or a pipeline run.
//!
//! A side stores its CPU when it waits for long. If both sides run on one CPU, a waiter that polls keeps its peer from
//! running. The number is a hint: a side that has moved since costs its peer some microseconds, and the next long wait
//! corrects it.

use std::sync::Arc;

use crate::shm::{Segment, Words};
use crate::sync::Ordering;
use crate::sys::cpu;
use crate::transport::Side;

/// One side's view of both hints.
#[derive(Debug)]
pub(in crate::transport) struct CpuHints {
    /// `None` for a thread of the controller that does not own its end.
    ours: Option<Words>,
    theirs: Words,
    /// What this side stored last.
    told: u64,
    side: Side,
}

impl CpuHints {
    /// The hints in these words of the segment, the controller's first.
    pub(in crate::transport) fn new(segment: &Arc<Segment>, words: [usize; 2], side: Side) -> Self {
        let [controller, executor] = words.map(|word| segment.view(word..word + 1));
        let (ours, theirs) = match side {
            Side::Controller => (controller, executor),
            Side::Executor => (executor, controller),
        };
        Self { ours: Some(ours), theirs, told: 0, side }
    }

    /// The hints for another thread of the controller, which waits for the executor's side as well.
    pub(in crate::transport) fn of_bystander(executor: Words) -> Self {
        Self { ours: None, theirs: executor, told: 0, side: Side::Controller }
    }

    pub(in crate::transport) fn side(&self) -> Side {
        self.side
    }

    /// Stores the CPU of this side. True when the peer stored the same one last.
    pub(in crate::transport) fn share_cpu(&mut self) -> bool {
        let current = cpu::current();
        if current != self.told {
            self.told = current;
            if let Some(ours) = &self.ours {
                ours[0].store(current, Ordering::Relaxed);
            }
        }
        current != 0 && self.theirs[0].load(Ordering::Relaxed) == current
    }
}
