//! Versions of a program that share its data.

use std::collections::HashMap;

use super::dylib::Dylib;
use crate::{AddrRange, ExecutorAddr};

/// Where variables are, by the names of their sections.
#[derive(Debug, Clone, Default)]
pub(super) struct Variables(HashMap<String, AddrRange>);

impl Variables {
    /// Where a variable of this size is.
    pub(super) fn find(&self, name: &str, bytes: u64) -> Option<ExecutorAddr> {
        self.0.get(name).filter(|range| range.bytes() == bytes).map(|range| range.start)
    }

    pub(super) fn extend(&mut self, more: HashMap<String, AddrRange>) {
        self.0.extend(more);
    }
}

impl Dylib {
    /// Makes what is linked from now on a version of a program that later versions may follow, and that itself follows
    /// `earlier`: each of its variables that the earlier version has under the same name, with the same size, stays where it is,
    /// with its value. Others are new, with their initial values.
    ///
    /// That goes for variables that have sections of their own, as `-fdata-sections` makes them, static ones included, but not
    /// for thread-locals. The earlier version has to stay as long as its variables are used. Initializers run when
    /// [`initialize`](Dylib::initialize) is called, as ever: they would begin anew.
    pub fn keep_variables(&self, earlier: Option<&Dylib>) {
        let known = earlier.and_then(|earlier| earlier.lock().variables.clone());
        self.lock().variables = Some(known.unwrap_or_default());
    }
}
