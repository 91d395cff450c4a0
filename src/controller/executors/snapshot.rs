//! Snapshots: an executor with all that it has loaded and linked, from which copies start.

use std::sync::Arc;

use super::executor::Executor;
use super::library::Library;
use crate::call::contract::{CopyKeep, CopyReset};
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
        self.start(|_| Ok(()))
    }

    /// As [`Snapshot::spawn`], for a copy that can be [reset](Self::reset) to the state that it has now. It takes about a millisecond
    /// longer, and one more process: a child of the copy that never runs, and keeps the memory. That process ends with the copy. The copy
    /// has three more descriptors, from 800 on, and up to 8 MiB of pages to put back. No copy made by [`Snapshot::spawn`] has any of that.
    ///
    /// Some system calls would change memory after a reset. They fail in such a copy, most of them as on older kernels:
    ///
    /// - `madvise` with `MADV_FREE`, and `clone` of a process that shares the memory while its parent goes on (`EINVAL`);
    /// - `io_uring`, `userfaultfd`, `pkey_alloc`, `mseal` and `clone3` (`ENOSYS`).
    ///
    /// So programs that it starts get no more rights by their files (`PR_SET_NO_NEW_PRIVS`).
    ///
    /// Until its session ends, such a copy does not look whether its host has ended. The kernel kills it then; code that becomes another
    /// user prevents that.
    ///
    /// # Errors
    ///
    /// As [`Snapshot::spawn`]. Also when the executor is confined, as the filters of [`Confinement::isolated`] refuse `userfaultfd` and
    /// `process_vm_readv`. When the kernel refuses to read the memory of a child (`process_vm_readv`, Yama's `ptrace_scope` of 2 or 3), or
    /// there is no `/proc`. When memory of the snapshot is not for children (`MADV_DONTFORK`). On processors other than x86-64.
    ///
    /// [`Confinement::isolated`]: crate::controller::Confinement::isolated
    pub fn spawn_resettable(&self) -> Result<Executor> {
        // Tests have a copy compare its memory, as on a kernel that does not note writes.
        let compares = std::env::var_os("FARCALL_RESET_COMPARES").is_some();
        if self.session.remote().enforced().level() != ConfinementLevel::Default {
            return Err(Error::invalid(
                "a confined executor may not read the memory of another process, so its copies are not reset: use Snapshot::spawn",
            ));
        }
        self.start(|copy| copy.session.remote().ask_alone::<CopyKeep>(&(compares,)))
    }

    /// Puts a copy that [`spawn_resettable`](Self::spawn_resettable) has made back in its first state. All handles of the copy go on to
    /// work. Its next call finds what the first call has found.
    ///
    /// | put back | |
    /// |---|---|
    /// | memory of the process | data, heap, stack, thread-locals of the main thread, buffers of streams: as at first |
    /// | memory that was dropped, moved, or mapped over | by `madvise`, `mremap`, `mmap`, `brk`: its contents are as at first |
    /// | memory that children get as zeros (`MADV_WIPEONFORK`) | zeros, as in a new copy |
    /// | memory mapped since | unmapped |
    /// | descriptors | those opened since are closed; the others get their offsets and flags back |
    /// | signals | actions, mask, the stack for handlers; interval timers stop |
    /// | the working folder, the mask of file modes | as at first |
    ///
    /// Offsets of files that were open in the snapshot are shared by all its copies, as after a fork. They have the value of when this copy
    /// was made.
    ///
    /// | not put back | |
    /// |---|---|
    /// | files | contents, lengths, locks; what was read from pipes and sockets |
    /// | shared memory | shared mappings, and regions of the host |
    /// | the process | limits, user, priority, name, times, timers of `timer_create`, signals that wait; processes that are no children |
    /// | advice | locks, protection keys and advice that takes no contents away |
    ///
    /// The kernel says which pages were written (Linux 6.7); elsewhere all memory of the copy is compared.
    ///
    /// # Errors
    ///
    /// The copy goes on as it was after these errors, and the message says to make a new one:
    ///
    /// - Memory of the first state was unmapped, is of another file, or has another protection.
    /// - Asynchronous I/O was set up (`io_setup`).
    /// - A descriptor of the first state was closed, or names another file.
    /// - A thread was started that still runs, or a child process is there.
    /// - Several threads of the host have called the copy, or a pipeline was opened: the executor has a thread for each.
    /// - Code was linked in the copy, or a region was attached or detached.
    ///
    /// Also when a call is under way, the copy was not made by [`spawn_resettable`](Self::spawn_resettable) of this snapshot, or has
    /// ended.
    ///
    /// # Examples
    ///
    /// ```standalone_crate
    /// # farcall::executor::run_if_spawned();
    #[doc = include_str!("../../docs/compile.txt")]
    /// use farcall::controller::{ExecutorBuilder, Snapshot};
    ///
    /// let executor = ExecutorBuilder::new().this_program().start()?;
    /// let library = executor.library("main");
    /// library.add_object(&compile("int count; int next(void) { return ++count; }")?)?;
    /// let next = library.function::<extern "C" fn() -> i32>("next");
    /// assert_eq!(next.call(())?, 1);
    ///
    /// let snapshot = Snapshot::take(executor)?;
    /// let copy = snapshot.spawn_resettable()?;
    /// let next = library.in_copy(&copy)?.function::<extern "C" fn() -> i32>("next");
    /// for _ in 0..3 {
    ///     assert_eq!((next.call(())?, next.call(())?), (2, 3));
    ///     snapshot.reset(&copy)?;
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn reset(&self, copy: &Executor) -> Result<()> {
        let session = copy.only_process()?.session;
        if !session.snapshot.as_ref().is_some_and(|of| Arc::ptr_eq(of, &self.session)) {
            return Err(Error::invalid("the executor is no copy of this snapshot"));
        }
        session.remote().check_alive()?;
        session.remote().ask_alone::<CopyReset>(&())
    }

    /// Starts a copy, which is prepared before it has handles.
    fn start(&self, prepare: impl FnOnce(&Process) -> Result<()>) -> Result<Executor> {
        let snapshot = &self.session;
        let memory = ExecutorMemory::of_copy(snapshot.remote().fork()?, snapshot.memory());
        let linker = Linker::of_copy(memory, &snapshot.linker);
        let published = snapshot.publication().map(Arc::clone);
        let of = Some(Arc::clone(snapshot));
        let session = Session::start(linker, of, published);
        prepare(&session)?;
        Ok(Executor::from(&session))
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
