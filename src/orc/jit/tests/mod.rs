//! The rules of sessions, by name, and the graph of dependencies against a brute-force model.
//!
//! Invariant: nothing here links or runs anything; addresses are made up.

mod define;
mod generators;
mod lookups;
mod random;
mod responsibilities;
mod session;
mod trackers;
mod waiting_on_graph;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use super::*;
use crate::error::Result;
use crate::{Error, ExecutorAddr};

/// A session with one dylib.
struct World {
    session: ExecutionSession,
    dylib: JITDylib,
    reported: Arc<Mutex<Vec<String>>>,
}

impl World {
    fn new() -> Self {
        let session = ExecutionSession::new();
        let reported = Arc::new(Mutex::new(Vec::new()));
        let noted = Arc::clone(&reported);
        session.set_error_reporter(move |error| noted.lock().unwrap().push(error.to_string()));
        let dylib = session.create_dylib("main").expect("the first");
        Self { session, dylib, reported }
    }

    fn another(&self, name: &str) -> JITDylib {
        self.session.create_dylib(name).expect("another")
    }

    /// Looks up a symbol of the first dylib, without waiting.
    fn look_for(&self, required: SymbolState, names: &[&str]) -> Told {
        self.look_in(vec![(self.dylib.clone(), ALL)], required, names)
    }

    fn look_in(
        &self,
        order: Vec<(JITDylib, JITDylibLookupFlags)>,
        required: SymbolState,
        names: &[&str],
    ) -> Told {
        let told = Told::default();
        let noted = told.clone();
        let names = names.iter().map(|name| (Arc::from(*name), SymbolLookupFlags::Required));
        let names = names.collect();
        let callback = move |found| noted.0.lock().unwrap().push(found);
        self.session.lookup_async(LookupKind::Static, order, names, required, callback);
        told
    }

    /// Defines strong, exported symbols; gives what their unit is given when it is asked.
    fn define(&self, names: &[&str]) -> Asked {
        let (unit, asked) = unit(Interface::exporting(names.iter().copied()));
        self.dylib.define(unit).expect("defined");
        asked
    }
}

const ALL: JITDylibLookupFlags = JITDylibLookupFlags::MatchAllSymbols;
const EXPORTED: JITDylibLookupFlags = JITDylibLookupFlags::MatchExportedSymbolsOnly;

/// The result of a lookup.
#[derive(Clone, Default)]
struct Told(Arc<Mutex<Vec<Result<SymbolMap>>>>);

impl Told {
    fn is_nothing(&self) -> bool {
        self.0.lock().unwrap().is_empty()
    }

    fn result(&self) -> Result<SymbolMap> {
        let mut told = self.0.lock().unwrap();
        assert_eq!(told.len(), 1, "told once");
        told.pop().unwrap()
    }

    fn address(&self, name: &str) -> u64 {
        self.result().expect("found")[name].address.get()
    }

    fn error(&self) -> Error {
        self.result().expect_err("failed")
    }
}

/// The responsibility of a unit, and the names that were discarded of it.
#[derive(Clone, Default)]
struct Asked {
    responsibility: Arc<Mutex<Option<MaterializationResponsibility>>>,
    discarded: Arc<Mutex<Vec<String>>>,
}

impl Asked {
    fn is_asked(&self) -> bool {
        self.responsibility.lock().unwrap().is_some()
    }

    fn responsibility(&self) -> MaterializationResponsibility {
        self.responsibility.lock().unwrap().take().expect("it was asked")
    }

    fn discarded(&self) -> Vec<String> {
        self.discarded.lock().unwrap().clone()
    }
}

/// A unit that keeps what it is given.
struct Keeping {
    interface: Interface,
    asked: Asked,
}

impl MaterializationUnit for Keeping {
    fn name(&self) -> &str {
        "keeping"
    }

    fn interface(&self) -> Interface {
        self.interface.clone()
    }

    fn materialize(self: Box<Self>, responsibility: MaterializationResponsibility) {
        *self.asked.responsibility.lock().unwrap() = Some(responsibility);
    }

    fn discard(&mut self, dylib: &str, name: &str) {
        self.asked.discarded.lock().unwrap().push(format!("{dylib}:{name}"));
    }
}

fn unit(interface: Interface) -> (Keeping, Asked) {
    let asked = Asked::default();
    (Keeping { interface, asked: asked.clone() }, asked)
}

fn with_flags(symbols: &[(&str, SymbolFlags)]) -> Interface {
    let symbols = symbols.iter().map(|(name, flags)| (Arc::from(*name), *flags)).collect();
    Interface { symbols, initializer: None }
}

fn at(address: u64) -> Symbol {
    Symbol::exported(ExecutorAddr::new(address))
}

fn map(symbols: &[(&str, u64)]) -> SymbolMap {
    symbols.iter().map(|(name, address)| (Arc::from(*name), at(*address))).collect()
}

fn names(names: &[&str]) -> Vec<Arc<str>> {
    names.iter().map(|name| Arc::from(*name)).collect()
}

/// These symbols depend on the symbols of `dylib`.
fn group(symbols: &[&str], dylib: &JITDylib, on: &[&str]) -> DependencyGroup {
    let dependencies = vec![(dylib.clone(), names(on))];
    DependencyGroup { symbols: names(symbols), dependencies }
}

fn alias(aliasee: &str) -> Alias {
    Alias { aliasee: Arc::from(aliasee), flags: SymbolFlags::EXPORTED }
}

fn aliases(pairs: &[(&str, &str)]) -> BTreeMap<Arc<str>, Alias> {
    pairs.iter().map(|(name, aliasee)| (Arc::from(*name), alias(aliasee))).collect()
}
