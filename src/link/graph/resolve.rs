//! Which definition of a name counts.
//!
//! | earlier and later definition | result |
//! |---|---|
//! | strong and strong | an error |
//! | strong and common, or strong and weak | the strong one |
//! | common and weak | the common one |
//! | common and common | one symbol with the larger size and the larger alignment |
//! | weak and weak | the earlier one |
//!
//! Of the COMDAT groups with one signature the first stays. The sections of the others are dropped, and the names that they
//! defined bind to the definitions of the first.
//!
//! A symbol `api@@V2` defines two names: `api`, and `api@V2` for references to that version.
//!
//! Invariant: the result depends on the order of the objects only where these rules say so.

use std::collections::HashMap;
use std::sync::Arc;

use hashbrown::hash_table::Entry;

use super::link_graph::{Global, Input, LOCAL, LinkGraph, Resolution};
use super::provided::ENTRY_NAME;
use crate::error::{Error, Result};
use crate::read::names;
use crate::read::object_file::ObjectFile;
use crate::read::parsed::{Place, Symbol};

impl LinkGraph {
    /// Adds an object and resolves its names.
    pub(crate) fn bind(&mut self, object: &ObjectFile) -> Result<()> {
        if object.processor() != self.processor() {
            return Err(self.wrong_processor(object));
        }
        let id = u32::try_from(self.inputs.len());
        let id = id.map_err(|_| Error::link("more than 2^32 objects in one link"))?;
        let mut input = Input {
            object: object.clone(),
            dropped: self.drop_duplicate_groups(object, id),
            elsewhere: HashMap::new(),
            bindings: self.intern_all(object)?,
            versions: Vec::new(),
        };
        let mut versions = object.default_versions().peekable();
        for (index, symbol) in (0..).zip(object.symbols()).filter(|(_, symbol)| symbol.is_global) {
            let defined = symbol.is_defined() && !input.is_dropped(symbol.place);
            self.resolve(input.bindings[index as usize], object, id, index, defined)?;
            // They are in the order of the symbols.
            if let Some((_, version)) = versions.next_if(|(of, _)| *of == index)
                && defined
            {
                let [name, version] = [symbol.name, version].map(|name| object.text(name));
                let binding = self.intern(&format!("{name}@{version}"))?;
                // Both names mean the same symbol, so that an ifunc has one address.
                let plain = self.globals[input.bindings[index as usize] as usize].resolution;
                let of = match plain {
                    Resolution::Here { input, symbol: first, .. }
                        if input == id && is_same_place(object.symbol(first), symbol) =>
                    {
                        first
                    }
                    _ => index,
                };
                self.resolve(binding, object, id, of, true)?;
                input.versions.push((of, binding));
            }
        }
        input.versions.sort_unstable();
        self.inputs.push(input);
        Ok(())
    }

    #[cold]
    fn wrong_processor(&self, object: &ObjectFile) -> Error {
        let (is, wanted) = (object.processor(), self.processor());
        let name = object.name();
        Error::link(match self.inputs.first() {
            Some(first) => format!(
                "{name} is for {is}, and {} for {wanted}: recompile one of them, because a link has one processor",
                first.object.name()
            ),
            None => {
                format!("{name} is for {is}, and this link for {wanted}: compile it for {wanted}")
            }
        })
    }

    /// Which sections of `object`, which becomes input `id`, belong to groups that the graph already has.
    fn drop_duplicate_groups(&mut self, object: &ObjectFile, id: u32) -> Vec<bool> {
        let mut dropped = vec![false; object.sections().len()];
        let Self { inputs, groups, .. } = self;
        let object_of = |input: u32| inputs.get(input as usize).map_or(object, |one| &one.object);
        let group_at = |(input, group): &(u32, u32)| {
            let object = object_of(*input);
            let group = &object.groups()[*group as usize];
            (object.bytes_of(group.signature), group.hash)
        };
        for (index, group) in (0..).zip(object.groups()) {
            let signature = object.bytes_of(group.signature);
            let is_same = |other: &(u32, u32)| group_at(other).0 == signature;
            match groups.entry(group.hash, is_same, |other| group_at(other).1) {
                Entry::Occupied(_) => {
                    for section in object.members(group) {
                        dropped[*section as usize] = true;
                    }
                }
                Entry::Vacant(entry) => {
                    entry.insert((id, index));
                }
            }
        }
        for (index, section) in object.sections().iter().enumerate() {
            if section.linked_to.is_some_and(|linked| dropped[linked as usize]) {
                dropped[index] = true;
            }
        }
        dropped
    }

    /// The bindings of an object's symbols.
    fn intern_all(&mut self, object: &ObjectFile) -> Result<Vec<u32>> {
        let names = Arc::make_mut(&mut self.names);
        let mut bindings = Vec::with_capacity(object.symbols().len());
        for symbol in object.symbols() {
            bindings.push(match symbol.is_global {
                true => names.intern(object.text(symbol.name), symbol.hash)?,
                false => LOCAL,
            });
        }
        self.globals.resize(names.len(), Global::default());
        Ok(bindings)
    }

    /// The index in `globals` of a name.
    pub(crate) fn intern(&mut self, name: &str) -> Result<u32> {
        let names = Arc::make_mut(&mut self.names);
        let id = names.intern(name, names::hash(name.as_bytes()))?;
        self.globals.resize(names.len(), Global::default());
        Ok(id)
    }

    /// Notes that a name is needed, so that archives are searched for it.
    pub(crate) fn need(&mut self, id: u32) {
        let global = &mut self.globals[id as usize];
        if !global.wanted {
            global.wanted = true;
            self.needed.push(id);
        }
    }

    /// Lets symbol `index` of `object`, which becomes input `id`, take part in the resolution of a name.
    fn resolve(
        &mut self,
        binding: u32,
        object: &ObjectFile,
        id: u32,
        index: u32,
        defined: bool,
    ) -> Result<()> {
        let symbol = object.symbol(index);
        let old = self.globals[binding as usize].resolution;
        let new = match symbol.place {
            _ if !defined => Resolution::None,
            Place::Common => {
                Resolution::Common { input: id, bytes: symbol.bytes, alignment: symbol.value }
            }
            place => Resolution::Here {
                input: id,
                symbol: index,
                weak: symbol.weak,
                thread: symbol.is_thread,
                absolute: place == Place::Absolute,
            },
        };
        let may_hide = !self.is_name(binding, ENTRY_NAME);
        let strong = |resolution| matches!(resolution, Resolution::Here { weak: false, .. });
        if let (Resolution::Here { input, symbol: other, .. }, true, true) =
            (old, strong(old), strong(new))
        {
            // The assembler leaves the function `api` in the object for which it has made `api@@V2`.
            if input == id && is_same_place(object.symbol(other), symbol) {
                self.globals[binding as usize].hidden |= may_hide && symbol.hidden;
                return Ok(());
            }
            let first = match self.inputs.get(input as usize) {
                Some(input) => input.object.name(),
                None => object.name(),
            };
            let name = self.names.text(binding);
            return Err(Error::link(format!(
                "`{name}` is defined twice: by {first} and by {}",
                object.name()
            )));
        }
        let global = &mut self.globals[binding as usize];
        global.hidden |= may_hide && symbol.hidden && !is_group_leftover(symbol, defined);
        let prevailing = prevailing(old, new);
        global.resolution = prevailing;
        for loser in [old, new] {
            if let Resolution::Here { input, .. } = loser
                && prevailing != loser
            {
                self.losers.insert(input);
            }
        }
        if !defined && !symbol.weak {
            self.need(binding);
        }
        let is_common = |resolution| matches!(resolution, Resolution::Common { .. });
        if is_common(prevailing) && !is_common(old) {
            // An archive may have a variable with initial values for it.
            self.needed.push(binding);
        }
        Ok(())
    }
}

/// The result of an earlier and a later definition that are not both strong.
fn prevailing(old: Resolution, new: Resolution) -> Resolution {
    if let (
        Resolution::Common { bytes, alignment, .. },
        Resolution::Common { input, bytes: new_bytes, alignment: new_alignment },
    ) = (old, new)
    {
        let input = if new_bytes > bytes { input } else { owner(old) };
        let (bytes, alignment) = (bytes.max(new_bytes), alignment.max(new_alignment));
        return Resolution::Common { input, bytes, alignment };
    }
    if rank(new) > rank(old) { new } else { old }
}

fn is_same_place(one: &Symbol, other: &Symbol) -> bool {
    (one.place, one.value) == (other.place, other.value)
}

fn rank(resolution: Resolution) -> u32 {
    match resolution {
        Resolution::None => 0,
        Resolution::External(_) => 1,
        Resolution::Here { weak: true, .. } => 2,
        Resolution::Common { .. } => 3,
        Resolution::Here { weak: false, .. } => 4,
    }
}

fn owner(resolution: Resolution) -> u32 {
    match resolution {
        Resolution::Here { input, .. } | Resolution::Common { input, .. } => input,
        Resolution::None | Resolution::External(_) => LOCAL,
    }
}

/// True for a definition that was dropped with its group. Its visibility no longer counts.
fn is_group_leftover(symbol: &Symbol, defined: bool) -> bool {
    symbol.is_defined() && !defined
}
