//! Functions that are compiled at their first call.
//!
//! The caller sees the stub of a [`Redirectable`], which jumps to a trampoline at first. The trampoline calls the controller, over
//! the lane of the call in which it runs, or over a lane of its thread's own. The handler here compiles the function, stores its
//! address in the stub's word, and answers. So the first call costs one round trip, and each later call one jump.
//!
//! Invariant: one thread at a time compiles a function, and no thread compiles it again after it succeeded.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;
use std::thread::{self, ThreadId};

use super::redirectable::Redirectable;
use crate::ExecutorAddr;
use crate::call::contract::LAZY_RESOLVER;
use crate::controller::dylibs::dylib::Dylib;
use crate::controller::linker::stubs::Stub;
use crate::controller::session::{Process, Session};
use crate::error::Result;
use crate::sync::{Condvar, Mutex};

/// The address of a compiled function, or the reason why compilation failed.
pub type Compiled = std::result::Result<ExecutorAddr, Box<dyn StdError + Send + Sync>>;

type Compile = dyn Fn(&Process) -> Compiled + Send + Sync;

/// A function that is perhaps not compiled yet.
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
    /// The number of attempts so far, and the reason why the last one failed.
    tries: u64,
    failure: String,
}

impl Process {
    /// A function that `compile` makes at its first call. It can be [redirected](Redirectable::redirect) later. `name` appears in errors.
    ///
    /// Of first calls at the same time one compiles, and the others wait for it. `compile` runs on the thread that serves the call. It
    /// receives the session as an argument: a closure that held a `Process` would keep the session alive. It may link and call
    /// any function except this one, directly or indirectly.
    ///
    /// If compilation fails, those calls are unwound to their entry frame. The controller's call then returns the error
    /// ([`ErrorKind::Remote`](crate::ErrorKind::Remote)), and the next call tries again.
    ///
    /// | frames of the unwound call | what happens |
    /// |---|---|
    /// | compiled with unwind information | their destructors run, as when a thread is cancelled |
    /// | compiled without | they are skipped, with the frames behind them |
    /// | of a thread of the program's own | the thread ends as by `pthread_exit` |
    /// | `noexcept` functions, and functions of Rust that catch panics | the process ends |
    /// | a wrapper function that was called before the session had any lazy function | the process ends |
    ///
    /// # Errors
    ///
    /// When memory runs out, the session is over, or its executor does not offer lazy functions.
    ///
    /// # Examples
    ///
    /// ```standalone_crate
    /// # farcall::executor::run_if_spawned();
    /// # let process = farcall::controller::ExecutorBuilder::new().this_program().start()?.process()?;
    /// use farcall::{PerProt, Prot};
    /// // A compiler makes the code: lea eax, [rdi + rdi]; ret
    /// let double = process.create_lazy("double", |process| {
    ///     let mut memory = process.allocate(PerProt { code: 4, ..PerProt::default() })?;
    ///     memory.write(Prot::Code, &[0x8d, 0x04, 0x3f, 0xc3]);
    ///     let memory = memory.finalize();
    ///     let address = memory.address();
    ///     std::mem::forget(memory); // the code stays until the session ends
    ///     Ok(address)
    /// })?;
    /// let double = process.function::<extern "C" fn(i32) -> i32>(double.address());
    /// assert_eq!(double.call((21,))?, 42);
    /// # Ok::<(), farcall::Error>(())
    /// ```
    pub fn create_lazy(
        &self,
        name: &str,
        compile: impl Fn(&Process) -> Compiled + Send + Sync + 'static,
    ) -> Result<Redirectable> {
        create_lazy(&self.session, name, Box::new(compile))
    }
}

impl Dylib {
    /// As [`Process::create_lazy`], and the dylib defines the function under `name` for objects that it links later.
    ///
    /// # Errors
    ///
    /// As [`Process::create_lazy`], or when the dylib defines the name already.
    pub(crate) fn create_lazy(
        &self,
        name: &str,
        compile: impl Fn(&Process) -> Compiled + Send + Sync + 'static,
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
    let owner = Process { session: Arc::clone(session) }.downgrade();
    let resolve = move || lazy.address(&owner.upgrade().ok_or("the session is over")?);
    session.lazy.add(stub.return_address(), Arc::new(resolve));
    redirectable.redirect(stub.trampoline())?;
    Ok(redirectable)
}

impl Lazy {
    /// The address of the function. Compiles it if it is not compiled yet.
    fn address(&self, process: &Process) -> std::result::Result<ExecutorAddr, String> {
        let own = thread::current().id();
        let stub = Redirectable::at(&process.session, self.stub);
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
        // The reason if `compile` panics.
        let mut compiling =
            Compiling { lazy: self, failure: format!("compiling {} panicked", self.name) };
        let outcome = match (self.compile)(process) {
            Ok(function) if function.is_null() => Err("the compiler returned address 0".into()),
            Ok(function) => stub.resolve(function).map_err(Into::into),
            Err(error) => Err(error),
        };
        let outcome = outcome.map_err(|error| format!("compiling {}: {error}", self.name));
        compiling.failure = outcome.as_ref().err().cloned().unwrap_or_default();
        outcome
    }
}

/// A compilation under way. Dropping it wakes the threads that wait for it.
struct Compiling<'a> {
    lazy: &'a Lazy,
    /// The reason why it failed; empty when it succeeded.
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
