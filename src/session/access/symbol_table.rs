//! A symbol table: each name has one address.

use std::collections::BTreeMap;

use crate::ExecutorAddr;
use crate::error::{Error, Result};

/// The names of a look-up, in order, each with whether it must exist. A name that need not exist is a weak reference.
pub type SymbolLookupSet = Vec<(String, bool)>;

/// The result of a look-up: an entry for each name, in the order of the names. A missing name has no entry if it must exist,
/// and the address 0 otherwise.
pub type SymbolLookupResult = Vec<Option<ExecutorAddr>>;

/// The symbols that a session offers its controller.
///
/// # Examples
///
/// ```
/// use farcall::ExecutorAddr;
/// use farcall::session::SimpleSymbolTable;
///
/// let mut symbols = SimpleSymbolTable::new();
/// symbols.add_unique([("main", ExecutorAddr::new(0x1000))])?;
/// assert!(symbols.add_unique([("main", ExecutorAddr::new(0x2000))]).is_err());
/// assert_eq!(symbols.get("main"), Some(ExecutorAddr::new(0x1000)));
/// # Ok::<(), farcall::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SimpleSymbolTable(BTreeMap<String, ExecutorAddr>);

impl SimpleSymbolTable {
    /// A table without symbols.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds all of `symbols`, or none. A name may come again with the same address.
    ///
    /// # Errors
    ///
    /// If a name has another address already, in the table or among `symbols`. The message lists all such names,
    /// sorted.
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

    /// The address of a name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<ExecutorAddr> {
        self.0.get(name).copied()
    }

    /// Looks several names up, each with whether it must exist. The result has an entry for each name, in this order. A missing
    /// name has no entry if it must exist, and the address 0 otherwise.
    ///
    /// # Examples
    ///
    /// ```
    /// use farcall::ExecutorAddr;
    /// use farcall::session::SimpleSymbolTable;
    ///
    /// let mut symbols = SimpleSymbolTable::new();
    /// symbols.add_unique([("main", ExecutorAddr::new(0x1000))])?;
    /// let found = symbols.lookup(&[("hook", false), ("init", true), ("main", true)]);
    /// assert_eq!(found, [Some(ExecutorAddr::NULL), None, Some(ExecutorAddr::new(0x1000))]);
    /// # Ok::<(), farcall::Error>(())
    /// ```
    #[must_use]
    pub fn lookup<N: AsRef<str>>(&self, names: &[(N, bool)]) -> SymbolLookupResult {
        let found = |(name, is_required): &(N, bool)| {
            self.get(name.as_ref()).or((!is_required).then_some(ExecutorAddr::NULL))
        };
        names.iter().map(found).collect()
    }

    /// All names and addresses, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, ExecutorAddr)> {
        self.0.iter().map(|(name, address)| (name.as_str(), *address))
    }

    /// The number of names.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True when the table has no name.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
