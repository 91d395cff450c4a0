//! Variables that stay where they are when a new version of a program replaces the old one.
//!
//! Invariant: a name refers to one variable or to none.

use std::collections::HashMap;

use super::link_graph::LinkGraph;
use crate::addr::{ExecutorAddr, Prot};
use crate::read::parsed::Role;

impl LinkGraph {
    /// Leaves variables where they are, for a new version of a program that keeps its data. `find` takes the name and the size in
    /// bytes of a variable, and returns its address if it exists. Such a variable is not a part of the image, nor are its initial
    /// values. Only variables with sections of their own (`-fdata-sections`) can stay, and thread-locals cannot. The names
    /// are the names of the sections. [`Image::variables`](crate::Image::variables) lists the addresses of all of them. Call
    /// it after the last object was added.
    pub fn keep_variables(&mut self, find: impl Fn(&str, u64) -> Option<ExecutorAddr>) {
        self.lists_variables = true;
        let mut found = Vec::new();
        for (name, variable) in self.variables() {
            let (input, section) = variable;
            let bytes = self.inputs[input as usize].object.section(section).bytes;
            found.extend(find(name, bytes).map(|address| (variable, address)));
        }
        for ((input, section), address) in found {
            let input = &mut self.inputs[input as usize];
            input.elsewhere.insert(section, address.get());
            input.dropped[section as usize] = true;
        }
    }

    /// The variables with sections of their own, if no other section has the name: name, input and section.
    pub(crate) fn variables(&self) -> HashMap<&str, (u32, u32)> {
        let mut seen: HashMap<&str, Option<(u32, u32)>> = HashMap::new();
        for (input_id, input) in (0..).zip(&self.inputs) {
            for (section_id, section) in (0..).zip(input.object.sections()) {
                let name = input.object.text(section.name);
                let is_own = name.starts_with(".data.") || name.starts_with(".bss.");
                let is_here = !input.dropped[section_id as usize]
                    || input.elsewhere.contains_key(&section_id);
                let is_plain = section.prot == Prot::Data && matches!(section.role, Role::Plain);
                if is_own && is_here && is_plain {
                    let place = Some((input_id, section_id));
                    seen.entry(name).and_modify(|seen| *seen = None).or_insert(place);
                }
            }
        }
        seen.into_iter().filter_map(|(name, place)| Some((name, place?))).collect()
    }
}
