//! A handler that linked code calls as a C function, and its definition in a dylib.

use std::error::Error as StdError;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use super::outcome::Outcome;
use super::parameter::Parameter;
use crate::call::contract::handler_call::{Arguments, CALL_HANDLER, Head, Kind, WORD_BYTES};
use crate::controller::calls::scalar::Scalar;
use crate::controller::dylibs::dylib::Dylib;
use crate::controller::layer::object_layer::ObjectLayer;
use crate::controller::linker::defined_handler::DefinedHandler;
use crate::controller::process::handlers::{Function, HandlerResult};
use crate::error::{Error, Result};
use crate::jit::ResourceTracker;
use crate::limits::TYPED_ARGUMENTS_MAX;
use crate::link::{ObjectFile, Processor, handler_object};
use crate::types::{Signature, Type, Value};

/// A function of this process that linked code calls as a C function. `R` is what the C function returns.
///
/// It belongs to no executor. [`Library::define_handler`](crate::controller::Library::define_handler) defines it in a library, as often as
/// wanted. A clone is the same handler.
///
/// The handler runs on the thread that waits for the executor's call. If a thread of the program's own calls, the handler runs on a
/// thread that the session starts. So it may run on several threads at a time. It may call the executor in turn.
///
/// # Errors
///
/// A call fails when the handler returns an error or panics, when a [`Parameter`] cannot be read, and when the controller cannot
/// be reached. Then linked code gets the [status](Handler::with_status) of the handler. Without one, the call is unwound as far as
/// linked code was entered last. Destructors of its frames run, and the controller's call returns the error
/// ([`ErrorKind::Remote`](crate::ErrorKind::Remote)), with the name of the function in front.
/// [`Process::create_lazy`](crate::controller::Process::create_lazy) says what happens to the frames of an unwound call.
///
/// # Examples
///
/// ```standalone_crate
/// # farcall::executor::run_if_spawned();
/// # let executor = farcall::controller::ExecutorBuilder::new().this_program().start()?;
/// # let process = executor.process()?;
/// use farcall::controller::handler::Handler;
///
/// let half = Handler::new(|value: i32| match value % 2 {
///     0 => Ok(value / 2),
///     _ => Err("half of an odd number"),
/// });
/// let library = executor.library("main");
/// library.define_handler("half", &half)?;
/// // Linked code calls int half(int). So does this, through the executor and back:
/// let function = library.function::<extern "C" fn(i32) -> i32>("half");
/// assert_eq!(function.call((42,))?, 21);
/// assert_eq!(function.call((7,)).unwrap_err().to_string(), "half: half of an odd number");
///
/// let half_or_minus_one = half.clone().with_status(-1);
/// let library = executor.library("another");
/// library.define_handler("half", &half_or_minus_one)?;
/// let function = library.function::<extern "C" fn(i32) -> i32>("half");
/// assert_eq!(function.call((7,))?, -1);
/// # Ok::<(), farcall::Error>(())
/// ```
pub struct Handler<R> {
    function: Arc<Function>,
    kinds: Arc<[Kind]>,
    status: Option<u64>,
    result: PhantomData<fn() -> R>,
}

/// What becomes a [`Handler`]: a closure or function with up to 16 [`Parameter`]s and an [`Outcome`], or a handler. `M` tells the
/// kinds apart; callers leave it to the compiler.
///
/// # Examples
///
/// ```
/// use farcall::controller::handler::{Handler, IntoHandler};
///
/// fn named<M>(name: &str, handler: impl IntoHandler<M>) -> (String, Handler<impl Sized>) {
///     (name.to_owned(), handler.into_handler())
/// }
/// let (name, _) = named("add", |a: i64, b: i64| a + b);
/// assert_eq!(name, "add");
/// ```
pub trait IntoHandler<M> {
    /// What the C function returns.
    type Result;

    /// The handler.
    fn into_handler(self) -> Handler<Self::Result>;
}

impl<R> Handler<R> {
    /// A handler whose failed calls are unwound.
    #[must_use]
    pub fn new<M>(function: impl IntoHandler<M, Result = R>) -> Self {
        function.into_handler()
    }

    /// The same handler, whose failed calls return `status` to linked code. The error goes no further; a handler that wants to keep
    /// it does so before it returns.
    #[must_use]
    pub fn with_status(mut self, status: R) -> Self
    where
        R: Scalar,
    {
        self.status = Some(status.to_word());
        self
    }

    fn of(
        kinds: Vec<Kind>,
        function: impl Fn(&[u8], &mut Vec<u8>) -> HandlerResult + Send + Sync + 'static,
    ) -> Self {
        let (function, kinds) = (Arc::new(function), kinds.into());
        Self { function, kinds, status: None, result: PhantomData }
    }
}

impl Handler<Value> {
    /// A handler whose types are known at run time: numbers, `bool` and pointers. It receives one value for each parameter. Strings
    /// and arrays come as addresses of the executor.
    ///
    /// # Errors
    ///
    /// When the signature has more than [`TYPED_ARGUMENTS_MAX`] parameters, or a structure or a vector.
    ///
    /// # Examples
    ///
    /// ```standalone_crate
    /// # farcall::executor::run_if_spawned();
    /// # let executor = farcall::controller::ExecutorBuilder::new().this_program().start()?;
    /// # let process = executor.process()?;
    /// use farcall::controller::handler::Handler;
    /// use farcall::types::Value;
    ///
    /// let scale = Handler::with_signature(&"double scale(int, double)".parse()?, |values| match values {
    ///     [Value::I32(count), Value::F64(unit)] => Ok((f64::from(*count) * unit).into()),
    ///     _ => Err("other values than the signature says".into()),
    /// })?;
    /// let library = executor.library("main");
    /// library.define_handler("scale", scale)?;
    /// let function = library.function::<extern "C" fn(i32, f64) -> f64>("scale");
    /// assert_eq!(function.call((-3, 0.5))?, -1.5);
    /// # Ok::<(), farcall::Error>(())
    /// ```
    pub fn with_signature(
        signature: &Signature,
        function: impl Fn(&[Value]) -> std::result::Result<Value, Box<dyn StdError + Send + Sync>>
        + Send
        + Sync
        + 'static,
    ) -> Result<Self> {
        let refuse = |what: &str| Err(Error::invalid(format!("{signature}: {what}")));
        let parameters = signature.parameters().to_vec();
        if parameters.len() > TYPED_ARGUMENTS_MAX {
            return refuse(&format!("a handler has at most {TYPED_ARGUMENTS_MAX} parameters"));
        }
        let mut kinds = Vec::new();
        for kind in parameters.iter().chain(signature.result()) {
            kinds.push(match kind {
                Type::F32 | Type::F64 => Kind::Float,
                Type::V128 | Type::Struct(_) | Type::Array(..) => {
                    return refuse("a handler takes and returns numbers and pointers");
                }
                _ => Kind::Integer,
            });
        }
        kinds.truncate(parameters.len());
        let due = signature.result().cloned();
        Ok(Self::of(kinds, move |args, result| {
            let mut arguments = Arguments::read(args, parameters.len())?;
            let value = |kind: &Type| {
                let word = arguments.word().to_le_bytes();
                Value::from_bytes(kind, word.get(..kind.bytes()).unwrap_or_default())
            };
            let values = parameters.iter().map(value).collect::<Result<Vec<_>>>()?;
            let returned = function(&values)?;
            if let Some(kind) = &due {
                let extension = if returned.is_negative() { 0xff } else { 0 };
                let mut word = [extension; WORD_BYTES];
                let bytes = returned.to_bytes(kind)?;
                word[..bytes.len()].copy_from_slice(&bytes);
                result.extend_from_slice(&word);
            } else {
                result.extend_from_slice(&[0; WORD_BYTES]);
            }
            Ok(())
        }))
    }
}

impl ObjectLayer {
    /// As [`Library::define_handler`](crate::controller::Library::define_handler), for the dylib of a tracker.
    /// A look-up of the name makes the code. The handler is dropped when the tracker is removed.
    ///
    /// # Errors
    ///
    /// As [`ObjectLayer::add`], and when the executor does not offer calls of handlers.
    ///
    /// # Examples
    ///
    /// ```standalone_crate
    /// # farcall::executor::run_if_spawned();
    /// # let process = farcall::controller::ExecutorBuilder::new().this_program().start()?.process()?;
    /// use farcall::orc::{ObjectLayer, ProcessSymbols};
    /// use farcall::orc::ExecutionSession;
    /// let session = ExecutionSession::new();
    /// let layer = ObjectLayer::new(&session, &process);
    /// let main = session.create_dylib("main")?;
    /// main.add_generator(ProcessSymbols::new(&process))?;
    /// layer.define_handler(&main.default_tracker()?, "half", |value: i32| value / 2)?;
    /// let half = process.function::<extern "C" fn(i32) -> i32>(main.lookup("half")?.address);
    /// assert_eq!(half.call((42,))?, 21);
    /// # Ok::<(), farcall::Error>(())
    /// ```
    pub fn define_handler<M>(
        &self,
        tracker: &ResourceTracker,
        name: &str,
        handler: impl IntoHandler<M>,
    ) -> Result<()> {
        let Handler { function, kinds, status, .. } = handler.into_handler();
        let session = self.session();
        if status.is_none() {
            session.lazy.announce(session.remote())?;
        }
        let function = Box::new(move |args: &[u8], result: &mut Vec<u8>| function(args, result));
        let callbacks = session.remote().opener().callbacks();
        let (handler, tag) = DefinedHandler::new(callbacks, function);
        let stub = stub(name, &Head::new(tag.get(), status, &kinds))?;
        self.add_with(tracker, &stub, vec![handler])
    }
}

/// The object of a stub.
fn stub(name: &str, head: &Head) -> Result<ObjectFile> {
    handler_object(Processor::HOST, name, &head.constants(name), CALL_HANDLER)
}

impl Dylib {
    /// Defines a C function that calls a handler of this process, for lookups and for objects that the dylib links. It takes the
    /// handler's parameters and returns its result. The next link makes its code.
    ///
    /// The handler belongs to the dylib, and so it must not own the session: it holds a
    /// [`WeakProcess`](crate::controller::WeakProcess). Clearing the dylib drops it.
    ///
    /// # Errors
    ///
    /// When the dylib defines the name already, or the executor does not offer calls of handlers.
    ///
    /// # Examples
    ///
    /// ```standalone_crate
    /// # farcall::executor::run_if_spawned();
    /// # let executor = farcall::controller::ExecutorBuilder::new().this_program().start()?;
    /// # let process = executor.process()?;
    /// use std::ffi::CStr;
    ///
    /// let library = executor.library("main");
    /// // extern void log(double x, const char *text);
    /// library.define_handler("log", |x: f64, text: &CStr| println!("{x} {}", text.to_string_lossy()))?;
    /// # let log = library.function::<extern "C" fn(f64, farcall::ExecutorAddr)>("log");
    /// # let mut text = process.buffer(8)?;
    /// # text.write(0, b"texts\0");
    /// # log.call((1.5, text.address()))?;
    /// # Ok::<(), farcall::Error>(())
    /// ```
    pub(crate) fn define_handler<M>(&self, name: &str, handler: impl IntoHandler<M>) -> Result<()> {
        let Handler { function, kinds, status, .. } = handler.into_handler();
        let session = self.session();
        if status.is_none() {
            session.lazy.announce(session.remote())?;
        }
        self.add_handler(name, Box::new(move |args, result| function(args, result)), |tag| {
            stub(name, &Head::new(tag, status, &kinds))
        })
    }
}

impl<R> IntoHandler<Handler<R>> for Handler<R> {
    type Result = R;

    fn into_handler(self) -> Handler<R> {
        self
    }
}

impl<R> IntoHandler<Handler<R>> for &Handler<R> {
    type Result = R;

    fn into_handler(self) -> Handler<R> {
        self.clone()
    }
}

macro_rules! handlers {
    ($($held:ident: $parameter:ident),*) => {
        impl<F, O, $($parameter: Parameter),*> IntoHandler<fn($($parameter),*) -> O> for F
        where
            O: Outcome,
            F: Fn($($parameter),*) -> O + Send + Sync + 'static,
            F: for<'a> Fn($($parameter::Item<'a>),*) -> O,
        {
            type Result = O::Value;

            fn into_handler(self) -> Handler<O::Value> {
                /// The function has two types, of which this names one.
                #[inline]
                #[allow(clippy::too_many_arguments, reason = "a parameter for each one of the handler")]
                fn call<O, $($parameter),*>(
                    function: &impl Fn($($parameter),*) -> O
                    $(, $held: $parameter)*
                ) -> O {
                    function($($held),*)
                }
                let kinds = vec![$($parameter::KIND),*];
                let count = kinds.len();
                Handler::of(kinds, move |args, result| {
                    #[allow(unused_mut, unused_variables, reason = "without parameters there is nothing to take")]
                    let mut arguments = Arguments::read(args, count)?;
                    $(let $held = $parameter::take(&mut arguments)?;)*
                    let word = call(&self $(, $parameter::lend(&$held))*).finish()?;
                    result.extend_from_slice(&word.to_le_bytes());
                    Ok(())
                })
            }
        }
    };
}

handlers!();
handlers!(a: A);
handlers!(a: A, b: B);
handlers!(a: A, b: B, c: C);
handlers!(a: A, b: B, c: C, d: D);
handlers!(a: A, b: B, c: C, d: D, e: E);
handlers!(a: A, b: B, c: C, d: D, e: E, f: G);
handlers!(a: A, b: B, c: C, d: D, e: E, f: G, g: H);
handlers!(a: A, b: B, c: C, d: D, e: E, f: G, g: H, h: I);
handlers!(a: A, b: B, c: C, d: D, e: E, f: G, g: H, h: I, i: J);
handlers!(a: A, b: B, c: C, d: D, e: E, f: G, g: H, h: I, i: J, j: K);
handlers!(a: A, b: B, c: C, d: D, e: E, f: G, g: H, h: I, i: J, j: K, k: L);
handlers!(a: A, b: B, c: C, d: D, e: E, f: G, g: H, h: I, i: J, j: K, k: L, l: M);
handlers!(a: A, b: B, c: C, d: D, e: E, f: G, g: H, h: I, i: J, j: K, k: L, l: M, m: N);
handlers!(a: A, b: B, c: C, d: D, e: E, f: G, g: H, h: I, i: J, j: K, k: L, l: M, m: N, n: P);
handlers!(
    a: A, b: B, c: C, d: D, e: E, f: G, g: H, h: I, i: J, j: K, k: L, l: M, m: N, n: P, o: Q
);
handlers!(
    a: A, b: B, c: C, d: D, e: E, f: G, g: H, h: I, i: J, j: K, k: L, l: M, m: N, n: P, o: Q, p: S
);

impl<R> Clone for Handler<R> {
    fn clone(&self) -> Self {
        let (function, kinds) = (Arc::clone(&self.function), Arc::clone(&self.kinds));
        Self { function, kinds, status: self.status, result: PhantomData }
    }
}

impl<R> fmt::Debug for Handler<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handler")
            .field("parameters", &self.kinds)
            .field("status", &self.status)
            .finish_non_exhaustive()
    }
}
