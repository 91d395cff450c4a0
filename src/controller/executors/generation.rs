//! The contents of an executor as steps, and a process that has them.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use crate::ExecutorAddr;
use crate::controller::dylibs::dylib::Dylib;
use crate::controller::hotswap::Redirectable;
use crate::controller::region::AttachedRegion;
use crate::controller::session::Process;
use crate::deadline::Deadline;
use crate::error::{Error, Result};
use crate::sync::{AtomicU64, Mutex, Ordering};

/// The number and the name of a library, until its last handle is dropped.
pub(super) struct LibraryName {
    pub(super) number: u64,
    pub(super) name: String,
    /// How often its code was removed. What was found before is gone.
    removals: AtomicU64,
    /// Gets the number when no handle of the library is left.
    dropped: Box<Dropped>,
}

type Dropped = dyn Fn(u64) + Send + Sync;

impl LibraryName {
    pub(super) fn new(
        number: u64,
        name: String,
        dropped: impl Fn(u64) + Send + Sync + 'static,
    ) -> Self {
        Self { number, name, removals: AtomicU64::new(0), dropped: Box::new(dropped) }
    }

    pub(super) fn removals(&self) -> u64 {
        // Relaxed: the host removes nothing while it calls.
        self.removals.load(Ordering::Relaxed)
    }

    pub(super) fn count_removal(&self) {
        self.removals.fetch_add(1, Ordering::Relaxed);
    }
}

impl fmt::Debug for LibraryName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl Drop for LibraryName {
    fn drop(&mut self) {
        (self.dropped)(self.number);
    }
}

/// A step that puts something into a process.
#[derive(Clone)]
pub(super) struct Step {
    /// The dylib that it belongs to.
    pub(super) dylib: Option<u64>,
    /// The function whose dylib is filled before the step is taken.
    pub(super) behind: Option<Target>,
    pub(super) take: Arc<Take>,
}

/// The function that a redirected one leads to at present.
pub(super) type Target = Arc<Mutex<Implementation>>;

/// A function of a dylib, by its name.
#[derive(Debug, Clone)]
pub(super) struct Implementation {
    pub(super) dylib: Arc<LibraryName>,
    pub(super) symbol: Arc<str>,
    /// How often the redirected function was redirected before.
    pub(super) version: u64,
}

/// The number of a dylib, and the name of a redirected function that it defines.
type StubName = (u64, Arc<str>);

/// The work of a step in a process.
type Take = dyn Fn(&Generation) -> Result<()> + Send + Sync;

/// A process with contents, and what the executor holds for it.
#[derive(Debug)]
pub(super) struct Generation {
    pub(super) process: Process,
    pub(super) started: Instant,
    dylibs: Mutex<HashMap<u64, Arc<Dylib>>>,
    redirectables: Mutex<HashMap<u64, Arc<Redirectable>>>,
    /// The stubs of removed functions, by dylib and name. A function that is called so again has the stub again, which old code calls.
    removed: Mutex<HashMap<StubName, Arc<Redirectable>>>,
    /// Attached until the process ends.
    attached: Mutex<Vec<AttachedRegion>>,
    /// Why the host has killed the process, if it has.
    killed: OnceLock<Error>,
}

impl Generation {
    /// A process without contents.
    pub(super) fn empty(process: Process) -> Self {
        Self {
            process,
            started: Instant::now(),
            dylibs: Mutex::default(),
            redirectables: Mutex::default(),
            removed: Mutex::default(),
            attached: Mutex::default(),
            killed: OnceLock::new(),
        }
    }

    /// Takes the steps in a process, in order. What leads to a dylib's function is behind the steps of that dylib.
    ///
    /// # Errors
    ///
    /// The first step that fails.
    pub(super) fn fill(process: Process, steps: &[Step]) -> Result<Self> {
        let generation = Self::empty(process);
        let mut filling = Filling::new(steps);
        for at in 0..steps.len() {
            filling.take(at, &generation)?;
        }
        Ok(generation)
    }

    pub(super) fn is_alive(&self) -> bool {
        self.killed.get().is_none() && self.process.session.remote().is_open()
    }

    /// Kills the process. No later call of the executor is made in it.
    pub(super) fn kill(&self, why: &Error) {
        let _ = self.killed.set(why.clone());
        self.process.kill();
    }

    /// Why it is not alive.
    pub(super) fn death(&self) -> Option<Error> {
        self.killed.get().cloned().or_else(|| self.process.session.remote().check_alive().err())
    }

    /// The dylib in this process, which is made when it is needed first.
    pub(super) fn dylib(&self, dylib: &LibraryName) -> Arc<Dylib> {
        let mut dylibs = self.dylibs.lock();
        let make = || Arc::new(self.process.create_dylib(&*dylib.name));
        Arc::clone(dylibs.entry(dylib.number).or_insert_with(make))
    }

    /// Makes the copy of a dylib the dylib here, unless it is already.
    ///
    /// # Errors
    ///
    /// As [`Dylib::in_copy`].
    pub(super) fn take_copy(&self, name: &LibraryName, own: &Dylib) -> Result<()> {
        let copied = own.in_copy(&self.process)?;
        self.dylibs.lock().entry(name.number).or_insert_with(|| Arc::new(copied));
        Ok(())
    }

    /// Takes the dylib out of this process.
    pub(super) fn remove_dylib(&self, number: u64) -> Option<Arc<Dylib>> {
        self.dylibs.lock().remove(&number)
    }

    /// The address of a function. Links its dylib first.
    pub(super) fn address(&self, function: &Implementation) -> Result<ExecutorAddr> {
        self.dylib(&function.dylib).lookup(&function.symbol, Deadline::SESSION_END)
    }

    /// The redirected function with this number, if it is there.
    pub(super) fn redirectable(&self, number: u64) -> Option<Arc<Redirectable>> {
        self.redirectables.lock().get(&number).cloned()
    }

    /// Makes a redirected function, which leads to `address`.
    ///
    /// # Errors
    ///
    /// As [`Dylib::create_redirectable`].
    pub(super) fn create_redirectable(
        &self,
        number: u64,
        home: &LibraryName,
        name: &Arc<str>,
        address: ExecutorAddr,
    ) -> Result<()> {
        let dylib = self.dylib(home);
        let removed = self.removed.lock().remove(&(home.number, Arc::clone(name)));
        let stub = match removed {
            None => Arc::new(dylib.create_redirectable(name, address)?),
            Some(stub) => {
                stub.redirect(address)?;
                dylib.define(name, &*stub)?;
                stub
            }
        };
        self.redirectables.lock().insert(number, stub);
        Ok(())
    }

    /// Removes a redirected function, whose name can be defined again. Code that calls it crashes.
    ///
    /// # Errors
    ///
    /// As [`Redirectable::redirect`].
    pub(super) fn remove_redirectable(
        &self,
        number: u64,
        home: &LibraryName,
        name: &Arc<str>,
    ) -> Result<()> {
        let Some(stub) = self.redirectables.lock().remove(&number) else { return Ok(()) };
        let redirected = stub.redirect(ExecutorAddr::NULL);
        self.dylib(home).undefine(name, stub.address());
        self.removed.lock().insert((home.number, Arc::clone(name)), stub);
        redirected.map(drop)
    }

    pub(super) fn hold(&self, region: AttachedRegion) {
        self.attached.lock().push(region);
    }
}

/// The steps of a process that is being filled.
struct Filling<'a> {
    steps: &'a [Step],
    is_taken: Vec<bool>,
    /// The steps of each dylib, if any step is behind those of a dylib.
    of_dylibs: HashMap<u64, Vec<usize>>,
}

impl<'a> Filling<'a> {
    fn new(steps: &'a [Step]) -> Self {
        let mut of_dylibs: HashMap<u64, Vec<usize>> = HashMap::new();
        if steps.iter().any(|step| step.behind.is_some()) {
            for (at, step) in steps.iter().enumerate() {
                step.dylib
                    .into_iter()
                    .for_each(|dylib| of_dylibs.entry(dylib).or_default().push(at));
            }
        }
        Self { steps, is_taken: vec![false; steps.len()], of_dylibs }
    }

    /// Takes a step, once, and those that it is behind before it.
    fn take(&mut self, at: usize, generation: &Generation) -> Result<()> {
        if std::mem::replace(&mut self.is_taken[at], true) {
            return Ok(());
        }
        let step = &self.steps[at];
        if let Some(target) = &step.behind {
            let dylib = target.lock().dylib.number;
            for at in self.of_dylibs.get(&dylib).cloned().unwrap_or_default() {
                self.take(at, generation)?;
            }
        }
        (step.take)(generation)
    }
}

impl fmt::Debug for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Step").field("dylib", &self.dylib).finish_non_exhaustive()
    }
}
