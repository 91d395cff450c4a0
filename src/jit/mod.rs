//! The session of a JIT: dylibs whose symbols are supplied at the first lookup, and removed together.
//!
//! A front end gives a [`JITDylib`] a [`MaterializationUnit`]: names, and how to supply them. The first lookup of one of them
//! starts the unit as a task, with a [`MaterializationResponsibility`]. The unit reports the addresses
//! ([resolved](MaterializationResponsibility::notify_resolved)). Then it reports that the bytes are stored
//! ([emitted](MaterializationResponsibility::notify_emitted)), and what they depend on. A symbol is *ready*, and lookups of
//! programs complete, when everything that it reaches is emitted. Units refer to each other in any way, cycles included: to
//! link, it is enough that a symbol is resolved. A failure takes with it what depends on it.
//!
//! [`DefinitionGenerator`]s supply units, or addresses, for names that a dylib lacks. A [`ResourceTracker`] removes
//! symbols, and with them what [`ResourceManager`]s hold for them: memory in the executor, mostly.
//!
//! Threads: everything may be used from any thread. One lock guards what a session knows. Units, callbacks, generators
//! and managers run without it, unless their traits say otherwise.
//!
//! Invariant: knows no executor and no linker; addresses are numbers that it passes on. Nothing recurses over what users
//! give it: chains of dependencies, aliases and units may be as long as they like.
#![forbid(unsafe_code)]

mod dispatch;
mod dylib;
mod lookup;
mod materialization;
mod session;
#[cfg(test)]
#[cfg(shuttle)]
mod shuttle;
mod state;
mod symbol;
#[cfg(test)]
#[cfg(not(model))]
mod tests;

pub use dylib::JITDylib;
pub use dylib::generator::{DefinitionGenerator, GeneratorRequest};
pub use dylib::reexports::{Alias, ReexportsGenerator};
pub use dylib::tracker::{ResourceKey, ResourceManager, ResourceTracker};
pub use materialization::emission::DependencyGroup;
pub use materialization::responsibility::MaterializationResponsibility;
pub use materialization::unit::{Interface, Lazily, MaterializationUnit};
pub use session::ExecutionSession;
pub use symbol::{
    JITDylibLookupFlags, LookupKind, Symbol, SymbolFlags, SymbolFlagsMap, SymbolLookupFlags,
    SymbolLookupSet, SymbolMap, SymbolState,
};
