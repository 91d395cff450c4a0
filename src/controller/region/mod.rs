//! Regions of memory that the host and linked code use in place: attached to executors, and divided by a heap.

mod attached;
pub(crate) mod heap;

pub use attached::AttachedRegion;
pub use heap::{HeapBlock, RegionHeap};

pub use crate::shm::{Access, Region};
