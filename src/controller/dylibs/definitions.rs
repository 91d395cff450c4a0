//! The definitions of a dylib, of all its links.
//!
//! Invariant: the definitions of the first link are never copied. Those of a large program take tens of megabytes.

use std::sync::Arc;

use crate::error::Result;
use crate::link::{Definition, NameMap};

/// Definitions by name. A clone shares all of them until one of the two gets another.
#[derive(Debug, Clone, Default)]
pub(super) struct Definitions {
    /// Those of the first link, which its image has as well.
    first: Arc<NameMap<Definition>>,
    /// The others, which count first.
    later: Arc<NameMap<Definition>>,
}

impl Definitions {
    pub(super) fn get(&self, name: &str) -> Option<&Definition> {
        self.later.get(name).or_else(|| self.first.get(name))
    }

    /// Adds a definition, in place of an earlier one.
    ///
    /// # Errors
    ///
    /// When there are 2^32 names already.
    pub(super) fn insert(&mut self, name: &str, definition: Definition) -> Result<()> {
        Arc::make_mut(&mut self.later).insert(name, definition)
    }

    /// Removes a definition that was inserted.
    pub(super) fn remove(&mut self, name: &str) {
        Arc::make_mut(&mut self.later).remove(name);
    }

    /// Adds the definitions of a link.
    ///
    /// # Errors
    ///
    /// As for [`insert`](Self::insert).
    pub(super) fn add(&mut self, link: &Arc<NameMap<Definition>>) -> Result<()> {
        if self.first.is_empty() {
            self.first = Arc::clone(link);
            return Ok(());
        }
        link.iter().try_for_each(|(name, definition)| self.insert(name, *definition))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.first.is_empty() && self.later.is_empty()
    }
}
