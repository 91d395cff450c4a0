//! The numbers by which C has sessions.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use farcall::ExecutorAddr;
use farcall::executor::RawSession;
use farcall::session::{Reply, SessionHandle};

use super::error::{Error, invalid};
use super::host::Dispatcher;

/// A session that this program embeds.
#[derive(Debug)]
pub struct Session {
    /// No value of this type exists: its address is a number.
    _nobody: std::convert::Infallible,
}

/// The number of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Handle(usize);

/// The session of a number.
#[derive(Debug)]
pub(super) struct Live {
    pub(super) session: SessionHandle,
    /// Calls that the host's functions are to answer.
    pub(super) calls: Calls,
    pub(super) owner: Mutex<Option<farcall::session::Session>>,
    pub(super) dispatcher: Arc<Dispatcher>,
}

/// The live sessions, and the number of sessions that were created.
static SESSIONS: Mutex<(usize, BTreeMap<Handle, Arc<Live>>)> = Mutex::new((0, BTreeMap::new()));

/// The calls that functions of the host have not answered yet, by number.
#[derive(Debug, Default)]
pub(super) struct Calls(Mutex<(u64, HashMap<u64, Reply>)>);

impl Calls {
    pub(super) fn add(&self, reply: Reply) -> u64 {
        let mut calls = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        calls.0 += 1;
        let number = calls.0;
        calls.1.insert(number, reply);
        number
    }

    pub(super) fn take(&self, number: u64) -> Option<Reply> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).1.remove(&number)
    }
}

fn sessions() -> MutexGuard<'static, (usize, BTreeMap<Handle, Arc<Live>>)> {
    SESSIONS.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Handle {
    /// A number that no session has had.
    pub(super) fn new() -> Self {
        let mut sessions = sessions();
        sessions.0 += 1;
        // Numbers that no object has an address of.
        Self(sessions.0)
    }

    pub(super) fn of(session: *const Session) -> Self {
        Self(session.addr())
    }

    /// The session that a function was called with.
    pub(super) fn of_raw(session: RawSession) -> Self {
        Self(usize::try_from(session.address().get()).unwrap_or_default())
    }

    /// What functions are called with.
    pub(super) fn raw(self) -> RawSession {
        RawSession::new(ExecutorAddr::new(self.0 as u64))
    }

    /// The pointer that C has.
    pub(super) fn pointer(self) -> *mut Session {
        std::ptr::without_provenance_mut(self.0)
    }

    /// Gives the number to a session.
    pub(super) fn name(self, live: Live) {
        sessions().1.insert(self, Arc::new(live));
    }

    /// Takes the number from its session, which no function finds any more.
    pub(super) fn remove(self) {
        sessions().1.remove(&self);
    }

    /// The session, if it lives. Linked code has its address instead, which no number is.
    pub(super) fn live(self) -> Option<Arc<Live>> {
        let sessions = sessions();
        let has_address = |live: &&Arc<Live>| live.session.address() == self.raw().address();
        let live = sessions.1.get(&self);
        live.or_else(|| sessions.1.values().find(has_address)).cloned()
    }

    /// Does something with the session.
    pub(super) fn with(self, work: impl FnOnce(&Live) -> farcall::Result<()>) -> *mut Error {
        Error::of(|| match self.live() {
            Some(live) => work(&live),
            None => Err(no_session(self)),
        })
    }
}

fn no_session(handle: Handle) -> farcall::Error {
    invalid(format!("there is no session {:#x}", handle.0))
}
