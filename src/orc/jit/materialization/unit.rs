//! Units: they supply definitions at the first lookup.
//!
//! Invariant: a unit is started at most once, and never under the session's lock.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::jit::core::{MaterializationResponsibility, MaterializationUnit};
use crate::jit::symbol::{Interface, Symbol, SymbolMap};

/// A unit made of a function: for front ends that compile at the first lookup.
///
/// # Examples
///
/// ```
/// use farcall_orc::ExecutorAddr;
/// use farcall_orc::jit::{ExecutionSession, Interface, Lazily, Symbol};
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
/// # Ok::<(), farcall_orc::Error>(())
/// ```
pub struct Lazily {
    name: String,
    interface: Interface,
    work: Box<dyn FnOnce(MaterializationResponsibility) + Send>,
}

impl Lazily {
    /// A unit for which `work` supplies the symbols of `interface`.
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
            // If this fails, it has failed the lookups that wait.
            Ok(()) => drop(responsibility.notify_emitted(&[])),
            Err(error) => responsibility.fail(error),
        }
    }

    fn discard(&mut self, _dylib: &str, name: &str) {
        self.0.remove(name);
    }
}
