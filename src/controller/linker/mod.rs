//! What every link does, once what it needs is known: it takes places, makes its image, stores it, and leaves what takes all
//! of it back.
//!
//! | pass | function |
//! |---|---|
//! | find what the executor has | [`look_up`](linking::Linker::look_up), [`resolve_threads`](linking::Linker::resolve_threads) |
//! | take memory, and places for thread-locals | [`place`](linking::Linker::place) |
//! | make the image for its addresses | [`fixup`](linking::Placed::fixup) |
//! | let plugins add to it | [`collect`](object_plugin::collect) |
//! | store it, and post what registers it | [`store`](linking::Linker::store) |
//! | take it back | [`take_back`](linking::Linker::take_back) |

mod arena;
pub(crate) mod finalizing;
pub(crate) mod lazy_functions;
pub(crate) mod linking;
pub(crate) mod object_plugin;
pub(crate) mod retired;
pub(crate) mod store;
pub(crate) mod stubs;
