//! A session: what an executor offers one controller, and the lanes over which it is asked for it.
#![allow(unsafe_code, reason = "calls wrapper functions by address")]

use std::collections::HashMap;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::door::Door;
use super::memory::{self, MemoryMap};
use super::wrapper::{self, offer};
use super::{memory_access, process_info, thread_entry, thread_locals};
use crate::ExecutorAddr;
use crate::Prot;
use crate::call::contract::{
    DylibLookup, FramesDeregister, FramesRegister, IndirectResolve, NamesDeregister, NamesRegister,
    ProcessExit, ProcessInfo, ProgramDeregister, ProgramInitialize, ProgramMain, ProgramRegister,
    SESSION_INSTANCE, Setup, THREAD_ARENA_BYTES, THREAD_ARENA_OFFSET, ThreadBlockDeregister,
    ThreadBlockRegister, ThreadInitialize, ThreadLookup,
};
use crate::call::{Handler, LaneEnd, Lanes, OTHER_NAMES};
use crate::error::{Error, Result};
use crate::limits::PAGE_BYTES;
use crate::sps;
use crate::sys::socket;
use crate::transport::Lane;

/// The executor's side of a session.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) memory: MemoryMap,
    /// Brings the descriptors of slabs.
    socket: OwnedFd,
    door: Door,
    lanes: Arc<Lanes>,
}

/// The live sessions of the process by the number that stands for their address in calls.
static SESSIONS: Mutex<Option<HashMap<ExecutorAddr, Arc<Session>>>> = Mutex::new(None);

impl Session {
    /// Offers this process's services to the controller that made `lane`, until that closes its door; then runs
    /// what dealloc actions are left. The calling thread serves `lane`; every other lane gets a thread of its own.
    ///
    /// # Errors
    ///
    /// Why the session ended, when the controller did not end it in order, or which dealloc actions failed.
    pub(super) fn run(lane: Lane, socket: OwnedFd, door: OwnedFd) -> Result<()> {
        let (memory, lanes) = (MemoryMap::default(), Lanes::new());
        let end = lanes.add(lane)?;
        let session = Arc::new(Session { memory, socket, door: Door::new(door), lanes });
        let instance = ExecutorAddr::new(Arc::as_ptr(&session) as u64);
        sessions().get_or_insert_default().insert(instance, Arc::clone(&session));
        let ended = end
            .send_setup(&sps::to_bytes(&setup(instance)))
            .and_then(|()| Door::attend(Arc::clone(&session)))
            .and_then(|()| session.serve(end));
        if ended.is_ok() {
            // The controller needs this lane no more, perhaps others.
            session.door.wait_closed();
        }
        sessions().get_or_insert_default().remove(&instance);
        let failures = session.memory.shut_down();
        if !session.door.is_closed() {
            ended?;
        }
        if failures.is_empty() { Ok(()) } else { Err(Error::remote(failures.join("; "))) }
    }

    /// Serves the calls that come in over a lane, on the calling thread.
    ///
    /// # Errors
    ///
    /// Why the lane ended, when it was not an orderly hangup.
    pub(super) fn serve(&self, end: LaneEnd) -> Result<()> {
        self.lanes.serve(end, &Calls)
    }

    pub(super) fn door(&self) -> &Door {
        &self.door
    }

    pub(super) fn lanes(&self) -> &Arc<Lanes> {
        &self.lanes
    }

    /// The one session of this process, for threads that serve none.
    ///
    /// # Errors
    ///
    /// When there is none, or more than one.
    pub(super) fn only() -> Result<Arc<Session>> {
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
    pub(super) fn at(instance: ExecutorAddr) -> Result<Arc<Session>> {
        let found = sessions().get_or_insert_default().get(&instance).cloned();
        found.ok_or_else(|| Error::invalid(format!("no session at {instance}")))
    }

    /// The descriptors of a slab's stripes, which were sent before the call that wants them.
    pub(super) fn receive_stripes(&self) -> Result<Vec<OwnedFd>> {
        socket::receive_fds(self.socket.as_fd(), Prot::ALL.len())
    }
}

fn sessions() -> MutexGuard<'static, Option<HashMap<ExecutorAddr, Arc<Session>>>> {
    SESSIONS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The first message: what this process is and offers.
fn setup(instance: ExecutorAddr) -> Setup {
    let mut symbols = vec![
        (SESSION_INSTANCE.to_owned(), instance),
        offer::<ProcessInfo>(),
        offer::<DylibLookup>(),
        offer::<FramesRegister>(),
        offer::<FramesDeregister>(),
        offer::<NamesRegister>(),
        offer::<NamesDeregister>(),
        offer::<ThreadLookup>(),
        offer::<ThreadInitialize>(),
        offer::<ThreadBlockRegister>(),
        offer::<ThreadBlockDeregister>(),
        offer::<IndirectResolve>(),
        offer::<ProgramRegister>(),
        offer::<ProgramDeregister>(),
        offer::<ProgramInitialize>(),
        offer::<ProgramMain>(),
        offer::<ProcessExit>(),
    ];
    symbols.extend(memory::functions());
    symbols.extend(memory_access::functions());
    for (name, others) in OTHER_NAMES {
        let address = symbols.iter().find(|(offered, _)| offered == name).map(|(_, at)| *at);
        symbols.extend(others.iter().filter_map(|other| Some(((*other).to_owned(), address?))));
    }
    let mut numbers = Vec::new();
    if let Some(arena) = thread_locals::arena() {
        numbers.push((THREAD_ARENA_OFFSET.to_owned(), arena.offset));
        numbers.push((THREAD_ARENA_BYTES.to_owned(), arena.bytes.cast_signed()));
        symbols.extend(thread_entry::functions());
    }
    (process_info::triple(), PAGE_BYTES, symbols, numbers)
}

/// Runs incoming calls.
pub(super) struct Calls;

impl Handler<Lane> for Calls {
    #[inline]
    fn handle(
        &self,
        target: u64,
        args: &[u8],
        result: &mut Vec<u8>,
    ) -> std::result::Result<(), String> {
        // SAFETY: the controller names wrapper functions only, and the executor obeys the controller.
        unsafe { wrapper::call(target, args, result) }
    }
}

#[cfg(test)]
mod tests;
