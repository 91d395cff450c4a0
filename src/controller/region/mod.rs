//! Data of linked code: buffers of one process, and regions that the host and linked code use in place. Regions are attached to
//! processes, and divided by a heap.

mod attached;
pub(crate) mod buffer;
pub(crate) mod heap;

pub use attached::AttachedRegion;
pub use buffer::Buffer;
pub use heap::{HeapBlock, RegionHeap};

pub use crate::shm::{Access, Region};
