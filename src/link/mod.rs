//! The linker: ELF objects in, a relocated image out.
//!
//! A link is a straight road; nothing on it looks back:
//!
//! 1. [`ObjectFile::parse`] and [`Archive::parse`] read and check files, once. (`file_bytes`, `elf`, `edge`,
//!    `x86_64`, `thread_code`)
//! 2. [`LinkGraph::add_object`] and [`LinkGraph::add_archive`] resolve names among the objects of one
//!    batch: strong, weak, common, COMDAT. (`graph`, `resolve`, `provided`) [`LinkGraph::dependencies`] says what needs what.
//!    (`dependencies`)
//! 3. [`LinkGraph::undefined`] says what is missing; [`LinkGraph::define_external`] is told where it is. (`interface`)
//! 4. [`LinkGraph::layout`] drops what was overridden, refuses what cannot be linked, makes the GOT and
//!    the stubs, packs `.eh_frame`, and gives every block its place in one of three stripes: code,
//!    constants, data. From here on nothing is added. (`strip`, `check`, `got_plt`, `indirect`, `eh_frame`, `block`,
//!    `layout`)
//! 5. [`Layout::fixup`] is told where the stripes will be, and how far from the thread pointer the
//!    thread-locals; it computes every field. (`addresses`, `fixup`)
//! 6. [`Image`] is plain data: the bytes of the stripes, what to do at start and end, and a
//!    [`SymbolTable`]. (`image`, `symbol_table`, `symbol_file`)
//! 7. In debug builds an independent checker compares the image with the files once more. (`link_map`, `verify`)
//!
//! Debuggers and profilers read the objects themselves: [`Layout::objects`] says where each was put, as a file for debuggers and
//! as source lines. (`placed_object`, `debug_object`, `source_lines`)
//!
//! Functions that are replaced or compiled while a program runs are reached through stubs of their own. (`stub_page`) Variables
//! can stay where they are. (`variables`)
//!
//! A program that reads and links the same objects again and again reads them with an [`ObjectCache`], which
//! parses no bytes twice. (`object_cache`)
//!
//! The granularity is the ELF section: one block each, never split, except `.eh_frame`, which is a list of
//! records of which some go.
//!
//! Invariant: a pure island. No IO, no system calls, no other process; bytes in, plain data out. No bytes
//! whatever make it panic, hang, or allocate much more than their own size.
#![forbid(unsafe_code)]

mod addresses;
mod archive;
mod block;
mod check;
mod debug_object;
mod dependencies;
mod edge;
mod eh_frame;
mod elf;
mod file_bytes;
mod fixup;
#[cfg(any(test, feature = "internals"))]
#[doc(hidden)]
pub mod fuzz;
mod got_plt;
mod graph;
mod image;
mod indirect;
mod interface;
mod layout;
mod link_map;
mod object_cache;
mod object_file;
mod placed_object;
mod provided;
mod resolve;
mod source_lines;
mod strip;
mod stub_page;
mod symbol_file;
mod symbol_table;
#[cfg(test)]
mod tests;
mod thread_code;
mod variables;
mod verify;
mod x86_64;

pub use archive::Archive;
pub use dependencies::Dependencies;
pub use graph::LinkGraph;
pub use image::{Image, IndirectFunction, LinkStats, ThreadBlock};
pub use interface::{Export, External, Undefined};
pub use layout::Layout;
pub use object_cache::ObjectCache;
pub use object_file::ObjectFile;
pub use placed_object::PlacedObject;
pub use source_lines::SourceLine;
pub use stub_page::StubPage;
pub use symbol_table::{Definition, SymbolTable};
pub use verify::Verified;
