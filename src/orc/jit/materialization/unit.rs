//! Units: they supply definitions at the first lookup.
//!
//! Invariant: a unit is started at most once, and never under the session's lock.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::jit::materialization::responsibility::MaterializationResponsibility;
use crate::jit::symbol::{Symbol, SymbolFlags, SymbolFlagsMap, SymbolMap};

/// The names that a unit defines.
///
/// # Examples
///
/// ```
/// use farcall_orc::jit::{Interface, SymbolFlags};
///
/// let interface = Interface::exporting(["one", "two"]);
/// assert_eq!(interface.symbols["one"], SymbolFlags::EXPORTED);
/// assert_eq!(interface.initializer, None);
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Interface {
    /// The names and their flags.
    pub symbols: SymbolFlagsMap,
    /// The name, if any, whose lookup runs the initializers.
    pub initializer: Option<Arc<str>>,
}

/// Something that can supply definitions: an object file, a compiler with its input, a table of addresses.
///
/// The session drops it, without its lock, when all of its names are overridden or removed.
///
/// # Examples
///
/// ```
/// use farcall_orc::ExecutorAddr;
/// use farcall_orc::jit::{
///     ExecutionSession, Interface, MaterializationResponsibility, MaterializationUnit, Symbol,
/// };
///
/// struct Answer;
///
/// impl MaterializationUnit for Answer {
///     fn name(&self) -> &str {
///         "answer.o"
///     }
///
///     fn interface(&self) -> Interface {
///         Interface::exporting(["answer"])
///     }
///
///     fn materialize(self: Box<Self>, mut responsibility: MaterializationResponsibility) {
///         let symbol = Symbol::exported(ExecutorAddr::new(0x42));
///         match responsibility.notify_resolved(&[("answer".into(), symbol)].into()) {
///             Ok(()) => drop(responsibility.notify_emitted(&[])),
///             Err(error) => responsibility.fail(error),
///         }
///     }
/// }
///
/// let session = ExecutionSession::new();
/// let dylib = session.create_dylib("main")?;
/// dylib.define(Answer)?;
/// assert_eq!(dylib.lookup("answer")?.address.get(), 0x42);
/// # Ok::<(), farcall_orc::Error>(())
/// ```
pub trait MaterializationUnit: Send {
    /// Its name in error messages.
    fn name(&self) -> &str;

    /// The names that it defines. Called once, before the unit is added to a dylib.
    fn interface(&self) -> Interface;

    /// Supplies the names of `responsibility`, on any thread, now or later. Runs as a task of the session, after the first
    /// lookup of one of the names.
    fn materialize(self: Box<Self>, responsibility: MaterializationResponsibility);

    /// Another definition has overridden `name`. Called before `materialize`, **under the session's lock**: it may only
    /// record this.
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
