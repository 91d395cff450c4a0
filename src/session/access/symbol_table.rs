//! Names and the addresses that stand for them, each name once.

use std::collections::BTreeMap;

use crate::ExecutorAddr;
use crate::error::{Error, Result};

/// The symbols that a session offers its controller.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SimpleSymbolTable(BTreeMap<String, ExecutorAddr>);

impl SimpleSymbolTable {
    /// A table without symbols.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds all of `symbols`, or none. A name that has the same address already may come again.
    ///
    /// # Errors
    ///
    /// When names have other addresses already, in the table or among `symbols`: the message has all of them, sorted.
    pub fn add_unique<N: Into<String>>(
        &mut self,
        symbols: impl IntoIterator<Item = (N, ExecutorAddr)>,
    ) -> Result<()> {
        let mut added = BTreeMap::new();
        let mut conflicts = BTreeMap::new();
        for (name, address) in symbols {
            let name = name.into();
            let before = self.0.get(&name).or_else(|| added.get(&name)).copied();
            match before {
                Some(before) if before != address => {
                    conflicts.insert(name, format!("{before}, now {address}"));
                }
                _ => {
                    added.insert(name, address);
                }
            }
        }
        if conflicts.is_empty() {
            self.0.append(&mut added);
            return Ok(());
        }
        let list: Vec<_> = conflicts.iter().map(|(name, why)| format!("{name} ({why})")).collect();
        Err(Error::invalid(format!("symbols with two addresses: {}", list.join("; "))))
    }

    /// The address under a name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<ExecutorAddr> {
        self.0.get(name).copied()
    }

    /// All names and addresses, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, ExecutorAddr)> {
        self.0.iter().map(|(name, address)| (name.as_str(), *address))
    }

    /// How many names there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True when there is no name.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
