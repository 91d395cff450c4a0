//! A dylib of all executors, one after the other.

use std::sync::Arc;

use super::contents::Named;
use super::function::SupervisedFunction;
use super::members::Members;
use super::session::Supervised;
use crate::controller::calls::function_type::Placed;
use crate::controller::calls::{FunctionType, StaticType};
use crate::controller::dylibs::dylib::Dylib;
use crate::controller::handler::definition::{Handler, IntoHandler};
use crate::error::Result;
use crate::link::{Archive, ObjectFile};
use crate::types::Signature;

/// A [`Dylib`] that a [`Supervised`] session or a [`Pool`](super::Pool) remembers: what is added to it is linked into each executor.
/// Cheap to clone; any thread may use it. Dropping it has no effect.
///
/// # Examples
///
/// ```standalone_crate
/// # farcall::executor::run_if_spawned();
/// use farcall::controller::{ExecutorBuilder, RestartPolicy};
///
/// let supervised = ExecutorBuilder::new().this_program().supervise(RestartPolicy::new())?;
/// let dylib = supervised.create_dylib("main");
/// dylib.define_handler("half", |number: f64| number / 2.0)?;
/// let half = dylib.function::<extern "C" fn(f64) -> f64>("half");
/// assert_eq!(half.call((7.0,))?, 3.5);
/// supervised.controller()?.kill_handle().kill();
/// let _death = half.call((7.0,)); // or already the next executor's answer
/// assert_eq!(half.call((7.0,))?, 3.5);
/// # Ok::<(), farcall::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct SupervisedDylib {
    pub(super) members: Arc<Members>,
    pub(super) named: Named,
}

impl Supervised {
    /// A new, empty dylib of all executors. Its name appears in errors.
    #[must_use]
    pub fn create_dylib(&self, name: impl Into<String>) -> SupervisedDylib {
        SupervisedDylib::new(&self.members, name.into())
    }
}

impl SupervisedDylib {
    pub(super) fn new(members: &Arc<Members>, name: String) -> Self {
        let named = Named { number: members.number(), name: name.into() };
        Self { members: Arc::clone(members), named }
    }

    /// As [`Dylib::add_object`], in each executor. The objects are shared, not copied.
    ///
    /// # Errors
    ///
    /// As [`Dylib::add_object`]; nothing is remembered then.
    pub fn add_object(&self, object: &ObjectFile) -> Result<()> {
        let object = object.clone();
        self.add(move |dylib| dylib.add_object(&object))
    }

    /// As [`Dylib::add_archive`], in each executor.
    ///
    /// # Errors
    ///
    /// When no executor can be started.
    pub fn add_archive(&self, archive: &Archive) -> Result<()> {
        let archive = archive.clone();
        self.add(move |dylib| {
            dylib.add_archive(&archive);
            Ok(())
        })
    }

    /// As [`Dylib::add_library`], in each executor.
    ///
    /// # Errors
    ///
    /// When no executor can be started.
    pub fn add_library(&self, path: impl Into<String>) -> Result<()> {
        let path = path.into();
        self.add(move |dylib| {
            dylib.add_library(path.clone());
            Ok(())
        })
    }

    /// As [`Dylib::check_types`], in each executor. The first call of a function in an executor compares, and
    /// [`present`](SupervisedFunction::present).
    ///
    /// # Errors
    ///
    /// When no executor can be started.
    pub fn check_types(&self) -> Result<()> {
        self.add(|dylib| {
            dylib.check_types();
            Ok(())
        })
    }

    /// As [`Dylib::define_handler`], in each executor.
    ///
    /// # Errors
    ///
    /// As [`Dylib::define_handler`].
    pub fn define_handler<M, H>(&self, name: &str, handler: H) -> Result<()>
    where
        H: IntoHandler<M>,
        H::Result: 'static,
    {
        let (name, handler): (String, Handler<H::Result>) =
            (name.to_owned(), handler.into_handler());
        self.add(move |dylib| dylib.define_handler(&name, &handler))
    }

    /// As [`Dylib::initialize`], in each executor, with what was added so far.
    ///
    /// # Errors
    ///
    /// As [`Dylib::initialize`]. In a next executor it fails the start.
    pub fn initialize(&self) -> Result<()> {
        self.add(Dylib::initialize)
    }

    /// The C function of this name, by its type in Rust. It is looked up when it is called first, in each executor.
    #[must_use]
    pub fn function<F: StaticType>(&self, name: impl Into<String>) -> SupervisedFunction<F> {
        self.function_of(name.into(), ())
    }

    /// The C function of this name, by its type at run time.
    ///
    /// # Errors
    ///
    /// As [`Controller::function_with`](crate::controller::Controller::function_with).
    pub fn function_with(
        &self,
        name: impl Into<String>,
        signature: &Signature,
    ) -> Result<SupervisedFunction<Signature>> {
        Ok(self.function_of(name.into(), Placed::new(signature)?))
    }

    fn function_of<F: FunctionType>(&self, name: String, form: F::Form) -> SupervisedFunction<F> {
        SupervisedFunction::new(&self.members, self.named.clone(), name, form)
    }

    /// As [`Dylib::clear`] in each executor, and forgets what was added, redirected functions as well.
    ///
    /// # Errors
    ///
    /// When a redirected function of another dylib leads to this one
    /// ([`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument)): nothing has changed then, and the error names the
    /// function. Otherwise the first of [`Dylib::clear`]; what was added is forgotten all the same.
    pub fn clear(&self) -> Result<()> {
        let _clearing = self.members.leads().clear(&self.named)?;
        self.members.forget(self.named.number);
        self.members.for_each(|generation| generation.dylib(&self.named).clear())
    }

    fn add(&self, take: impl Fn(&Dylib) -> Result<()> + Send + Sync + 'static) -> Result<()> {
        let named = self.named.clone();
        let of = Some(named.number);
        self.members.add(of, None, move |generation| take(&generation.dylib(&named)))
    }
}
