//! The contents of an executor as steps, and an executor that has them.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use crate::controller::dylibs::dylib::Dylib;
use crate::controller::executor_builder::ExecutorBuilder;
use crate::controller::region::AttachedRegion;
use crate::controller::session::Controller;
use crate::error::{Error, Result};
use crate::sync::Mutex;

/// A dylib of all executors, one after the other.
#[derive(Debug, Clone)]
pub(super) struct Named {
    pub(super) number: u64,
    pub(super) name: Arc<str>,
}

/// A step that puts something into an executor.
#[derive(Clone)]
pub(super) struct Step {
    /// The dylib that it belongs to.
    pub(super) dylib: Option<u64>,
    pub(super) take: Arc<Take>,
}

/// What a step does in an executor.
type Take = dyn Fn(&Generation) -> Result<()> + Send + Sync;

/// An executor with contents, and what the session holds for it.
#[derive(Debug)]
pub(super) struct Generation {
    pub(super) controller: Controller,
    pub(super) started: Instant,
    dylibs: Mutex<HashMap<u64, Arc<Dylib>>>,
    /// Attached until the executor ends.
    attached: Mutex<Vec<AttachedRegion>>,
    /// Why the session has killed the executor, if it has.
    killed: OnceLock<Error>,
}

impl Generation {
    /// Starts an executor and takes the steps in it, in order.
    ///
    /// # Errors
    ///
    /// When it cannot be started, or the first step that fails.
    pub(super) fn start(builder: &ExecutorBuilder, steps: &[Step]) -> Result<Self> {
        let controller = builder.start()?;
        let started = Instant::now();
        let generation = Self {
            controller,
            started,
            dylibs: Mutex::default(),
            attached: Mutex::default(),
            killed: OnceLock::new(),
        };
        for step in steps {
            (step.take)(&generation)?;
        }
        Ok(generation)
    }

    pub(super) fn is_alive(&self) -> bool {
        self.killed.get().is_none() && self.controller.session.remote().is_open()
    }

    /// Kills the executor. No later call of the session is made in it.
    pub(super) fn kill(&self, why: &Error) {
        let _ = self.killed.set(why.clone());
        self.controller.kill_handle().kill();
    }

    /// Why it is not alive.
    pub(super) fn death(&self) -> Option<Error> {
        self.killed.get().cloned().or_else(|| self.controller.session.remote().check_alive().err())
    }

    /// The dylib in this executor, which is made when it is needed first.
    pub(super) fn dylib(&self, dylib: &Named) -> Arc<Dylib> {
        let mut dylibs = self.dylibs.lock();
        let make = || Arc::new(self.controller.create_dylib(&*dylib.name));
        Arc::clone(dylibs.entry(dylib.number).or_insert_with(make))
    }

    pub(super) fn hold(&self, region: AttachedRegion) {
        self.attached.lock().push(region);
    }
}

impl fmt::Debug for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Step").field("dylib", &self.dylib).finish_non_exhaustive()
    }
}
