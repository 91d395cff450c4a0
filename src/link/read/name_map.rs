//! Values by name.
//!
//! Invariant: the last of `values` is not `None`, so a map without values takes no memory for them.

use std::fmt;
use std::sync::Arc;

use super::name_table::NameTable;
use super::names;
use crate::error::Result;

/// Values by name. Maps of one link share its table of names.
#[derive(Clone)]
pub struct NameMap<V> {
    names: Arc<NameTable>,
    /// By the number of the name.
    values: Vec<Option<V>>,
}

impl<V> NameMap<V> {
    /// A map of these values, by the numbers of their names. The last of them is not `None`.
    pub(crate) fn new(names: Arc<NameTable>, mut values: Vec<Option<V>>) -> Self {
        values.shrink_to_fit();
        Self { names, values }
    }

    /// The value of a name.
    pub fn get(&self, name: &str) -> Option<&V> {
        // Most maps of hidden names are empty.
        if self.is_empty() {
            return None;
        }
        self.values.get(self.names.number(name)? as usize)?.as_ref()
    }

    /// Sets the value of a name. The first time it copies the names, if another map has them as well.
    ///
    /// # Errors
    ///
    /// When there are 2^32 names already.
    pub fn insert(&mut self, name: &str, value: V) -> Result<()> {
        let names = Arc::make_mut(&mut self.names);
        let number = names.intern(name, names::hash(name.as_bytes()))? as usize;
        if number >= self.values.len() {
            self.values.resize_with(number + 1, || None);
        }
        self.values[number] = Some(value);
        Ok(())
    }

    /// Removes the value of a name.
    pub fn remove(&mut self, name: &str) {
        let number = self.names.number(name).map(|number| number as usize);
        if let Some(value) = number.and_then(|number| self.values.get_mut(number)) {
            *value = None;
        }
        while let Some(None) = self.values.last() {
            self.values.pop();
        }
    }

    /// All names that have values, in the order in which they were first named.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &V)> {
        let values = (0..).zip(&self.values);
        values.filter_map(|(number, value)| Some((self.names.text(number), value.as_ref()?)))
    }

    /// True when no name has a value.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }
}

impl<V> Default for NameMap<V> {
    fn default() -> Self {
        Self { names: Arc::default(), values: Vec::new() }
    }
}

impl<V> fmt::Debug for NameMap<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NameMap").field("values", &self.iter().count()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_with_the_same_names_change_apart() {
        let mut names = NameTable::default();
        for name in ["a", "b", "c"] {
            names.intern(name, names::hash(name.as_bytes())).unwrap();
        }
        let names = Arc::new(names);
        let mut one = NameMap::new(Arc::clone(&names), vec![None, Some(1)]);
        let mut other = NameMap::<i32>::new(names, Vec::new());
        assert!(!one.is_empty() && other.is_empty());
        assert_eq!((one.get("a"), one.get("b"), one.get("d")), (None, Some(&1), None));
        one.insert("d", 4).unwrap();
        one.insert("b", 2).unwrap();
        other.insert("c", 3).unwrap();
        assert_eq!(one.iter().collect::<Vec<_>>(), [("b", &2), ("d", &4)]);
        assert_eq!(other.iter().collect::<Vec<_>>(), [("c", &3)]);
        one.remove("b");
        one.remove("nothing");
        assert_eq!(one.iter().collect::<Vec<_>>(), [("d", &4)]);
        one.remove("d");
        assert!(one.is_empty() && one.get("d").is_none());
    }
}
