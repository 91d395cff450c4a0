//! What an executor has for one controller: memory, libraries and lanes. The functions of the contract find it by a number.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use super::acceptor::Acceptor;
use super::calls::WrapperCalls;
use crate::ExecutorAddr;
use crate::call::contract::Placement;
use crate::call::{LaneEnd, Lanes};
use crate::error::{Error, Result};
use crate::executor::memory::{MemoryMap, forked};
use crate::executor::process::libraries::Libraries;
use crate::session::SessionHandle;
use crate::sync::{Mutex, MutexGuard};
use crate::wire::layout::DATA_END_WORDS;

/// What the functions of the contract know of a session: one that a spawned executor has, one over a connection, or that of a
/// host.
#[derive(Debug)]
pub(crate) struct Instance {
    pub(crate) memory: MemoryMap,
    pub(crate) libraries: Libraries,
    /// What opens lanes and brings slabs; nothing over a connection.
    acceptor: Option<Acceptor>,
    lanes: Arc<Lanes>,
    /// The session of a host that this belongs to.
    host: Mutex<Option<SessionHandle>>,
}

/// The live sessions of the process by the number that stands for their address in calls.
static SESSIONS: Mutex<Option<HashMap<ExecutorAddr, Arc<Instance>>>> = Mutex::new(None);

impl Instance {
    /// A new one, which ends by [`Instance::end`]. `acceptor` is what opens lanes, if anything does.
    pub(crate) fn begin(acceptor: Option<Acceptor>) -> Arc<Self> {
        let session = Arc::new(Instance {
            memory: MemoryMap::default(),
            libraries: Libraries::default(),
            acceptor,
            lanes: Lanes::new(),
            host: Mutex::new(None),
        });
        sessions().get_or_insert_default().insert(session.instance(), Arc::clone(&session));
        session
    }

    /// The session of a host that this belongs to, while that lives.
    pub(crate) fn host(&self) -> Option<SessionHandle> {
        self.host.lock().clone()
    }

    pub(crate) fn set_host(&self, host: Option<SessionHandle>) {
        *self.host.lock() = host;
    }

    /// Runs what dealloc actions are left, then closes libraries.
    ///
    /// # Errors
    ///
    /// Which of the actions failed.
    pub(crate) fn end(&self) -> Result<()> {
        sessions().get_or_insert_default().remove(&self.instance());
        if self.acceptor.is_some() {
            forked::forget();
        }
        let failures = self.memory.shut_down();
        self.libraries.close();
        if failures.is_empty() { Ok(()) } else { Err(Error::remote(failures.join("; "))) }
    }

    /// Maps a slab that the controller has sent; its data stays apart in forked children.
    ///
    /// # Errors
    ///
    /// As [`MemoryMap::reserve_shared`].
    pub(crate) fn reserve_shared(
        &self,
        placement: Placement,
        files: Vec<OwnedFd>,
    ) -> Result<ExecutorAddr> {
        let (start, data) = self.memory.reserve_shared(placement, files)?;
        let word = DATA_END_WORDS[placement as usize];
        forked::keep_apart(placement, data, self.acceptor()?.first.view(word..word + 1));
        Ok(start)
    }

    /// The number that stands for the session's address.
    pub(crate) fn instance(&self) -> ExecutorAddr {
        ExecutorAddr::new(std::ptr::from_ref(self) as u64)
    }

    /// Serves the calls that come in over a lane, on the calling thread.
    ///
    /// # Errors
    ///
    /// Why the lane ended, when it was not an orderly hangup.
    pub(crate) fn serve(&self, end: LaneEnd) -> Result<()> {
        self.lanes.serve(end, &WrapperCalls)
    }

    /// What opens lanes.
    ///
    /// # Errors
    ///
    /// When the session has one connection and nothing else.
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

    /// The one session of this process, for threads that serve none.
    ///
    /// # Errors
    ///
    /// When there is none, or more than one.
    pub(crate) fn only() -> Result<Arc<Instance>> {
        let sessions = sessions();
        let mut live = sessions.iter().flat_map(HashMap::values);
        match (live.next(), live.next()) {
            (Some(session), None) => Ok(Arc::clone(session)),
            (None, _) => Err(Error::disconnected("the session is over")),
            (Some(_), Some(_)) => Err(Error::invalid(
                "several sessions: only a thread that serves one of them can call its controller",
            )),
        }
    }

    /// The live session that an instance argument names.
    pub(crate) fn at(instance: ExecutorAddr) -> Result<Arc<Instance>> {
        let found = sessions().get_or_insert_default().get(&instance).cloned();
        found.ok_or_else(|| Error::invalid(format!("no session at {instance}")))
    }

    /// The session of a host's that has this address, and what belongs to it, while it lives.
    pub(crate) fn hosted(address: ExecutorAddr) -> Option<(Arc<Instance>, SessionHandle)> {
        let live: Vec<_> = sessions().iter().flat_map(HashMap::values).cloned().collect();
        let mut hosted = live.into_iter().filter_map(|instance| Some((instance.host()?, instance)));
        let found = hosted.find(|(session, _)| session.address() == address);
        found.map(|(session, instance)| (instance, session))
    }
}

fn sessions() -> MutexGuard<'static, Option<HashMap<ExecutorAddr, Arc<Instance>>>> {
    SESSIONS.lock()
}
