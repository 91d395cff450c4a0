//! The state of an executor for one controller: memory, libraries and lanes. Functions of the contract receive its
//! number.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Weak};

use super::acceptor::Acceptor;
use super::calls::WrapperCalls;
use crate::ExecutorAddr;
use crate::call::contract::Placement;
use crate::call::direct::DirectController;
use crate::call::{LaneEnd, Lanes};
use crate::error::{Error, Result};
use crate::executor::entry::unwind_boundary::served_calls::ServedCalls;
use crate::executor::interrupt;
use crate::executor::log;
use crate::executor::memory::attached::Attached;
use crate::executor::memory::{MemoryMap, forked};
use crate::executor::process::libraries::Libraries;
use crate::executor::process::names::dlsym;
use crate::limits::SLABS_MAX;
use crate::session::SessionHandle;
use crate::sync::{AtomicU64, Mutex, MutexGuard, Ordering};
use crate::sys::process::fork;
use crate::wire::layout::DATA_END_WORD;

/// The session that functions of the contract work on: of a spawned executor, of a connection, or of a host.
#[derive(Debug)]
pub(crate) struct Instance {
    pub(crate) memory: MemoryMap,
    pub(crate) attached: Attached,
    pub(crate) libraries: Libraries,
    /// Receives lanes and slabs; none for a connection.
    acceptor: Option<Acceptor>,
    lanes: Arc<Lanes>,
    /// The session of the host, if a host embeds this.
    host: Mutex<Option<SessionHandle>>,
    /// The controller, if it is in this process.
    controller: Option<Weak<dyn DirectController>>,
}

/// The live instances of the process by their numbers.
static INSTANCES: Mutex<Option<HashMap<ExecutorAddr, Arc<Instance>>>> = Mutex::new(None);

/// The process that began the newest session, by its [`fork::generation`].
static GENERATION: AtomicU64 = AtomicU64::new(0);

impl Instance {
    /// False in a forked child of the process that has the sessions. Takes no lock, which may be held forever there.
    #[inline]
    pub(crate) fn is_here() -> bool {
        GENERATION.load(Ordering::Relaxed) == fork::generation()
    }

    /// Makes an instance, which lives until [`Instance::end`]. `acceptor` receives lanes, if the session has any.
    pub(crate) fn begin(acceptor: Option<Acceptor>) -> Arc<Self> {
        Self::begin_with(acceptor, None)
    }

    /// Makes the instance of a controller in this process.
    pub(crate) fn begin_direct(controller: Weak<dyn DirectController>) -> Arc<Self> {
        Self::begin_with(None, Some(controller))
    }

    fn begin_with(
        acceptor: Option<Acceptor>,
        controller: Option<Weak<dyn DirectController>>,
    ) -> Arc<Self> {
        log::start();
        fork::watch();
        GENERATION.store(fork::generation(), Ordering::Relaxed);
        let session = Arc::new(Instance {
            memory: MemoryMap::default(),
            attached: Attached::default(),
            libraries: Libraries::default(),
            acceptor,
            lanes: Lanes::new(),
            host: Mutex::new(None),
            controller,
        });
        instances().get_or_insert_default().insert(session.instance(), Arc::clone(&session));
        session
    }

    /// Makes the session of a forked process, whose only thread calls this, from its parent's session. Memory, libraries and the
    /// number stay.
    ///
    /// # Errors
    ///
    /// If other code still uses the session.
    pub(crate) fn renewed(mut session: Arc<Self>, acceptor: Acceptor) -> Result<Arc<Self>> {
        instances().get_or_insert_default().remove(&session.instance());
        let Some(own) = Arc::get_mut(&mut session) else {
            return Err(Error::invalid("the session that was frozen is still in use"));
        };
        own.acceptor = Some(acceptor);
        own.lanes = Lanes::new();
        GENERATION.store(fork::generation(), Ordering::Relaxed);
        instances().get_or_insert_default().insert(session.instance(), Arc::clone(&session));
        Ok(session)
    }

    /// The controller in this process, while it lives.
    pub(crate) fn controller(&self) -> Option<Arc<dyn DirectController>> {
        self.controller.as_ref()?.upgrade()
    }

    /// The controller of any session within this process.
    pub(crate) fn any_controller() -> Option<Arc<dyn DirectController>> {
        instances().iter().flat_map(HashMap::values).find_map(|instance| instance.controller())
    }

    /// True when a controller gives the process's room for thread-locals to its links without a question. Controllers of spawned
    /// executors and in this process do.
    pub(crate) fn any_has_thread_room() -> bool {
        let has_room = |one: &Arc<Instance>| one.acceptor.is_some() || one.controller().is_some();
        instances().iter().flat_map(HashMap::values).any(has_room)
    }

    /// The session of the host, while it lives.
    pub(crate) fn host(&self) -> Option<SessionHandle> {
        self.host.lock().clone()
    }

    pub(crate) fn set_host(&self, host: Option<SessionHandle>) {
        *self.host.lock() = host;
    }

    /// Runs the remaining dealloc actions, then closes the libraries.
    ///
    /// # Errors
    ///
    /// The messages of the failed actions.
    pub(crate) fn end(&self) -> Result<()> {
        instances().get_or_insert_default().remove(&self.instance());
        if self.acceptor.is_some() {
            forked::forget();
        }
        let slabs = self.memory.slabs();
        let failures = self.memory.shut_down();
        dlsym::forget(|address| slabs.iter().any(|slab| slab.contains(address)));
        self.libraries.close();
        if failures.is_empty() { Ok(()) } else { Err(Error::remote(failures.join("; "))) }
    }

    /// Maps the slab with this index from the controller's files. Forked children get their own copy of its data.
    ///
    /// # Errors
    ///
    /// As [`MemoryMap::reserve_shared`].
    pub(crate) fn reserve_shared(
        &self,
        index: usize,
        placement: Placement,
        files: Vec<OwnedFd>,
    ) -> Result<ExecutorAddr> {
        if index >= SLABS_MAX {
            return Err(Error::violation(format!("slab {index} of {SLABS_MAX}")));
        }
        let (start, data) = self.memory.reserve_shared(placement, files)?;
        if let Some(slab) = self.memory.slabs().into_iter().find(|slab| slab.start == start) {
            interrupt::add_linked(index, slab);
        }
        let word = DATA_END_WORD + index;
        forked::keep_apart(index, data, self.acceptor()?.first.view(word..word + 1));
        Ok(start)
    }

    /// The number of the instance, which is its address.
    pub(crate) fn instance(&self) -> ExecutorAddr {
        ExecutorAddr::new(std::ptr::from_ref(self) as u64)
    }

    /// Serves the calls that come in over the lane with this number, on the calling thread. Runs `open` first: by then the controller may
    /// ask for the end of a call that it is about to make.
    ///
    /// # Errors
    ///
    /// The reason for the lane's end, unless the controller hung up in order.
    pub(crate) fn serve(
        &self,
        number: u64,
        end: LaneEnd,
        open: impl FnOnce(&LaneEnd) -> Result<()>,
    ) -> Result<()> {
        let served = ServedCalls::of_lane(end.counters());
        let serve = || {
            open(&end)?;
            self.lanes.serve(end, &WrapperCalls::of_lane(&served))
        };
        self.acceptor()?.interrupts.while_serving(number, &served, serve)
    }

    /// The acceptor of lanes and slabs.
    ///
    /// # Errors
    ///
    /// If the session has a single connection and no lanes.
    pub(crate) fn acceptor(&self) -> Result<&Acceptor> {
        self.acceptor.as_ref().ok_or_else(|| {
            Error::invalid(
                "a connection shares no memory and opens no lanes: content comes in messages, and \
                 only the thread that serves it can call the controller",
            )
        })
    }

    pub(crate) fn lanes(&self) -> &Arc<Lanes> {
        &self.lanes
    }

    /// The only instance of this process, for threads that serve none.
    ///
    /// # Errors
    ///
    /// If there is none, or more than one.
    pub(crate) fn only() -> Result<Arc<Instance>> {
        let instances = instances();
        let mut live = instances.iter().flat_map(HashMap::values);
        match (live.next(), live.next()) {
            (Some(session), None) => Ok(Arc::clone(session)),
            (None, _) => Err(Error::disconnected("the session is over")),
            (Some(_), Some(_)) => Err(Error::invalid(
                "several sessions: only a thread that serves one of them can call its controller",
            )),
        }
    }

    /// The live instance with this number.
    pub(crate) fn at(instance: ExecutorAddr) -> Result<Arc<Instance>> {
        let found = instances().get_or_insert_default().get(&instance).cloned();
        found.ok_or_else(|| Error::invalid(format!("no session at {instance}")))
    }

    /// The live session of a host with this address, and its instance.
    pub(crate) fn hosted(address: ExecutorAddr) -> Option<(Arc<Instance>, SessionHandle)> {
        let live: Vec<_> = instances().iter().flat_map(HashMap::values).cloned().collect();
        let mut hosted = live.into_iter().filter_map(|instance| Some((instance.host()?, instance)));
        let found = hosted.find(|(session, _)| session.address() == address);
        found.map(|(session, instance)| (instance, session))
    }
}

fn instances() -> MutexGuard<'static, Option<HashMap<ExecutorAddr, Arc<Instance>>>> {
    INSTANCES.lock()
}
