//! Handlers: functions of this program that linked code calls.

use std::error::Error as StdError;
use std::ffi::{c_char, c_void};
use std::sync::{Arc, PoisonError, Weak};

use farcall::controller::handler::{Handler, HandlerResult};
use farcall::types::Value as Typed;

use super::buffer::{Buffer, Out};
use super::error::{Error, invalid};
use super::function::signature;
use super::host::Context;
use super::life::{LiveProcess, Process};
use super::object;
use super::value::Value;

/// Runs when linked code calls farcall_call_controller with a tag, or with any tag that has no handler. It owns the arguments.
///
/// It answers by calling farcall_process_answer with call_id exactly once, now or later, on any thread. Linked code waits for
/// that, and so does the thread that runs the handler: the thread of the host that waits for the executor's call. If a thread of
/// linked code's own calls, the handler runs on a thread of the library. So it may run on several threads at a time. It may
/// call the executor in turn.
pub type TagHandler = Option<
    unsafe extern "C" fn(
        process: *mut Process,
        tag: u64,
        args: Buffer,
        call_id: u64,
        context: *mut c_void,
    ),
>;

/// Runs when linked code calls the C function that it defines, on the same threads as farcall_tag_handler. It gets a value for each
/// parameter, and stores its result, unless that is void. An error that it returns belongs to the library: linked code is
/// unwound, and this program's call returns the error as FARCALL_REMOTE.
pub type NamedHandler = Option<
    unsafe extern "C" fn(
        arguments: *const Value,
        count: usize,
        result: *mut Value,
        context: *mut c_void,
    ) -> *mut Error,
>;

/// Registers a handler, and stores its tag, never 0, which is to be passed to linked code. The context must live until the session
/// ends, or until the handler is removed and no call of it runs.
///
/// # Safety
///
/// tag must be writable.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn farcall_process_register_handler(
    process: *mut Process,
    handler: TagHandler,
    context: *mut c_void,
    tag: *mut u64,
) -> *mut Error {
    // SAFETY: the caller vouches that the pointer is writable.
    Out::stored(unsafe { Out::new(tag, "tag", 0) }, || {
        let live = object::find::<LiveProcess>(process)?;
        let asked = Asked::new(&live, handler, context)?;
        // The handler learns its own tag, which the registration makes.
        let own = Arc::new(std::sync::OnceLock::new());
        let of_handler = Arc::clone(&own);
        let registered = live.process.register_handler(move |args, result| {
            asked.ask(of_handler.get().copied().unwrap_or_default(), args, result)
        });
        let number = *own.get_or_init(|| registered.get());
        let mut handlers = live.handlers.lock().unwrap_or_else(PoisonError::into_inner);
        handlers.insert(number, registered);
        drop(handlers);
        Ok(number)
    })
}

/// Removes a handler. Later calls of its tag are refused; calls under way run to their end.
#[unsafe(no_mangle)]
#[must_use]
pub extern "C" fn farcall_process_remove_handler(process: *mut Process, tag: u64) -> *mut Error {
    object::with::<LiveProcess>(process, |live| {
        let removed = live.handlers.lock().unwrap_or_else(PoisonError::into_inner).remove(&tag);
        let removed = removed.ok_or_else(|| invalid(format!("no handler has the tag {tag:#x}")))?;
        live.process.remove_handler(removed);
        Ok(())
    })
}

/// Sets the handler of all tags that no registered handler has, once for each process. LLVM's code uses addresses as tags.
#[unsafe(no_mangle)]
#[must_use]
pub extern "C" fn farcall_process_handle_other_tags(
    process: *mut Process,
    handler: TagHandler,
    context: *mut c_void,
) -> *mut Error {
    object::with::<LiveProcess>(process, |live| {
        let asked = Asked::new(&live, handler, context)?;
        live.process.handle_other_tags(move |tag, args, result| asked.ask(tag, args, result))
    })
}

/// Answers a call of a handler, on any thread. Takes the result; an out-of-band error is the error of linked code's call.
/// FARCALL_INVALID if the call has an answer, or the session is over.
///
/// # Safety
///
/// The result must be the caller's.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn farcall_process_answer(
    process: *mut Process,
    call_id: u64,
    result: Buffer,
) -> *mut Error {
    // SAFETY: the caller vouches for the result.
    let result = unsafe { result.take() };
    object::with::<LiveProcess>(process, |live| {
        let answer = result.into_result().map(|bytes| bytes.as_bytes().to_vec());
        match live.answers.give(call_id, answer) {
            true => Ok(()),
            false => Err(invalid(format!("no call {call_id} of a handler waits for an answer"))),
        }
    })
}

/// The name and the handler that C defines by a prototype.
///
/// # Safety
///
/// The declarations and the prototype must be texts, and the handler is to be called with the context.
pub(crate) unsafe fn handler_of(
    declarations: *const c_char,
    prototype: *const c_char,
    handler: NamedHandler,
    context: *mut c_void,
) -> farcall::Result<(String, Handler<Typed>)> {
    // SAFETY: the caller vouches for the texts.
    let signature = unsafe { signature(declarations, prototype) }?;
    let handler = handler.ok_or_else(|| invalid("handler is NULL"))?;
    let name = signature.name().to_owned();
    if name.is_empty() {
        return Err(invalid(format!("{signature}: a prototype without a name")));
    }
    let context = Context::new(context);
    let result_type = signature.result().cloned();
    let run = move |values: &[Typed]| -> Result<Typed, Box<dyn StdError + Send + Sync>> {
        let values: Vec<Value> = values.iter().map(Value::lend).collect();
        let mut result = Value::empty(result_type.as_ref());
        // SAFETY: the host gave the function and its context for this.
        let error =
            unsafe { handler(values.as_ptr(), values.len(), &raw mut result, context.get()) };
        // SAFETY: the handler gives its error.
        if let Some(error) = unsafe { Error::take(error) } {
            return Err(error.into());
        }
        // SAFETY: the handler has stored a value, or left the one above.
        Ok(unsafe { result.look() }?)
    };
    Ok((name, Handler::with_signature(&signature, run)?))
}

/// A handler of the host, as the library runs it.
struct Asked {
    live: Weak<LiveProcess>,
    handler: unsafe extern "C" fn(*mut Process, u64, Buffer, u64, *mut c_void),
    context: Context,
}

impl Asked {
    fn new(
        live: &Arc<LiveProcess>,
        handler: TagHandler,
        context: *mut c_void,
    ) -> farcall::Result<Self> {
        let handler = handler.ok_or_else(|| invalid("handler is NULL"))?;
        Ok(Self { live: Arc::downgrade(live), handler, context: Context::new(context) })
    }

    /// Runs the handler, and waits for its answer.
    fn ask(&self, tag: u64, args: &[u8], result: &mut Vec<u8>) -> HandlerResult {
        let live = self.live.upgrade().ok_or("the session is over")?;
        let (number, call) = live.answers.open();
        let (pointer, context) = (live.number.pointer(), self.context.get());
        // SAFETY: the host gave the function and its context for this.
        unsafe { (self.handler)(pointer, tag, Buffer::of(args), number, context) };
        result.extend(live.answers.wait(number, &call, || live.process.has_ended())?);
        Ok(())
    }
}
