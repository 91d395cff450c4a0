//! Wrapper functions in the form of LLVM's runtime: they are called with a session and a number, and answer once, when they like.
#![allow(unsafe_code, reason = "provides and calls C functions by address")]

use std::fmt;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::ExecutorAddr;
use crate::error::drop_panic;
use crate::executor::entry::address::pointer;
use crate::executor::entry::buffer::WrapperFunctionBuffer;
use crate::executor::entry::enter;
use crate::executor::entry::raw_session::{RawSession, WrapperFunctionReturn};
use crate::executor::entry::wrapper;
use crate::sps::{self, Decode, Encode};
use crate::transport::Payload;

/// One call of a [`WrapperFunction`](crate::executor::WrapperFunction), seen from inside:
/// bytes become arguments, and the answer becomes bytes.
///
/// ```
/// use farcall::executor::{RawSession, WrapperCall, WrapperFunctionBuffer, WrapperFunctionReturn};
///
/// unsafe extern "C" fn add(
///     session: RawSession,
///     args: WrapperFunctionBuffer,
///     answer: WrapperFunctionReturn,
///     call_id: u64,
/// ) {
///     // SAFETY: these are the arguments of a wrapper function.
///     let call = unsafe { WrapperCall::new(session, args, answer, call_id) };
///     call.handle_sync(|(a, b): (i32, i32)| a.wrapping_add(b));
/// }
/// ```
#[derive(Debug)]
pub struct WrapperCall {
    args: WrapperFunctionBuffer,
    answer: Answer,
}

/// The one answer to a call. May go to another thread, and be sent later. Dropped unsent, it answers with an out-of-band
/// error, so nobody waits for ever.
#[must_use = "a reply that is dropped is an error to the caller"]
pub struct WrapperReply<R>(Answer, PhantomData<fn(R)>);

/// A way back that is gone once.
struct Answer {
    session: RawSession,
    answer: WrapperFunctionReturn,
    call_id: u64,
    is_sent: bool,
}

/// How the function at an address is called. Nothing about the address says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Convention {
    /// LLVM 22's `buffer f(const char *data, size_t size)`, which answers when it returns.
    #[default]
    Llvm22,
    /// That of LLVM's runtime, a [`WrapperFunction`](crate::executor::WrapperFunction), which answers when it likes.
    WithSession,
}

impl Convention {
    /// Calls the function at `function`, behind a frame that unwinders cannot see past. `answer` gets the result with the
    /// other two, on any thread, perhaps before this returns.
    ///
    /// # Safety
    ///
    /// `function` must be the address of a function of this convention, and `answer` must take the session and the number.
    pub unsafe fn call(
        self,
        function: ExecutorAddr,
        session: RawSession,
        args: WrapperFunctionBuffer,
        answer: WrapperFunctionReturn,
        call_id: u64,
    ) {
        let reply = |result| Answer { session, answer, call_id, is_sent: false }.send(result);
        if let Some(message) = self.refuses(function, &args) {
            return reply(message);
        }
        if self == Self::WithSession {
            // SAFETY: the caller vouches for all of it.
            return unsafe { enter::wrapper_function(function, session, args, answer, call_id) };
        }
        let result = wrapper::call(function.get(), Payload::Own(args.as_bytes()));
        reply(result.unwrap_or_else(|message| WrapperFunctionBuffer::out_of_band(&message)));
    }

    /// Calls the [`WrapperFunction`](crate::executor::WrapperFunction) at `function`; `A` receives its answer with the
    /// same session and number, on any thread, perhaps before this returns.
    ///
    /// The controller or the host names the function and vouches for its form: the executor obeys both.
    pub(crate) fn call_for<A: Answered>(
        function: ExecutorAddr,
        session: RawSession,
        args: WrapperFunctionBuffer,
        call_id: u64,
    ) {
        // SAFETY: the controller or the host vouches for the function, as said above; the answer function accepts any
        // session and number.
        unsafe { Self::WithSession.call(function, session, args, answered::<A>, call_id) };
    }

    /// The answer to a call that no function gets.
    fn refuses(
        self,
        function: ExecutorAddr,
        args: &WrapperFunctionBuffer,
    ) -> Option<WrapperFunctionBuffer> {
        if function.is_null() {
            return Some(WrapperFunctionBuffer::out_of_band("call of address 0"));
        }
        let error = args.out_of_band_error().filter(|_| self == Self::Llvm22)?;
        Some(WrapperFunctionBuffer::out_of_band(&error.to_string_lossy()))
    }
}

/// Receives the answers to calls by [`Convention::call_for`].
pub(crate) trait Answered {
    /// Takes the result of the call with this number.
    fn answered(session: RawSession, result: WrapperFunctionBuffer, call_id: u64);
}

/// The C function that passes an answer on.
unsafe extern "C" fn answered<A: Answered>(
    session: RawSession,
    result: WrapperFunctionBuffer,
    call_id: u64,
) {
    A::answered(session, result, call_id);
}

impl WrapperCall {
    /// The call with these arguments.
    ///
    /// # Safety
    ///
    /// They must be those that a wrapper function was called with, not used otherwise.
    #[must_use = "a call that is dropped is an error to the caller"]
    pub unsafe fn new(
        session: RawSession,
        args: WrapperFunctionBuffer,
        answer: WrapperFunctionReturn,
        call_id: u64,
    ) -> Self {
        Self { args, answer: Answer { session, answer, call_id, is_sent: false } }
    }

    /// The session that was called.
    #[must_use]
    pub fn session(&self) -> RawSession {
        self.answer.session
    }

    /// Gives the decoded arguments to `handler`, with the reply that it or somebody else sends.
    ///
    /// Arguments that are an error go back as they are, and those that cannot be decoded are answered with an out-of-band error;
    /// the handler does not run. A panic of the handler answers for it, if it has not.
    pub fn handle<A, R>(self, handler: impl FnOnce(WrapperReply<R>, A))
    where
        A: for<'a> Decode<'a>,
        R: Encode,
    {
        self.handle_view(|reply, args| match sps::from_bytes(args) {
            Ok(args) => handler(reply, args),
            Err(error) => reply.refuse(&error),
        });
    }

    /// The same for a handler that answers before it returns.
    pub fn handle_sync<A, R>(self, handler: impl FnOnce(A) -> R)
    where
        A: for<'a> Decode<'a>,
        R: Encode,
    {
        self.handle(|reply: WrapperReply<R>, args| reply.send(handler(args)));
    }

    /// Gives the handler the bytes of the arguments, where they lie, for as long as it runs.
    pub fn handle_view<R: Encode>(self, handler: impl FnOnce(WrapperReply<R>, &[u8])) {
        let Self { args, answer } = self;
        if args.out_of_band_error().is_some() {
            answer.send(args);
            return;
        }
        // The reply is dropped, and so sent, if the handler panics while it has it. C cannot be told of a panic.
        let run = AssertUnwindSafe(|| handler(WrapperReply(answer, PhantomData), args.as_bytes()));
        let _ = catch_unwind(run).map_err(drop_panic);
    }

    /// Gives the object whose address is the first argument to `method`, with the others, and the reply that it or somebody
    /// else sends. An address that is null or not aligned for a `T` is answered with an out-of-band error.
    ///
    /// # Safety
    ///
    /// The caller of this function must have been told the addresses of living `T`s only.
    pub unsafe fn handle_method<T, A, R>(self, method: impl FnOnce(WrapperReply<R>, &T, A))
    where
        A: for<'a> Decode<'a>,
        R: Encode,
    {
        self.handle(|reply: WrapperReply<R>, (instance, args): (ExecutorAddr, A)| {
            let object = pointer::<T>(instance);
            if object.is_null() || !object.is_aligned() {
                let message = format!("no object can be at {instance}");
                return reply.0.send(WrapperFunctionBuffer::out_of_band(&message));
            }
            // SAFETY: the caller vouches for the address.
            let object = unsafe { &*object };
            method(reply, object, args);
        });
    }

    /// The same for a method that answers before it returns.
    ///
    /// # Safety
    ///
    /// As [`WrapperCall::handle_method`].
    pub unsafe fn handle_method_sync<T, A, R>(self, method: impl FnOnce(&T, A) -> R)
    where
        A: for<'a> Decode<'a>,
        R: Encode,
    {
        let method = |reply: WrapperReply<R>, object: &T, args| reply.send(method(object, args));
        // SAFETY: the caller vouches for the address.
        unsafe { self.handle_method(method) };
    }
}

impl<R: Encode> WrapperReply<R> {
    /// Answers. What a function that can fail returns becomes the type that says so on the wire: `Result<()>` a
    /// [`Status`](sps::Status), `Result<T>` an [`Expected`](sps::Expected).
    pub fn send(self, value: impl Into<R>) {
        self.0.send(WrapperFunctionBuffer::from_bytes(&sps::to_bytes(&value.into())));
    }

    /// Answers that the call itself went wrong, whatever the function's own results are.
    pub fn send_out_of_band(self, message: &str) {
        self.0.send(WrapperFunctionBuffer::out_of_band(message));
    }

    /// Answers that the arguments could not be decoded.
    fn refuse(self, error: &crate::Error) {
        self.send_out_of_band(&format!("could not deserialize argument data: {error}"));
    }
}

impl Answer {
    fn send(mut self, result: WrapperFunctionBuffer) {
        self.deliver(result);
    }

    fn deliver(&mut self, result: WrapperFunctionBuffer) {
        self.is_sent = true;
        // SAFETY: who made this vouched that the function takes the session and the number, once.
        unsafe { (self.answer)(self.session, result, self.call_id) };
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        if !self.is_sent {
            let what = if std::thread::panicking() { "panicked" } else { "gave no answer" };
            self.deliver(WrapperFunctionBuffer::out_of_band(&format!("the function {what}")));
        }
    }
}

impl<R> fmt::Debug for WrapperReply<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("WrapperReply").field(&self.0).finish()
    }
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { session, call_id, .. } = self;
        f.debug_struct("Answer")
            .field("session", session)
            .field("call_id", call_id)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
