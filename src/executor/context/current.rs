//! The session whose call a thread runs: over a connection, or of a host. (`call::Lanes` knows the lane that a thread serves.)

use std::cell::RefCell;
use std::rc::Rc;

use crate::call::Endpoint;
use crate::session::SessionHandle;
use crate::transport::Connection;

/// One end of a connection.
pub(crate) type ConnectionEnd = Endpoint<Connection>;

thread_local! {
    /// The connection that this thread serves.
    static CONNECTION: RefCell<Option<Rc<ConnectionEnd>>> = const { RefCell::new(None) };
    /// The host's session whose call this thread runs.
    static HOSTED: RefCell<Option<SessionHandle>> = const { RefCell::new(None) };
}

/// Runs `work`; linked code in it reaches the controller over this connection.
pub(crate) fn while_serving<R>(end: &Rc<ConnectionEnd>, work: impl FnOnce() -> R) -> R {
    let outer = CONNECTION.replace(Some(Rc::clone(end)));
    let outcome = work();
    CONNECTION.set(outer);
    outcome
}

/// The connection that this thread serves, if the thread runs a call of it.
pub(crate) fn connection() -> Option<Rc<ConnectionEnd>> {
    CONNECTION
        .try_with(|connection| connection.borrow().clone())
        .ok()
        .flatten()
        .filter(|end| end.is_busy())
}

/// Runs `code` as part of a call of this session; linked code in it reaches that session's controller.
pub(crate) fn within<R>(session: &SessionHandle, code: impl FnOnce() -> R) -> R {
    let outer = HOSTED.replace(Some(session.clone()));
    let result = code();
    HOSTED.replace(outer);
    result
}

/// The host's session whose call the calling thread runs.
pub(crate) fn hosted() -> Option<SessionHandle> {
    HOSTED.try_with(|hosted| hosted.borrow().clone()).ok().flatten()
}
