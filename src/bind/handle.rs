//! Objects of the library.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use crate::ExecutorAddr;
use crate::controller::region::HeapBlock;
use crate::controller::{Process, WeakProcess};

/// An object of the library, such as a `sqlite3 *`: an address, and the process in which it means something. A call with the handle of
/// a process that has ended is an error, also when the next process runs. A clone is the same object.
///
/// The null handle belongs to each process. A drop frees nothing in the library, unless the object lies in memory of the host
/// ([`Sandbox::place`](super::Sandbox::place)); then the last clone frees it.
///
/// # Examples
///
/// ```
/// use farcall::bind::Handle;
///
/// /// `struct database;`
/// #[derive(Debug)]
/// enum Database {}
///
/// let mut database = Handle::<Database>::null();
/// assert!(database.is_null());
/// // The binding of `int database_open(const char *path, struct database **opened)` stores the object there.
/// fn opened(_database: &mut Handle<Database>) {}
/// opened(&mut database);
/// ```
pub struct Handle<T> {
    address: ExecutorAddr,
    /// The process of the object; none for null.
    process: Option<WeakProcess>,
    /// The memory of the object, if the host has allocated it.
    block: Option<Arc<HeapBlock>>,
    kind: PhantomData<fn() -> T>,
}

impl<T> Handle<T> {
    /// No object, as `NULL`.
    #[must_use]
    pub fn null() -> Self {
        Self { address: ExecutorAddr::NULL, process: None, block: None, kind: PhantomData }
    }

    /// True for no object.
    #[must_use]
    pub fn is_null(&self) -> bool {
        self.address.is_null()
    }

    /// The address of the object in its process.
    #[must_use]
    pub fn address(&self) -> ExecutorAddr {
        self.address
    }

    /// True for an object whose process has ended.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        let process = self.process.as_ref();
        process.is_some_and(|process| process.upgrade().is_none_or(|process| process.has_ended()))
    }

    /// An object at an address that the library has said.
    pub(super) fn of_process(address: ExecutorAddr, process: &Process) -> Self {
        match address.is_null() {
            true => Self::null(),
            false => {
                Self { address, process: Some(process.downgrade()), block: None, kind: PhantomData }
            }
        }
    }

    /// An object in memory of the host.
    pub(super) fn in_block(block: HeapBlock, process: &Process) -> Self {
        let address = block.address();
        let (process, block) = (Some(process.downgrade()), Some(Arc::new(block)));
        Self { address, process, block, kind: PhantomData }
    }

    pub(super) fn process(&self) -> Option<&WeakProcess> {
        self.process.as_ref()
    }

    pub(super) fn block(&self) -> Option<&HeapBlock> {
        self.block.as_deref()
    }
}

impl<T> Clone for Handle<T> {
    fn clone(&self) -> Self {
        let Self { address, process, block, kind } = self;
        Self { address: *address, process: process.clone(), block: block.clone(), kind: *kind }
    }
}

impl<T> Default for Handle<T> {
    fn default() -> Self {
        Self::null()
    }
}

impl<T> fmt::Debug for Handle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Handle({})", self.address)
    }
}
