//! Functions of the executor: C functions by their types, and functions of bytes, called in every way.
//!
//! Invariant: no function can harm this process by what it returns. Any answer of the executor becomes a result of the function's
//! type, or an error.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::batch::Batch;
use super::function_type::{Bytes, CFunctionType, FunctionType, Placed, StaticType};
use super::pending_call::PendingCall;
use super::pipeline::Pipeline;
use super::rows::{Rows, RowsForm};
use super::scalar::{Return, Scalar};
use crate::ExecutorAddr;
use crate::call::pipeline::Alike;
use crate::call::typed::{HEAD_BYTES, head};
use crate::controller::session::{Controller, Session};
use crate::deadline::Deadline;
use crate::error::Result;
use crate::types::{Signature, Value};

/// A function of the executor, of the type `F`: for example `extern "C" fn(i64, f64) -> f64`, a [`Signature`] that is known at run
/// time, or [`Bytes`].
///
/// | way | what it does |
/// |---|---|
/// | `call` | calls and waits: one round trip, as [`Controller::call`] |
/// | [`call_timeout`](Function::call_timeout) | waits for some time |
/// | [`call_watched`](Function::call_watched) | waits, and asks the host now and then whether to go on |
/// | [`submit`](Function::submit) | does not wait; the result is a future, or is waited for later |
/// | [`batch`](Function::batch) | calls with many arguments; the results come in order |
/// | [`rows`](Function::rows) | calls for each row of a table in a region, in one message |
///
/// Each way may be used on any thread. The host states the type, unless [`Dylib::function`](crate::controller::Dylib::function) finds
/// it in the object. If the function has another type, the executor may crash; the call then returns an error, or a number without
/// meaning.
///
/// # Examples
///
/// ```standalone_crate
/// # farcall::executor::run_if_spawned();
/// # let controller = farcall::controller::ExecutorBuilder::new().this_program().start()?;
/// use std::time::Duration;
/// use farcall::{PerProt, Prot};
/// // long add(long, long): lea rax, [rdi + rsi]; ret
/// # let mut memory = controller.allocate(PerProt { code: 5, ..PerProt::default() })?;
/// # memory.write(Prot::Code, &[0x48, 0x8d, 0x04, 0x37, 0xc3]);
/// # let code = memory.finalize();
/// let add = controller.function::<extern "C" fn(i64, i64) -> i64>(code.address());
/// assert_eq!(add.call(3, 4)?, 7);
/// assert_eq!(add.call_timeout((3, 5), Duration::from_secs(1))?, 8);
/// let pending = add.submit((3, 6))?;
/// assert_eq!(pending.wait()?, 9);
/// let sums: farcall::Result<Vec<i64>> = add.batch((0..100).map(|n| (n, 1)))?.collect();
/// assert_eq!(sums?[99], 100);
///
/// let add = controller.function_with(code.address(), &"long add(long, long)".parse()?)?;
/// assert_eq!(add.call(&[3_i64.into(), 4_i64.into()])?, 7_i64.into());
/// # controller.deallocate([code])?;
/// # Ok::<(), farcall::Error>(())
/// ```
pub struct Function<F: FunctionType> {
    session: Arc<Session>,
    address: ExecutorAddr,
    /// The wrapper function that is called: the function itself, or the executor's for typed calls. Null when the executor offers
    /// none.
    target: ExecutorAddr,
    /// What is in front of the arguments of a typed call.
    head: [u8; HEAD_BYTES],
    form: F::Form,
    /// Where calls are submitted; `None` for the session's own pipeline.
    pipeline: Option<Pipeline>,
}

impl Controller {
    /// The function at this address, by its type in Rust. Sends no message.
    #[must_use]
    pub fn function<F: StaticType>(&self, address: ExecutorAddr) -> Function<F> {
        Function::new(&self.session, address, ())
    }

    /// The C function at this address, by its type at run time. Sends no message.
    ///
    /// # Errors
    ///
    /// When calls cannot pass such arguments: more than [`TYPED_ARGUMENTS_MAX`](crate::limits::TYPED_ARGUMENTS_MAX), structures of
    /// more than [`BY_VALUE_BYTES_MAX`](crate::limits::BY_VALUE_BYTES_MAX) bytes, arrays.
    ///
    /// # Examples
    ///
    /// ```standalone_crate
    /// # farcall::executor::run_if_spawned();
    /// # let controller = farcall::controller::ExecutorBuilder::new().this_program().start()?;
    /// use farcall::types::{Declarations, Value};
    /// use farcall::{PerProt, Prot};
    /// // double sum(struct point): addsd xmm0, xmm1; ret
    /// # let mut memory = controller.allocate(PerProt { code: 5, ..PerProt::default() })?;
    /// # memory.write(Prot::Code, &[0xf2, 0x0f, 0x58, 0xc1, 0xc3]);
    /// # let code = memory.finalize();
    /// let mut types = Declarations::new();
    /// types.declare("struct point { double x, y; };")?;
    /// let sum = controller.function_with(code.address(), &types.signature("double sum(struct point)")?)?;
    /// let point = Value::Fields(vec![1.5.into(), 2.0.into()]);
    /// assert_eq!(sum.call(&[point])?, Value::F64(3.5));
    /// assert!(sum.call(&[Value::F64(1.5)]).is_err());
    /// # controller.deallocate([code])?;
    /// # Ok::<(), farcall::Error>(())
    /// ```
    pub fn function_with(
        &self,
        address: ExecutorAddr,
        signature: &Signature,
    ) -> Result<Function<Signature>> {
        Ok(Function::new(&self.session, address, Placed::new(signature)?))
    }
}

impl<F: FunctionType> Function<F> {
    pub(crate) fn new(session: &Arc<Session>, address: ExecutorAddr, form: F::Form) -> Self {
        let (target, head) = match F::shape(&form) {
            None => (address, [0; HEAD_BYTES]),
            Some(shape) => {
                (session.remote().named(F::CALLED_BY).unwrap_or_default(), head(address, shape))
            }
        };
        Self { session: Arc::clone(session), address, target, head, form, pipeline: None }
    }

    /// The function's address in the executor.
    #[must_use]
    pub fn address(&self) -> ExecutorAddr {
        self.address
    }

    /// The same function, whose calls are submitted to this pipeline. Otherwise the session has one pipeline for all functions: their
    /// submitted calls run one after the other, in the order of submission.
    #[must_use]
    pub fn over(&self, pipeline: &Pipeline) -> Self {
        Self { pipeline: Some(pipeline.clone()), ..self.clone() }
    }

    /// Calls the function and waits for its result for at most `timeout`, as [`Controller::call_timeout`].
    ///
    /// # Errors
    ///
    /// As [`Controller::call_timeout`]; [`ErrorKind::TypeMismatch`](crate::ErrorKind::TypeMismatch) when arguments are not of a
    /// signature's types. Nothing is sent then.
    pub fn call_timeout(
        &self,
        arguments: F::Arguments<'_>,
        timeout: Duration,
    ) -> Result<F::Result> {
        self.call_by(arguments, Deadline::after(timeout))
    }

    /// Calls the function and waits for its result. `watch` runs on the calling thread when there is none after the time `every`, and
    /// again each time that `every` has passed. It may end the call: its error becomes the call's, and the executor is killed. A
    /// call that returns sooner costs as much as one without a watch, and a look at the clock.
    ///
    /// While a handler of the host runs on the thread, `watch` does not.
    ///
    /// # Errors
    ///
    /// As [`Controller::call`], [`ErrorKind::TypeMismatch`](crate::ErrorKind::TypeMismatch) as above, and that of `watch`.
    ///
    /// # Examples
    ///
    /// ```standalone_crate
    /// # farcall::executor::run_if_spawned();
    /// # let controller = farcall::controller::ExecutorBuilder::new().this_program().start()?;
    /// use std::time::Duration;
    /// use farcall::{Error, PerProt, Prot};
    /// // void hang(void): jmp hang
    /// # let mut memory = controller.allocate(PerProt { code: 2, ..PerProt::default() })?;
    /// # memory.write(Prot::Code, &[0xeb, 0xfe]);
    /// # let code = memory.finalize();
    /// let hang = controller.function::<extern "C" fn()>(code.address());
    /// # std::mem::forget(code);
    /// let mut looks = 0;
    /// let outcome = hang.call_watched((), Duration::from_millis(1), || {
    ///     looks += 1;
    ///     if looks < 5 { Ok(()) } else { Err(Error::other("it was interrupted")) }
    /// });
    /// assert_eq!(outcome.unwrap_err().to_string(), "it was interrupted");
    /// assert!(hang.call().unwrap_err().death().is_some());
    /// # Ok::<(), farcall::Error>(())
    /// ```
    pub fn call_watched(
        &self,
        arguments: F::Arguments<'_>,
        every: Duration,
        mut watch: impl FnMut() -> Result<()>,
    ) -> Result<F::Result> {
        F::with_message(&self.form, &self.head, arguments, |message| {
            self.session.call_watched(self.target, message, every, &mut watch, |result| {
                F::decode(&self.form, &result.payload().bytes())
            })?
        })
    }

    /// The session of the function.
    #[must_use]
    pub fn controller(&self) -> Controller {
        Controller { session: Arc::clone(&self.session) }
    }

    /// The same up to the deadline.
    pub(in crate::controller) fn call_by(
        &self,
        arguments: F::Arguments<'_>,
        deadline: Deadline,
    ) -> Result<F::Result> {
        let result = F::with_message(&self.form, &self.head, arguments, |message| {
            self.session.call_by(self.target, message, deadline)
        });
        F::decode_owned(&self.form, result?)
    }

    /// Submits a call without waiting for its result. It runs behind the calls that were submitted before, on another thread of the
    /// executor than those of `call`.
    ///
    /// # Errors
    ///
    /// As [`Pipeline::submit`]; [`ErrorKind::TypeMismatch`](crate::ErrorKind::TypeMismatch) as above.
    pub fn submit(&self, arguments: F::Arguments<'_>) -> Result<PendingCall<F>> {
        let pipeline = self.pipeline()?;
        F::with_message(&self.form, &self.head, arguments, |message| {
            PendingCall::submit(pipeline.handle(), self.target, message, self.form.clone())
        })
    }

    /// Submits a call for each of the arguments. The results come in the order of the arguments. Many calls travel in one message; the
    /// arguments are read first, so nothing is submitted when some are wrong.
    ///
    /// # Errors
    ///
    /// As [`Function::submit`].
    pub fn batch<'a>(
        &self,
        arguments: impl IntoIterator<Item = F::Arguments<'a>>,
    ) -> Result<Batch<F>> {
        let pipeline = self.pipeline()?;
        let is_typed = F::shape(&self.form).is_some();
        // A typed call begins with the head, which is sent once for many.
        let skipped = if is_typed { HEAD_BYTES } else { 0 };
        let (mut messages, mut ends) = (Vec::new(), Vec::new());
        for arguments in arguments {
            let at = ends.len();
            let added = F::with_message(&self.form, &self.head, arguments, |message| {
                messages.extend_from_slice(message.get(skipped..).unwrap_or_default());
                Ok(())
            });
            added.map_err(|error| error.during(format_args!("call {at} of the batch")))?;
            ends.push(messages.len());
        }
        let (target, calls) = (self.target.get(), ends.len());
        if is_typed {
            let calls = Alike { target, shared: &self.head, rests: &messages, calls };
            return Batch::submit_alike(pipeline.handle(), &calls, self.form.clone());
        }
        let message = |at: usize| {
            let start = at.checked_sub(1).and_then(|before| ends.get(before)).copied();
            let end = ends.get(at).copied().unwrap_or_default();
            (target, messages.get(start.unwrap_or(0)..end).unwrap_or_default())
        };
        Batch::submit(pipeline.handle(), (0..calls).map(message), self.form.clone())
    }

    /// The same function, to be called for each row of a table by one message.
    #[must_use]
    pub fn rows(&self) -> Function<Rows<F>>
    where
        F: CFunctionType,
    {
        let form = RowsForm::new::<F>(self.form.clone());
        Function {
            pipeline: self.pipeline.clone(),
            ..Function::new(&self.session, self.address, form)
        }
    }

    fn pipeline(&self) -> Result<Pipeline> {
        match &self.pipeline {
            Some(pipeline) => Ok(pipeline.clone()),
            None => Pipeline::of_session(&self.session),
        }
    }

    #[inline]
    pub(in crate::controller) fn call_with(
        &self,
        arguments: F::Arguments<'_>,
    ) -> Result<F::Result> {
        F::with_message(&self.form, &self.head, arguments, |message| {
            self.session.call_taking(self.target, message, |result| {
                F::decode(&self.form, &result.payload().bytes())
            })?
        })
    }
}

impl Function<Bytes> {
    /// Calls the function and returns its result, as [`Controller::call`].
    ///
    /// # Errors
    ///
    /// As [`Controller::call`].
    pub fn call(&self, arguments: &[u8]) -> Result<Vec<u8>> {
        self.session
            .call_taking(self.address, arguments, |result| result.payload().bytes().into_owned())
    }
}

impl Function<Signature> {
    /// Calls the function and returns its result.
    ///
    /// # Errors
    ///
    /// As [`Controller::call`]; [`ErrorKind::TypeMismatch`](crate::ErrorKind::TypeMismatch) when the arguments are not of the
    /// signature's number and types. Nothing is sent then.
    pub fn call(&self, arguments: &[Value]) -> Result<Value> {
        self.call_with(arguments)
    }

    /// The types of the function.
    #[must_use]
    pub fn signature(&self) -> &Signature {
        self.form.signature()
    }
}

impl<F: CFunctionType> Function<Rows<F>> {
    /// Calls the function for `rows` rows and waits until the last call has returned, as [`Controller::call`]. See [`Rows`].
    ///
    /// # Errors
    ///
    /// As [`Controller::call`]; those of a row name it. [`ErrorKind::TypeMismatch`](crate::ErrorKind::TypeMismatch) when the steps are not
    /// of the function's types. Nothing is sent then.
    pub fn call<'a>(&self, first: F::Arguments<'a>, steps: &'a [i64], rows: u64) -> Result<()> {
        self.call_with((first, steps, rows))
    }
}

macro_rules! callable {
    ($($name:ident: $argument:ident),*) => {
        impl<R: Return, $($argument: Scalar),*> Function<extern "C" fn($($argument),*) -> R> {
            /// Calls the function and returns its result.
            ///
            /// # Errors
            ///
            /// As [`Controller::call`].
            #[inline]
            #[allow(clippy::too_many_arguments, reason = "a parameter for each argument of the function")]
            pub fn call(&self $(, $name: $argument)*) -> Result<R> {
                self.call_with(($($name,)*))
            }
        }
    };
}

callable!();
callable!(a: A);
callable!(a: A, b: B);
callable!(a: A, b: B, c: C);
callable!(a: A, b: B, c: C, d: D);
callable!(a: A, b: B, c: C, d: D, e: E);
callable!(a: A, b: B, c: C, d: D, e: E, f: F);
callable!(a: A, b: B, c: C, d: D, e: E, f: F, g: G);
callable!(a: A, b: B, c: C, d: D, e: E, f: F, g: G, h: H);
callable!(a: A, b: B, c: C, d: D, e: E, f: F, g: G, h: H, i: I);
callable!(a: A, b: B, c: C, d: D, e: E, f: F, g: G, h: H, i: I, j: J);
callable!(a: A, b: B, c: C, d: D, e: E, f: F, g: G, h: H, i: I, j: J, k: K);
callable!(a: A, b: B, c: C, d: D, e: E, f: F, g: G, h: H, i: I, j: J, k: K, l: L);
callable!(a: A, b: B, c: C, d: D, e: E, f: F, g: G, h: H, i: I, j: J, k: K, l: L, m: M);
callable!(a: A, b: B, c: C, d: D, e: E, f: F, g: G, h: H, i: I, j: J, k: K, l: L, m: M, n: N);
callable!(
    a: A, b: B, c: C, d: D, e: E, f: F, g: G, h: H, i: I, j: J, k: K, l: L, m: M, n: N, o: O
);
callable!(
    a: A, b: B, c: C, d: D, e: E, f: F, g: G, h: H, i: I, j: J, k: K, l: L, m: M, n: N, o: O, p: P
);

impl<F: FunctionType> Clone for Function<F> {
    fn clone(&self) -> Self {
        Self {
            session: Arc::clone(&self.session),
            form: self.form.clone(),
            pipeline: self.pipeline.clone(),
            ..*self
        }
    }
}

impl<F: FunctionType> fmt::Debug for Function<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}", F::name(&self.form), self.address)
    }
}
