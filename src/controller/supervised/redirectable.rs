//! A redirected function of all executors, one after the other.

use std::sync::Arc;

use super::contents::{Generation, Implementation, Named, Target};
use super::dylib::SupervisedDylib;
use super::members::Members;
use crate::controller::hotswap::{OldCode, Redirectable};
use crate::error::{Error, Result};
use crate::sync::Mutex;

/// A function of a [`SupervisedDylib`] that is redirected from one implementation to the next, as
/// [`Redirectable`] is. The session remembers to which: in a next executor it leads to the
/// latest one from the start.
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
/// let supervised = ExecutorBuilder::new().this_program().supervise(RestartPolicy::new())?;
/// let version = |number: u32| -> Result<_, Box<dyn std::error::Error>> {
///     let dylib = supervised.create_dylib(format!("version {number}"));
///     dylib.add_object(&compile(&format!("int step(void) {{ return {number}; }}"))?)?;
///     Ok(dylib)
/// };
/// let (first, second) = (version(1)?, version(2)?);
/// let main = supervised.create_dylib("main");
/// let redirected = main.create_redirectable("step", &first, "step")?;
/// let step = main.function::<extern "C" fn() -> i32>("step");
/// assert_eq!(step.call(())?, 1);
/// redirected.redirect_and_remove(&second, "step", &first)?;
/// assert_eq!(step.call(())?, 2);
/// supervised.controller()?.close();
/// let _ended = step.call(()); // or already the next executor's answer
/// assert_eq!(step.call(())?, 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct SupervisedRedirectable {
    members: Arc<Members>,
    number: u64,
    /// The dylib that defines it.
    home: Named,
    name: Arc<str>,
    target: Target,
}

impl SupervisedDylib {
    /// Defines `name` as a function that can be redirected, for lookups and for objects that are linked later, in each executor. At
    /// first it leads to the function `symbol` of the dylib `of`, which belongs to the same session.
    ///
    /// # Errors
    ///
    /// As [`Dylib::create_redirectable`](crate::controller::Dylib::create_redirectable); when `of` does not define the symbol, or
    /// linking it fails; nothing is remembered then. When `of` belongs to another session.
    pub fn create_redirectable(
        &self,
        name: &str,
        of: &SupervisedDylib,
        symbol: &str,
    ) -> Result<SupervisedRedirectable> {
        let redirectable = SupervisedRedirectable {
            members: Arc::clone(&self.members),
            number: self.members.number(),
            home: self.named.clone(),
            name: name.into(),
            target: Arc::new(Mutex::new(Implementation::of(of, symbol))),
        };
        redirectable.check(of)?;
        // Without the members, which have the step.
        let (named, number) = (self.named.clone(), redirectable.number);
        let (name, target) = (Arc::clone(&redirectable.name), Arc::clone(&redirectable.target));
        let create = move |generation: &Generation| {
            let present = target.lock().clone();
            let address = generation.address(&present)?;
            generation.create_redirectable(number, &named, &name, address)
        };
        let behind = Some(Arc::clone(&redirectable.target));
        let leads = self.members.leads();
        leads.add(number, &redirectable.name, &self.named, &of.named)?;
        if let Err(error) = self.members.add(Some(self.named.number), behind, create) {
            leads.remove(number);
            // An executor of a pool may have taken it.
            self.members.forget_redirected(&redirectable.target);
            return Err(error);
        }
        if !leads.has(number) {
            self.members.forget_redirected(&redirectable.target);
            return Err(redirectable.cleared());
        }
        Ok(redirectable)
    }
}

impl SupervisedRedirectable {
    /// Redirects the function to `symbol` of the dylib `of`, for each call that begins later on any thread of an executor. Links `of`
    /// first. When two threads redirect at the same time, one of their functions is the latest in all executors.
    ///
    /// # Errors
    ///
    /// When `of` does not define the symbol, or linking it fails. Nothing has changed then. When the dylib that has the redirected
    /// function was cleared, an executor cannot be started, or `of` belongs to another session.
    pub fn redirect(&self, of: &SupervisedDylib, symbol: &str) -> Result<()> {
        self.check(of)?;
        let leads = self.members.leads();
        leads.lead(self.number, &self.name, &of.named)?;
        let next = Implementation::of(of, symbol);
        // Errors show before anything changes.
        let found = self.members.first(|generation| generation.address(&next).map(drop));
        if let Err(error) = found {
            leads.leave(self.number, &of.named);
            return Err(error);
        }
        let before = {
            let mut target = self.target.lock();
            let version = target.version + 1;
            std::mem::replace(&mut *target, Implementation { version, ..next })
        };
        // An executor that starts from now on begins with the new function.
        let follow = |generation: &_| self.follow(generation).or_else(unless_dead(generation));
        let outcome = self.members.for_each(follow);
        leads.leave(self.number, &before.dylib);
        outcome
    }

    /// As [`redirect`](SupervisedRedirectable::redirect). Then forgets what was added to the dylib `old`. Removes its code from
    /// each executor when the calls that are under way now have left it, as
    /// [`Redirectable::redirect_and_remove`](crate::controller::hotswap::Redirectable::redirect_and_remove) does.
    ///
    /// # Errors
    ///
    /// As [`redirect`](SupervisedRedirectable::redirect); the old code stays then. When `old` is `of`. When another redirected
    /// function leads to `old`: the old code stays, and this function is redirected all the same.
    pub fn redirect_and_remove(
        &self,
        of: &SupervisedDylib,
        symbol: &str,
        old: &SupervisedDylib,
    ) -> Result<()> {
        self.check(old)?;
        if old.named.number == of.named.number {
            return Err(Error::invalid("the old code is in the dylib of the new code"));
        }
        self.redirect(of, symbol)?;
        let _clearing = self.members.leads().clear(&old.named)?;
        self.members.forget(old.named.number);
        self.members.for_each(|generation| {
            self.remove_from(generation, old).or_else(unless_dead(generation))
        })
    }

    /// Removes the function from each executor, and forgets it. Its name can be defined again in its dylib. Does nothing when it was
    /// removed before, or its dylib was cleared.
    ///
    /// Linked code should call it no more. If it does, the executor crashes at address 0. When a function with this name is created in
    /// the dylib again, that code calls the new one. What refers to the name does not link in a next executor meanwhile.
    ///
    /// # Errors
    ///
    /// When an executor cannot be started. The function is forgotten all the same.
    pub fn remove(&self) -> Result<()> {
        if !self.members.leads().remove(self.number) {
            return Ok(());
        }
        self.members.forget_redirected(&self.target);
        self.members.for_each(|generation| {
            let removed = generation.remove_redirectable(self.number, &self.home, &self.name);
            removed.or_else(unless_dead(generation))
        })
    }

    /// Removes a dylib from an executor, when no call is in it.
    fn remove_from(&self, generation: &Generation, old: &SupervisedDylib) -> Result<()> {
        let Some(dylib) = generation.remove_dylib(&old.named) else { return Ok(()) };
        let stub = self.stub(generation)?;
        stub.redirect_and_remove(generation.address(&self.present())?, OldCode::of(&dylib)?)?;
        self.follow(generation)
    }

    /// Makes the function of an executor lead to the present one.
    fn follow(&self, generation: &Generation) -> Result<()> {
        loop {
            let target = self.present();
            self.stub(generation)?.redirect(generation.address(&target)?)?;
            // Another thread may have redirected it meanwhile, and in this executor before.
            if self.target.lock().version == target.version {
                return Ok(());
            }
        }
    }

    fn stub(&self, generation: &Generation) -> Result<Arc<Redirectable>> {
        generation.redirectable(self.number).ok_or_else(|| self.cleared())
    }

    fn cleared(&self) -> Error {
        Error::invalid(format!("{} was removed, or its dylib was cleared", self.name))
    }

    fn present(&self) -> Implementation {
        self.target.lock().clone()
    }

    /// Refuses a dylib of another session.
    fn check(&self, of: &SupervisedDylib) -> Result<()> {
        match Arc::ptr_eq(&self.members, &of.members) {
            true => Ok(()),
            false => Err(Error::invalid("the function is in the executors of another session")),
        }
    }
}

/// An executor that has died is no error: the next one begins with the present function.
fn unless_dead(generation: &Generation) -> impl FnOnce(Error) -> Result<()> + '_ {
    |error| if generation.is_alive() { Err(error) } else { Ok(()) }
}

impl Implementation {
    fn of(dylib: &SupervisedDylib, symbol: &str) -> Self {
        Self { dylib: dylib.named.clone(), symbol: symbol.into(), version: 0 }
    }
}
