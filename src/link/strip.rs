//! Dropping the sections whose every definition lost against another one.
//!
//! A COMDAT duplicate is dropped when its object is added. A weak function that another object overrides
//! stays in its section; when that section defines nothing else that counts, and nobody refers to it
//! except by the lost names, it goes, and with it its unwind record and its wishes for other names.
//!
//! Invariant: no relocation that is applied refers to what is dropped here.

use std::collections::HashSet;

use super::graph::{Definition, LinkGraph};
use super::object_file::{Place, Role};

/// Marks sections of overridden definitions as dropped.
pub(super) fn drop_overridden(graph: &mut LinkGraph) {
    let mut candidates = overridden_sections(graph);
    if candidates.is_empty() {
        return;
    }
    keep_what_is_referred_to(graph, &mut candidates);
    for (input, section) in candidates {
        graph.inputs[input].dropped[section as usize] = true;
    }
}

/// The sections with at least one global definition, all of which lost.
fn overridden_sections(graph: &LinkGraph) -> HashSet<(usize, u32)> {
    let mut lost = HashSet::new();
    let mut used = HashSet::new();
    for (input_id, input) in graph.inputs.iter().enumerate() {
        for (symbol_id, symbol) in (0..).zip(input.object.symbols()) {
            let Place::Section(section) = symbol.place else { continue };
            let Some(global) = graph.globals.get(input.bindings[symbol_id as usize] as usize)
            else {
                continue;
            };
            let counts = matches!(
                global.definition,
                Definition::Here { input, symbol, .. }
                    if input as usize == input_id && symbol == symbol_id
            );
            let plain = matches!(input.object.section(section).role, Role::Plain);
            if counts || !plain {
                used.insert((input_id, section));
            } else if !input.dropped[section as usize] {
                lost.insert((input_id, section));
            }
        }
    }
    lost.retain(|section| !used.contains(section));
    lost
}

/// Takes back the candidates that relocations of sections which stay refer to by local symbols.
fn keep_what_is_referred_to(graph: &LinkGraph, candidates: &mut HashSet<(usize, u32)>) {
    let mut staying: Vec<(usize, u32)> = Vec::new();
    for (input_id, input) in graph.inputs.iter().enumerate() {
        let kept = input.kept_sections().map(|(section, _)| (input_id, section));
        staying.extend(kept.filter(|section| !candidates.contains(section)));
    }
    while let Some((input_id, section)) = staying.pop() {
        let input = &graph.inputs[input_id];
        let section = input.object.section(section);
        if matches!(section.role, Role::EhFrame(_)) {
            continue;
        }
        for edge in &section.edges {
            let symbol = input.object.symbol(edge.target);
            if let (None, Place::Section(target)) = (&symbol.global, symbol.place)
                && candidates.remove(&(input_id, target))
            {
                staying.push((input_id, target));
            }
        }
    }
}
