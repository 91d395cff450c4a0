//! An executor in the process of its controller.
//!
//! The two sides never import each other. This room knows both, and gives the controller the function that starts an executor here.
//! All else is as between two processes: the linker, the memory map, the functions of the contract. They meet in `call::direct`, where
//! a call is a call of a function on the same thread.

mod pointer;

pub use pointer::CallPointer;

use crate::controller::ExecutorBuilder;
use crate::executor::start_in_process;

impl ExecutorBuilder {
    /// Runs linked code in this process. Linker, libraries, handlers, replacement, thread-locals and unwinding are the same. A call runs on
    /// the thread that makes it, and [`Function::pointer`](crate::controller::Function::pointer) takes farcall out of the call. This is for
    /// code that is trusted as the host's own.
    ///
    /// | of the code | with a process of its own | in this process |
    /// |---|---|---|
    /// | a crash, a call of `exit` | ends the executor | ends the host |
    /// | an exception that is not caught | ends the executor | ends the host |
    /// | a call that hangs | is interrupted, abandoned or killed | hangs the thread |
    /// | memory | its own, and what is shared | all of the host's |
    /// | a handler | runs on the thread that waits for the call | runs on the thread of the call |
    ///
    /// No page is both writable and executable: code is written through one mapping and runs in another.
    ///
    /// These need a process, and are errors that say so ([`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument)):
    ///
    /// - at the start: [`confine`](ExecutorBuilder::confine), [`restart`](ExecutorBuilder::restart),
    ///   [`processes`](ExecutorBuilder::processes), [`env`](ExecutorBuilder::env), [`link_timeout`](ExecutorBuilder::link_timeout),
    ///   [`adopt`](ExecutorBuilder::adopt);
    /// - a [timeout or a watch](crate::controller::CallOptions) of a call,
    ///   [`interrupt_all`](crate::controller::Executor::interrupt_all), [`cancel`](crate::controller::calls::PendingCall::cancel);
    /// - a [snapshot](crate::controller::Snapshot), [`Process::exit`](crate::controller::Process::exit), [executable
    ///   stacks](crate::controller::Process::allow_executable_stacks), [`run_start`](crate::controller::Library::run_start),
    ///   [`precede_libraries`](crate::controller::Library::precede_libraries).
    ///
    /// [`Executor::kill`](crate::controller::Executor::kill) closes the session: calls that are made later fail. The builder's program is
    /// not started, so moving the code out is to leave this line out. Several executors may be in one process, beside others.
    ///
    /// The session ends with its last handle, as elsewhere. Calls by pointers must have returned then, and threads that the code has
    /// started must have ended.
    ///
    /// # Examples
    ///
    /// ```
    #[doc = include_str!("../docs/compile.txt")]
    /// use farcall::controller::ExecutorBuilder;
    ///
    /// let executor = ExecutorBuilder::new().in_process().start()?;
    /// let library = executor.library("main");
    /// library.add_object(&compile("long add(long a, long b) { return a + b; }")?)?;
    /// let add = library.function::<extern "C" fn(i64, i64) -> i64>("add").bind()?;
    /// assert_eq!(add.call((3, 4))?, 7);
    /// let pointer = add.pointer()?;
    /// // SAFETY: the object has a function of this type, and the executor lives.
    /// assert_eq!(unsafe { pointer(3, 4) }, 7);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn in_process(self) -> Self {
        self.start_here(start_in_process)
    }
}
