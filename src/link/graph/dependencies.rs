//! The dependencies of a graph's names, so that the caller knows when each may be used.
//!
//! A name depends on what its section refers to. If that is a section with a name, the dependency is that name, which has
//! dependencies of its own. A section without a name that refers to others counts as part of every section that refers to
//! it. So one look at each relocation is enough. All code of an object depends on what the object's unwinding needs:
//! personalities and types.
//!
//! Invariant: a name that is left out depends on nothing but itself.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::link_graph::{LOCAL, LinkGraph, Resolution};
use crate::addr::Prot;
use crate::read::parsed::{Place, Role};

/// Names of a graph that depend on the same other names.
///
/// # Examples
///
/// ```
#[doc = include_str!("../compile.txt")]
/// use farcall_link::LinkGraph;
///
/// let mut graph = LinkGraph::new();
/// graph.add_object(&compile("int next(int); int twice(int n) { return next(next(n)); }")?)?;
/// let dependencies = graph.dependencies();
/// assert_eq!(&*dependencies[0].symbols[0], "twice");
/// assert_eq!(&*dependencies[0].on[0], "next");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dependencies {
    /// The names, hidden ones included.
    pub symbols: Vec<Arc<str>>,
    /// Their dependencies: names of the graph, and names that it does not define.
    pub on: Vec<Arc<str>>,
}

/// The target of a relocation.
enum Meant {
    /// The section with this number, over all inputs.
    Section(usize),
    /// A global that the graph does not define.
    Outside(u32),
    Nothing,
}

/// The sections of all inputs, in sets whose members count as one section (union-find).
struct Sections<'a> {
    graph: &'a LinkGraph,
    /// The number of each input's first section.
    first: Vec<usize>,
    /// Another section of the same set, or the section itself.
    parent: Vec<usize>,
    /// For each section the globals that it defines.
    names: Vec<Vec<u32>>,
    /// For each section the globals that it refers to.
    on: Vec<Vec<u32>>,
}

impl LinkGraph {
    /// The dependencies of each name. Call it after the [external](LinkGraph::define_external) names are known.
    #[must_use]
    pub fn dependencies(&self) -> Vec<Dependencies> {
        let mut sections = Sections::new(self);
        let of_unwinding = sections.connect();
        sections.groups(&of_unwinding)
    }
}

impl<'a> Sections<'a> {
    fn new(graph: &'a LinkGraph) -> Self {
        let (mut first, mut count) = (Vec::with_capacity(graph.inputs.len()), 0);
        for input in &graph.inputs {
            first.push(count);
            count += input.object.sections().len();
        }
        let (names, on) = (vec![Vec::new(); count], vec![Vec::new(); count]);
        let mut sections = Self { graph, first, parent: (0..count).collect(), names, on };
        for (global, one) in (0..).zip(&graph.globals) {
            if let Resolution::Here { input, symbol, .. } = one.resolution
                && let Meant::Section(section) = sections.place(input, symbol)
            {
                sections.names[section].push(global);
            }
        }
        sections
    }

    /// Looks at every relocation. Returns for each input the globals that unwinding its code needs.
    fn connect(&mut self) -> Vec<Vec<u32>> {
        let graph = self.graph;
        let mut of_unwinding = vec![Vec::new(); graph.inputs.len()];
        for (input_id, input) in (0..).zip(&graph.inputs) {
            for (id, section) in input.kept_sections() {
                let is_frames = matches!(section.role, Role::EhFrame(_));
                let from = self.first[input_id as usize] + id as usize;
                for edge in input.object.edges(section) {
                    let binding = input.bindings[edge.target as usize];
                    let found = self.meant(input_id, edge.target, binding);
                    match found {
                        Meant::Nothing => {}
                        // The function that a record describes is no dependency of the others.
                        Meant::Section(to) if is_frames && self.is_code(to) => {}
                        Meant::Section(to) if is_frames => {
                            of_unwinding[input_id as usize].extend(self.described(to));
                        }
                        Meant::Outside(global) if is_frames => {
                            of_unwinding[input_id as usize].push(global);
                        }
                        Meant::Outside(global) => self.on[from].push(global),
                        Meant::Section(to) => match self.names[to].first() {
                            Some(name) => self.on[from].push(*name),
                            None if self.refers(to) => self.join(from, to),
                            None => {}
                        },
                    }
                }
            }
        }
        of_unwinding
    }

    /// The globals to use for a section that a record refers to: its name, or else what the section refers to.
    fn described(&self, section: usize) -> Vec<u32> {
        if let Some(name) = self.names[section].first() {
            return vec![*name];
        }
        let (input, id) = self.split(section);
        let object = &self.graph.inputs[input].object;
        let input_id = u32::try_from(input).unwrap_or(LOCAL);
        let edges = object.edges(&object.sections()[id]).iter();
        let meant = edges.filter_map(|edge| {
            let binding = self.graph.inputs[input].bindings[edge.target as usize];
            match self.meant(input_id, edge.target, binding) {
                Meant::Outside(global) => Some(global),
                Meant::Section(to) => self.names[to].first().copied(),
                Meant::Nothing => None,
            }
        });
        meant.collect()
    }

    fn groups(&mut self, of_unwinding: &[Vec<u32>]) -> Vec<Dependencies> {
        let mut sets: BTreeMap<usize, (Vec<u32>, BTreeSet<u32>)> = BTreeMap::new();
        for section in 0..self.parent.len() {
            let root = self.root(section);
            let (symbols, on) = sets.entry(root).or_default();
            symbols.extend(&self.names[section]);
            on.extend(&self.on[section]);
            if !self.names[section].is_empty() && self.is_code(section) {
                on.extend(&of_unwinding[self.split(section).0]);
            }
        }
        let name = |global| Arc::from(self.graph.names.text(global));
        let group = |(symbols, mut on): (Vec<u32>, BTreeSet<u32>)| {
            symbols.iter().for_each(|symbol| {
                on.remove(symbol);
            });
            (!symbols.is_empty() && !on.is_empty()).then(|| Dependencies {
                symbols: symbols.into_iter().map(name).collect(),
                on: on.into_iter().map(name).collect(),
            })
        };
        sets.into_values().filter_map(group).collect()
    }

    fn meant(&self, input: u32, symbol: u32, binding: u32) -> Meant {
        let Some(global) = self.graph.globals.get(binding as usize) else {
            return self.place(input, symbol);
        };
        match global.resolution {
            Resolution::Here { input, symbol, .. } => self.place(input, symbol),
            Resolution::Common { .. } => Meant::Nothing,
            Resolution::None | Resolution::External(_) => Meant::Outside(binding),
        }
    }

    fn place(&self, input: u32, symbol: u32) -> Meant {
        match self.graph.inputs[input as usize].object.symbol(symbol).place {
            Place::Section(section) => {
                Meant::Section(self.first[input as usize] + section as usize)
            }
            _ => Meant::Nothing,
        }
    }

    /// The input of a section, and its number there.
    fn split(&self, section: usize) -> (usize, usize) {
        let input = self.first.partition_point(|first| *first <= section).saturating_sub(1);
        (input, section - self.first[input])
    }

    fn is_code(&self, section: usize) -> bool {
        let (input, id) = self.split(section);
        self.graph.inputs[input].object.sections()[id].prot == Prot::Code
    }

    fn refers(&self, section: usize) -> bool {
        let (input, id) = self.split(section);
        !self.graph.inputs[input].object.sections()[id].edges.is_empty()
    }

    fn root(&mut self, section: usize) -> usize {
        let mut at = section;
        while self.parent[at] != at {
            self.parent[at] = self.parent[self.parent[at]];
            at = self.parent[at];
        }
        at
    }

    fn join(&mut self, one: usize, other: usize) {
        let (one, other) = (self.root(one), self.root(other));
        self.parent[other] = one;
    }
}
