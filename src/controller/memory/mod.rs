//! Memory of the executor: allocations in slabs, which both processes map, and memory by message and by address.

pub(crate) mod allocation;
pub(crate) mod executor_memory;
pub(crate) mod free_list;
pub(crate) mod memory_access;
pub(crate) mod native_memory;
mod page_allocator;
mod page_table;
pub(crate) mod pages;
pub(crate) mod peer;
pub(crate) mod slab;
mod stripe;

pub use allocation::{FinalizedAlloc, InFlightAlloc};
pub use memory_access::{MemoryAccess, Word};
pub use native_memory::{AllocAction, AllocActionPair, NativeMemory, Segment};
