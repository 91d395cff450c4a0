//! The structures of a plan.

use std::collections::BTreeSet;

use crate::header::{Record, Type};
use crate::plan::{CallbackRole, Element, Outcome, Plan, Role};

/// The structures that the roles of a plan name.
pub(crate) fn named(plan: &Plan) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for function in &plan.functions {
        for parameter in &function.parameters {
            match &parameter.role {
                Role::Handle(name) | Role::OutHandle(name) | Role::InputStructure(name) => {
                    _ = names.insert(name.clone())
                }
                Role::Input(Element::Record(name)) | Role::InOut(Element::Record(name)) => {
                    _ = names.insert(name.clone())
                }
                Role::Output { element: Element::Record(name), .. } => {
                    _ = names.insert(name.clone())
                }
                Role::Callback(callback, _) => {
                    names.extend(callback.parameters.iter().filter_map(|one| match one {
                        CallbackRole::Handle(name) => Some(name.clone()),
                        _ => None,
                    }))
                }
                _ => {}
            }
        }
        if let Outcome::Handle(name) = &function.result {
            names.insert(name.clone());
        }
    }
    names
}

/// The complete structures of these names, and those that lie in them.
pub(crate) fn reachable(records: &[Record], mut names: BTreeSet<String>) -> Vec<Record> {
    // The list has inner structures first.
    for record in records.iter().rev().filter(|record| record.fields.is_some()) {
        if names.contains(&record.name) {
            names.extend(record.fields.iter().flatten().filter_map(|field| inner(&field.kind)));
        }
    }
    records.iter().filter(|record| names.contains(&record.name)).cloned().collect()
}

/// The structure of a field, or of its elements.
fn inner(kind: &Type) -> Option<String> {
    match kind {
        Type::Record(name) => Some(name.clone()),
        Type::Array(element, _) => inner(element),
        _ => None,
    }
}
