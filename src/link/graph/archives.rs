//! Taking members from archives.
//!
//! Names are searched for in the order in which they were first needed, and each comes from the first archive that defines it.
//! A member's own needs join the end of the list. So the order of members depends on the files alone.
//!
//! Archives are searched for the name of a common symbol as well, as other linkers do. The first member that has a variable of the
//! name is added, and replaces the common symbol. A member with a function of the name is not, nor one where it is common or weak.
//!
//! Reading a member takes longer than resolving its names. So threads read ahead what the search will probably need; the
//! search itself decides.
//!
//! Invariant: a member is added at most once.

use std::collections::{HashMap, HashSet};

use hashbrown::HashTable;

use super::link_graph::{LinkGraph, Resolution};
use crate::error::Result;
use crate::read::archive::Archive;
use crate::read::names;
use crate::read::object_file::ObjectFile;
use crate::read::parsed::{Place, Symbol, SymbolKind};

/// Archives that are searched together, the first one first.
#[derive(Debug, Default)]
pub struct Archives {
    all: Vec<Archive>,
    /// Their definitions: the archive, and the place of the definition in it.
    table: HashTable<(u32, u32)>,
}

impl Archives {
    /// Adds an archive behind the others.
    pub fn push(&mut self, archive: &Archive) {
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
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// The first archive that defines the name with this hash, and the member that does.
    fn find(&self, name: &[u8], hash: u64) -> Option<Member> {
        let definition =
            |(archive, place): (u32, u32)| self.all[archive as usize].definition(place);
        let find = |name: &[u8], hash| {
            let found = self.table.find(hash, |other| definition(*other).0 == name);
            found.map(|found| (found.0, definition(*found).2))
        };
        find(name, hash).or_else(|| {
            let default = names::as_default(name)?;
            find(&default, names::hash(&default))
        })
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
    pub fn add_archives(
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
        let globals = &self.globals;
        self.needed.retain(|id| is_searched(globals[*id as usize].resolution));
        self.read_ahead(archives, &find, &is_known);
        let mut added = HashSet::new();
        let mut variables = None;
        let mut next = 0;
        while let Some(id) = self.needed.get(next) {
            next += 1;
            let (name, hash) = (self.names.text(*id), self.names.hash(*id));
            let found = match self.globals[*id as usize].resolution {
                Resolution::None => find(name.as_bytes(), hash),
                Resolution::Common { .. } if !is_known(name) => {
                    let variables = variables.get_or_insert_with(|| Variables::of(archives));
                    variables.find(name.as_bytes(), hash)?
                }
                _ => continue,
            };
            let Some((archive, member)) = found else { continue };
            if !is_known(name) && added.insert((archive, member)) {
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
        let is_undefined = |id: &&u32| self.globals[**id as usize].resolution == Resolution::None;
        let needed = self.needed.iter().filter(is_undefined);
        let needed = needed.filter(|id| !is_known(self.names.text(**id)));
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

/// True for names that archives are searched for.
fn is_searched(resolution: Resolution) -> bool {
    matches!(resolution, Resolution::None | Resolution::Common { .. })
}

/// The variables of archives, found by their names. Few links need that.
struct Variables<'a> {
    archives: &'a [Archive],
    /// All that archives list, by the hash of the name: the archive, and the place of the definition in it.
    listed: Vec<(u64, u32, u32)>,
    /// The hashes of the variables' names in members that were looked into.
    seen: HashMap<Member, HashSet<u64>>,
}

impl<'a> Variables<'a> {
    fn of(archives: &'a [Archive]) -> Self {
        let of_archive = |(number, archive): (u32, &'a Archive)| {
            let places = 0..archive.definition_count();
            places.map(move |place| (archive.definition(place).1, number, place))
        };
        let mut listed: Vec<_> = (0..).zip(archives).flat_map(of_archive).collect();
        listed.sort_unstable();
        Self { archives, listed, seen: HashMap::new() }
    }

    /// The first member that has a variable of this name, neither weak nor common.
    fn find(&mut self, name: &[u8], hash: u64) -> Result<Option<Member>> {
        let first = self.listed.partition_point(|(other, ..)| *other < hash);
        let listed = self.listed[first..].iter().take_while(|(other, ..)| *other == hash);
        for (_, archive, place) in listed {
            let (listed, _, member) = self.archives[*archive as usize].definition(*place);
            if listed != name {
                continue;
            }
            let object = self.archives[*archive as usize].member(member)?;
            let variables = self.seen.entry((*archive, member));
            if variables.or_insert_with(|| variables_of(&object)).contains(&hash) {
                return Ok(Some((*archive, member)));
            }
        }
        Ok(None)
    }
}

/// The hashes of the names of an object's variables, neither weak nor common.
fn variables_of(object: &ObjectFile) -> HashSet<u64> {
    let is_variable = |symbol: &&Symbol| {
        let is_data = !matches!(symbol.kind, SymbolKind::Function | SymbolKind::Ifunc);
        let is_here = matches!(symbol.place, Place::Section(_) | Place::Absolute);
        symbol.is_global && !symbol.weak && is_here && is_data
    };
    object.symbols().iter().filter(is_variable).map(|symbol| symbol.hash).collect()
}
