//! Memory of the executor: slabs that both processes map, and allocations in them.

pub(crate) mod allocation;
pub(crate) mod executor_memory;
pub(crate) mod free_list;
pub(crate) mod native_memory;
mod page_allocator;
mod page_table;
pub(crate) mod pages;
pub(crate) mod peer;
pub(crate) mod slab;
mod stripe;
