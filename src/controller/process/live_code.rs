//! The code that is linked into the executor: its symbols, for crash reports and for the executor's dynamic linker.
//!
//! Invariant: no two links have one number.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::ExecutorAddr;
use crate::call::contract::{LinkNumber, NewExports, OldExports};
use crate::error::Result;
use crate::link::SymbolTable;
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
    /// The number of the newest link.
    newest: u64,
    /// The number and the symbols of each link, by the address of its table.
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
        links.newest += 1;
        let link = (links.newest, Arc::clone(symbols));
        links.tables.insert(Arc::as_ptr(symbols).addr(), link);
    }

    /// Removes links. Takes O(log n) for each.
    pub(crate) fn forget<'s>(&self, removed: impl Iterator<Item = &'s Arc<SymbolTable>>) {
        let mut links = self.links.lock();
        for symbols in removed {
            links.tables.remove(&Arc::as_ptr(symbols).addr());
        }
    }

    /// The linked function at an address.
    pub(super) fn locate(&self, address: u64) -> Option<String> {
        let links = self.links.lock();
        links.tables.values().find_map(|(_, table)| table.locate(ExecutorAddr::new(address)))
    }

    /// Answers the executor, which knows the names of the links with these numbers. The answer has the numbers that are gone,
    /// and a file with the names of the oldest link that the executor does not know.
    pub(super) fn exports(&self, known: &[u8]) -> Result<Vec<u8>> {
        let known: OldExports = sps::from_bytes(known)?;
        let (gone, next) = {
            let links = self.links.lock();
            let mut live: Vec<_> = links.tables.values().collect();
            live.sort_by_key(|(number, _)| *number);
            let is_gone = |(session, number): &LinkNumber| {
                *session == self.session
                    && live.binary_search_by_key(number, |link| link.0).is_err()
            };
            let gone: Vec<LinkNumber> = known.iter().copied().filter(is_gone).collect();
            let is_new = |link: &&&(u64, _)| !known.contains(&(self.session, link.0));
            let next = live.iter().find(is_new).map(|link| (*link).clone());
            (gone, next)
        };
        let next =
            next.map(|(number, symbols)| ((self.session, number), Bytes(symbols.export_file())));
        let answer: NewExports = (gone, next);
        Ok(sps::to_bytes(&answer))
    }
}
