//! A typed caller of a remote function.

use std::fmt;
use std::marker::PhantomData;
use std::sync::mpsc;

use crate::error::{Error, Result};
use crate::executor::entry::buffer::WrapperFunctionBuffer;
use crate::limits::PAYLOAD_BYTES_MAX;
use crate::sps::{self, Decode, Encode};

/// Receives the result of a call, once, on any thread.
///
/// # Examples
///
/// ```
/// use farcall::executor::{OnResult, WrapperFunctionBuffer};
///
/// fn echo(args: WrapperFunctionBuffer, on_result: OnResult) {
///     std::thread::spawn(move || on_result(args));
/// }
/// # let (sender, results) = std::sync::mpsc::channel();
/// # echo(WrapperFunctionBuffer::from_bytes(b"hello"), Box::new(move |result| sender.send(result).unwrap()));
/// # assert_eq!(results.recv().unwrap().as_bytes(), b"hello");
/// ```
pub type OnResult = Box<dyn FnOnce(WrapperFunctionBuffer) + Send>;

/// A remote function that takes `A` and returns `R`: a tag or an address, and the way to it.
///
/// Failures have two layers. The outer `Result` is about the call: it could not be sent, the connection ended, the
/// function answered out of band, or the bytes of the answer are no `R`. The function's own failure is in `R`, for
/// example an [`Expected`](sps::Expected); [`Expected::into_result`](sps::Expected::into_result) merges both layers.
///
/// # Examples
///
/// ```
/// use farcall::executor::Proxy;
/// use farcall::sps::Expected;
///
/// fn both(proxy: &Proxy<(u32,), Expected<u32>>) -> farcall::Result<u32> {
///     proxy.call_and_wait(&(7,)).and_then(Expected::into_result)
/// }
/// # use farcall::{executor::WrapperFunctionBuffer, sps::to_bytes};
/// # let result: Expected<u32> = Expected(Ok(8));
/// # let result = to_bytes(&result);
/// # let proxy = Proxy::new(move |_, on_result| on_result(WrapperFunctionBuffer::from_bytes(&result)));
/// # assert_eq!(both(&proxy).unwrap(), 8);
/// ```
pub struct Proxy<A, R> {
    dispatch: Box<dyn Fn(WrapperFunctionBuffer, OnResult) + Send + Sync>,
    types: PhantomData<fn(A) -> R>,
}

impl<A: Encode, R: for<'a> Decode<'a> + 'static> Proxy<A, R> {
    /// Makes a proxy for the function that `dispatch` calls. `dispatch` receives the encoded arguments and the
    /// receiver of the result. It may call the receiver before it returns, or drop it, which is an error of the call.
    #[must_use]
    pub fn new(dispatch: impl Fn(WrapperFunctionBuffer, OnResult) + Send + Sync + 'static) -> Self {
        Self { dispatch: Box::new(dispatch), types: PhantomData }
    }

    /// Calls the function. `on_result` runs exactly once, on the thread that has the result; that may be this one,
    /// before this function returns.
    ///
    /// Arguments that exceed the payload limit are not sent; `on_result` receives the error at once.
    pub fn call(&self, args: &A, on_result: impl FnOnce(Result<R>) + Send + 'static) {
        let bytes = args.encoded_bytes();
        if bytes as u64 > PAYLOAD_BYTES_MAX {
            let message = format!("{bytes} bytes of arguments, at most {PAYLOAD_BYTES_MAX}");
            on_result(Err(Error::exhausted(message)));
            return;
        }
        let mut pending = Pending(Some(on_result), PhantomData);
        let args = WrapperFunctionBuffer::from_bytes(&sps::to_bytes(args));
        (self.dispatch)(args, Box::new(move |result| pending.complete(decode(result))));
    }

    /// Calls the function and waits for its result. Do not call this on the thread that receives results: it would
    /// wait for itself.
    ///
    /// # Errors
    ///
    /// If the call failed; the function's own failure is in the result.
    pub fn call_and_wait(&self, args: &A) -> Result<R>
    where
        R: Send,
    {
        let (done, is_done) = mpsc::sync_channel(1);
        self.call(args, move |result| _ = done.send(result));
        is_done.recv().unwrap_or_else(|_| Err(gone()))
    }
}

impl<A, R> fmt::Debug for Proxy<A, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Proxy").finish_non_exhaustive()
    }
}

/// The receiver of a result. Dropping it delivers an error.
struct Pending<F: FnOnce(Result<R>), R>(Option<F>, PhantomData<fn(R)>);

impl<F: FnOnce(Result<R>), R> Pending<F, R> {
    fn complete(&mut self, result: Result<R>) {
        if let Some(on_result) = self.0.take() {
            on_result(result);
        }
    }
}

impl<F: FnOnce(Result<R>), R> Drop for Pending<F, R> {
    fn drop(&mut self) {
        self.complete(Err(gone()));
    }
}

fn decode<R: for<'a> Decode<'a>>(result: WrapperFunctionBuffer) -> Result<R> {
    let result = result.into_result().map_err(Error::remote)?;
    sps::from_bytes(result.as_bytes())
        .map_err(|error| error.during("could not deserialize result data"))
}

fn gone() -> Error {
    Error::disconnected("the call was dropped, its result will not come")
}
