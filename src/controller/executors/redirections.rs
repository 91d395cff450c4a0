//! The dylibs that redirected functions lead to, which are not cleared: no next executor could be filled.
//!
//! Invariant: a dylib is noted before a function that will lead to it is looked up, and until the function leads elsewhere in each
//! executor. So no dylib is cleared meanwhile, and a dylib that is being cleared gets no function.

use std::collections::HashMap;
use std::sync::Arc;

use super::generation::LibraryName;
use crate::error::{Error, Result};
use crate::sync::{AtomicU64, Mutex, Ordering};

/// The redirected functions of a session, by their numbers.
#[derive(Debug, Default)]
pub(super) struct Redirections {
    /// The numbers of dylibs and redirected functions so far.
    numbers: AtomicU64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    functions: HashMap<u64, Lead>,
    /// Dylibs that are being cleared.
    cleared: Vec<u64>,
}

/// A redirected function.
#[derive(Debug)]
struct Lead {
    name: Arc<str>,
    /// The dylib that defines it.
    home: u64,
    /// The dylibs that it leads to, or will.
    to: Vec<u64>,
}

/// A dylib that is being cleared, until this value is dropped.
#[derive(Debug)]
pub(super) struct Clearing<'a> {
    redirections: &'a Redirections,
    dylib: u64,
}

impl Redirections {
    /// A number for a dylib or a redirected function.
    pub(super) fn number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    /// Adds a function of the dylib `home`, which will lead to `to`.
    ///
    /// # Errors
    ///
    /// When one of the two is being cleared.
    pub(super) fn add(
        &self,
        number: u64,
        name: &Arc<str>,
        home: &LibraryName,
        to: &LibraryName,
    ) -> Result<()> {
        let mut state = self.state.lock();
        state.check(home).and_then(|()| state.check(to))?;
        let lead = Lead { name: Arc::clone(name), home: home.number, to: vec![to.number] };
        state.functions.insert(number, lead);
        Ok(())
    }

    /// Notes that a function will lead to `to` as well.
    ///
    /// # Errors
    ///
    /// When the function was removed, by itself or with its dylib, or `to` is being cleared.
    pub(super) fn lead(&self, number: u64, name: &str, to: &LibraryName) -> Result<()> {
        let mut state = self.state.lock();
        state.check(to)?;
        let removed = || Error::invalid(format!("{name} was removed, or its library was cleared"));
        state.functions.get_mut(&number).ok_or_else(removed)?.to.push(to.number);
        Ok(())
    }

    /// A function does not lead to `to` any more.
    pub(super) fn leave(&self, number: u64, to: &LibraryName) {
        if let Some(lead) = self.state.lock().functions.get_mut(&number)
            && let Some(at) = lead.to.iter().position(|dylib| *dylib == to.number)
        {
            lead.to.swap_remove(at);
        }
    }

    /// Removes a function. False when it was removed before, by itself or with its dylib.
    pub(super) fn remove(&self, number: u64) -> bool {
        self.state.lock().functions.remove(&number).is_some()
    }

    pub(super) fn has(&self, number: u64) -> bool {
        self.state.lock().functions.contains_key(&number)
    }

    /// Begins to clear a dylib. The functions that it defines are removed.
    ///
    /// # Errors
    ///
    /// When a function of another dylib leads to it.
    pub(super) fn clear(&self, dylib: &LibraryName) -> Result<Clearing<'_>> {
        let (mut state, LibraryName { number, name, .. }) = (self.state.lock(), dylib);
        let mut others = state.functions.values().filter(|lead| lead.home != *number);
        if let Some(Lead { name: function, .. }) = others.find(|lead| lead.to.contains(number)) {
            return Err(Error::invalid(format!(
                "{name} cannot be cleared: the redirected function {function} leads to it; redirect {function} to another dylib, or \
                 remove it, before"
            )));
        }
        state.functions.retain(|_, lead| lead.home != *number);
        state.cleared.push(*number);
        Ok(Clearing { redirections: self, dylib: *number })
    }
}

impl State {
    /// Refuses a dylib that is being cleared.
    fn check(&self, dylib: &LibraryName) -> Result<()> {
        match self.cleared.contains(&dylib.number) {
            true => Err(Error::invalid(format!("{} is being cleared", dylib.name))),
            false => Ok(()),
        }
    }
}

impl Drop for Clearing<'_> {
    fn drop(&mut self) {
        let mut state = self.redirections.state.lock();
        if let Some(at) = state.cleared.iter().position(|dylib| *dylib == self.dylib) {
            state.cleared.swap_remove(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(number: u64, name: &str) -> LibraryName {
        LibraryName::new(number, name.to_owned(), |_| {})
    }

    #[test]
    fn a_dylib_is_cleared_only_while_nothing_leads_to_it() {
        let redirections = Redirections::default();
        let [main, first, second] = [named(0, "main"), named(1, "first"), named(2, "second")];
        redirections.add(7, &"step".into(), &main, &first).expect("nothing is cleared");
        let error = redirections.clear(&first).expect_err("step leads to it").to_string();
        assert!(error.contains("first cannot be cleared") && error.contains("step"), "{error}");
        redirections.lead(7, "step", &second).expect("it is there");
        assert!(
            redirections.clear(&first).is_err() && redirections.clear(&second).is_err(),
            "to both for now"
        );
        redirections.leave(7, &first);
        let clearing = redirections.clear(&first).expect("nothing leads to it");
        assert!(redirections.lead(7, "step", &first).is_err(), "it is being cleared");
        assert!(redirections.add(8, &"other".into(), &main, &first).is_err());
        drop(clearing);
        redirections.lead(7, "step", &first).expect("it was cleared");
        drop(redirections.clear(&main).expect("what leads elsewhere goes with it"));
        assert!(!redirections.has(7) && redirections.lead(7, "step", &second).is_err());
        drop(redirections.clear(&second).expect("nothing leads to it"));
        // A function may lead to its own dylib.
        redirections.add(9, &"own".into(), &main, &main).expect("nothing is cleared");
        drop(redirections.clear(&main).expect("both go"));
        assert!(!redirections.remove(9));
    }
}
