//! Allocation actions: what is done when memory becomes code and data, and undone when it stops being that.
#![allow(unsafe_code, reason = "calls actions by address")]

use crate::call::contract::Action;
use crate::error::{Error, Result};

use super::wrapper;

/// Runs the finalize actions of `pairs` in order, and returns the dealloc actions, in the same order.
///
/// A null finalize or dealloc action is none.
///
/// # Errors
///
/// When an action fails: the dealloc actions of the pairs before it have been run then, last first; the pair's own
/// has not. The failures of those are added to the message.
pub(super) fn finalize(pairs: Vec<(Action, Action)>) -> Result<Vec<Action>> {
    let mut undo = Vec::new();
    for (number, (finalize, dealloc)) in pairs.into_iter().enumerate() {
        if let Err(error) = run(&finalize) {
            let mut message = format!("finalize action {number} failed: {error}");
            for failure in self::dealloc(undo) {
                message = format!("{message}; undoing: {failure}");
            }
            return Err(Error::remote(message));
        }
        if !dealloc.0.is_null() {
            undo.push(dealloc);
        }
    }
    Ok(undo)
}

/// Runs all of `actions`, last first, and returns the messages of those that failed.
pub(super) fn dealloc(actions: Vec<Action>) -> Vec<String> {
    actions.iter().rev().filter_map(|action| run(action).err()).collect()
}

fn run((function, args): &Action) -> std::result::Result<(), String> {
    if function.is_null() {
        return Ok(());
    }
    // SAFETY: the controller names its actions, and the executor obeys the controller.
    unsafe { wrapper::call(function.get(), &args.0, &mut Vec::new()) }
}
