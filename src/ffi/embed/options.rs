//! The options of a session. Functions with NULL for the options do nothing.

use std::ffi::{c_char, c_void};
use std::sync::Arc;
use std::time::Duration;

use farcall::ExecutorAddr;
use farcall::executor::Convention;
use farcall::session::SimpleSymbolTable;
use farcall::task::{Task, TaskDispatcher};

use super::buffer::bytes;
use super::call::{self, WrapperFunction};
use super::error::{Error, invalid};
use super::handle::{Handle, Session};
use super::host::{Context, Dispatch, Dispatcher};
use super::service::{OnDetach, OnShutdown, Service};
use super::text::text;

/// The options of a session. The host owns them until a function takes them.
#[derive(Debug, Default)]
pub struct Options {
    dispatch: Option<(Dispatch, Context)>,
    on_error: Option<(OnError, Context)>,
    on_disconnect: Option<(OnDisconnect, Context)>,
    grace: Option<Duration>,
    symbols: Vec<(String, ExecutorAddr)>,
    values: Vec<(String, Vec<u8>)>,
    functions: Vec<(String, WrapperFunction)>,
    services: Vec<Service>,
    linked_code: Convention,
}

/// Receives an error that belongs to no call, and owns it.
pub type OnError =
    Option<unsafe extern "C" fn(session: *mut Session, error: *mut Error, context: *mut c_void)>;

/// The session has lost its controller. error is NULL after an orderly end, otherwise the reason, which this function owns. Must
/// not block. May be NULL: error.
pub type OnDisconnect =
    Option<unsafe extern "C" fn(session: *mut Session, error: *mut Error, context: *mut c_void)>;

/// Options of a session that offers what every executor of this library does, and runs calls on threads of its own.
#[unsafe(no_mangle)]
#[must_use]
pub extern "C" fn farcall_options_create() -> *mut Options {
    Box::into_raw(Box::default())
}

/// Frees options that no function has taken. May be NULL: options.
///
/// # Safety
///
/// They must be the caller's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_options_dispose(options: *mut Options) {
    if !options.is_null() {
        // SAFETY: the caller vouches for the options.
        drop(unsafe { Box::from_raw(options) });
    }
}

/// Makes the host run calls, completions and all other work that may wait: dispatch receives each as a task. May be NULL:
/// dispatch.
///
/// # Safety
///
/// The options must be the caller's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_options_dispatch(
    options: *mut Options,
    dispatch: Dispatch,
    context: *mut c_void,
) {
    // SAFETY: the caller vouches for the options.
    let Some(options) = (unsafe { options.as_mut() }) else { return };
    options.dispatch = Some((dispatch, Context::new(context)));
}

/// Passes errors that belong to no call to the host, instead of writing them to standard error. May be NULL:
/// on_error.
///
/// # Safety
///
/// The options must be the caller's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_options_on_error(
    options: *mut Options,
    on_error: OnError,
    context: *mut c_void,
) {
    // SAFETY: the caller vouches for the options.
    let Some(options) = (unsafe { options.as_mut() }) else { return };
    options.on_error = Some((on_error, Context::new(context)));
}

/// Calls the host, once, when the session has lost its controller. May be NULL: on_disconnect.
///
/// # Safety
///
/// The options must be the caller's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_options_on_disconnect(
    options: *mut Options,
    on_disconnect: OnDisconnect,
    context: *mut c_void,
) {
    // SAFETY: the caller vouches for the options.
    let Some(options) = (unsafe { options.as_mut() }) else { return };
    options.on_disconnect = Some((on_disconnect, Context::new(context)));
}

/// Sets the longest wait for a shutdown. After that the waiting function returns an error that names what still runs. Without
/// this option the wait has no limit.
///
/// # Safety
///
/// The options must be the caller's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_options_grace_ms(options: *mut Options, grace_ms: u64) {
    // SAFETY: the caller vouches for the options.
    let Some(options) = (unsafe { options.as_mut() }) else { return };
    options.grace = Some(Duration::from_millis(grace_ms));
}

/// Offers the controller an address under a name. May be NULL: address.
///
/// # Safety
///
/// The options must be the caller's, and the name a text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_options_symbol(
    options: *mut Options,
    name: *const c_char,
    address: *const c_void,
) {
    let address = ExecutorAddr::new(address.expose_provenance() as u64);
    // SAFETY: the caller vouches for the text.
    let name = unsafe { text(name) };
    // SAFETY: the caller vouches for the options.
    let Some(options) = (unsafe { options.as_mut() }) else { return };
    options.symbols.push((name, address));
}

/// Sends the controller a copy of size bytes under a name. May be NULL: data.
///
/// # Safety
///
/// The options must be the caller's, the name a text, and the bytes readable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_options_value(
    options: *mut Options,
    name: *const c_char,
    data: *const c_void,
    size: usize,
) {
    // SAFETY: the caller vouches for the text.
    let name = unsafe { text(name) };
    // SAFETY: the caller vouches for the bytes.
    let value = unsafe { bytes(data, size) }.unwrap_or_default().to_vec();
    // SAFETY: the caller vouches for the options.
    let Some(options) = (unsafe { options.as_mut() }) else { return };
    options.values.push((name, value));
}

/// Offers the controller a function under a name. It is called with the session.
///
/// # Safety
///
/// The options must be the caller's, and the name a text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_options_function(
    options: *mut Options,
    name: *const c_char,
    function: WrapperFunction,
) {
    // SAFETY: the caller vouches for the text.
    let name = unsafe { text(name) };
    // SAFETY: the caller vouches for the options.
    let Some(options) = (unsafe { options.as_mut() }) else { return };
    options.functions.push((name, function));
}

/// Sets the form in which linked code is called. If with_session is true, it is that of farcall_wrapper_function, as in LLVM's runtime.
/// Otherwise, and by default, it is that of LLVM 22: struct farcall_buffer f(const char *data, size_t size). Linked code gets the
/// address of the session instead of its number. The functions here accept that address while the session lives.
///
/// # Safety
///
/// The options must be the caller's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_options_linked_code(options: *mut Options, with_session: bool) {
    let convention = if with_session { Convention::WithSession } else { Convention::Llvm22 };
    // SAFETY: the caller vouches for the options.
    let Some(options) = (unsafe { options.as_mut() }) else { return };
    options.linked_code = convention;
}

/// Adds a service. When the session ends, it calls on_detach and then on_shutdown, once each. It calls services in reverse order
/// of addition, each after the one before is done. May be NULL: on_detach, on_shutdown.
///
/// # Safety
///
/// The options must be the caller's, and the name a text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_options_service(
    options: *mut Options,
    name: *const c_char,
    on_detach: OnDetach,
    on_shutdown: OnShutdown,
    context: *mut c_void,
) {
    // SAFETY: the caller vouches for the text.
    let name = unsafe { text(name) };
    let service = Service { name, on_detach, on_shutdown, context: Context::new(context) };
    // SAFETY: the caller vouches for the options.
    let Some(options) = (unsafe { options.as_mut() }) else { return };
    options.services.push(service);
}

fn not_for_polled() -> farcall::Error {
    farcall::Error::other(
        "an executor that is polled offers symbols and nothing else of its options",
    )
}

impl Options {
    /// The symbols, for an executor that has no session.
    pub(super) fn only_symbols(self) -> farcall::Result<SimpleSymbolTable> {
        let Self { dispatch: None, on_error: None, on_disconnect: None, grace: None, .. } = self
        else {
            return Err(not_for_polled());
        };
        if !(self.values.is_empty() && self.functions.is_empty() && self.services.is_empty()) {
            return Err(not_for_polled());
        }
        let mut symbols = SimpleSymbolTable::new();
        symbols.add_unique(self.symbols)?;
        Ok(symbols)
    }

    /// The library's options for the session with this handle, and what runs its tasks.
    pub(super) fn build(
        self,
        handle: Handle,
    ) -> farcall::Result<(farcall::session::SessionBuilder, Arc<Dispatcher>)> {
        let (dispatch, context) =
            self.dispatch.unwrap_or((None, Context::new(std::ptr::null_mut())));
        let dispatcher = Dispatcher::new(dispatch, context);
        let dispatch = {
            let dispatcher = Arc::clone(&dispatcher);
            Box::new(move |task| dispatcher.dispatch(task)) as Box<dyn Fn(Task) + Send + Sync>
        };
        let mut options = farcall::session::SessionBuilder::new(dispatch).symbols(self.symbols)?;
        options = options.linked_code(self.linked_code);
        if let Some((Some(on_error), context)) = self.on_error {
            options = options.on_error(move |_, error| {
                // SAFETY: the host gave the function and its context for this.
                unsafe { on_error(handle.pointer(), Error::give(error), context.get()) }
            });
        }
        if let Some((Some(on_disconnect), context)) = self.on_disconnect {
            options = options.on_disconnect(move |_, cause| {
                // SAFETY: the host gave the function and its context for this.
                unsafe { on_disconnect(handle.pointer(), Error::outcome(cause), context.get()) }
            });
        }
        if let Some(grace) = self.grace {
            options = options.grace(grace);
        }
        for (name, bytes) in self.values {
            options = options.value(name, bytes)?;
        }
        for (name, function) in self.functions {
            if function.is_none() {
                return Err(invalid(format!("the function {name} is NULL")));
            }
            let function = call::address(function);
            options = options.function(name, move |_, args, reply| {
                call::serve(handle, function, &args, reply)
            })?;
        }
        for service in self.services {
            options = options.service(service);
        }
        Ok((options, dispatcher))
    }
}
