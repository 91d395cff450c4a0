//! The code that is linked into the executor: its symbols, for crash reports and for the executor's dynamic linker.
//!
//! Invariant: the number of changes tells two sets of links apart.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::ExecutorAddr;
use crate::call::contract::{ExportsNumber, NewExports, OldExports};
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
    /// The code that a copy has of its snapshot, where it does not change.
    inherited: Option<Arc<LiveCode>>,
}

#[derive(Debug, Default)]
struct Links {
    /// How often a link was added or removed.
    changes: u64,
    /// The changes until the link was added, and its symbols, by the address of the table.
    tables: BTreeMap<usize, (u64, Arc<SymbolTable>)>,
}

impl LiveCode {
    pub(super) fn new(inherited: Option<Arc<LiveCode>>) -> Self {
        static SESSIONS: AtomicU64 = AtomicU64::new(0);
        // Only the number counts.
        let session = SESSIONS.fetch_add(1, Ordering::Relaxed);
        let session = u64::from(std::process::id()) << 32 | session;
        Self { session, links: Mutex::default(), inherited }
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
        let own = |(_, table): &(u64, Arc<SymbolTable>)| table.locate(ExecutorAddr::new(address));
        let found = links.tables.values().find_map(own);
        found.or_else(|| self.inherited.as_ref()?.locate(address))
    }

    /// Answers the executor, which has libraries with these numbers: one with the names of all links, unless that is among
    /// them. Of two links that define a name, the older one has it.
    pub(super) fn exports(&self, known: &[u8]) -> Result<Vec<u8>> {
        let known: OldExports = sps::from_bytes(known)?;
        let number = (self.session, self.links.lock().changes);
        if known.contains(&number) {
            return Ok(sps::to_bytes(&NewExports::None));
        }
        let (number, live) = self.live();
        let file = export_file(live.iter().map(|symbols| &**symbols));
        Ok(sps::to_bytes(&Some((number, Bytes(file)))))
    }

    /// The links that there are now, the oldest first, and the number of this set.
    fn live(&self) -> (ExportsNumber, Vec<Arc<SymbolTable>>) {
        let mut live = self.inherited.as_ref().map_or_else(Vec::new, |older| older.live().1);
        let links = self.links.lock();
        let mut own: Vec<_> = links.tables.values().cloned().collect();
        let number = (self.session, links.changes);
        drop(links);
        own.sort_by_key(|(added, _)| *added);
        live.extend(own.into_iter().map(|(_, symbols)| symbols));
        (number, live)
    }
}
