//! Functions that are compiled when they are called first.
//!
//! The caller sees a stub, as of a [`Redirectable`], which leads to a trampoline at first. The trampoline asks the controller,
//! over the lane of the call in which it runs, or over one of the thread's own. The handler here has the function compiled,
//! stores its address into the stub's slot, and answers. So a first call costs one round trip, and the later ones a jump.
//!
//! Invariant: a function is compiled by one thread at a time, and never again once it is there.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;
use std::thread::{self, ThreadId};

use super::redirectable::Redirectable;
use crate::ExecutorAddr;
use crate::call::contract::LAZY_RESOLVER;
use crate::controller::dylibs::dylib::Dylib;
use crate::controller::linker::stubs::Stub;
use crate::controller::session::{Controller, Session};
use crate::error::Result;
use crate::sync::{Condvar, Mutex};

/// Where a function is that was compiled, or why there is none.
pub type Compiled = std::result::Result<ExecutorAddr, Box<dyn StdError + Send + Sync>>;

type Compile = dyn Fn(&Controller) -> Compiled + Send + Sync;

/// A function that may not be compiled yet.
struct Lazy {
    name: String,
    compile: Box<Compile>,
    stub: Stub,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// The thread that compiles it now.
    compiler: Option<ThreadId>,
    /// How often it was tried, and why the last time failed.
    tries: u64,
    failure: String,
}

impl Controller {
    /// A function that `compile` makes when it is called first, and that can be [replaced](Redirectable::redirect) later. `name`
    /// appears in errors.
    ///
    /// If several threads make the first call at the same time, one of them compiles the function, and the others wait.
    /// `compile` runs on the thread that serves the call. It may link and call anything except the function itself. It receives
    /// the session as an argument, because a `Controller` inside the closure would keep the session alive.
    ///
    /// If it fails, those calls are unwound. The controller's call from which they were made fails with the reason
    /// ([`Error::is_remote`](crate::Error::is_remote)), and the next call tries again. On the way out of a call the destructors
    /// of its frames run, as they do when a thread is cancelled. Frames that were compiled without unwind information, and
    /// those behind them, are left unchanged. A thread of the program's own, which no call of the controller waits for, ends as
    /// by `pthread_exit`. `noexcept` functions, and those of Rust that catch panics, let nothing through and end the process.
    /// So does a wrapper function that was called before the session had any function of this kind.
    ///
    /// # Errors
    ///
    /// When memory runs out, or the session is over, or its executor has no such functions.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # let controller = farcall::controller::ExecutorBuilder::new().start()?;
    /// use farcall::link::ObjectFile;
    /// let square = controller.create_lazy("square", |controller| {
    ///     let dylib = controller.create_dylib("square");
    ///     dylib.add_object(&ObjectFile::parse("square.o", std::fs::read("square.o")?)?)?;
    ///     Ok(dylib.lookup("square")?)
    /// })?;
    /// let square = controller.function::<extern "C" fn(f64) -> f64>(square.address());
    /// assert_eq!(square.call(3.0)?, 9.0);
    /// # Ok::<(), farcall::Error>(())
    /// ```
    pub fn create_lazy(
        &self,
        name: &str,
        compile: impl Fn(&Controller) -> Compiled + Send + Sync + 'static,
    ) -> Result<Redirectable> {
        create_lazy(&self.session, name, Box::new(compile))
    }
}

impl Dylib {
    /// A function that `compile` makes when it is called first, under a name that what is linked into the dylib later refers
    /// to: as [`Controller::create_lazy`].
    ///
    /// # Errors
    ///
    /// As that, or when the dylib defines the name already.
    pub fn create_lazy(
        &self,
        name: &str,
        compile: impl Fn(&Controller) -> Compiled + Send + Sync + 'static,
    ) -> Result<Redirectable> {
        let stub = create_lazy(self.session(), name, Box::new(compile))?;
        self.define_stub(name, stub)
    }
}

fn create_lazy(session: &Arc<Session>, name: &str, compile: Box<Compile>) -> Result<Redirectable> {
    session.remote().named(LAZY_RESOLVER)?;
    session.lazy.announce(session.remote())?;
    let redirectable = Redirectable::at(session, session.take_stub()?);
    let stub = redirectable.stub();
    let (name, state, changed) = (name.to_owned(), Mutex::default(), Condvar::new());
    let lazy = Lazy { name, compile, stub, state, changed };
    let owner = Controller { session: Arc::clone(session) }.downgrade();
    let resolve = move || lazy.address(&owner.upgrade().ok_or("the session is over")?);
    session.lazy.add(stub.return_address(), Arc::new(resolve));
    redirectable.redirect(stub.trampoline())?;
    Ok(redirectable)
}

impl Lazy {
    /// Where the function is, which is compiled if it is not yet.
    fn address(&self, controller: &Controller) -> std::result::Result<ExecutorAddr, String> {
        let own = thread::current().id();
        let stub = Redirectable::at(&controller.session, self.stub);
        let mut state = self.state.lock();
        loop {
            let target = stub.target();
            if target != self.stub.trampoline() {
                return Ok(target);
            }
            match state.compiler {
                None => break,
                Some(compiler) if compiler == own => {
                    return Err(format!("{} was called while it was compiled", self.name));
                }
                Some(_) => {}
            }
            let tries = state.tries;
            let is_tried = |state: &mut State| state.tries == tries;
            state = self.changed.wait_while(state, is_tried);
            if !state.failure.is_empty() {
                return Err(state.failure.clone());
            }
        }
        state.compiler = Some(own);
        drop(state);
        // Also when it panics.
        let mut compiling =
            Compiling { lazy: self, failure: format!("compiling {} panicked", self.name) };
        let outcome = match (self.compile)(controller) {
            Ok(function) if function.is_null() => Err("it is at address 0".into()),
            Ok(function) => stub.resolve(function).map_err(Into::into),
            Err(error) => Err(error),
        };
        let outcome = outcome.map_err(|error| format!("compiling {}: {error}", self.name));
        compiling.failure = outcome.as_ref().err().cloned().unwrap_or_default();
        outcome
    }
}

/// A function that is being compiled. Dropping this wakes the threads that wait for it.
struct Compiling<'a> {
    lazy: &'a Lazy,
    /// Why there is none; empty when there is one.
    failure: String,
}

impl Drop for Compiling<'_> {
    fn drop(&mut self) {
        let mut state = self.lazy.state.lock();
        state.compiler = None;
        state.tries += 1;
        state.failure = std::mem::take(&mut self.failure);
        drop(state);
        self.lazy.changed.notify_all();
    }
}

impl fmt::Debug for Lazy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lazy").field("name", &self.name).finish_non_exhaustive()
    }
}
