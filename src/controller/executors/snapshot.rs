//! Snapshots: an executor with all that it has loaded and linked, from which copies start.

use std::sync::Arc;

use super::executor::Executor;
use super::library::Library;
use crate::controller::dylibs::dylib::Dylib;
use crate::controller::linker::linking::Linker;
use crate::controller::memory::executor_memory::ExecutorMemory;
use crate::controller::session::{Process, Session};
use crate::error::{Error, Result};
use crate::sys::confine::confinement::ConfinementLevel;

/// An executor at one moment, from which any number of copies start, each within some hundred microseconds.
///
/// A copy is a process of its own. It has everything that the executor had: libraries, linked code at the same addresses, data,
/// heap, thread-locals of the main thread, open files, attached regions. Code is shared between all copies. Data and heap are
/// copied page by page, when a copy writes them. Regions stay shared with the host. A copy that crashes harms no other.
///
/// The executor itself becomes the *zygote*: it runs no more calls, and uses no CPU time. The kernel kills all copies when the
/// zygote ends. The zygote ends when all handles of its session, of the snapshot and of the copies are dropped.
///
/// Where copies come and go, the next one is made ahead: when the second copy ends, and each later one, the zygote starts another. So
/// [`spawn`](Self::spawn) has it at once. One idle process waits so, with 150 kB of private memory, until the zygote ends.
///
/// Handlers of the executor's session serve its copies as well. After the snapshot the host must not write memory of that session,
/// such as a [`Buffer`](crate::controller::region::Buffer). Copies that have not written the page would see it.
///
/// Cheap to clone; any thread may use it.
///
/// # Examples
///
/// ```standalone_crate
/// # farcall::executor::run_if_spawned();
#[doc = include_str!("../../docs/compile.txt")]
/// use farcall::controller::{ExecutorBuilder, Snapshot};
/// use farcall::link::ObjectFile;
///
/// let executor = ExecutorBuilder::new().this_program().start()?;
/// let library = executor.library("main");
/// library.add_object(&compile("int count; int next(void) { return ++count; }")?)?;
/// let next = library.function::<extern "C" fn() -> i32>("next");
/// assert_eq!(next.call(())?, 1);
///
/// let snapshot = Snapshot::take(executor)?;
/// for _ in 0..3 {
///     let copy = snapshot.spawn()?;
///     let next = library.in_copy(&copy)?.function::<extern "C" fn() -> i32>("next");
///     assert_eq!(next.call(())?, 2);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Snapshot {
    session: Arc<Session>,
}

impl Snapshot {
    /// Takes a snapshot of an executor. It is over then: calls of all its handles fail
    /// ([`ErrorKind::Disconnected`](crate::ErrorKind::Disconnected)). Its libraries are what copies have
    /// ([`Library::in_copy`](super::Library::in_copy)), as far as they are linked. Objects that were added and not linked stay behind.
    /// Pipelines end.
    ///
    /// # Errors
    ///
    /// The executor goes on after these errors, apart from its pipelines:
    ///
    /// - It has a restart policy, or several processes.
    /// - A call is under way, or a link that takes more memory.
    /// - The program has started threads of its own, which a copy would not have.
    /// - The executor is strictly confined, and so may not fork.
    /// - The kernel, or a filter of system calls, refuses `pidfd_getfd` (Linux 5.6).
    ///
    /// The executor ends after these errors:
    ///
    /// - A call began meanwhile, and has not ended within a second.
    /// - There is no `/proc`, or a kernel before 5.9.
    /// - The executor does not answer within 2 seconds.
    pub fn take(executor: Executor) -> Result<Self> {
        let session = executor.only_process()?.session;
        let remote = session.remote();
        remote.check_alive()?;
        remote.opener().check_own_process("a snapshot")?;
        if remote.enforced().level() == ConfinementLevel::Strict {
            return Err(Error::invalid(
                "a strictly confined executor starts no processes, so there is no snapshot of it; Confinement::isolated allows one",
            ));
        }
        // What was posted belongs to the snapshot.
        remote.settle()?;
        if !session.grace_period().is_over() {
            return Err(Error::invalid("a call is under way, and a copy would not go on with it"));
        }
        remote.freeze(|is_frozen| session.memory().freeze(is_frozen))?;
        Ok(Self { session })
    }

    /// Starts a copy, or takes the copy made ahead, and waits until it is ready. Memory that the copy links code into is its own.
    ///
    /// # Errors
    ///
    /// When the zygote has ended ([`Error::death`](crate::Error::death) says how), or the kernel refuses a process, memory or
    /// descriptors. When the copy is not ready in 10 seconds, or in the time that
    /// [`ExecutorBuilder::start_timeout`](crate::controller::ExecutorBuilder::start_timeout) sets. After that error more copies can be
    /// made, when a zygote that was stopped goes on.
    pub fn spawn(&self) -> Result<Executor> {
        let snapshot = &self.session;
        let memory = ExecutorMemory::of_copy(snapshot.remote().fork()?, snapshot.memory());
        let linker = Linker::of_copy(memory, &snapshot.linker);
        let published = snapshot.publication().map(Arc::clone);
        let of = Some(Arc::clone(snapshot));
        Ok(Executor::from(&Session::start(linker, of, published)))
    }
}

impl Library {
    /// The same library in a copy of its executor ([`Snapshot`]): what was linked before the snapshot, at
    /// the same addresses. It can be looked up and run, and objects that are added to it can refer to it. [`clear`](Library::clear)
    /// removes only what was linked in the copy.
    ///
    /// # Errors
    ///
    /// When `copy` is no copy of the library's executor.
    pub fn in_copy(&self, copy: &Executor) -> Result<Library> {
        let own = self.slots.first(|generation| Ok(generation.dylib(&self.named)))?;
        let library = Library::new(&copy.slots, self.named.name.clone());
        copy.slots.first(|generation| generation.take_copy(&library.named, &own))?;
        Ok(library)
    }
}

impl Dylib {
    /// The same dylib in a copy of its process: what was linked before the snapshot, at the same addresses.
    ///
    /// # Errors
    ///
    /// When `copy` is no copy of this dylib's executor.
    pub(crate) fn in_copy(&self, copy: &Process) -> Result<Dylib> {
        let is_of = |snapshot: &Arc<Session>| Arc::ptr_eq(snapshot, self.session());
        if !copy.session.snapshot.as_ref().is_some_and(is_of) {
            return Err(Error::invalid("the executor is no copy of the one that the dylib is in"));
        }
        Ok(self.with_session(&copy.session))
    }
}
