//! Units supply definitions at the first lookup.
//!
//! Invariant: a unit is asked to materialize at most once, and never under the session's lock.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::jit::materialization::responsibility::MaterializationResponsibility;
use crate::jit::symbol::{Symbol, SymbolFlags, SymbolFlagsMap, SymbolMap};

/// What a unit defines.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Interface {
    /// The names, with what is known about them beforehand.
    pub symbols: SymbolFlagsMap,
    /// The one of them, if any, that is looked for to have initializers run.
    pub initializer: Option<Arc<str>>,
}

/// Something that can supply definitions: an object file, a compiler with its input, a table of addresses.
///
/// It is dropped when none of its names is wanted any more, never under the session's lock.
pub trait MaterializationUnit: Send {
    /// What messages call it.
    fn name(&self) -> &str;

    /// What it defines. Asked once, before the unit is given to a dylib.
    fn interface(&self) -> Interface;

    /// Supplies what is left of its names: on this thread or any other, now or later, over `responsibility`. Runs as a
    /// task of the session, when one of the names is first looked for.
    fn materialize(self: Box<Self>, responsibility: MaterializationResponsibility);

    /// Another definition has taken the place of `name`. Called before `materialize`, **under the session's lock**: it may
    /// only note this.
    fn discard(&mut self, dylib: &str, name: &str) {
        let _ = (dylib, name);
    }
}

impl Interface {
    /// Strong and exported symbols.
    pub fn exporting<N: Into<Arc<str>>>(names: impl IntoIterator<Item = N>) -> Self {
        let symbols = names.into_iter().map(|name| (name.into(), SymbolFlags::EXPORTED)).collect();
        Self { symbols, initializer: None }
    }
}

/// A unit made of a function: for front ends that compile at the first lookup.
///
/// # Examples
///
/// ```
/// use farcall::ExecutorAddr;
/// use farcall::jit::{ExecutionSession, Interface, Lazily, Symbol};
///
/// let session = ExecutionSession::new();
/// let dylib = session.create_dylib("main")?;
/// dylib.define(Lazily::new("answer", Interface::exporting(["answer"]), |mut responsibility| {
///     let symbol = Symbol::exported(ExecutorAddr::new(0x42));
///     match responsibility.notify_resolved(&[("answer".into(), symbol)].into()) {
///         Ok(()) => drop(responsibility.notify_emitted(&[])),
///         Err(error) => responsibility.fail(error),
///     }
/// }))?;
/// assert_eq!(dylib.lookup("answer")?.address.get(), 0x42);
/// # Ok::<(), farcall::Error>(())
/// ```
pub struct Lazily {
    name: String,
    interface: Interface,
    work: Box<dyn FnOnce(MaterializationResponsibility) + Send>,
}

impl Lazily {
    /// A unit that has `work` supply the symbols of `interface`.
    pub fn new(
        name: impl Into<String>,
        interface: Interface,
        work: impl FnOnce(MaterializationResponsibility) + Send + 'static,
    ) -> Self {
        Self { name: name.into(), interface, work: Box::new(work) }
    }
}

impl MaterializationUnit for Lazily {
    fn name(&self) -> &str {
        &self.name
    }

    fn interface(&self) -> Interface {
        self.interface.clone()
    }

    fn materialize(self: Box<Self>, responsibility: MaterializationResponsibility) {
        (self.work)(responsibility);
    }
}

impl fmt::Debug for Lazily {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lazily")
            .field("name", &self.name)
            .field("interface", &self.interface)
            .finish_non_exhaustive()
    }
}

/// A unit of addresses that are known.
#[derive(Debug)]
pub(in crate::jit) struct AbsoluteSymbols(pub(in crate::jit) BTreeMap<Arc<str>, Symbol>);

impl MaterializationUnit for AbsoluteSymbols {
    fn name(&self) -> &str {
        "<absolute symbols>"
    }

    fn interface(&self) -> Interface {
        let symbols = self.0.iter().map(|(name, symbol)| (Arc::clone(name), symbol.flags));
        Interface { symbols: symbols.collect(), initializer: None }
    }

    fn materialize(self: Box<Self>, mut responsibility: MaterializationResponsibility) {
        let symbols: SymbolMap = self.0.into_iter().collect();
        match responsibility.notify_resolved(&symbols) {
            // If it fails, the waiting lookups have the error already.
            Ok(()) => drop(responsibility.notify_emitted(&[])),
            Err(error) => responsibility.fail(error),
        }
    }

    fn discard(&mut self, _dylib: &str, name: &str) {
        self.0.remove(name);
    }
}
