//! The code that is linked into the executor: its symbols, for crash reports and for the executor's dynamic linker.
//!
//! Invariant: the number of changes tells two sets of links apart.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::ExecutorAddr;
use crate::call::contract::{NewExports, OldExports};
use crate::error::Result;
use crate::link::{SymbolTable, export_file};
use crate::sps::{self, Bytes};
use crate::sync::{AtomicU64, Mutex, Ordering};

/// The symbols of live code.
#[derive(Debug)]
pub(crate) struct LiveCode {
    /// The number of the session.
    session: u64,
    links: Mutex<Links>,
}

#[derive(Debug, Default)]
struct Links {
    /// How often a link was added or removed.
    changes: u64,
    /// The changes until the link was added, and its symbols, by the address of the table.
    tables: BTreeMap<usize, (u64, Arc<SymbolTable>)>,
}

impl LiveCode {
    pub(super) fn new() -> Self {
        static SESSIONS: AtomicU64 = AtomicU64::new(0);
        // Only the number counts.
        let session = SESSIONS.fetch_add(1, Ordering::Relaxed);
        let session = u64::from(std::process::id()) << 32 | session;
        Self { session, links: Mutex::default() }
    }

    /// Adds a link until it is [removed](Self::forget).
    pub(crate) fn remember(&self, symbols: &Arc<SymbolTable>) {
        let mut links = self.links.lock();
        links.changes += 1;
        let link = (links.changes, Arc::clone(symbols));
        links.tables.insert(Arc::as_ptr(symbols).addr(), link);
    }

    /// Removes links. Takes O(log n) for each.
    pub(crate) fn forget<'s>(&self, removed: impl Iterator<Item = &'s Arc<SymbolTable>>) {
        let mut links = self.links.lock();
        for symbols in removed {
            links.tables.remove(&Arc::as_ptr(symbols).addr());
            links.changes += 1;
        }
    }

    /// The linked function at an address.
    pub(super) fn locate(&self, address: u64) -> Option<String> {
        let links = self.links.lock();
        links.tables.values().find_map(|(_, table)| table.locate(ExecutorAddr::new(address)))
    }

    /// Answers the executor, which has libraries with these numbers: one with the names of all links, unless that is among
    /// them. Of two links that define a name, the older one has it.
    pub(super) fn exports(&self, known: &[u8]) -> Result<Vec<u8>> {
        let known: OldExports = sps::from_bytes(known)?;
        let (number, mut live) = {
            let links = self.links.lock();
            let number = (self.session, links.changes);
            if known.contains(&number) {
                return Ok(sps::to_bytes(&NewExports::None));
            }
            (number, links.tables.values().cloned().collect::<Vec<_>>())
        };
        live.sort_by_key(|(added, _)| *added);
        let file = export_file(live.iter().map(|(_, symbols)| &**symbols));
        Ok(sps::to_bytes(&Some((number, Bytes(file)))))
    }
}
