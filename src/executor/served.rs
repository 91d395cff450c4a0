//! What an executor offers one controller, and the lanes over which it is asked for it, if there are any.
#![allow(unsafe_code, reason = "calls wrapper functions by address")]

use std::collections::HashMap;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;

use super::buffer::WrapperFunctionBuffer;
use super::door::Door;
use super::dylib::Libraries;
use super::memory::{self, MemoryMap};
use super::wrapper::{self, offer};
use super::{
    child, connected, first_thread, lazy, memory_access, process_info, standby, thread_entry,
    thread_locals, typed,
};
use crate::ExecutorAddr;
use crate::call::contract::{
    ConnectionSetup, DebuggerDeregister, DebuggerRegister, DylibLookup, FramesDeregister,
    FramesRegister, IndirectResolve, LazyPrepare, NEAR_SLAB, NamesDeregister, NamesRegister,
    Placement, ProcessExit, ProcessInfo, ProfileMark, ProgramDeregister, ProgramInitialize,
    ProgramMain, ProgramRegister, ProgramRun, SESSION_INSTANCE, Setup, THREAD_ARENA_BYTES,
    THREAD_ARENA_OFFSET, ThreadBlockDeregister, ThreadBlockRegister, ThreadInitialize,
    ThreadLookup,
};
use crate::call::{Handler, LaneEnd, Lanes, OTHER_NAMES};
use crate::error::{Error, Result};
use crate::limits::PAGE_BYTES;
use crate::session::{SessionRef, SimpleSymbolTable};
use crate::shm::Segment;
use crate::sps;
use crate::sync::{Mutex, MutexGuard};
use crate::transport::{Connection, Lane, Payload, Side, Transport};
use crate::wire::layout::{HOLDER_WORD, HOLDER_WORDS};

/// What the functions of the contract know of a session: one that a spawned executor has, one over a connection, or that of a
/// host.
#[derive(Debug)]
pub(super) struct Served {
    pub(super) memory: MemoryMap,
    pub(super) libraries: Libraries,
    /// What opens lanes and brings slabs; nothing over a connection.
    door: Option<Door>,
    lanes: Arc<Lanes>,
    /// The session of a host that this belongs to.
    host: Mutex<Option<SessionRef>>,
}

/// The live sessions of the process by the number that stands for their address in calls.
static SESSIONS: Mutex<Option<HashMap<ExecutorAddr, Arc<Served>>>> = Mutex::new(None);

impl Served {
    /// Offers this process's services to the controller that made the lane in `first`, until that closes its door; then runs
    /// what dealloc actions are left. The calling thread serves that lane; every other lane gets a thread of its own.
    /// `stripes` are those of the first slab, mapped before the controller is told anything: that spares it a message.
    ///
    /// # Errors
    ///
    /// Why the session ended, when the controller did not end it in order, or which dealloc actions failed.
    pub(super) fn run(first: &Arc<Segment>, socket: OwnedFd, stripes: Vec<OwnedFd>) -> Result<()> {
        let session = Self::begin(Some(Door::new(Arc::clone(first))));
        let door = session.door()?;
        standby::begin(Arc::clone(&session), Some(socket.as_raw_fd()))
            .inspect_err(|error| child::last_words(socket.as_fd(), error))?;
        let end = session.lanes.add(Lane::new(first, Side::Executor))?;
        // Without it the controller does not hear of this thread's end.
        let _ = first_thread::hold(first.view(HOLDER_WORD..HOLDER_WORD + HOLDER_WORDS));
        let mut numbers = Vec::new();
        if let Some(arena) = thread_locals::arena() {
            numbers.push((THREAD_ARENA_OFFSET.to_owned(), arena.offset));
            numbers.push((THREAD_ARENA_BYTES.to_owned(), arena.bytes.cast_signed()));
        }
        let mut symbols = session.symbols();
        let slab = session.memory.reserve_shared(Placement::Near, stripes);
        symbols.extend(slab.ok().map(|start| (NEAR_SLAB.to_owned(), start)));
        let setup: Setup = (process_info::triple(), PAGE_BYTES, symbols, numbers);
        door.leave(socket).map_err(|(error, socket)| {
            child::last_words(socket.as_fd(), &error);
            error
        })?;
        let ended = end.send_setup(&sps::to_bytes(&setup)).and_then(|()| session.serve(end));
        if ended.is_ok() {
            // The controller needs this lane no more, perhaps others.
            door.wait_closed();
        }
        let failures = session.end();
        if !door.is_closed() {
            ended.inspect_err(|error| door.say_last(error))?;
        }
        failures
    }

    /// Offers this process's services over a connection, until the controller ends it; then runs what dealloc actions
    /// are left.
    ///
    /// # Errors
    ///
    /// Why the connection ended, when the controller did not end it in order, or which dealloc actions failed.
    pub(super) fn run_over(connection: Connection) -> Result<()> {
        let (session, setup) = Self::begin_over(&SimpleSymbolTable::new())?;
        let ended = connected::serve_calls(connection, &setup);
        let failures = session.end();
        ended.and(failures)
    }

    /// A session over a connection, to be [ended](Served::end), and what is sent first: `others` are the host's own symbols.
    ///
    /// # Errors
    ///
    /// When one of those has the name of another.
    pub(super) fn begin_over(others: &SimpleSymbolTable) -> Result<(Arc<Self>, Vec<u8>)> {
        let session = Self::begin(None);
        let mut symbols = session.symbols();
        symbols.extend(connected::functions());
        if let Some((taken, _)) = symbols.iter().find(|(name, _)| others.get(name).is_some()) {
            let error = Error::invalid(format!("{taken} is a name that every executor offers"));
            return session.end().and(Err(error));
        }
        symbols.extend(others.iter().map(|(name, address)| (name.to_owned(), address)));
        let setup: ConnectionSetup = (process_info::triple(), PAGE_BYTES, Vec::new(), symbols);
        Ok((session, sps::to_bytes(&setup)))
    }

    fn begin(door: Option<Door>) -> Arc<Self> {
        let session = Arc::new(Served {
            memory: MemoryMap::default(),
            libraries: Libraries::default(),
            door,
            lanes: Lanes::new(),
            host: Mutex::new(None),
        });
        sessions().get_or_insert_default().insert(session.instance(), Arc::clone(&session));
        session
    }

    /// What belongs to a session of a host's, which ends it.
    pub(super) fn embedded() -> Arc<Self> {
        Self::begin(None)
    }

    /// The session of a host that this belongs to, while that lives.
    pub(super) fn host(&self) -> Option<SessionRef> {
        self.host.lock().clone()
    }

    pub(super) fn set_host(&self, host: Option<SessionRef>) {
        *self.host.lock() = host;
    }

    /// Runs what dealloc actions are left, then closes libraries.
    ///
    /// # Errors
    ///
    /// Which of the actions failed.
    pub(super) fn end(&self) -> Result<()> {
        sessions().get_or_insert_default().remove(&self.instance());
        let failures = self.memory.shut_down();
        self.libraries.close();
        if failures.is_empty() { Ok(()) } else { Err(Error::remote(failures.join("; "))) }
    }

    /// The number that stands for the session's address.
    pub(super) fn instance(&self) -> ExecutorAddr {
        ExecutorAddr::new(std::ptr::from_ref(self) as u64)
    }

    /// Serves the calls that come in over a lane, on the calling thread.
    ///
    /// # Errors
    ///
    /// Why the lane ended, when it was not an orderly hangup.
    pub(super) fn serve(&self, end: LaneEnd) -> Result<()> {
        self.lanes.serve(end, &Calls)
    }

    /// What opens lanes.
    ///
    /// # Errors
    ///
    /// When the session has one connection and nothing else.
    pub(super) fn door(&self) -> Result<&Door> {
        self.door.as_ref().ok_or_else(|| {
            Error::invalid(
                "a connection shares no memory and opens no lanes: content comes in messages, and \
                 only the thread that serves it can call the controller",
            )
        })
    }

    pub(super) fn lanes(&self) -> &Arc<Lanes> {
        &self.lanes
    }

    /// The one session of this process, for threads that serve none.
    ///
    /// # Errors
    ///
    /// When there is none, or more than one.
    pub(super) fn only() -> Result<Arc<Served>> {
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
    pub(super) fn at(instance: ExecutorAddr) -> Result<Arc<Served>> {
        let found = sessions().get_or_insert_default().get(&instance).cloned();
        found.ok_or_else(|| Error::invalid(format!("no session at {instance}")))
    }

    /// The session of a host's that has this address, and what belongs to it, while it lives.
    pub(super) fn hosted(address: ExecutorAddr) -> Option<(Arc<Served>, SessionRef)> {
        let live: Vec<_> = sessions().iter().flat_map(HashMap::values).cloned().collect();
        let mut hosted = live.into_iter().filter_map(|served| Some((served.host()?, served)));
        let found = hosted.find(|(session, _)| session.address() == address);
        found.map(|(session, served)| (served, session))
    }

    /// What this process offers, by all its names.
    pub(super) fn symbols(&self) -> Vec<(String, ExecutorAddr)> {
        let mut symbols = vec![
            (SESSION_INSTANCE.to_owned(), self.instance()),
            ("orc_rt_ci_NativeDylibManager_Instance".to_owned(), self.instance()),
            offer::<ProcessInfo>(),
            offer::<DylibLookup>(),
            offer::<DebuggerRegister>(),
            offer::<DebuggerDeregister>(),
            offer::<FramesRegister>(),
            offer::<FramesDeregister>(),
            offer::<NamesRegister>(),
            offer::<NamesDeregister>(),
            offer::<ProfileMark>(),
            offer::<ThreadLookup>(),
            offer::<ThreadInitialize>(),
            offer::<ThreadBlockRegister>(),
            offer::<ThreadBlockDeregister>(),
            offer::<IndirectResolve>(),
            offer::<ProgramRegister>(),
            offer::<ProgramDeregister>(),
            offer::<ProgramInitialize>(),
            offer::<ProgramMain>(),
            offer::<ProgramRun>(),
            offer::<ProcessExit>(),
            typed::function(),
            offer::<LazyPrepare>(),
        ];
        symbols.extend(lazy::resolver());
        symbols.extend(memory::functions());
        symbols.extend(memory_access::functions());
        for (name, others) in OTHER_NAMES {
            let address = symbols.iter().find(|(offered, _)| offered == name).map(|(_, at)| *at);
            symbols.extend(others.iter().filter_map(|other| Some(((*other).to_owned(), address?))));
        }
        if thread_locals::arena().is_some() {
            symbols.extend(thread_entry::functions());
        }
        symbols
    }
}

fn sessions() -> MutexGuard<'static, Option<HashMap<ExecutorAddr, Arc<Served>>>> {
    SESSIONS.lock()
}

/// Runs incoming calls.
pub(super) struct Calls;

impl<T: Transport> Handler<T> for Calls {
    type Reply = WrapperFunctionBuffer;

    #[inline(always)]
    fn handle(
        &self,
        target: u64,
        args: Payload<'_>,
        _: Vec<u8>,
    ) -> std::result::Result<WrapperFunctionBuffer, String> {
        // SAFETY: the controller names wrapper functions only, and leaves their arguments alone until they return: the
        // executor obeys the controller.
        unsafe { wrapper::call(target, args.as_ptr(), args.len()) }
    }
}

#[cfg(test)]
mod tests;
