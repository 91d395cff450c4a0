//! The session of a JIT: dylibs whose symbols are supplied at the first lookup, and removed together.
//!
//! A front end gives a [`JITDylib`] a [`MaterializationUnit`]: names, and how to supply them. The first lookup of one of
//! them starts the unit as a task, with a [`MaterializationResponsibility`]. The unit reports twice:
//!
//! 1. [resolved](MaterializationResponsibility::notify_resolved): these are the addresses;
//! 2. [emitted](MaterializationResponsibility::notify_emitted): the bytes are in place, and depend on these symbols.
//!
//! A symbol is *ready*, and lookups of programs complete, when everything that it reaches is emitted. Units may refer to
//! each other in any way, cycles included, because linking needs resolved symbols only. If a symbol fails, all that depend
//! on it fail.
//!
//! [`DefinitionGenerator`]s supply units, or addresses, for names that a dylib lacks. A [`ResourceTracker`] removes
//! symbols, together with what [`ResourceManager`]s hold for them: mostly memory in the executor.
//!
//! Threads: every type may be used from any thread. One lock guards the session's state. Units, callbacks, generators
//! and managers run without it, unless their traits say otherwise.
//!
//! Invariant: this room knows no executor and no linker; addresses are numbers that it passes on. Nothing recurses over
//! input, so chains of dependencies, aliases and units may have any length.
#![forbid(unsafe_code)]

mod core;
mod dispatch;
mod dylib;
mod lookup;
mod materialization;
mod query;
mod session;
#[cfg(test)]
#[cfg(shuttle)]
mod shuttle;
mod state;
mod symbol;
#[cfg(test)]
#[cfg(not(model))]
mod tests;
mod waiting_on_graph;

pub use self::core::{
    DefinitionGenerator, ExecutionSession, GeneratorRequest, JITDylib,
    MaterializationResponsibility, MaterializationUnit, ResourceKey, ResourceManager,
};
pub use dylib::reexports::{Alias, ReexportsGenerator};
pub use dylib::tracker::ResourceTracker;
pub use materialization::emission::DependencyGroup;
pub use materialization::unit::Lazily;
pub use symbol::{
    Interface, JITDylibLookupFlags, LookupKind, Symbol, SymbolFlags, SymbolFlagsMap,
    SymbolLookupFlags, SymbolLookupSet, SymbolMap, SymbolState,
};
