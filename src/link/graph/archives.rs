//! Taking members from archives.
//!
//! Names are searched for in the order in which they were first needed, and each comes from the first archive that defines it.
//! A member's own needs join the end of the list. So the order of members depends on the files alone.
//!
//! Reading a member takes longer than resolving its names. So threads read ahead what the search will probably need; the
//! search itself decides.
//!
//! Invariant: a member is added at most once.

use std::collections::HashSet;

use hashbrown::HashTable;

use super::link_graph::{LinkGraph, Resolution};
use crate::error::Result;
use crate::link::read::archive::Archive;
use crate::link::read::parsed::{Place, Symbol};

/// Archives that are searched together, the first one first.
#[derive(Debug, Default)]
pub(crate) struct Archives {
    all: Vec<Archive>,
    /// What they define: the archive, and the place of the definition in it.
    table: HashTable<(u32, u32)>,
}

impl Archives {
    /// Adds an archive behind the others.
    pub(crate) fn push(&mut self, archive: &Archive) {
        let Self { all, table } = self;
        let number = u32::try_from(all.len()).unwrap_or(u32::MAX);
        all.push(archive.clone());
        let definition = |(archive, place): (u32, u32)| all[archive as usize].definition(place);
        let count = archive.definition_count();
        table.reserve(count as usize, |other| definition(*other).1);
        for one in (0..count).map(|place| (number, place)) {
            let (name, hash, _) = definition(one);
            let is_same = |other: &(u32, u32)| definition(*other).0 == name;
            table.entry(hash, is_same, |other| definition(*other).1).or_insert(one);
        }
    }

    /// True if there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// The first archive that defines the name with this hash, and the member that does.
    fn find(&self, name: &[u8], hash: u64) -> Option<Member> {
        let definition =
            |(archive, place): (u32, u32)| self.all[archive as usize].definition(place);
        let found = self.table.find(hash, |other| definition(*other).0 == name);
        found.map(|found| (found.0, definition(*found).2))
    }
}

/// An archive's place in a list, and the index of a member in it.
type Member = (u32, u32);

impl LinkGraph {
    /// Makes the graph search archives for a name, as if an object referred to it.
    ///
    /// # Errors
    /// There are 2^32 names already.
    pub fn want(&mut self, name: &str) -> Result<()> {
        let id = self.intern(name)?;
        self.need(id);
        Ok(())
    }

    /// Adds members of an archive until none defines a name that is still undefined. Weak references add no member. Returns
    /// how many members were added.
    ///
    /// # Errors
    /// A needed member is damaged, or defines a name twice.
    pub fn add_archive(&mut self, archive: &Archive) -> Result<usize> {
        let find = |name: &[u8], hash| archive.find(name, hash).map(|member| (0, member));
        self.add_members(std::slice::from_ref(archive), find, |_| false)
    }

    /// As [`add_archive`](Self::add_archive), for several archives that may need each other. Adds no member for a name for
    /// which `is_known` is true.
    ///
    /// # Errors
    /// A needed member is damaged, or defines a name twice.
    pub(crate) fn add_archives(
        &mut self,
        archives: &Archives,
        is_known: impl Fn(&str) -> bool + Sync,
    ) -> Result<usize> {
        self.add_members(&archives.all, |name, hash| archives.find(name, hash), is_known)
    }

    fn add_members(
        &mut self,
        archives: &[Archive],
        find: impl Fn(&[u8], u64) -> Option<Member> + Sync,
        is_known: impl Fn(&str) -> bool + Sync,
    ) -> Result<usize> {
        self.needed.retain(|id| self.globals[*id as usize].resolution == Resolution::None);
        self.read_ahead(archives, &find, &is_known);
        let mut added = HashSet::new();
        let mut next = 0;
        while let Some(id) = self.needed.get(next) {
            next += 1;
            if self.globals[*id as usize].resolution != Resolution::None {
                continue;
            }
            let Some((archive, member)) =
                find(self.names.text(*id).as_bytes(), self.names.hash(*id))
            else {
                continue;
            };
            if !is_known(self.names.text(*id)) && added.insert((archive, member)) {
                self.bind(&archives[archive as usize].member(member)?)?;
            }
        }
        self.drop_overridden();
        Ok(added.len())
    }

    /// Reads the members that the search will probably add, by several threads. An object that comes later may define a name
    /// as well, so it may read a member that is not added. A damaged member is an error only if the search needs it.
    fn read_ahead(
        &self,
        archives: &[Archive],
        find: &(impl Fn(&[u8], u64) -> Option<Member> + Sync),
        is_known: &(impl Fn(&str) -> bool + Sync),
    ) {
        let is_defined = |name: &[u8], hash| {
            let id = self.names.number_of(name, hash);
            id.is_some_and(|id| self.globals[id as usize].resolution != Resolution::None)
                || std::str::from_utf8(name).is_ok_and(is_known)
        };
        let needed = self.needed.iter().filter(|id| !is_known(self.names.text(**id)));
        let find_id = |id: &u32| find(self.names.text(*id).as_bytes(), self.names.hash(*id));
        let mut wave: Vec<Member> = needed.filter_map(find_id).collect();
        let mut seen = HashSet::new();
        loop {
            wave.retain(|member| seen.insert(*member));
            let weight = wave
                .iter()
                .map(|(archive, member)| archives[*archive as usize].member_bytes(*member));
            let needs = self.threads.map(wave.len(), weight.sum(), |at| {
                let (archive, member) = wave[at];
                let Ok(object) = archives[archive as usize].member(member) else {
                    return Vec::new();
                };
                let is_needed =
                    |one: &&Symbol| one.is_global && !one.weak && one.place == Place::Undefined;
                let needed = object.symbols().iter().filter(is_needed);
                let needed = needed.map(|symbol| (object.bytes_of(symbol.name), symbol.hash));
                let missing = needed.filter(|(name, hash)| !is_defined(name, *hash));
                missing.filter_map(|(name, hash)| find(name, hash)).collect()
            });
            wave = needs.concat();
            if wave.is_empty() {
                return;
            }
        }
    }
}
