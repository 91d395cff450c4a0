//! The passes of every link. They run in this order, after the caller has found what the link requires.
//!
//! | pass | function |
//! |---|---|
//! | find what the executor has | [`look_up`](linking::Linker::look_up), [`resolve_threads`](linking::Linker::resolve_threads) |
//! | lay out, and allocate memory and thread-local storage | [`place`](linking::Linker::place) |
//! | make the image for its addresses | [`fixup`](linking::Placed::fixup) |
//! | let plugins add to it | [`collect`](object_plugin::collect) |
//! | store it, and post the actions that register it | [`store`](linking::Linker::store) |
//! | later, free it | [`deallocate`](linking::Linker::deallocate) |

pub(crate) mod finalizing;
pub(crate) mod lazy_functions;
pub(crate) mod linking;
pub(crate) mod object_plugin;
pub(crate) mod retired;
pub(crate) mod store;
pub(crate) mod stubs;
mod tls_allocator;
