//! The executor's side of a call: from bytes to the function, and back.
#![allow(unsafe_code, reason = "reads the arguments of a C function")]

use std::ffi::c_char;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

use super::message::{Reader, Writer};
use crate::error::{Error, panicked};
use crate::executor::WrapperFunctionBuffer;

/// The arguments of a wrapper function, in the registers in which C passes them. Only a call makes it.
#[doc(hidden)]
#[repr(C)]
#[derive(Debug)]
pub struct Arguments<'a> {
    data: *const c_char,
    size: usize,
    of_call: PhantomData<&'a [u8]>,
}

/// The wrapper function of an isolated function.
#[doc(hidden)]
pub type Entry = for<'a> extern "C" fn(Arguments<'a>) -> WrapperFunctionBuffer;

impl<'a> Arguments<'a> {
    fn bytes(&self) -> &'a [u8] {
        if self.size == 0 {
            return &[];
        }
        // SAFETY: the executor calls wrapper functions with this many readable bytes, which stay until the function returns.
        unsafe { std::slice::from_raw_parts(self.data.cast(), self.size) }
    }
}

/// Reads the arguments, calls the function, and writes its result. A panic is an error for the caller.
pub(super) fn serve<'a>(
    name: &str,
    arguments: Arguments<'a>,
    function: impl FnOnce(&mut Reader<'a>, &mut Writer) -> Result<(), Error>,
) -> WrapperFunctionBuffer {
    let bytes = arguments.bytes();
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        let mut writer = Writer::default();
        function(&mut Reader::new(bytes), &mut writer)?;
        writer.finish().map(WrapperFunctionBuffer::from_bytes)
    }));
    match outcome {
        Ok(Ok(answer)) => answer,
        Ok(Err(error)) => WrapperFunctionBuffer::out_of_band(&format!("{name}: {error}")),
        Err(panic) => WrapperFunctionBuffer::out_of_band(&format!("{name} {}", panicked(panic))),
    }
}

/// Runs an asynchronous function to its end on this thread.
#[doc(hidden)]
pub fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(Thread);

    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }

    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => std::thread::park(),
        }
    }
}
