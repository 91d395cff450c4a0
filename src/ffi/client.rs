//! Clients: attached to executors that this program has not started.

use std::cell::Cell;
use std::ffi::{c_char, c_int, c_void};
use std::thread::{self, ThreadId};
use std::time::Duration;

use farcall::limits::START_TIMEOUT;
use farcall::{Connection, ExecutorAddr, controller};

use super::buffer::{Buffer, Out, message, required_text};
use super::error::{Error, invalid};
use super::host::{Context, owned};
use super::process::offered;
use super::text::malloced;

/// A client of an executor that this program has not started: a session that another program embeds, or LLVM's executor. It has
/// no linker, and calls what the executor offers by name.
///
/// It belongs to the thread that made it: on others its functions return FARCALL_INVALID.
#[derive(Debug)]
pub struct Client {
    client: controller::Client,
    thread: ThreadId,
    /// The handlers that run now.
    handlers: Cell<usize>,
}

/// Runs when the executor calls a tag, on the client's thread, inside of a call or of farcall_client_attend. It owns the
/// arguments, and returns the result, which belongs to the library. An out-of-band error is the error of the executor's call. It
/// may call the executor in turn, but not close the client.
pub type ClientHandler = Option<
    unsafe extern "C" fn(
        client: *mut Client,
        tag: u64,
        args: Buffer,
        context: *mut c_void,
    ) -> Buffer,
>;

/// Attaches to the executor at the other end of a connected stream socket. Takes the socket. Waits for the executor's setup for at
/// most timeout_ms milliseconds; 0 is 10 s.
///
/// If is_shared is true, this function makes a lane in shared memory and sends it over the socket, which must be a Unix socket.
/// Otherwise it uses the socket itself.
///
/// # Safety
///
/// client must be writable.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn farcall_client_attach(
    socket: c_int,
    is_shared: bool,
    timeout_ms: u64,
    client: *mut *mut Client,
) -> *mut Error {
    // SAFETY: the caller vouches that the pointer is writable.
    Out::stored(unsafe { Out::new(client, "client", std::ptr::null_mut()) }, || {
        let socket = owned(socket)?;
        let connection =
            if is_shared { Connection::create_shared(socket) } else { Connection::socket(socket) };
        Client::attach(connection?, timeout_ms)
    })
}

/// As farcall_client_attach, over two pipes. Takes the pipes.
///
/// # Safety
///
/// client must be writable.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn farcall_client_attach_pipes(
    reader: c_int,
    writer: c_int,
    timeout_ms: u64,
    client: *mut *mut Client,
) -> *mut Error {
    // SAFETY: the caller vouches that the pointer is writable.
    Out::stored(unsafe { Out::new(client, "client", std::ptr::null_mut()) }, || {
        let [reader, writer] = [owned(reader), owned(writer)];
        Client::attach(Connection::stream(reader?, writer?)?, timeout_ms)
    })
}

/// Stores the executor's target triple, which the caller frees (farcall_text_free).
///
/// # Safety
///
/// The client must live, and triple be writable.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn farcall_client_triple(
    client: *const Client,
    triple: *mut *mut c_char,
) -> *mut Error {
    // SAFETY: the caller vouches that the pointer is writable.
    Out::stored(unsafe { Out::new(triple, "triple", std::ptr::null_mut()) }, || {
        // SAFETY: the caller vouches for the client.
        let client = unsafe { Client::of(client) }?;
        Ok(malloced(client.client.triple()))
    })
}

/// Stores the address that the executor offers under a name. FARCALL_SYMBOLS if it offers none. Sends no message.
///
/// # Safety
///
/// The client must live, the name be a text, and address writable.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn farcall_client_symbol(
    client: *const Client,
    name: *const c_char,
    address: *mut u64,
) -> *mut Error {
    // SAFETY: the caller vouches that the pointer is writable.
    Out::stored(unsafe { Out::new(address, "address", 0) }, || {
        // SAFETY: the caller vouches for the text.
        let name = unsafe { required_text(name, "name") }?;
        // SAFETY: the caller vouches for the client.
        let found = unsafe { Client::of(client) }?.client.symbol(name);
        offered(name, found)
    })
}

/// Registers the handler of a tag, in place of an earlier one. The context must live until the client is closed.
///
/// # Safety
///
/// The client must live.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn farcall_client_register_handler(
    client: *mut Client,
    tag: u64,
    handler: ClientHandler,
    context: *mut c_void,
) -> *mut Error {
    Error::of(|| {
        // SAFETY: the caller vouches for the client.
        let own = unsafe { Client::of(client) }?;
        let handler = handler.ok_or_else(|| invalid("handler is NULL"))?;
        let context = Context::new(context);
        own.client.register_handler(tag, move |_, args, result| {
            // SAFETY: the client runs this handler, so it lives.
            let own = unsafe { Client::of(client) }?;
            own.handlers.set(own.handlers.get() + 1);
            // SAFETY: the host gave the function and its context for this.
            let answer = unsafe { handler(client, tag, Buffer::of(args), context.get()) };
            own.handlers.set(own.handlers.get() - 1);
            // SAFETY: the handler gives its result.
            let answer = unsafe { answer.take() };
            result.extend_from_slice(answer.into_result()?.as_bytes());
            Ok(())
        });
        Ok(())
    })
}

/// Calls a wrapper function with a copy of the arguments, and waits for its result, which the caller owns. FARCALL_REMOTE is the
/// function's own error; LLVM's executor cannot report one, and the result is empty then. May be NULL: args.
///
/// Waits for at most timeout_ms milliseconds; 0 is no limit. FARCALL_TIMEOUT if the function has not returned by then: it still runs,
/// and the next call waits for its end. A handler's call has no limit.
///
/// # Safety
///
/// The client must live, the arguments be readable, and result writable.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn farcall_client_call(
    client: *const Client,
    function: u64,
    args: *const c_void,
    size: usize,
    timeout_ms: u64,
    result: *mut Buffer,
) -> *mut Error {
    // SAFETY: the caller vouches that the pointer is writable.
    Out::stored(unsafe { Out::new(result, "result", Buffer::of(&[])) }, || {
        // SAFETY: the caller vouches for the arguments.
        let args = unsafe { message(args, size, "arguments") }?;
        // SAFETY: the caller vouches for the client.
        let client = unsafe { Client::of(client) }?;
        let timeout = (timeout_ms > 0).then_some(Duration::from_millis(timeout_ms));
        Ok(Buffer::of(&client.client.call(ExecutorAddr::new(function), args, timeout)?))
    })
}

/// Serves calls of the executor while no call of the client is under way. Waits up to timeout_ms milliseconds for one, and serves
/// it and those behind it. Sets calls to their number. Not for handlers. May be NULL: calls.
///
/// # Safety
///
/// The client must live, and calls be NULL or writable.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn farcall_client_attend(
    client: *const Client,
    timeout_ms: u64,
    calls: *mut u64,
) -> *mut Error {
    Error::of(|| {
        // SAFETY: the caller vouches that the pointer is writable.
        let place = unsafe { Out::optional(calls, "calls", 0) }?;
        // SAFETY: the caller vouches for the client.
        let client = unsafe { Client::of(client) }?;
        let served = client.client.attend(Duration::from_millis(timeout_ms))?;
        if let Some(place) = place {
            place.write(served);
        }
        Ok(())
    })
}

/// Ends the connection in order, if it is not over, and releases the client. The executor continues without a controller, or ends,
/// as its program wants. A handler of the client cannot close it. May be NULL: client.
///
/// # Safety
///
/// The client must live, and not be used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_client_close(client: *mut Client) -> *mut Error {
    Error::of(|| {
        if client.is_null() {
            return Ok(());
        }
        // SAFETY: the caller vouches for the client.
        if unsafe { Client::of(client) }?.handlers.get() > 0 {
            return Err(invalid("a handler cannot close its client"));
        }
        // SAFETY: the caller vouches for the client, and no call of it is under way.
        drop(unsafe { Box::from_raw(client) });
        Ok(())
    })
}

impl Client {
    fn attach(connection: Connection, timeout_ms: u64) -> farcall::Result<*mut Self> {
        let timeout = match timeout_ms {
            0 => START_TIMEOUT,
            some => Duration::from_millis(some),
        };
        let client = controller::Client::connect_timeout(connection, timeout)?;
        let (thread, handlers) = (thread::current().id(), Cell::new(0));
        Ok(Box::into_raw(Box::new(Self { client, thread, handlers })))
    }

    /// The client at a pointer of C.
    ///
    /// # Errors
    ///
    /// When that is NULL, or the client is another thread's.
    ///
    /// # Safety
    ///
    /// It must be NULL, or live as long as the reference is used.
    unsafe fn of<'a>(client: *const Self) -> farcall::Result<&'a Self> {
        // SAFETY: the caller vouches for it.
        let client = unsafe { client.as_ref() }.ok_or_else(|| invalid("client is NULL"))?;
        match client.thread == thread::current().id() {
            true => Ok(client),
            false => Err(invalid("a client belongs to the thread that attached it")),
        }
    }
}
