//! A session: what an executor offers one controller, and the end of the lane over which it is asked for it.
#![allow(unsafe_code, reason = "calls wrapper functions by address")]

use std::collections::HashMap;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

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
use crate::call::{Endpoint, Handler, OTHER_NAMES};
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
}

/// The live sessions of the process by the number that stands for their address in calls.
static SESSIONS: Mutex<Option<HashMap<ExecutorAddr, Arc<Session>>>> = Mutex::new(None);

impl Session {
    /// Offers this process's services over `lane` until the controller hangs up, then runs what dealloc actions are
    /// left. The calling thread runs the calls.
    ///
    /// # Errors
    ///
    /// Why the session ended, when it was not an orderly hangup, or which dealloc actions failed.
    pub(super) fn serve(lane: Lane, socket: OwnedFd) -> Result<()> {
        let session = Arc::new(Session { memory: MemoryMap::default(), socket });
        let instance = ExecutorAddr::new(Arc::as_ptr(&session) as u64);
        sessions().get_or_insert_default().insert(instance, Arc::clone(&session));
        let ended = Endpoint::new(lane).serve(&Calls, &sps::to_bytes(&setup(instance)));
        sessions().get_or_insert_default().remove(&instance);
        let failures = session.memory.shut_down();
        ended?;
        if failures.is_empty() { Ok(()) } else { Err(Error::remote(failures.join("; "))) }
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
struct Calls;

impl Handler for Calls {
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
