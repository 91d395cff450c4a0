//! The linker: ELF objects in, a relocated image out.
//!
//! This is the package `farcall-link`, for programs that need a linker only. The package `farcall` has the same names in
//! `farcall::link`.
//!
//! A link is a list of passes. Each folder imports only the folders above it in this table:
//!
//! | folder | pass | what it does |
//! |---|---|---|
//! | `arch` | | Says what the relocations of x86-64 and AArch64 mean, and reads and writes the code around them. |
//! | `read` | 1 | [`ObjectFile::parse`] and [`Archive::parse`] read and check each file once; [`ObjectCache`] keeps what it has read. |
//! | `build` | | [`ObjectBuilder`] makes such an object of machine code that a program has emitted itself. |
//! | `graph` | 2 | [`LinkGraph::add_object`] and [`LinkGraph::add_archive`] resolve names: strong, weak, common, COMDAT. |
//! | | 3 | [`LinkGraph::dependencies`] says which names need which. |
//! | | 4 | [`LinkGraph::undefined`] lists the missing names; [`LinkGraph::define_external`] takes their addresses. |
//! | | 5 | [`LinkGraph::layout`] first drops the sections whose definitions all lost. |
//! | `place` | 6 | It refuses what cannot be linked (`check`). |
//! | | 7 | It makes the GOT and the PLT (`got_plt`), and a stub and a slot for each ifunc (`ifunc`). |
//! | | 8 | It makes a block of each section and table (`block`), and packs `.eh_frame`. |
//! | | 9 | It gives every block its offset in one of three stripes: code, constants, data. Nothing is added after this. |
//! | | | Code that is larger than the reach of its calls gets stubs in between (`islands`). |
//! | | 10 | [`Layout::fixup`] takes the addresses of the stripes, and computes the address of every symbol (`addresses`). |
//! | `apply` | 11 | It writes the bytes of the stripes and computes every relocated field. |
//! | `output` | 12 | It returns an [`Image`], which is plain data: stripes, what to run at start and end, a [`SymbolTable`]. |
//! | | | [`Layout::objects`] gives each object with its addresses, for debuggers and profilers. |
//! | `verify` | 13 | In debug builds an independent checker compares the image with the files. |
//!
//! [`run()`] is the whole list by one call. `passes` runs passes 5 to 13. The unit that is placed is the ELF section: it
//! becomes one block and is never split. `.eh_frame` is the exception, a list of records of which some are dropped.
//!
//! Several threads share the passes of a large link ([`LinkGraph::set_threads_max`]); the image does not depend on their number.
//!
//! Invariant: no IO and no other process; bytes in, plain data out. No input makes it panic, hang, or
//! allocate much more than the input's size.
#![forbid(unsafe_code)]

mod apply;
mod arch;
mod build;
mod graph;
mod output;
mod passes;
mod place;
mod read;
mod run;
#[cfg(test)]
mod tests;
mod verify;

#[cfg(test)]
use farcall_base::random;
pub use farcall_base::{addr, error, types};
use farcall_base::{limits, parallel, sync};

pub use addr::{AddrRange, ExecutorAddr, PerProt, Prot};
pub use arch::processor::Processor;
pub use build::frame::{CalleeSaved, Frame};
pub use build::object_builder::ObjectBuilder;
pub use build::part::ObjectPart;
pub use bytes::Bytes as FileBytes;
pub use error::{Error, ErrorKind, Result};
pub use graph::dependencies::Dependencies;
pub use graph::interface::{Export, External, Undefined};
pub use graph::link_graph::LinkGraph;
pub use output::image::{Ifunc, Image, LinkStats, TlsBlock};
pub use output::placed_object::PlacedObject;
pub use output::source_lines::SourceLine;
pub use output::symbol_table::{Definition, SymbolTable};
pub use place::layout::Layout;
pub use read::archive::Archive;
pub use read::object_cache::ObjectCache;
pub use read::object_file::ObjectFile;
pub use run::{Input, Options, Place, run};
pub use verify::Verified;

/// The parts of the linker that the package `farcall` and the fuzzers use. No promise of any kind.
#[doc(hidden)]
pub mod internals {
    pub use crate::arch::aarch64::KINDS as AARCH64_KINDS;
    pub use crate::arch::edge::{EdgeKind, Formula};
    pub use crate::arch::stub_page::StubPage;
    pub use crate::arch::x86_64::KINDS as X86_64_KINDS;
    pub use crate::build::handler_stub::handler_object;
    pub use crate::graph::archives::Archives;
    pub use crate::output::export_file::{export_file, names_file};
    pub use crate::place::addresses::Addresses;
    pub use crate::read::name_map::NameMap;
    pub use crate::verify::WRONG_IMAGE;
}

#[cfg(doctest)]
#[doc = include_str!("README.md")]
mod readme {}
