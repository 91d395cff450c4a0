//! The functions of a native library, run in an executor of its own: the run time of bindings that `farcall bind` writes.
//!
//! A binding is a Rust file with a type for the library. Each function of the header is a method of that type, whose call runs in a
//! [`Sandbox`]. Numbers travel in registers. Strings, slices and structures are copied to memory that both processes map. They are copied
//! back when the call returns. Objects of the library stay with it: a [`Handle`] knows the process that it belongs to.
//!
//! The library may be hostile. Its results are numbers until the host has judged them. A count is checked against the caller's slice
//! before a byte is copied. Numbers that decide about memory come as [`Untrusted`].
//!
//! | file | content |
//! |---|---|
//! | `number` | numbers of C as words |
//! | `untrusted` | numbers that decide about memory |
//! | `structure` | structures of C as bytes |
//! | `handle` | objects of the library |
//! | `memory` | memory that both processes use in place |
//! | `callback` | closures that the library calls |
//! | `sandbox` | the executor of a library |
//! | `call` | one call with all that it lends |
//!
//! Invariant: no result of the library makes the host read or write outside of memory that the host has chosen.

mod call;
mod callback;
mod handle;
mod memory;
mod number;
mod sandbox;
mod structure;
mod untrusted;

#[doc(hidden)]
pub use call::{Call, Lent, count, first, length};
#[doc(hidden)]
pub use callback::{Callback, Words, argument, call_back, lend};
pub use handle::Handle;
pub use memory::Memory;
pub use number::Number;
pub use sandbox::{LibrarySource, Sandbox};
pub use structure::Structure;
pub use untrusted::Untrusted;

pub use crate::isolate::Options;
