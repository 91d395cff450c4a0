//! The names of an image: to find a definition, and to say where a crash was.
//!
//! Invariant: `functions` is sorted by start.

use std::collections::HashMap;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use crate::addr::ExecutorAddr;

/// The names an image defines and all functions in it.
#[derive(Default)]
pub struct SymbolTable {
    pub(super) definitions: HashMap<Arc<str>, Definition>,
    /// `__dso_handle`, which is not for others.
    pub(super) dso_handle: Option<ExecutorAddr>,
    functions: Vec<Function>,
    /// The names of the functions, one after the other.
    text: String,
    objects: Vec<Arc<str>>,
}

/// A definition that others may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Definition {
    /// Where it is.
    pub address: ExecutorAddr,
    /// The size its object claims; may be 0.
    pub bytes: u64,
    /// True for functions.
    pub callable: bool,
    /// True when a definition elsewhere may take its place.
    pub weak: bool,
}

struct Function {
    start: u64,
    end: u64,
    name: Range<u32>,
    object: u32,
}

impl SymbolTable {
    /// The address of a name that is for others, or of `__dso_handle`.
    #[must_use]
    pub fn address_of(&self, name: &str) -> Option<ExecutorAddr> {
        match self.definitions.get(name) {
            Some(definition) => Some(definition.address),
            None if name == super::graph::DSO_HANDLE_NAME => self.dso_handle,
            None => None,
        }
    }

    /// A definition that is for others.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Definition> {
        self.definitions.get(name)
    }

    /// All definitions that are for others, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = (&Arc<str>, &Definition)> {
        self.definitions.iter()
    }

    /// Says what lies at an address, as "function+0x12 (object.o)"; `None` outside of all functions.
    #[must_use]
    pub fn locate(&self, addr: ExecutorAddr) -> Option<String> {
        let addr = addr.get();
        let after = self.functions.partition_point(|function| function.start <= addr);
        let start = self.functions[..after].last()?.start;
        let first = self.functions.partition_point(|function| function.start < start);
        let function = self.functions[first..after].iter().find(|f| addr < f.end)?;
        let name = self.text.get(function.name.start as usize..function.name.end as usize)?;
        let object = &self.objects[function.object as usize];
        Some(format!("{name}+{:#x} ({object})", addr - function.start))
    }

    /// Adds the name of an object, for the functions that follow.
    pub(super) fn add_object(&mut self, name: &Arc<str>) {
        self.objects.push(Arc::clone(name));
    }

    /// Adds a function of the object that was added last. `suffix` is appended to its name.
    pub(super) fn add_function(&mut self, name: &str, suffix: &str, start: u64, end: u64) {
        let from = self.text.len();
        self.text.push_str(name);
        self.text.push_str(suffix);
        let object = self.objects.len().saturating_sub(1);
        if let (Ok(from), Ok(to), Ok(object)) =
            (u32::try_from(from), u32::try_from(self.text.len()), u32::try_from(object))
        {
            self.functions.push(Function { start, end, name: from..to, object });
        }
    }

    /// Sorts the functions. Of those that start at the same place the largest comes first; those without a
    /// size (`end` is `start`) reach to the next one, or to the end of their block, `limit_of(start)`.
    pub(super) fn finish(&mut self, limit_of: impl Fn(u64) -> u64) {
        self.functions.sort_by_key(|function| (function.start, std::cmp::Reverse(function.end)));
        let mut next_start = u64::MAX;
        for index in (0..self.functions.len()).rev() {
            let function = &mut self.functions[index];
            if function.end <= function.start {
                function.end = limit_of(function.start).min(next_start);
            }
            let is_first =
                index == 0 || self.functions[index - 1].start != self.functions[index].start;
            if is_first {
                next_start = self.functions[index].start;
            }
        }
    }
}

impl fmt::Debug for SymbolTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SymbolTable")
            .field("definitions", &self.definitions.len())
            .field("functions", &self.functions.len())
            .finish_non_exhaustive()
    }
}
