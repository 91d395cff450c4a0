//! The handlers that a dylib defines as C functions, of either kind of dylib.
//!
//! Invariant: a handler stays registered as long as the code of its stub does.

use std::sync::Arc;

use crate::controller::process::handlers::{Function, HandlerTag};
use crate::controller::session::Session;

/// Handlers whose stubs are not linked yet. Dropping them removes them.
#[derive(Debug, Default)]
pub(in crate::controller) struct DefinedHandlers(Vec<DefinedHandler>);

/// A handler that was registered for a stub. Dropping it removes it.
#[derive(Debug)]
pub(in crate::controller) struct DefinedHandler {
    session: Arc<Session>,
    /// None when the handler belongs to a link.
    tag: Option<HandlerTag>,
}

impl DefinedHandler {
    /// Registers a handler, and returns its tag as well.
    pub(in crate::controller) fn new(
        session: &Arc<Session>,
        function: Box<Function>,
    ) -> (Self, HandlerTag) {
        let tag = session.add_handler(function);
        (Self { session: Arc::clone(session), tag: Some(tag) }, tag)
    }
}

impl Drop for DefinedHandler {
    fn drop(&mut self) {
        if let Some(tag) = self.tag {
            self.session.remove_handler(tag);
        }
    }
}

impl From<DefinedHandler> for DefinedHandlers {
    fn from(handler: DefinedHandler) -> Self {
        Self(vec![handler])
    }
}

impl DefinedHandlers {
    pub(in crate::controller) fn push(&mut self, handler: DefinedHandler) {
        self.0.push(handler);
    }

    /// The tags of handlers whose stubs were linked. They are removed with the code.
    pub(in crate::controller) fn into_tags(self) -> Vec<HandlerTag> {
        self.0.into_iter().filter_map(|mut handler| handler.tag.take()).collect()
    }
}
