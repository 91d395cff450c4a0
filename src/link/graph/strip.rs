//! Dropping the sections all of whose definitions lost against others.
//!
//! A COMDAT duplicate is dropped when its object is added. A weak function that another object overrides has a section. It is
//! dropped here if it defines nothing else that counts, and its object refers to it only by the names that lost. Its unwind
//! record and its undefined names are dropped with it.
//!
//! Invariant: no relocation that is applied refers to what is dropped here.

use std::collections::HashSet;

use super::link_graph::{Input, LOCAL, LinkGraph};
use crate::read::parsed::{Place, Role};

impl LinkGraph {
    /// Drops sections of the inputs that lost definitions since the last call.
    pub(crate) fn drop_overridden(&mut self) {
        let losers: Vec<u32> = std::mem::take(&mut self.losers).into_iter().collect();
        let weight = losers.iter().map(|input| self.inputs[*input as usize].object.bytes().len());
        let dropped = self.threads.map(losers.len(), weight.sum::<usize>() as u64, |at| {
            let mut candidates = self.overridden_sections(losers[at]);
            keep_what_is_referred_to(&self.inputs[losers[at] as usize], &mut candidates);
            candidates
        });
        for (input, sections) in losers.into_iter().zip(dropped) {
            let input = &mut self.inputs[input as usize];
            sections.into_iter().for_each(|section| input.dropped[section as usize] = true);
        }
    }

    /// The sections of an input with at least one global definition, all of which lost.
    fn overridden_sections(&self, input_id: u32) -> HashSet<u32> {
        let input = &self.inputs[input_id as usize];
        let mut lost = HashSet::new();
        let mut used = vec![false; input.object.sections().len()];
        for (symbol_id, symbol) in (0..).zip(input.object.symbols()) {
            let Place::Section(section) = symbol.place else { continue };
            let binding = input.bindings[symbol_id as usize];
            if binding == LOCAL {
                continue;
            }
            if self.is_definition(input_id, symbol_id) || is_found_otherwise(input, section) {
                used[section as usize] = true;
            } else if !input.dropped[section as usize] {
                lost.insert(section);
            }
        }
        lost.retain(|section| !used[*section as usize]);
        lost
    }
}

/// True for sections that are used without their symbols: arrays, unwind records, thread-locals, and those that code finds by
/// `__start_X`.
fn is_found_otherwise(input: &Input, section: u32) -> bool {
    let section = input.object.section(section);
    !matches!(section.role, Role::Plain) || section.is_named
}

/// Removes from `candidates` what the sections that stay refer to by local symbols, directly or through others.
fn keep_what_is_referred_to(input: &Input, candidates: &mut HashSet<u32>) {
    if candidates.is_empty() {
        return;
    }
    let kept = input.kept_sections().map(|(section, _)| section);
    let mut staying: Vec<u32> = kept.filter(|section| !candidates.contains(section)).collect();
    while let Some(section) = staying.pop() {
        let section = input.object.section(section);
        if matches!(section.role, Role::EhFrame(_)) {
            continue;
        }
        for edge in input.object.edges(section) {
            let symbol = input.object.symbol(edge.target);
            if let Place::Section(target) = symbol.place
                && !symbol.is_global
                && candidates.remove(&target)
            {
                staying.push(target);
            }
        }
    }
}
