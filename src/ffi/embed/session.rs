//! Sessions, which C has as numbers.

use std::collections::BTreeSet;
use std::ffi::{c_char, c_int, c_void};
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, PoisonError};

use farcall::executor::{SharedLane, SimpleRemote};
use farcall::session::{SessionHandle, Token};
use farcall::task::TaskDispatcher;

use super::buffer::{Out, required_text};
use super::error::{Error, invalid};
use super::handle::{Calls, Handle, Live, Session};
use super::host::{Context, owned};
use super::options::Options;
use super::text::text;

/// Delays the shutdown of a session.
#[derive(Debug)]
pub struct Keepalive(#[expect(dead_code, reason = "it is there to be dropped")] Token);

/// Called when the operation that it was passed to is done.
pub type Notify = Option<unsafe extern "C" fn(session: *mut Session, context: *mut c_void)>;

/// The names of keepalives: texts that live as long as the process, each stored once.
static NAMES: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());

/// Creates a session. Takes the options, even if this fails.
///
/// # Safety
///
/// The options must be the caller's, and session must be writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_session_create(
    options: *mut Options,
    session: *mut *mut Session,
) -> *mut Error {
    // SAFETY: the caller vouches for the options.
    let options = (!options.is_null()).then(|| *unsafe { Box::from_raw(options) });
    Error::of(|| {
        // SAFETY: the caller vouches that the pointer is writable.
        let session = unsafe { Out::new(session, "session", std::ptr::null_mut()) }?;
        let options = options.ok_or_else(|| invalid("options is NULL"))?;
        let handle = Handle::new();
        let (options, dispatcher) = options.build(handle)?;
        let owner = options.build()?;
        let live = Live {
            session: SessionHandle::clone(&owner),
            calls: Calls::default(),
            owner: Mutex::new(Some(owner)),
            dispatcher,
        };
        handle.name(live);
        session.write(handle.pointer());
        Ok(())
    })
}

/// Attaches the controller at the other end of a connected stream socket. Takes the socket. A session can attach once.
#[unsafe(no_mangle)]
pub extern "C" fn farcall_session_attach_socket(
    session: *mut Session,
    socket: c_int,
) -> *mut Error {
    Handle::of(session).with(|live| {
        let socket = owned(socket)?;
        live.session.try_attach(|_| SimpleRemote::socket(socket))
    })
}

/// Attaches the controller at the other ends of two pipes. Takes the pipes.
#[unsafe(no_mangle)]
pub extern "C" fn farcall_session_attach_pipes(
    session: *mut Session,
    reader: c_int,
    writer: c_int,
) -> *mut Error {
    Handle::of(session).with(|live| {
        let (reader, writer) = (owned(reader)?, owned(writer)?);
        live.session.try_attach(|_| SimpleRemote::stream(reader, writer))
    })
}

/// Attaches the controller that listens on the Unix socket of this name.
///
/// # Safety
///
/// The name must be a text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_session_attach_name(
    session: *mut Session,
    name: *const c_char,
) -> *mut Error {
    Handle::of(session).with(|live| {
        // SAFETY: the caller vouches for the text.
        let socket = connect(unsafe { required_text(name, "name") }?)?;
        live.session.try_attach(|_| SimpleRemote::socket(socket))
    })
}

/// Attaches the controller at the other end of a connected Unix stream socket over a lane in shared memory. Takes the socket, and
/// waits for the lane's descriptor, which the controller sends over it. Calls of the session reach the controller inside of its
/// own calls, or while it attends.
#[unsafe(no_mangle)]
pub extern "C" fn farcall_session_attach_shared(
    session: *mut Session,
    socket: c_int,
) -> *mut Error {
    Handle::of(session).with(|live| {
        let socket = owned(socket)?;
        live.session.try_attach(|_| SharedLane::attach(socket))
    })
}

/// As farcall_session_attach_shared, with the controller that listens on the Unix socket of this name.
///
/// # Safety
///
/// The name must be a text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_session_attach_shared_name(
    session: *mut Session,
    name: *const c_char,
) -> *mut Error {
    Handle::of(session).with(|live| {
        // SAFETY: the caller vouches for the text.
        let socket = connect(unsafe { required_text(name, "name") }?)?;
        live.session.try_attach(|_| SharedLane::attach(socket))
    })
}

/// Ends the connection to the controller. Managed code continues. on_detach is called once, after all services are detached; at
/// once if they are detached already. May be NULL: on_detach.
#[unsafe(no_mangle)]
pub extern "C" fn farcall_session_detach(
    session: *mut Session,
    on_detach: Notify,
    context: *mut c_void,
) -> *mut Error {
    let (handle, context) = (Handle::of(session), Context::new(context));
    handle.with(|live| {
        live.session.detach(move || notify(on_detach, handle, context));
        Ok(())
    })
}

/// Starts the shutdown: the session detaches, waits for managed code to end and releases everything. This function does not block.
/// on_shutdown is called once, after the shutdown; at once if the session is shut down already. May be NULL: on_shutdown.
#[unsafe(no_mangle)]
pub extern "C" fn farcall_session_shutdown(
    session: *mut Session,
    on_shutdown: Notify,
    context: *mut c_void,
) -> *mut Error {
    let (handle, context) = (Handle::of(session), Context::new(context));
    handle.with(|live| {
        live.session.shutdown(move || notify(on_shutdown, handle, context));
        Ok(())
    })
}

/// Waits until the session is shut down, by any thread. Returns an error if the grace period ends first, or on a thread that runs
/// a call of this session.
#[unsafe(no_mangle)]
pub extern "C" fn farcall_session_wait(session: *mut Session) -> *mut Error {
    Handle::of(session).with(|live| live.session.wait())
}

/// Shuts the session down, waits as farcall_session_wait does, and releases the session. Its number is invalid afterwards. If the
/// wait fails, managed code continues to run, and its answers are dropped. Does nothing for NULL. May be NULL: session.
#[unsafe(no_mangle)]
pub extern "C" fn farcall_session_dispose(session: *mut Session) -> *mut Error {
    if session.is_null() {
        return std::ptr::null_mut();
    }
    let handle = Handle::of(session);
    handle.with(|live| {
        live.session.shutdown(|| {});
        let outcome = live.session.wait();
        handle.remove();
        let owner = live.owner.lock().unwrap_or_else(PoisonError::into_inner).take();
        match &outcome {
            Ok(()) => live.dispatcher.shutdown(),
            // The drop would wait once more.
            Err(_) => std::mem::forget(owner),
        }
        outcome
    })
}

/// Delays the shutdown while managed code runs in this thread. Returns NULL if the shutdown has begun: then no managed code may
/// be entered. The error of a wait that times out names this code by what. May be NULL: the result, what.
///
/// # Safety
///
/// what must be a text.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn farcall_session_keepalive(
    session: *mut Session,
    what: *const c_char,
) -> *mut Keepalive {
    // SAFETY: the caller vouches for the text.
    let what = name(unsafe { text(what) });
    let token = Handle::of(session).live().and_then(|live| live.session.keepalive(what));
    token.map_or(std::ptr::null_mut(), |token| Box::into_raw(Box::new(Keepalive(token))))
}

/// Releases a keepalive, after the managed code has ended. May be NULL: keepalive.
///
/// # Safety
///
/// It must come from farcall_session_keepalive, and be released once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_keepalive_release(keepalive: *mut Keepalive) {
    if !keepalive.is_null() {
        // SAFETY: the caller vouches for it.
        drop(unsafe { Box::from_raw(keepalive) });
    }
}

/// Reports an error that belongs to no call, as the session does itself. Takes the error. May be NULL: error.
///
/// # Safety
///
/// The error must be the caller's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_session_report_error(session: *mut Session, error: *mut Error) {
    // SAFETY: the caller vouches for the error.
    let error = unsafe { Error::take(error) };
    if let (Some(live), Some(error)) = (Handle::of(session).live(), error) {
        live.session.report_error(error);
    }
}

fn notify(function: Notify, handle: Handle, context: Context) {
    if let Some(function) = function {
        // SAFETY: the host gave the function and its context for this.
        unsafe { function(handle.pointer(), context.get()) };
    }
}

/// Connects a socket to the listener of this name.
fn connect(name: &str) -> farcall::Result<UnixStream> {
    UnixStream::connect(name)
        .map_err(|error| farcall::Error::other(format!("attaching to {name}: {error}")))
}

/// A text that lives as long as the process.
fn name(text: String) -> &'static str {
    let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(name) = names.get(text.as_str()) {
        return name;
    }
    let name: &'static str = text.leak();
    names.insert(name);
    name
}
