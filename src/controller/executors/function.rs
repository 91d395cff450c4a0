//! Functions of an executor: C functions by their types, and functions of bytes, called in every way.

use std::fmt;
use std::sync::Arc;

use super::generation::LibraryName;
use super::named_function::NamedFunction;
use super::slots::Slots;
use crate::ExecutorAddr;
use crate::call::ToSessionEnd;
use crate::controller::calls::bound_function::BoundFunction;
use crate::controller::calls::function_type::Placed;
use crate::controller::calls::overdue::Overdue;
use crate::controller::calls::{
    Batch, CFunctionType, CallOptions, FunctionType, PendingCall, Pipeline, Rows, StaticType,
};
use crate::controller::session::Process;
use crate::deadline::Deadline;
use crate::error::{Error, Result};
use crate::types::Signature;

/// A function of an [executor](super::Executor), of the type `F`: for example `extern "C" fn(i64, f64) -> f64`. A [`Signature`] is a type
/// that is known at run time, and [`Bytes`](crate::controller::calls::Bytes) is the type of wrapper functions.
///
/// | way | what it does |
/// |---|---|
/// | [`call`](Function::call) | calls and waits: one round trip |
/// | [`call_with`](Function::call_with) | the same for some time, or asks the host now and then whether to go on |
/// | [`submit`](Function::submit) | does not wait; the result is a future, or is waited for later |
/// | [`batch`](Function::batch) | calls with many arguments; the results come in order |
/// | [`rows`](Function::rows) | calls for each row of a table in a region, in one message |
///
/// The arguments of a C function are a tuple: `(3, 0.5)`, `(3,)` or `()`. Those of a signature are a slice of
/// [`Value`](crate::types::Value)s, those of a wrapper function are bytes.
///
/// A function has one of two origins:
///
/// | origin | is | a call costs |
/// |---|---|---|
/// | [`Library::function`](super::Library::function) | found by its name in the present process | 20 to 30 ns more |
/// | [`bind`](Function::bind), [`Process::function`] | bound to an address of one process, and dead with it | least |
///
/// Each way may be used on any thread. A clone of a function that is found by its name remembers the address by itself. So threads that
/// call at the same time do best with a clone each. With several processes such a function takes a free one for each call. The host
/// states the type, unless [`Library::check_types`](super::Library::check_types) has it compared with the object's. If the function has
/// another type, the executor may crash; the call then returns an error, or a number without meaning.
///
/// # Examples
///
/// ```standalone_crate
/// # farcall::executor::run_if_spawned();
#[doc = include_str!("../../docs/compile.txt")]
/// use std::time::Duration;
/// use farcall::controller::{CallOptions, ExecutorBuilder};
///
/// let executor = ExecutorBuilder::new().this_program().start()?;
/// let library = executor.library("main");
/// library.add_object(&compile("long add(long a, long b) { return a + b; }")?)?;
/// let add = library.function::<extern "C" fn(i64, i64) -> i64>("add");
/// assert_eq!(add.call((3, 4))?, 7);
/// assert_eq!(add.call_with(&CallOptions::new().timeout(Duration::from_secs(1)), (3, 5))?, 8);
/// let pending = add.submit((3, 6))?;
/// assert_eq!(pending.wait()?, 9);
/// let sums: farcall::Result<Vec<i64>> = add.batch((0..100).map(|n| (n, 1)))?.collect();
/// assert_eq!(sums?[99], 100);
///
/// let add = add.bind()?; // to this process
/// assert_eq!(add.call((3, 4))?, 7);
/// let add = library.function_with("add", &"long add(long, long)".parse()?)?;
/// assert_eq!(add.call(&[3_i64.into(), 4_i64.into()])?, 7_i64.into());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Function<F: FunctionType>(Origin<F>);

/// Where a function is found.
enum Origin<F: FunctionType> {
    Bound(BoundFunction<F>),
    Named(Box<NamedFunction<F>>),
}

impl Process {
    /// The function at this address, by its type in Rust. Sends no message.
    #[must_use]
    pub fn function<F: StaticType>(&self, address: ExecutorAddr) -> Function<F> {
        Function(Origin::Bound(BoundFunction::new(&self.session, address, ())))
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
    /// # let executor = farcall::controller::ExecutorBuilder::new().this_program().start()?;
    /// # let process = executor.process()?;
    /// use farcall::types::{Declarations, Value};
    /// use farcall::{PerProt, Prot};
    /// // double sum(struct point): addsd xmm0, xmm1; ret
    /// # let mut memory = process.allocate(PerProt { code: 5, ..PerProt::default() })?;
    /// # memory.write(Prot::Code, &[0xf2, 0x0f, 0x58, 0xc1, 0xc3]);
    /// # let code = memory.finalize();
    /// let mut types = Declarations::new();
    /// types.declare("struct point { double x, y; };")?;
    /// let sum = process.function_with(code.address(), &types.signature("double sum(struct point)")?)?;
    /// let point = Value::Fields(vec![1.5.into(), 2.0.into()]);
    /// assert_eq!(sum.call(&[point])?, Value::F64(3.5));
    /// assert!(sum.call(&[Value::F64(1.5)]).is_err());
    /// # process.deallocate([code])?;
    /// # Ok::<(), farcall::Error>(())
    /// ```
    pub fn function_with(
        &self,
        address: ExecutorAddr,
        signature: &Signature,
    ) -> Result<Function<Signature>> {
        let form = Placed::new(signature)?;
        Ok(Function(Origin::Bound(BoundFunction::new(&self.session, address, form))))
    }
}

impl<F: FunctionType> Function<F> {
    pub(super) fn named(
        slots: &Arc<Slots>,
        library: Arc<LibraryName>,
        name: String,
        form: F::Form,
    ) -> Self {
        Self(Origin::Named(Box::new(NamedFunction::new(slots, library, name.into(), form))))
    }

    /// Calls the function and waits for its result. The call is made once: after a death the host decides what to call again.
    ///
    /// # Errors
    ///
    /// - The function's own error: out of band, or thrown ([`ErrorKind::Remote`](crate::ErrorKind::Remote)).
    /// - No call can complete any more: the process died ([`Error::death`](crate::Error::death)), hung up, or broke the protocol. With a
    ///   restart policy that is an error of this call, and the next call starts another process.
    /// - The next process cannot be started or filled, or the policy allows no other
    ///   ([`ErrorKind::Exhausted`](crate::ErrorKind::Exhausted)).
    /// - The library does not define the function, or linking fails.
    /// - The arguments are not of a signature's number and types ([`ErrorKind::TypeMismatch`](crate::ErrorKind::TypeMismatch)). Nothing is
    ///   sent then.
    /// - The arguments are too long, calls are nested too deep, or no more lanes can be opened
    ///   ([`ErrorKind::Exhausted`](crate::ErrorKind::Exhausted)).
    /// - The executor's thread that ran the call has ended alone ([`ErrorKind::Remote`](crate::ErrorKind::Remote)).
    #[inline]
    pub fn call(&self, arguments: F::Arguments<'_>) -> Result<F::Result> {
        match &self.0 {
            Origin::Bound(function) => function.call(ToSessionEnd, arguments),
            Origin::Named(function) => {
                let (options, deadline) = (CallOptions::new(), Deadline::SESSION_END);
                function.lend(&options, deadline, |bound, _| bound.call(ToSessionEnd, arguments))
            }
        }
    }

    /// As [`call`](Function::call), for some time, or watched.
    ///
    /// # Errors
    ///
    /// As [`call`](Function::call), and those that [`CallOptions`] names.
    pub fn call_with(
        &self,
        options: &CallOptions<'_>,
        arguments: F::Arguments<'_>,
    ) -> Result<F::Result> {
        let deadline = options.deadline();
        match &self.0 {
            Origin::Bound(function) => {
                let kill = |_: &_| function.session().remote().supervisor().process().kill();
                let opener = function.session().remote().opener();
                let overdue = Overdue::new(options, deadline, opener, &kill);
                overdue.look_after(|wait| function.call(wait, arguments))
            }
            Origin::Named(function) => function.lend(options, deadline, |bound, kill| {
                let opener = bound.session().remote().opener();
                let overdue = Overdue::new(options, deadline, opener, kill);
                overdue.look_after(|wait| bound.call(wait, arguments))
            }),
        }
    }

    /// Submits a call without waiting for its result. It runs behind the calls that were submitted before, on another thread of the
    /// executor than those of [`call`](Function::call). A function that is found by its name submits to the present process; with
    /// several processes each gets a call in turn, free or not.
    ///
    /// By the restart policy ([`kill_on_timeout`](crate::controller::RestartPolicy::kill_on_timeout)) the process
    /// of a function that is found by its name is killed when the call is abandoned ([`PendingCall`]).
    ///
    /// # Errors
    ///
    /// As [`Pipeline::submit`], and as [`call`](Function::call) for the process, the look-up and the arguments.
    pub fn submit(&self, arguments: F::Arguments<'_>) -> Result<PendingCall<F>> {
        match &self.0 {
            Origin::Bound(function) => function.submit(arguments),
            Origin::Named(function) => function.submit(arguments),
        }
    }

    /// Submits a call for each of the arguments. The results come in the order of the arguments. Many calls travel in one message; the
    /// arguments are read first, so nothing is submitted when some are wrong. With several processes each gets a batch in turn.
    ///
    /// # Errors
    ///
    /// As [`submit`](Function::submit).
    pub fn batch<'a>(
        &self,
        arguments: impl IntoIterator<Item = F::Arguments<'a>>,
    ) -> Result<Batch<F>> {
        match &self.0 {
            Origin::Bound(function) => function.batch(arguments),
            Origin::Named(function) => function.batch(arguments),
        }
    }

    /// The same function, to be called for each row of a table by one message. See [`Rows`].
    #[must_use]
    pub fn rows(&self) -> Function<Rows<F>>
    where
        F: CFunctionType,
    {
        Function(match &self.0 {
            Origin::Bound(function) => Origin::Bound(function.rows()),
            Origin::Named(function) => Origin::Named(Box::new(function.rows())),
        })
    }

    /// The function in the present process, which is started first if the last one has died. With several processes it is that of each
    /// in turn, free or not. Looking it up, and linking, show their errors here. Its calls fail when this process is dead.
    /// It may not be called once its library was [cleared](crate::controller::Library::clear).
    ///
    /// # Errors
    ///
    /// As [`call`](Function::call), for the process and the look-up.
    pub fn bind(&self) -> Result<Self> {
        Ok(Self(Origin::Bound(self.bound()?)))
    }

    /// The function bound to the present process ([`bind`](Function::bind)), whose calls are submitted to this pipeline. Otherwise a
    /// process has one pipeline for all functions: their submitted calls run one after the other, in the order of submission.
    ///
    /// # Errors
    ///
    /// As [`bind`](Function::bind); when the pipeline belongs to another process.
    pub fn over(&self, pipeline: &Pipeline) -> Result<Self> {
        Ok(Self(Origin::Bound(self.bound()?.over(pipeline)?)))
    }

    /// The same function in one process of the executor, counted from 0. Its calls do not wait until that is free. `None` when there is
    /// no such process, or the function is bound.
    #[must_use]
    pub fn on(&self, process: usize) -> Option<Self> {
        match &self.0 {
            Origin::Bound(_) => None,
            Origin::Named(function) => Some(Self(Origin::Named(Box::new(function.on(process)?)))),
        }
    }

    /// The function's address in the present process.
    ///
    /// # Errors
    ///
    /// As [`bind`](Function::bind); none if the function is bound.
    pub fn address(&self) -> Result<ExecutorAddr> {
        Ok(self.bound()?.address())
    }

    /// The function's address, for a pointer to it in this process.
    ///
    /// # Errors
    ///
    /// As [`bind`](Function::bind); when the executor is in another process, or the kernel lacks a system call.
    pub(crate) fn address_here(&self) -> Result<ExecutorAddr> {
        let bound = self.bound()?;
        let remote = bound.session().remote();
        let direct = remote.direct().ok_or_else(|| {
            Error::invalid(
                "the function is in another process, where pointers of this one mean nothing: ExecutorBuilder::in_process has linked \
                 code in this process, and Function::address is the address in the other",
            )
        })?;
        remote.settle()?;
        direct.pass_pointer()?;
        Ok(bound.address())
    }

    /// The present process of the function.
    ///
    /// # Errors
    ///
    /// As [`bind`](Function::bind); none if the function is bound.
    pub fn process(&self) -> Result<Process> {
        Ok(Process { session: Arc::clone(self.bound()?.session()) })
    }

    fn bound(&self) -> Result<BoundFunction<F>> {
        match &self.0 {
            Origin::Bound(function) => Ok(function.clone()),
            Origin::Named(function) => function.bind(),
        }
    }
}

impl Function<Signature> {
    /// The types of the function.
    #[must_use]
    pub fn signature(&self) -> &Signature {
        match &self.0 {
            Origin::Bound(function) => function.form(),
            Origin::Named(function) => function.form(),
        }
        .signature()
    }
}

impl<F: FunctionType> Clone for Function<F> {
    fn clone(&self) -> Self {
        Self(match &self.0 {
            Origin::Bound(function) => Origin::Bound(function.clone()),
            Origin::Named(function) => Origin::Named(function.clone()),
        })
    }
}

impl<F: FunctionType> fmt::Debug for Function<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Origin::Bound(function) => function.fmt(f),
            Origin::Named(function) => function.fmt(f),
        }
    }
}
