//! Wrapper functions of LLVM's runtime. Their arguments include a session and a call number; they answer once, at any
//! time.
#![allow(unsafe_code, reason = "provides and calls C functions by address")]

use std::fmt;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::ExecutorAddr;
use crate::error::drop_panic;
use crate::executor::entry::address::pointer;
use crate::executor::entry::allocator;
use crate::executor::entry::buffer::WrapperFunctionBuffer;
use crate::executor::entry::enter;
use crate::executor::entry::raw_session::{RawSession, WrapperFunctionReturn};
use crate::executor::entry::wrapper;
use crate::sps::{self, Decode, Encode};
use crate::sys::process::fork;
use crate::transport::Payload;

/// One call of a [`WrapperFunction`](crate::executor::WrapperFunction), seen by the function: decodes the arguments
/// and encodes the answer.
///
/// # Examples
///
/// ```
/// use farcall::executor::{RawSession, WrapperCall, WrapperFunctionBuffer, WrapperFunctionReturn};
/// # use farcall::session::{InProcess, SessionBuilder};
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
/// # let builder = SessionBuilder::new(|task| task.run());
/// # // SAFETY: `add` answers once.
/// # let session = unsafe { builder.wrapper_function("add", add) }?.build()?;
/// # let (access, process) = InProcess::new(|_, args, reply| reply.send(Ok(args)));
/// # session.attach(access)?;
/// # let add = session.bootstrap_info().symbols().get("add").expect("it is offered");
/// # let (sender, results) = std::sync::mpsc::channel();
/// # process.call(add, farcall::sps::to_bytes(&(1, 2)), move |sum| sender.send(sum).unwrap());
/// # assert_eq!(results.recv().unwrap()?, farcall::sps::to_bytes(&3));
/// # Ok::<(), farcall::Error>(())
/// ```
#[derive(Debug)]
pub struct WrapperCall {
    args: WrapperFunctionBuffer,
    answer: Answer,
}

/// The answer to one call. It may move to another thread and be sent later. Dropping it unsent answers with an
/// out-of-band error, so the caller never waits in vain.
///
/// # Examples
///
/// ```
/// use farcall::executor::{WrapperCall, WrapperReply};
///
/// fn later(call: WrapperCall) {
///     call.handle(|reply: WrapperReply<u32>, (number,): (u32,)| {
///         std::thread::spawn(move || reply.send(number + 1));
///     });
/// }
/// # use farcall::{ExecutorAddr, executor::{RawSession, WrapperFunctionBuffer}, sps::to_bytes};
/// # unsafe extern "C" fn answer(_: RawSession, result: WrapperFunctionBuffer, call_id: u64) {
/// #     assert_eq!((result.as_bytes(), call_id), (&to_bytes(&8_u32)[..], 5));
/// # }
/// # let session = RawSession::new(ExecutorAddr::new(1));
/// # let args = WrapperFunctionBuffer::from_bytes(&to_bytes(&(7_u32,)));
/// # // SAFETY: the arguments are used once, and `answer` accepts any session and number.
/// # later(unsafe { WrapperCall::new(session, args, answer, 5) });
/// ```
#[must_use = "a reply that is dropped is an error to the caller"]
pub struct WrapperReply<R>(Answer, PhantomData<fn(R)>);

/// The answer function with its arguments, used once.
struct Answer {
    session: RawSession,
    answer: WrapperFunctionReturn,
    call_id: u64,
    is_sent: bool,
}

/// The calling convention of a function at an address, which the address does not tell.
///
/// # Examples
///
/// ```
/// use farcall::executor::Convention;
/// use farcall::session::SessionBuilder;
///
/// // Linked code may answer its calls later.
/// let session = SessionBuilder::new(|task| drop(std::thread::spawn(|| task.run())))
///     .linked_code(Convention::WithSession)
///     .build()?;
/// # Ok::<(), farcall::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Convention {
    /// LLVM 22's `buffer f(const char *data, size_t size)`, which answers when it returns.
    #[default]
    Llvm22,
    /// The form of LLVM's runtime, a [`WrapperFunction`](crate::executor::WrapperFunction), which may answer later.
    WithSession,
}

impl Convention {
    /// Calls the function at `function` through a frame without unwind information. `answer` receives the session,
    /// the result and the number, on any thread, perhaps before this returns.
    ///
    /// # Safety
    ///
    /// `function` must be the address of a function of this convention, and `answer` must accept the session and the
    /// number.
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
            let generation = fork::generation();
            let args = args.for_code(function);
            // SAFETY: the caller vouches for the function, its arguments and `answer`.
            unsafe { enter::wrapper_function(function, session, args, answer, call_id) };
            if fork::generation() != generation {
                wrapper::end_child(None);
            }
            return;
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
        let is_program = allocator::is_replaced_for(function);
        let answer = if is_program { answered_by_program::<A> } else { answered::<A> };
        // SAFETY: the controller or the host vouches for the function, as said above; the answer function accepts any
        // session and number.
        unsafe { Self::WithSession.call(function, session, args, answer, call_id) };
    }

    /// The answer to a call that is refused before the function runs.
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

/// The same for a function of a program with an allocator of its own.
unsafe extern "C" fn answered_by_program<A: Answered>(
    session: RawSession,
    result: WrapperFunctionBuffer,
    call_id: u64,
) {
    A::answered(session, result.taken_from_linked_code(), call_id);
}

impl WrapperCall {
    /// Makes the call of a wrapper function's arguments.
    ///
    /// # Safety
    ///
    /// The arguments must come from a wrapper function's call, and must not be used otherwise.
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

    /// Passes the decoded arguments and the reply to `handler`, which may send the reply later.
    ///
    /// If the arguments are an out-of-band error, the answer is the same error. If they cannot be decoded, the answer
    /// is an out-of-band error. The handler does not run in either case. If it panics before the reply is sent, the
    /// answer is an out-of-band error.
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

    /// Passes the decoded arguments to a handler that returns the answer.
    pub fn handle_sync<A, R>(self, handler: impl FnOnce(A) -> R)
    where
        A: for<'a> Decode<'a>,
        R: Encode,
    {
        self.handle(|reply: WrapperReply<R>, args| reply.send(handler(args)));
    }

    /// Passes the encoded arguments to the handler, without a copy.
    pub fn handle_view<R: Encode>(self, handler: impl FnOnce(WrapperReply<R>, &[u8])) {
        let Self { args, answer } = self;
        if args.out_of_band_error().is_some() {
            answer.send(args);
            return;
        }
        // A handler that panics drops the reply, which sends an error. The panic must not unwind into C.
        let run = AssertUnwindSafe(|| handler(WrapperReply(answer, PhantomData), args.as_bytes()));
        let _ = catch_unwind(run).map_err(drop_panic);
    }

    /// Passes the object whose address is the first argument to `method`, with the other arguments and the reply. The
    /// answer is an out-of-band error if the address is null or not aligned for a `T`.
    ///
    /// # Safety
    ///
    /// The first argument must be the address of a live `T`, or null or misaligned.
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

    /// The same for a method that returns the answer.
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
    /// Sends the answer. The result of a function that can fail becomes the wire type for that: `Result<()>` becomes
    /// [`Status`](sps::Status), `Result<T>` becomes [`Expected`](sps::Expected).
    pub fn send(self, value: impl Into<R>) {
        self.0.send(WrapperFunctionBuffer::from_bytes(&sps::to_bytes(&value.into())));
    }

    /// Answers with an out-of-band error: the call failed, whatever the function's own results are.
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
        // SAFETY: the creator of this value vouched that the function accepts the session and the number, once.
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
