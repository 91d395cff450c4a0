//! The controller's side of a session within one process.
//!
//! | counts a call | changes what calls read |
//! |---|---|
//! | stores that the thread is inside | stores the new value |
//! | issues the [light fence](crate::sys::asymmetric_fence) | issues the heavy fence |
//! | reads what was changed | reads which threads are inside |
//!
//! So a thread that reads the old value is seen inside. The end of the session and [grace periods](GracePeriod) rest on that.
//!
//! Invariant: each thread writes its own counters only.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::{Arc, Weak};

use super::{DirectExecutor, Other};
use crate::call::counters::Counters;
use crate::call::endpoint::too_deep;
use crate::call::grace_period::GracePeriod;
use crate::call::lanes::Lanes;
use crate::deadline::Deadline;
use crate::error::{Error, Result};
use crate::limits::{CALL_DEPTH_MAX, END_TIMEOUT};
use crate::sync::{AtomicBool, Mutex, Ordering, thread_local};
use crate::sys::asymmetric_fence::{LightFence, heavy_fence, serialize_all};
use crate::sys::cpu;

/// The controller's side of a session with an executor in this process.
#[derive(Debug)]
pub(crate) struct Direct {
    executor: Arc<dyn DirectExecutor>,
    /// Has the posted calls. No lane is open.
    lanes: Arc<Lanes>,
    light: LightFence,
    is_closed: AtomicBool,
    /// The host calls functions by pointers.
    has_pointers: AtomicBool,
    threads: Mutex<Threads>,
}

/// The threads that call, or have called.
#[derive(Debug, Default)]
struct Threads {
    counters: Vec<Arc<Counters>>,
    /// The calls of those that have ended.
    gone: u64,
}

thread_local! {
    /// The records of this thread, for every session in which it calls.
    static OWN: RefCell<Vec<Own>> = const { RefCell::new(Vec::new()) };
}

struct Own {
    home: Weak<Direct>,
    thread: Rc<Thread>,
}

/// A thread that calls.
#[derive(Debug, Default)]
struct Thread {
    counters: Arc<Counters>,
    /// The number of the code that was written last when this thread serialized its instructions.
    code_epoch: Cell<u64>,
}

/// A call that is under way.
struct Inside<'a>(&'a Counters);

impl Drop for Inside<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.0.leave();
    }
}

impl Direct {
    pub(crate) fn new(executor: Arc<dyn DirectExecutor>, lanes: &Arc<Lanes>) -> Arc<Self> {
        Arc::new(Self {
            executor,
            lanes: Arc::clone(lanes),
            // At the start, since it may take 10 ms.
            light: LightFence::of_process(),
            is_closed: AtomicBool::new(false),
            has_pointers: AtomicBool::new(false),
            threads: Mutex::default(),
        })
    }

    pub(crate) fn executor(&self) -> &dyn DirectExecutor {
        &*self.executor
    }

    /// Calls a wrapper function on this thread, behind the calls that were posted. Returns what `take` makes of the bytes that it
    /// answers.
    ///
    /// # Errors
    ///
    /// | error | means |
    /// |---|---|
    /// | `ErrorKind::Remote` | the function has failed, or one that was posted |
    /// | `ErrorKind::Exhausted` | calls are nested too deep |
    /// | any other | the session is over, or belongs to this process's parent |
    #[inline(always)]
    pub(crate) fn call<R>(
        self: &Arc<Self>,
        function: u64,
        args: &[u8],
        take: impl FnOnce(&[u8]) -> Result<R>,
    ) -> Result<R> {
        self.lanes.origin().check()?;
        let thread = self.thread();
        // Between two calls of a thread there is a handler, which is counted between two processes.
        if thread.counters.depth() >= CALL_DEPTH_MAX / 2 || !thread.counters.enter() {
            return Err(Error::exhausted(too_deep()));
        }
        let inside = Inside(&thread.counters);
        self.light.issue();
        // Relaxed: the fences order it.
        if self.is_closed.load(Ordering::Relaxed) {
            return Err(Error::disconnected("the session is over"));
        }
        self.lanes.posts.run(|function, args| self.run_posted(function, args))?;
        let code_epoch = self.lanes.code_epoch();
        if thread.code_epoch.get() != code_epoch {
            thread.code_epoch.set(code_epoch);
            cpu::serialize_for(function);
        }
        thread.counters.next_call();
        let (mut word, mut other) = (0, None);
        let is_word = self.executor.call(function, args, &mut word, &mut other);
        drop(inside);
        if is_word { take(&word.to_le_bytes()) } else { take(&answered(other)?) }
    }

    #[cold]
    fn run_posted(&self, function: u64, args: &[u8]) -> Result<()> {
        let mut other = None;
        match self.executor.call(function, args, &mut 0, &mut other) {
            true => Ok(()),
            false => answered(other).map(drop),
        }
    }

    /// This thread's record.
    #[inline(always)]
    fn thread(self: &Arc<Self>) -> Rc<Thread> {
        let find = |own: &RefCell<Vec<Own>>| {
            let own = own.borrow();
            // The weak reference keeps the allocation, so no other session can have this address.
            let found = own.iter().find(|own| std::ptr::eq(own.home.as_ptr(), Arc::as_ptr(self)));
            found.map(|own| Rc::clone(&own.thread))
        };
        match OWN.try_with(find) {
            Ok(Some(thread)) => thread,
            _ => self.add_thread(),
        }
    }

    #[cold]
    fn add_thread(self: &Arc<Self>) -> Rc<Thread> {
        let thread = Rc::new(Thread::default());
        let mut threads = self.threads.lock();
        threads.forget_gone();
        threads.counters.push(Arc::clone(&thread.counters));
        drop(threads);
        let (home, own) = (Arc::downgrade(self), Rc::clone(&thread));
        // A thread that is about to end has no list any more, and another record for each call.
        let _ = OWN.try_with(|all| {
            let mut all = all.borrow_mut();
            all.retain(|own| own.home.strong_count() > 0);
            all.push(Own { home, thread: own });
        });
        thread
    }

    /// The host gets a pointer to a function. From now on all threads see new code at once: farcall does not know when
    /// they call it.
    ///
    /// # Errors
    ///
    /// When the kernel cannot do that.
    pub(crate) fn pass_pointer(&self) -> Result<()> {
        self.has_pointers.store(true, Ordering::SeqCst);
        serialize_all()
    }

    /// The controller has written code.
    pub(crate) fn code_written(&self) {
        if self.has_pointers.load(Ordering::SeqCst) {
            // The kernel has done it before.
            let _ = serialize_all();
        }
    }

    /// Calls made so far.
    pub(crate) fn calls(&self) -> u64 {
        let threads = self.threads.lock();
        let counters = threads.counters.iter();
        counters.fold(threads.gone, |sum, counters| sum.wrapping_add(counters.calls()))
    }

    /// Adds the calls that have not returned yet.
    pub(crate) fn add_to(&self, calls: &mut GracePeriod) {
        self.see_others();
        let threads = self.threads.lock();
        let inside = threads.counters.iter().filter_map(|counters| {
            let outside = counters.inside()?;
            Some((Arc::clone(counters), outside))
        });
        calls.lanes.extend(inside);
    }

    /// Refuses calls from now on.
    pub(crate) fn refuse_calls(&self) {
        self.is_closed.store(true, Ordering::Relaxed);
    }

    /// Ends the session, if no call is under way. Otherwise its last handle does that, by [`end`](Direct::end).
    pub(crate) fn close(&self) {
        self.refuse_calls();
        self.see_others();
        let is_idle =
            self.threads.lock().counters.iter().all(|counters| counters.inside().is_none());
        if is_idle {
            self.end();
        }
    }

    /// Ends the session, in which no call is under way.
    pub(crate) fn end(&self) {
        self.refuse_calls();
        if self.lanes.origin().is_own() {
            // The executor has written its failures. As in a process of its own, no caller is left to be told.
            let _ = self.executor.end();
        }
    }

    /// What other threads have stored before their light fences is seen from here on, or they see what this one has stored.
    fn see_others(&self) {
        // No processor keeps a store to itself for this time. Behind it, other threads see what this one has stored, and their older stores
        // are seen here.
        let deadline = Deadline::after(END_TIMEOUT);
        while !heavy_fence() && !deadline.has_passed() {
            // The kernel has granted it before, so it lacks memory now.
            std::thread::yield_now();
        }
    }
}

fn answered(other: Other) -> Result<Vec<u8>> {
    other.unwrap_or_else(|| Ok(Vec::new())).map_err(Error::answered)
}

impl Threads {
    /// Forgets threads that have ended, and adds their calls to the sum.
    fn forget_gone(&mut self) {
        let gone = &mut self.gone;
        self.counters.retain(|counters| {
            let is_alive = Arc::strong_count(counters) > 1;
            if !is_alive {
                *gone = gone.wrapping_add(counters.calls());
            }
            is_alive
        });
    }
}
