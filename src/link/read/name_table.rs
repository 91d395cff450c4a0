//! Names with numbers.
//!
//! All names lie behind each other in one text, so a name costs no allocation of its own.
//!
//! Invariant: numbers count from 0, in the order in which the names were added, and never change. No two names that look-ups find
//! are equal.

use std::fmt;

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

use super::names;
use crate::error::{Error, Result};

/// Names with numbers.
#[derive(Clone, Default)]
pub(crate) struct NameTable {
    text: String,
    /// Where each name ends in `text`. It starts where the one before it ends.
    ends: Vec<usize>,
    hashes: Vec<u64>,
    numbers: HashTable<u32>,
}

impl NameTable {
    /// The number of a name with this hash, which is added if it is new.
    ///
    /// # Errors
    ///
    /// When there are 2^32 names already.
    pub(crate) fn intern(&mut self, name: &str, hash: u64) -> Result<u32> {
        let Self { text, ends, hashes, numbers } = self;
        let is_same =
            |number: &u32| hashes[*number as usize] == hash && text_at(text, ends, *number) == name;
        match numbers.entry(hash, is_same, |number| hashes[*number as usize]) {
            Entry::Occupied(entry) => Ok(*entry.get()),
            Entry::Vacant(entry) => {
                let number = new_number(ends.len())?;
                entry.insert(number);
                self.append(name, hash);
                Ok(number)
            }
        }
    }

    /// Adds a name of the linker's own, which no look-up finds, and returns its number.
    ///
    /// # Errors
    ///
    /// When there are 2^32 names already.
    pub(crate) fn add_internal(&mut self, name: &str) -> Result<u32> {
        let number = new_number(self.ends.len())?;
        self.append(name, names::hash(name.as_bytes()));
        Ok(number)
    }

    fn append(&mut self, name: &str, hash: u64) {
        self.text.push_str(name);
        self.ends.push(self.text.len());
        self.hashes.push(hash);
    }

    /// The number of a name.
    pub(crate) fn number(&self, name: &str) -> Option<u32> {
        self.number_of(name.as_bytes(), names::hash(name.as_bytes()))
    }

    /// The number of the name with these bytes and this hash.
    pub(crate) fn number_of(&self, name: &[u8], hash: u64) -> Option<u32> {
        let is_same = |number: &u32| {
            self.hashes[*number as usize] == hash && self.text(*number).as_bytes() == name
        };
        self.numbers.find(hash, is_same).copied()
    }

    /// The name with a number.
    pub(crate) fn text(&self, number: u32) -> &str {
        text_at(&self.text, &self.ends, number)
    }

    /// The hash of the name with a number.
    pub(crate) fn hash(&self, number: u32) -> u64 {
        self.hashes[number as usize]
    }

    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }
}

/// The number of a new name; the last one means none.
fn new_number(count: usize) -> Result<u32> {
    let number = u32::try_from(count).ok().filter(|number| *number != u32::MAX);
    number.ok_or_else(|| Error::link("more than 2^32 names in one link or dylib"))
}

fn text_at<'a>(text: &'a str, ends: &[usize], number: u32) -> &'a str {
    let at = number as usize;
    let start = at.checked_sub(1).map_or(0, |before| ends[before]);
    &text[start..ends[at]]
}

impl fmt::Debug for NameTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NameTable").field("names", &self.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn intern(table: &mut NameTable, name: &str) -> Option<u32> {
        table.intern(name, names::hash(name.as_bytes())).ok()
    }

    #[test]
    fn a_name_has_one_number() {
        let mut table = NameTable::default();
        let names: Vec<String> = (0..1000).map(|number| format!("name_{number}")).collect();
        for _ in 0..2 {
            for (number, name) in (0..).zip(&names) {
                assert_eq!(intern(&mut table, name), Some(number));
            }
        }
        assert_eq!(table.len(), 1000);
        assert_eq!((table.text(0), table.text(999)), ("name_0", "name_999"));
        assert_eq!((table.number("name_7"), table.number("name_")), (Some(7), None));
    }

    #[test]
    fn an_internal_name_is_not_found() {
        let mut table = NameTable::default();
        assert_eq!(table.add_internal("f").ok(), Some(0));
        assert_eq!(table.number("f"), None);
        assert_eq!(intern(&mut table, "f"), Some(1));
        assert_eq!((table.text(0), table.text(1)), ("f", "f"));
    }

    #[test]
    fn the_empty_name_is_a_name() {
        let mut table = NameTable::default();
        assert_eq!(table.number(""), None);
        assert_eq!((intern(&mut table, ""), intern(&mut table, "x")), (Some(0), Some(1)));
        assert_eq!((table.text(0), table.number("")), ("", Some(0)));
    }
}
