//! The objects of the controller's side, which C has as numbers.
//!
//! Invariant: a number names one object at most, ever. The object of a number that was removed lives on until the last function
//! that uses it returns.

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError, RwLock};

use super::error::{Error, invalid};

/// An object that C has as a number.
pub(super) trait Object: Send + Sync + Sized + 'static {
    /// What C has pointers to.
    type Handle;
    /// What it is, for messages.
    const WHAT: &'static str;

    /// Ends what goes on in it, after its owner has ended.
    fn close(&self) {}

    /// Waits until threads of the library have left it, once it was closed.
    fn settle(&self) {}
}

/// An object of any type.
pub(super) trait AnyObject: Any + Send + Sync {
    fn close(&self);
    fn settle(&self);
}

impl<T: Object> AnyObject for T {
    fn close(&self) {
        Object::close(self);
    }

    fn settle(&self) {
        Object::settle(self);
    }
}

/// The number of an object; 0 is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Number(usize);

struct Entry {
    /// The object that it belongs to, and that removes it.
    owner: Option<Number>,
    object: Arc<dyn AnyObject>,
}

struct Objects {
    last: usize,
    live: BTreeMap<Number, Entry>,
}

static OBJECTS: RwLock<Objects> = RwLock::new(Objects { last: 0, live: BTreeMap::new() });

impl Number {
    /// A number that no object has had.
    pub(super) fn new() -> Self {
        let mut objects = OBJECTS.write().unwrap_or_else(PoisonError::into_inner);
        objects.last += 1;
        Self(objects.last)
    }

    pub(super) fn of<T>(handle: *const T) -> Self {
        Self(handle.addr())
    }

    /// The pointer that C has.
    pub(super) fn pointer<T>(self) -> *mut T {
        std::ptr::without_provenance_mut(self.0)
    }

    /// Gives the number to an object.
    ///
    /// # Errors
    ///
    /// When the owner has been removed.
    pub(super) fn name<T: Object>(
        self,
        owner: Option<Number>,
        object: Arc<T>,
    ) -> farcall::Result<*mut T::Handle> {
        let mut objects = OBJECTS.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(owner) = owner.filter(|owner| !objects.live.contains_key(owner)) {
            drop(objects);
            return Err(invalid(format!("the owner {:#x} of a new {} is gone", owner.0, T::WHAT)));
        }
        objects.live.insert(self, Entry { owner, object });
        Ok(self.pointer())
    }

    /// Removes the objects that belong to this one, and those that belong to them. Their owner closes them, in this order.
    pub(super) fn remove_owned(self) -> Vec<Arc<dyn AnyObject>> {
        let mut owners = BTreeSet::from([self]);
        let mut objects = OBJECTS.write().unwrap_or_else(PoisonError::into_inner);
        // The number of an object is larger than its owner's.
        let owned = objects.live.extract_if(.., |number, entry| {
            let is_owned = entry.owner.is_some_and(|owner| owners.contains(&owner));
            is_owned && owners.insert(*number)
        });
        let owned: Vec<_> = owned.map(|(_, entry)| entry.object).collect();
        drop(objects);
        owned.into_iter().rev().collect()
    }
}

/// The object of a number.
///
/// # Errors
///
/// When no object has it, or one of another type.
pub(super) fn find<T: Object>(handle: *const T::Handle) -> farcall::Result<Arc<T>> {
    let objects = OBJECTS.read().unwrap_or_else(PoisonError::into_inner);
    let object = objects.live.get(&Number::of(handle)).map(|entry| Arc::clone(&entry.object));
    drop(objects);
    object.and_then(downcast).ok_or_else(|| missing::<T>(handle))
}

/// Removes the object of a number, which no function finds any more.
///
/// # Errors
///
/// As [`find`].
pub(super) fn remove<T: Object>(handle: *const T::Handle) -> farcall::Result<Arc<T>> {
    let number = Number::of(handle);
    let mut objects = OBJECTS.write().unwrap_or_else(PoisonError::into_inner);
    let object = objects.live.get(&number).map(|entry| Arc::clone(&entry.object));
    let found = object.and_then(downcast).ok_or_else(|| missing::<T>(handle))?;
    let removed = objects.live.remove(&number);
    drop(objects);
    drop(removed);
    Ok(found)
}

/// Does something with the object of a number.
pub(super) fn with<T: Object>(
    handle: *const T::Handle,
    work: impl FnOnce(Arc<T>) -> farcall::Result<()>,
) -> *mut Error {
    Error::of(|| work(find(handle)?))
}

/// Removes the object of a number, if C gives one.
pub(super) fn dispose<T: Object>(handle: *const T::Handle) -> *mut Error {
    Error::of_given(handle, || remove::<T>(handle).map(drop))
}

fn downcast<T: Object>(object: Arc<dyn AnyObject>) -> Option<Arc<T>> {
    let object: Arc<dyn Any + Send + Sync> = object;
    object.downcast().ok()
}

fn missing<T: Object>(handle: *const T::Handle) -> farcall::Error {
    invalid(format!("there is no {} {:#x}", T::WHAT, handle.addr()))
}
