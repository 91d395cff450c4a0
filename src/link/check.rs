//! What a graph cannot be linked with, found before any place is given.
//!
//! Invariant: changes nothing.

use super::edge::Formula;
use super::graph::{Input, LinkGraph, Resolution, Site};
use super::object_file::{Place, Role, Section, SymbolKind};
use crate::error::{Error, Result};

/// Looks at every relocation that will be applied and every section that will be loaded.
///
/// # Errors
/// Names the object, the symbol and the relocation of the first thing that cannot be linked.
pub(super) fn refuse_what_cannot_be_linked(graph: &LinkGraph) -> Result<()> {
    let mut first = Ok(());
    graph.visit_edges(|site| {
        let Site { input, section, edge, .. } = site;
        if first.is_err() {
            return;
        }
        let refuse = |what: String| {
            Err(Error::link(format!(
                "{}: section {} offset {:#x}: {} against `{}`: {what}",
                input.object.name(),
                input.object.text(section.name),
                edge.offset,
                edge.kind.name,
                input.object.symbol_text(edge.target)
            )))
        };
        if matches!(edge.kind.formula, Formula::Thread(_)) {
            first = refuse("thread-local variables cannot be linked yet".to_owned());
            return;
        }
        if let (None, Place::Section(target)) = (&site.symbol().global, site.symbol().place) {
            first = objection_to_local(input, section, target).map_or(Ok(()), refuse);
        }
    });
    first?;
    refuse_special_definitions(graph)
}

/// Why a relocation of `from` cannot refer to section `target` of its own object.
fn objection_to_local(input: &Input, from: &Section, target: u32) -> Option<String> {
    let section = input.object.section(target);
    let name = input.object.text(section.name);
    if matches!(section.role, Role::EhFrame(_)) {
        return Some(format!("section {name} is repacked, so that nothing can refer into it"));
    }
    let tolerant = input.object.text(from.name).starts_with(".gcc_except_table");
    (input.dropped[target as usize] && !tolerant).then(|| {
        format!("section {name} was dropped, because another object defines the same COMDAT group")
    })
}

fn refuse_special_definitions(graph: &LinkGraph) -> Result<()> {
    for (id, input) in graph.inputs.iter().enumerate() {
        let name = input.object.name();
        for (index, symbol) in input.object.symbols().iter().enumerate() {
            let is_loaded =
                matches!(symbol.place, Place::Section(_)) && !input.is_dropped(symbol.place);
            let global = graph.globals.get(input.bindings[index] as usize);
            let counts = global.is_none_or(|global| {
                matches!(global.resolution, Resolution::Here { input, .. } if input as usize == id)
            });
            if !is_loaded || !counts {
                continue;
            }
            let text = input.object.text(symbol.name);
            match symbol.kind {
                SymbolKind::Indirect => {
                    return Err(Error::link(format!(
                        "{name}: `{text}` is an indirect function (STT_GNU_IFUNC), which cannot be \
                         linked yet; compile without ifunc and target_clones attributes"
                    )));
                }
                SymbolKind::Thread => {
                    return Err(Error::link(format!(
                        "{name}: `{text}` is a thread-local variable, which cannot be linked yet"
                    )));
                }
                _ => {}
            }
        }
        for (_, section) in input.kept_sections() {
            if matches!(section.role, Role::Thread) && section.bytes > 0 {
                return Err(Error::link(format!(
                    "{name}: section {}: {} bytes of thread-local storage, which cannot be linked yet",
                    input.object.text(section.name),
                    section.bytes
                )));
            }
        }
    }
    Ok(())
}
