//! The variables of a program that its next version shares.

use std::collections::HashMap;

use crate::{AddrRange, ExecutorAddr};

/// The addresses of variables, by the names of their sections.
#[derive(Debug, Clone, Default)]
pub(crate) struct Variables(HashMap<String, AddrRange>);

impl Variables {
    /// The address of the variable with this name, if it has this size.
    pub(crate) fn find(&self, name: &str, bytes: u64) -> Option<ExecutorAddr> {
        self.0.get(name).filter(|range| range.bytes() == bytes).map(|range| range.start)
    }

    pub(crate) fn extend(&mut self, more: HashMap<String, AddrRange>) {
        self.0.extend(more);
    }
}
