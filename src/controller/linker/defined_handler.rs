//! The handlers that linked code calls as C functions.
//!
//! Invariant: a handler stays registered as long as the code of its stub does.

use std::sync::Arc;

use crate::controller::process::callbacks::Callbacks;
use crate::controller::process::handlers::{Function, HandlerTag};

/// A handler that was registered for a stub. Dropping it removes it.
#[derive(Debug)]
pub(in crate::controller) struct DefinedHandler {
    callbacks: Arc<Callbacks>,
    /// None when the handler belongs to a link.
    tag: Option<HandlerTag>,
}

impl DefinedHandler {
    /// Registers a handler, and returns its tag as well.
    pub(in crate::controller) fn new(
        callbacks: &Arc<Callbacks>,
        function: Box<Function>,
    ) -> (Self, HandlerTag) {
        let tag = callbacks.handlers().add(function);
        (Self { callbacks: Arc::clone(callbacks), tag: Some(tag) }, tag)
    }

    /// The tags of handlers whose stubs were linked. They are removed with the code.
    pub(super) fn into_tags(handlers: Vec<Self>) -> Vec<HandlerTag> {
        handlers.into_iter().filter_map(|mut handler| handler.tag.take()).collect()
    }
}

impl Drop for DefinedHandler {
    fn drop(&mut self) {
        if let Some(tag) = self.tag {
            self.callbacks.handlers().remove(tag);
        }
    }
}
