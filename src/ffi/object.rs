//! The objects of the controller's side, which C has as numbers.
//!
//! Invariant: a number names one object at most, ever. The object of a number that was removed lives on until the last function
//! that uses it returns.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use super::error::invalid;

/// An object that C has as a number.
pub(super) trait Object: Send + Sync + Sized + 'static {
    /// What C has pointers to.
    type Handle;
    /// What it is, for messages.
    const WHAT: &'static str;
}

/// The number of an object; 0 is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Number(usize);

struct Entry {
    /// The object that it belongs to, and that removes it.
    owner: Option<Number>,
    object: Arc<dyn Any + Send + Sync>,
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

    /// Removes the objects that belong to this one.
    pub(super) fn remove_owned(self) -> Vec<Arc<dyn Any + Send + Sync>> {
        let mut objects = OBJECTS.write().unwrap_or_else(PoisonError::into_inner);
        let owned = objects.live.extract_if(.., |_, entry| entry.owner == Some(self));
        owned.map(|(_, entry)| entry.object).collect()
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
    let found = object.and_then(|object| object.downcast().ok());
    found.ok_or_else(|| missing::<T>(handle))
}

/// Removes the object of a number, which no function finds any more.
///
/// # Errors
///
/// As [`find`].
pub(super) fn remove<T: Object>(handle: *const T::Handle) -> farcall::Result<Arc<T>> {
    let number = Number::of(handle);
    let mut objects = OBJECTS.write().unwrap_or_else(PoisonError::into_inner);
    let is_one = objects.live.get(&number).is_some_and(|entry| entry.object.is::<T>());
    let entry = if is_one { objects.live.remove(&number) } else { None };
    drop(objects);
    let found = entry.and_then(|entry| entry.object.downcast().ok());
    found.ok_or_else(|| missing::<T>(handle))
}

fn missing<T: Object>(handle: *const T::Handle) -> farcall::Error {
    invalid(format!("there is no {} {:#x}", T::WHAT, handle.addr()))
}
