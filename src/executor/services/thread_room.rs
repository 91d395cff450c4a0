//! Which controller has the room for thread-locals of linked code: the static reserve and the numbers of TLS modules. A process has one.
//!
//! | controller | how it gets the room |
//! |---|---|
//! | of a spawned executor, or in this process | without a question |
//! | over a connection | it asks before its first link with thread-locals, and keeps the room until its session ends |
//!
//! Invariant: a controller over a connection has the room alone.

use crate::ExecutorAddr;
use crate::call::contract::ThreadRoomClaim;
use crate::error::{Error, Result};
use crate::executor::context::instance::Instance;
use crate::executor::entry::wrapper::Serve;
use crate::executor::tls::static_reserve;
use crate::sync::Mutex;

/// The session over a connection that has claimed the room last. It may have ended.
static OWNER: Mutex<Option<ExecutorAddr>> = Mutex::new(None);

impl Serve for ThreadRoomClaim {
    fn serve((instance,): (ExecutorAddr,)) -> Result<(i64, i64)> {
        Instance::at(instance)?;
        let is_live = |session| Instance::at(session).is_ok();
        claim(&mut OWNER.lock(), instance, is_live, Instance::any_has_thread_room)?;
        Ok(static_reserve::get().map_or((0, 0), |one| (one.offset, one.bytes.cast_signed())))
    }
}

/// Gives the room to a session. Another live session may have the room, or `is_given` be true: a controller took the room without a
/// question.
///
/// # Errors
///
/// In these two cases.
fn claim(
    owner: &mut Option<ExecutorAddr>,
    session: ExecutorAddr,
    is_live: impl Fn(ExecutorAddr) -> bool,
    is_given: impl Fn() -> bool,
) -> Result<()> {
    let has_other = owner.is_some_and(|owner| owner != session && is_live(owner));
    if has_other || is_given() {
        return Err(Error::invalid(
            "another session has its thread-locals in the executor's process: end that one, or start an executor for each",
        ));
    }
    *owner = Some(session);
    Ok(())
}

/// Checks that no session over a connection has the room. The caller has begun a session that takes the room without a question.
///
/// # Errors
///
/// When such a session has the room.
pub(crate) fn check_free() -> Result<()> {
    match *OWNER.lock() {
        Some(owner) if Instance::at(owner).is_ok() => Err(Error::invalid(
            "a controller over a connection has thread-locals in this process: end that connection first",
        )),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    #[test]
    fn one_session_has_the_room_until_it_ends() {
        let [first, second] = [1, 2].map(ExecutorAddr::new);
        let mut owner = None;
        let (all, none) = (|_| true, || false);
        claim(&mut owner, first, all, none).expect("nobody has it");
        claim(&mut owner, first, all, none).expect("it has it");
        let error = claim(&mut owner, second, all, none).expect_err("the first one has it");
        assert!(error.kind() == ErrorKind::InvalidArgument, "{error}");
        claim(&mut owner, second, |session| session != first, none).expect("the first has ended");
        assert_eq!(owner, Some(second));
        assert!(claim(&mut owner, second, all, || true).is_err(), "one has it without a question");
    }
}
