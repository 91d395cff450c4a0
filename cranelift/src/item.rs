//! The facts that a module has about each function and data object.

use std::sync::Arc;

use cranelift_module::{DataId, FuncId};
use farcall::AddrRange;
use farcall::controller::Library;
use farcall::controller::hotswap::Redirectable;

/// A function or data object.
#[derive(Debug, Default)]
pub(crate) struct Item {
    /// It is in the executor.
    pub(crate) linked: Option<Linked>,
    /// It was defined since the last finalize.
    pub(crate) is_pending: bool,
    /// A new definition may take the place of the linked one.
    pub(crate) is_replaceable: bool,
    /// The stub that callers call; for functions of a module with hot swap.
    pub(crate) stub: Option<Redirectable>,
}

/// Its place in the executor.
#[derive(Debug)]
pub(crate) struct Linked {
    pub(crate) range: AddrRange,
    pub(crate) is_thread_local: bool,
    /// The link of all that was finalized together. The last owner removes it.
    pub(crate) batch: Arc<Library>,
}

impl Item {
    /// It has a definition, finalized or not, that no other may follow.
    pub(crate) fn is_defined(&self) -> bool {
        self.is_pending || (self.linked.is_some() && !self.is_replaceable)
    }
}

/// A function or data object of a module.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum ItemId {
    Func(FuncId),
    Data(DataId),
}

impl From<FuncId> for ItemId {
    fn from(id: FuncId) -> Self {
        Self::Func(id)
    }
}

impl From<DataId> for ItemId {
    fn from(id: DataId) -> Self {
        Self::Data(id)
    }
}
