//! A supervised session: one executor after the other, with the same contents.

use std::sync::Arc;

use super::members::Members;
use super::place::Shared;
use super::policy::RestartPolicy;
use crate::controller::executor_builder::ExecutorBuilder;
use crate::controller::region::Region;
use crate::controller::session::Controller;
use crate::error::{Error, Result};

/// A session that goes on after the death of its executor. The calls under way get the death. The next call starts the next executor,
/// with the same contents: dylibs with their objects, handlers, attached regions, and what [`establish`](Supervised::establish) adds.
/// Variables of linked code have their initial values again; regions keep their bytes.
///
/// Cheap to clone; any thread may use it. It has no thread of its own, so a dead executor is noticed, and replaced, by the next call.
///
/// # Examples
///
/// ```standalone_crate
/// # farcall::executor::run_if_spawned();
#[doc = include_str!("../../docs/compile.txt")]
/// use farcall::controller::{ExecutorBuilder, RestartPolicy};
/// use farcall::link::ObjectFile;
///
/// let supervised = ExecutorBuilder::new().this_program().supervise(RestartPolicy::new())?;
/// let dylib = supervised.create_dylib("main");
/// dylib.add_object(&compile("int at(int *p) { return p ? *p : 7; }")?)?;
/// let at = dylib.function::<extern "C" fn(i64) -> i32>("at");
/// assert_eq!(at.call((0,))?, 7);
/// assert!(at.call((1,)).is_err_and(|error| error.death().is_some())); // a crash
/// assert_eq!(at.call((0,))?, 7); // in the next executor
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Supervised {
    pub(super) members: Arc<Members>,
}

impl ExecutorBuilder {
    /// Starts an executor, and the next one when a call finds it dead. Each of them has the environment that this process has now.
    /// See [`Supervised`].
    ///
    /// # Errors
    ///
    /// As [`ExecutorBuilder::start`], for the first executor.
    pub fn supervise(&self, policy: RestartPolicy) -> Result<Supervised> {
        let builder = self.with_environment();
        let alone = Shared::start(&builder, policy, builder.start()?)?;
        Ok(Supervised { members: Arc::new(Members::alone(Arc::new(alone))) })
    }
}

impl Supervised {
    /// Attaches a region at its own address, in this executor and in each next one. It stays attached until the session ends.
    ///
    /// # Errors
    ///
    /// As [`Controller::attach`] in the present executor. When a next one has other memory there, its start fails.
    pub fn attach(&self, region: impl AsRef<Region> + Send + Sync + 'static) -> Result<()> {
        self.members.attach(region)
    }

    /// Calls `establish` for this executor, and for each next one, in the order of what was added. It brings into the executor what
    /// the session does not remember, for example the state of linked code. It runs on the thread whose call starts the executor, and
    /// must not use the supervised session.
    ///
    /// # Errors
    ///
    /// That of `establish` in the present executor; nothing is remembered then. In a next one it fails the start.
    pub fn establish(
        &self,
        establish: impl Fn(&Controller) -> Result<()> + Send + Sync + 'static,
    ) -> Result<()> {
        self.members.add(None, None, move |generation| establish(&generation.controller))
    }

    /// Calls `told` with each death from now on, before the next executor starts, on the thread that starts it. It gets the time-out
    /// of an executor that the policy has killed.
    pub fn on_death(&self, told: impl Fn(&Error) + Send + Sync + 'static) {
        self.members.on_death(told);
    }

    /// The session with the present executor, for all that it offers. It is started first if the last one has died. Addresses of one
    /// executor mean nothing in the next one.
    ///
    /// # Errors
    ///
    /// As [`SupervisedFunction::call`](super::SupervisedFunction::call), for starting an executor.
    pub fn controller(&self) -> Result<Controller> {
        self.members.first(|generation| Ok(generation.controller.clone()))
    }

    /// Ends the present executor at once, whatever it does. Calls under way fail, submitted ones as well. The next call starts the next
    /// executor. For the policy it is a death as any other. Does nothing when the executor is dead, or one is being started.
    ///
    /// # Examples
    ///
    /// ```standalone_crate
    /// # farcall::executor::run_if_spawned();
    #[doc = include_str!("../../docs/compile.txt")]
    /// use std::time::Duration;
    /// use farcall::controller::{ExecutorBuilder, RestartPolicy};
    ///
    /// let supervised = ExecutorBuilder::new().this_program().supervise(RestartPolicy::new())?;
    /// let dylib = supervised.create_dylib("main");
    /// dylib.add_object(&compile("int hang(int n) { while (n) ; return 7; }")?)?;
    /// let hang = dylib.function::<extern "C" fn(i32) -> i32>("hang");
    /// let pending = hang.submit((1,))?;
    /// supervised.kill();
    /// assert!(pending.wait().is_err_and(|error| error.death().is_some()));
    /// assert_eq!(hang.submit((0,))?.wait()?, 7); // in the next executor
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn kill(&self) {
        let why = Error::disconnected("the host has ended the executor");
        self.members.all().iter().for_each(|executor| executor.kill(&why));
    }

    /// As [`kill`](Supervised::kill), and starts the next executor now.
    ///
    /// # Errors
    ///
    /// As [`SupervisedFunction::call`](super::SupervisedFunction::call), for starting an executor.
    pub fn restart(&self) -> Result<()> {
        self.kill();
        self.members.first(|_| Ok(()))
    }
}
