//! A redirected function of an executor, in each of its processes.

use std::sync::Arc;

use super::generation::{Generation, Implementation, LibraryName, Target};
use super::library::Library;
use super::slots::Slots;
use crate::controller::hotswap::{OldCode, Redirectable};
use crate::error::{Error, Result};
use crate::sync::Mutex;

/// A function of a [`Library`] that is redirected from one implementation to the next, as
/// [`Redirectable`] is. The executor remembers to which: in a next process it leads to the latest one from the start.
///
/// Cheap to clone; any thread may use it. Dropping it keeps the function.
///
/// # Examples
///
/// ```standalone_crate
/// # farcall::executor::run_if_spawned();
#[doc = include_str!("../../docs/compile.txt")]
/// use farcall::controller::{ExecutorBuilder, RestartPolicy};
///
/// let executor = ExecutorBuilder::new().this_program().restart(RestartPolicy::new()).start()?;
/// let version = |number: u32| -> Result<_, Box<dyn std::error::Error>> {
///     let library = executor.library(format!("version {number}"));
///     library.add_object(&compile(&format!("int step(void) {{ return {number}; }}"))?)?;
///     Ok(library)
/// };
/// let (first, second) = (version(1)?, version(2)?);
/// let main = executor.library("main");
/// let redirection = main.create_redirection("step", &first, "step")?;
/// let step = main.function::<extern "C" fn() -> i32>("step");
/// assert_eq!(step.call(())?, 1);
/// redirection.redirect_and_remove(&second, "step", &first)?;
/// assert_eq!(step.call(())?, 2);
/// executor.process()?.close();
/// let _ended = step.call(()); // or already the next process's answer
/// assert_eq!(step.call(())?, 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Redirection {
    slots: Arc<Slots>,
    number: u64,
    /// The dylib that defines it.
    home: Arc<LibraryName>,
    name: Arc<str>,
    target: Target,
}

impl Library {
    /// Defines `name` as a function that can be redirected, for lookups and for objects that are linked later, in each process. At
    /// first it leads to the function `symbol` of the library `of`, which belongs to the same executor.
    ///
    /// # Errors
    ///
    /// As [`Process::create_redirectable`](crate::controller::Process::create_redirectable). When the library defines the name already,
    /// `of` does not define the symbol, or linking it fails; nothing is remembered then. When `of` belongs to another executor.
    pub fn create_redirection(
        &self,
        name: &str,
        of: &Library,
        symbol: &str,
    ) -> Result<Redirection> {
        let redirectable = Redirection {
            slots: Arc::clone(&self.slots),
            number: self.slots.redirections().number(),
            home: Arc::clone(&self.named),
            name: name.into(),
            target: Arc::new(Mutex::new(Implementation::of(of, symbol))),
        };
        redirectable.check(of)?;
        // Without the slots, which have the step.
        let (named, number) = (Arc::clone(&self.named), redirectable.number);
        let (name, target) = (Arc::clone(&redirectable.name), Arc::clone(&redirectable.target));
        let create = move |generation: &Generation| {
            let present = target.lock().clone();
            let address = generation.address(&present)?;
            generation.create_redirectable(number, &named, &name, address)
        };
        let behind = Some(Arc::clone(&redirectable.target));
        let redirections = self.slots.redirections();
        redirections.add(number, &redirectable.name, &self.named, &of.named)?;
        if let Err(error) = self.slots.add(Some(self.named.number), behind, create) {
            redirections.remove(number);
            // Another process may have taken it.
            self.slots.forget_redirected(&redirectable.target);
            return Err(error);
        }
        if !redirections.has(number) {
            self.slots.forget_redirected(&redirectable.target);
            return Err(redirectable.cleared());
        }
        Ok(redirectable)
    }
}

impl Redirection {
    /// Redirects the function to `symbol` of the library `of`, for each call that begins later on any thread of a process. Links `of`
    /// first. When two threads redirect at the same time, one of their functions is the latest in all processes.
    ///
    /// # Errors
    ///
    /// When `of` does not define the symbol, or linking it fails. Nothing has changed then. When the library that has the redirected
    /// function was cleared, a process cannot be started, or `of` belongs to another executor.
    pub fn redirect(&self, of: &Library, symbol: &str) -> Result<()> {
        self.check(of)?;
        let redirections = self.slots.redirections();
        redirections.lead(self.number, &self.name, &of.named)?;
        let next = Implementation::of(of, symbol);
        // Errors show before anything changes.
        let found = self.slots.first(|generation| generation.address(&next).map(drop));
        if let Err(error) = found {
            redirections.leave(self.number, &of.named);
            return Err(error);
        }
        let before = {
            let mut target = self.target.lock();
            let version = target.version + 1;
            std::mem::replace(&mut *target, Implementation { version, ..next })
        };
        // A process that starts from now on begins with the new function.
        let follow = |generation: &_| self.follow(generation).or_else(unless_dead(generation));
        let outcome = self.slots.for_each(follow);
        redirections.leave(self.number, &before.dylib);
        outcome
    }

    /// As [`redirect`](Redirection::redirect). Then forgets what was added to the library `old`. Removes its code from
    /// each process when the calls that are under way now have left it, as
    /// [`Redirectable::redirect_and_remove`](crate::controller::hotswap::Redirectable::redirect_and_remove) does.
    ///
    /// # Errors
    ///
    /// As [`redirect`](Redirection::redirect); the old code stays then. When `old` is `of`. When another redirected
    /// function leads to `old`: the old code stays, and this function is redirected all the same.
    pub fn redirect_and_remove(&self, of: &Library, symbol: &str, old: &Library) -> Result<()> {
        self.check(old)?;
        if old.named.number == of.named.number {
            return Err(Error::invalid("the old code is in the library of the new code"));
        }
        self.redirect(of, symbol)?;
        let _clearing = self.slots.redirections().clear(&old.named)?;
        self.slots.forget(&old.named);
        self.slots.for_each(|generation| {
            self.remove_from(generation, old).or_else(unless_dead(generation))
        })
    }

    /// Removes the function from each process, and forgets it. Its name can be defined again in its library. Does nothing when it was
    /// removed before, or its library was cleared.
    ///
    /// Linked code should call it no more. If it does, the process crashes at address 0. When a function with this name is created in
    /// the library again, that code calls the new one. What refers to the name does not link in a next process meanwhile.
    ///
    /// # Errors
    ///
    /// When a process cannot be started. The function is forgotten all the same.
    pub fn remove(&self) -> Result<()> {
        if !self.slots.redirections().remove(self.number) {
            return Ok(());
        }
        self.slots.forget_redirected(&self.target);
        self.slots.for_each(|generation| {
            let removed = generation.remove_redirectable(self.number, &self.home, &self.name);
            removed.or_else(unless_dead(generation))
        })
    }

    /// Removes a library from a process, when no call is in it.
    fn remove_from(&self, generation: &Generation, old: &Library) -> Result<()> {
        let Some(dylib) = generation.remove_dylib(old.named.number) else { return Ok(()) };
        let stub = self.stub(generation)?;
        stub.redirect_and_remove(generation.address(&self.present())?, OldCode::of(&dylib)?)?;
        self.follow(generation)
    }

    /// Makes the function of a process lead to the present one.
    fn follow(&self, generation: &Generation) -> Result<()> {
        loop {
            let target = self.present();
            self.stub(generation)?.redirect(generation.address(&target)?)?;
            // Another thread may have redirected it meanwhile, and in this process before.
            if self.target.lock().version == target.version {
                return Ok(());
            }
        }
    }

    fn stub(&self, generation: &Generation) -> Result<Arc<Redirectable>> {
        generation.redirectable(self.number).ok_or_else(|| self.cleared())
    }

    fn cleared(&self) -> Error {
        Error::invalid(format!("{} was removed, or its library was cleared", self.name))
    }

    fn present(&self) -> Implementation {
        self.target.lock().clone()
    }

    /// Refuses a library of another executor.
    fn check(&self, of: &Library) -> Result<()> {
        match Arc::ptr_eq(&self.slots, &of.slots) {
            true => Ok(()),
            false => Err(Error::invalid("the library belongs to another executor")),
        }
    }
}

/// A process that has died is no error: the next one begins with the present function.
fn unless_dead(generation: &Generation) -> impl FnOnce(Error) -> Result<()> + '_ {
    |error| if generation.is_alive() { Err(error) } else { Ok(()) }
}

impl Implementation {
    fn of(dylib: &Library, symbol: &str) -> Self {
        Self { dylib: Arc::clone(&dylib.named), symbol: symbol.into(), version: 0 }
    }
}
