//! Several executors with the same contents.

use std::sync::Arc;

use super::dylib::SupervisedDylib;
use super::function::SupervisedFunction;
use super::members::Members;
use super::place::Shared;
use super::policy::RestartPolicy;
use super::session::Supervised;
use crate::controller::calls::FunctionType;
use crate::controller::executor_builder::{ExecutorBuilder, Spawned};
use crate::controller::region::Region;
use crate::controller::session::Controller;
use crate::error::{Error, Result};

/// Several [`Supervised`] executors with the same contents, each of which runs one call at a time, so that a crash costs one call.
///
/// What is added to the pool is there in each executor, and in those that start after deaths. A call of a function takes a
/// free executor. While none is free, it waits, and calls are served in their order. Living executors are taken before dead ones; the
/// call that takes a dead one starts the next. A call of a handler goes to the executor that called the handler.
///
/// Cheap to clone; any thread may use it. It has no thread of its own. The last handle that is dropped, its functions and dylibs
/// included, ends the executors.
///
/// # Examples
///
/// ```standalone_crate
/// # farcall::executor::run_if_spawned();
#[doc = include_str!("../../docs/compile.txt")]
/// use farcall::controller::{ExecutorBuilder, RestartPolicy};
///
/// let pool = ExecutorBuilder::new().this_program().pool(2, RestartPolicy::new())?;
/// let dylib = pool.create_dylib("main");
/// dylib.add_object(&compile("int at(int *p) { return p ? *p : 7; }")?)?;
/// let at = dylib.function::<extern "C" fn(i64) -> i32>("at");
/// std::thread::scope(|scope| {
///     for number in 0..4 {
///         let at = at.clone();
///         scope.spawn(move || match number {
///             0 => assert!(at.call((1,)).is_err_and(|error| error.death().is_some())), // a crash
///             _ => assert_eq!(at.call((0,)).expect("a crash costs one call"), 7),
///         });
///     }
/// });
/// let second = at.on(1).expect("there are two");
/// assert_eq!(second.call((0,))?, 7);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Pool {
    members: Arc<Members>,
}

impl ExecutorBuilder {
    /// Starts `executors` executors, all at once, each of which is followed by the next one when it has died. The policy counts for
    /// each of them, and each has the environment that this process has now. See [`Pool`].
    ///
    /// # Errors
    ///
    /// As [`ExecutorBuilder::start`], for the first executors; none is left behind then. When `executors` is 0.
    pub fn pool(&self, executors: usize, policy: RestartPolicy) -> Result<Pool> {
        if executors == 0 {
            return Err(Error::invalid("a pool without executors"));
        }
        let builder = self.with_environment();
        let spawned = (0..executors).map(|_| builder.spawn()).collect::<Result<Vec<Spawned>>>()?;
        let start =
            |spawned: Spawned| Shared::start(&builder, policy, spawned.connect()?).map(Arc::new);
        let executors = spawned.into_iter().map(start).collect::<Result<Box<[_]>>>()?;
        Ok(Pool { members: Arc::new(Members::pool(executors)) })
    }
}

impl Pool {
    /// A new, empty dylib of all executors. Its name appears in errors.
    ///
    /// What is added is taken by the first executor, which decides if that fails. If another one fails, it ends, and the next one takes
    /// it as it starts.
    #[must_use]
    pub fn create_dylib(&self, name: impl Into<String>) -> SupervisedDylib {
        SupervisedDylib::new(&self.members, name.into())
    }

    /// As [`Supervised::attach`], in each executor.
    ///
    /// # Errors
    ///
    /// As [`Supervised::attach`].
    pub fn attach(&self, region: impl AsRef<Region> + Send + Sync + 'static) -> Result<()> {
        self.members.attach(region)
    }

    /// As [`Supervised::establish`], for each executor.
    ///
    /// # Errors
    ///
    /// As [`Supervised::establish`].
    pub fn establish(
        &self,
        establish: impl Fn(&Controller) -> Result<()> + Send + Sync + 'static,
    ) -> Result<()> {
        self.members.add(None, None, move |generation| establish(&generation.controller))
    }

    /// As [`Supervised::on_death`], for the deaths of all executors. Several threads may call `told` at the same time.
    pub fn on_death(&self, told: impl Fn(&Error) + Send + Sync + 'static) {
        self.members.on_death(told);
    }

    /// The number of executors, the dead ones included.
    #[must_use]
    pub fn executors(&self) -> usize {
        self.members.all().len()
    }

    /// One of the executors, counted from 0. What is added by this handle is in no other executor. Calls of its functions do not
    /// wait until it is free.
    #[must_use]
    pub fn executor(&self, number: usize) -> Option<Supervised> {
        let one = self.members.one(number)?;
        Some(Supervised { members: Arc::new(one) })
    }
}

impl<F: FunctionType> SupervisedFunction<F> {
    /// The same function in one executor of the pool, counted from 0. Its calls do not wait until that is free. `None` when there is
    /// no such executor.
    #[must_use]
    pub fn on(&self, executor: usize) -> Option<Self> {
        Some(self.in_members(Arc::new(self.members().one(executor)?)))
    }
}
