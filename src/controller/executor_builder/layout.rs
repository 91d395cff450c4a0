//! Whether executors have the layout of their libraries in common.

use super::ExecutorBuilder;
use crate::controller::process::supervisor::Supervisor;

impl ExecutorBuilder {
    /// Lets executors share the layout of their libraries: the second start takes about a third of the first one's time. The first
    /// executor parts a process from itself that has loaded the program and never runs linked code, the *start zygote*. It forks the
    /// next ones: further executors and processes, restarts and standbys.
    ///
    /// The zygote sleeps, and takes a process and some hundred kB of memory. It ends when this builder, its clones and all executors of
    /// this process are dropped. Every builder with the same program, arguments and environment has the same zygote.
    ///
    /// It forks one executor ahead, 5 ms behind each start of this builder or of an executor of it. The next start takes that one, and a
    /// start before then is a fork of its own, which takes twice as long. The executor ahead sleeps, and takes a process with three
    /// threads, 240 KiB of its own memory, and some descriptors of this process. It ends with this builder, its clones and their
    /// executors. Executors that are confined, limited or log (`ORC_RT_LOG`) are not forked ahead.
    ///
    /// An executor cannot tell whether it was forked, with four exceptions. It has the layout of its libraries, the stack's guard value
    /// and seeds of libraries in common with the others ([trust](crate::_docs::trust)). Constructors of the program's libraries ran
    /// once, in another process. Libraries are those that the zygote has found. The process may be older than the start.
    ///
    /// The program is started anew where a fork would make another difference: its file, a limit, or anything else that a program
    /// inherits has changed. It is started anew as well when the program starts threads before
    /// [`run_if_spawned`](crate::executor::run_if_spawned), and with [`inherit_descriptors`](Self::inherit_descriptors).
    ///
    /// # Examples
    ///
    /// ```standalone_crate
    /// # farcall::executor::run_if_spawned();
    /// # use farcall::controller::ExecutorBuilder;
    /// let builder = ExecutorBuilder::new().this_program().shared_layout();
    /// for _ in 0..3 {
    ///     println!("{}", builder.start()?.process()?.pid());
    /// }
    /// # Ok::<(), farcall::Error>(())
    /// ```
    #[must_use]
    pub fn shared_layout(mut self) -> Self {
        self.shares_layout = true;
        self
    }

    /// Starts the program for each executor, which so has a layout of its own. This is the default.
    ///
    /// # Examples
    ///
    /// ```standalone_crate
    /// # farcall::executor::run_if_spawned();
    /// # use farcall::controller::ExecutorBuilder;
    /// let builder = ExecutorBuilder::new().this_program().shared_layout();
    /// let apart = builder.fresh_layout().start()?;
    /// # Ok::<(), farcall::Error>(())
    /// ```
    #[must_use]
    pub fn fresh_layout(mut self) -> Self {
        self.shares_layout = false;
        self
    }

    /// Keeps the start zygotes while this builder or a clone lives.
    pub(super) fn keep_zygotes(&self, supervisor: &Supervisor) {
        if self.shares_layout {
            let keeper = supervisor.keeper();
            // The keeper before is dropped without the lock.
            let last = self.keeper.lock().replace(keeper);
            drop(last);
        }
    }
}
