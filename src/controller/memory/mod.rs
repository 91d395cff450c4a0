//! Memory of the executor: slabs that both processes map, and allocations in them.

pub(crate) mod allocation;
mod books;
pub(crate) mod executor_memory;
pub(crate) mod native_memory;
pub(crate) mod pages;
pub(crate) mod peer;
pub(crate) mod slab;
pub(crate) mod space;
