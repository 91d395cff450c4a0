//! Refusing what cannot be linked, before anything is placed.
//!
//! Invariant: changes nothing.

use crate::arch::edge::{Formula, ThreadModel};
use crate::error::{Error, Result};
use crate::graph::link_graph::{Input, LinkGraph, Resolution, Site};
use crate::graph::provided::TLS_MODULE_BASE_NAME;
use crate::read::parsed::{Place, Role, Section};

/// Looks at every relocation that will be applied. `own` is the number of the graph's own TLS module, if
/// its thread-locals are dynamic.
///
/// # Errors
/// Names the object, the symbol and the relocation of the first thing that cannot be linked.
pub(crate) fn refuse_what_cannot_be_linked(graph: &LinkGraph, own: Option<u32>) -> Result<()> {
    let refused = graph.sites(|site| objection(graph, site, own).is_some()).next();
    let Some(site) = &refused else { return Ok(()) };
    let Site { input, section, edge, .. } = site;
    Err(Error::link(format!(
        "{}: section {} offset {:#x}: {} against `{}`: {}",
        input.object.name(),
        input.object.text(section.name),
        edge.offset,
        edge.kind.name,
        input.object.symbol_text(edge.target),
        objection(graph, site, own).unwrap_or_default()
    )))
}

/// Why a relocation cannot be linked.
fn objection(graph: &LinkGraph, site: &Site<'_>, own: Option<u32>) -> Option<String> {
    let symbol = site.symbol();
    let objection = match symbol.place {
        Place::Section(target) if !symbol.is_global => {
            objection_to_local(site.input, site.section, target)
        }
        _ => None,
    };
    let objection = objection.or_else(|| objection_to_kind(graph, site));
    objection.or_else(|| objection_to_model(graph, site, own))
}

/// Why a relocation of `from` cannot refer to section `target` of its own object.
fn objection_to_local(input: &Input, from: &Section, target: u32) -> Option<String> {
    let section = input.object.section(target);
    let name = || input.object.text(section.name);
    if matches!(section.role, Role::EhFrame(_)) {
        return Some(format!("section {} is repacked, so that nothing can refer into it", name()));
    }
    let is_gone = input.dropped[target as usize] && !input.elsewhere.contains_key(&target);
    let is_tolerant = || input.object.text(from.name).starts_with(".gcc_except_table");
    (is_gone && !is_tolerant()).then(|| {
        let name = name();
        format!("section {name} was dropped, because another object defines the same COMDAT group")
    })
}

/// Why a relocation cannot refer to the definition of its symbol: only one of the two is about a thread-local, or a
/// thread-local is undefined.
fn objection_to_kind(graph: &LinkGraph, site: &Site<'_>) -> Option<String> {
    let wants_thread = matches!(site.edge.kind.formula, Formula::Thread(_));
    let name_of = |input: u32| graph.inputs[input as usize].object.name();
    let (is_thread, definer) = match graph.globals.get(site.binding() as usize) {
        None if site.symbol().is_thread == wants_thread => return None,
        None => (site.symbol().is_thread, site.input.object.name()),
        Some(global) => match global.resolution {
            Resolution::Here { thread, .. } if thread == wants_thread => return None,
            Resolution::Here { input, thread, .. } => (thread, name_of(input)),
            Resolution::Common { input, .. } => (false, name_of(input)),
            Resolution::External(found) => (found.thread, "something outside of the link"),
            Resolution::None if graph.is_name(site.binding(), TLS_MODULE_BASE_NAME) => {
                (true, "the linker")
            }
            Resolution::None if wants_thread && !site.symbol().weak => {
                return Some(
                    "this thread-local variable is undefined; link the object, or open the shared \
                     library, that defines it"
                        .to_owned(),
                );
            }
            Resolution::None => return None,
        },
    };
    match (wants_thread, is_thread) {
        (true, false) => Some(format!(
            "used as a thread-local variable, but {definer} defines it as something else; declare it the \
             same way everywhere"
        )),
        (false, true) if site.edge.kind.formula != Formula::Size => Some(format!(
            "{definer} defines it as a thread-local variable, but it is used like an ordinary one; \
             declare it with `extern __thread` or `extern thread_local`"
        )),
        _ => None,
    }
}

/// Why code or data cannot reach a thread-local where it is.
fn objection_to_model(graph: &LinkGraph, site: &Site<'_>, own: Option<u32>) -> Option<String> {
    let Formula::Thread(model) = site.edge.kind.formula else { return None };
    let module = graph.tls_module_of(site.binding(), own);
    let what = match model {
        ThreadModel::General
        | ThreadModel::LocalBase
        | ThreadModel::Descriptor
        | ThreadModel::DescriptorCall => return None,
        ThreadModel::LocalOffset | ThreadModel::LocalInCode if module == own => return None,
        ThreadModel::Initial
        | ThreadModel::InitialEntry
        | ThreadModel::InitialAddress
        | ThreadModel::Exec
            if module.is_none() =>
        {
            return None;
        }
        ThreadModel::LocalOffset | ThreadModel::LocalInCode => {
            "this is a distance inside the link's own TLS block, where the variable is not"
        }
        ThreadModel::Initial
        | ThreadModel::InitialEntry
        | ThreadModel::InitialAddress
        | ThreadModel::Exec => {
            "this code wants one distance from the thread pointer in all threads, which thread-locals outside of \
             the static TLS reserve have not"
        }
    };
    Some(format!("{what}; compile with -fPIC -ftls-model=global-dynamic"))
}
