//! The caller's side: an isolated function, and the executor that it shares with others.

use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;
use std::sync::{Arc, OnceLock};

use super::entry::{self, Arguments, Entry};
use super::message::{Reader, Writer};
use super::options::Options;
use super::program;
use crate::call::typed::HEAD_BYTES;
use crate::controller::calls::FunctionType;
use crate::controller::calls::function_type::Form;
use crate::controller::{CallOptions, Function, Library, OnDeadline};
use crate::error::{ErrorKind, Result};
use crate::executor::WrapperFunctionBuffer;
use crate::sync::Mutex;
use crate::sys::process::per_process::PerProcess;
use crate::types::Signature;
use crate::types::abi::Shape;

/// An isolated function with results of type `R`. The attribute makes one for each, as a static.
#[doc(hidden)]
pub struct Isolated<R: 'static> {
    name: &'static str,
    entry: Entry,
    options: Options,
    /// Found at the first call.
    function: OnceLock<Function<Isolate<R>>>,
    read: Read<R>,
}

/// The type of functions whose result an attribute reads.
pub(super) struct Isolate<R>(PhantomData<fn() -> R>);

/// How an attribute reads a result.
type Read<R> = fn(&mut Reader<'_>) -> Result<R>;

/// The executors of this process by their options: for each the library in which isolated functions have names, once it was started.
type Executors = Mutex<Vec<(Options, Arc<Mutex<Option<Library>>>)>>;

static EXECUTORS: PerProcess<Executors> = PerProcess::new();

/// The options of the executor that this process is, once it has served a call.
static OWN_OPTIONS: OnceLock<Options> = OnceLock::new();

thread_local! {
    /// The memory of the last message, for the next one.
    static MEMORY: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

impl<R> Isolated<R> {
    /// A function by its wrapper function, with its name for messages.
    pub const fn new(name: &'static str, entry: Entry, options: Options, read: Read<R>) -> Self {
        Self { name, entry, options, function: OnceLock::new(), read }
    }

    /// Calls the function with the arguments that `write` writes.
    #[inline]
    pub fn call(&self, write: impl FnOnce(&mut Writer)) -> Result<R> {
        with_writer(|writer| {
            write(writer);
            writer.finish().and_then(|arguments| self.call_bytes(arguments))
        })
    }

    /// Calls the function whose only argument is these bytes.
    #[inline]
    pub fn call_bytes(&self, argument: &[u8]) -> Result<R> {
        let function = self.function()?;
        match self.options.timeout() {
            None => function.call(argument),
            Some(timeout) => {
                let options = CallOptions::new().timeout(timeout);
                function.call_with(&options.on_deadline(OnDeadline::Kill), argument)
            }
        }
    }

    /// Submits a call of an asynchronous function.
    pub async fn submit(&self, write: impl FnOnce(&mut Writer)) -> Result<R> {
        let pending = with_writer(|writer| {
            write(writer);
            writer.finish().and_then(|arguments| self.function()?.submit(arguments))
        });
        pending?.await
    }

    #[inline]
    fn function(&self) -> Result<&Function<Isolate<R>>> {
        match self.function.get() {
            Some(function) => Ok(function),
            None => self.find(),
        }
    }

    /// Finds the function in the executor with its options, which is started first if there is none.
    ///
    /// # Errors
    ///
    /// When the executor cannot be started, or runs another program. The next call tries again.
    #[cold]
    fn find(&self) -> Result<&Function<Isolate<R>>> {
        let place = place(self.options.of_executor());
        // Other threads wait until the executor runs, and the name is defined in each of its processes.
        let mut started = place.lock();
        if let Some(function) = self.function.get() {
            return Ok(function);
        }
        let library = match &mut *started {
            Some(library) => library,
            none => {
                program::check()?;
                none.insert(self.options.builder().start()?.library("isolated functions"))
            }
        };
        let address = self.entry as usize as u64;
        // Two crates may have functions of one name.
        let name = format!("{} {address:#x}", self.name);
        match library.define_in_each(&name, move |process| program::address_in(process, address)) {
            // An earlier call has defined it, and then failed in one of several processes.
            Err(error) if error.kind() == ErrorKind::DuplicateDefinition => {}
            outcome => outcome?,
        }
        Ok(self.function.get_or_init(|| library.function_of(name, self.read)))
    }

    /// Refuses a call within an executor that may do more than the function may.
    ///
    /// # Errors
    ///
    /// When the executor has more rights or more memory than the options of the function say.
    #[inline]
    pub fn check_within(&self) -> Result<()> {
        // A constructor may call before the first call is served. It runs with the rights of the program.
        OWN_OPTIONS.get().map_or(Ok(()), |own| self.options.check_within(own))
    }

    /// In the executor: reads the arguments, calls the function, and writes its result. A panic is an error for the caller.
    pub fn serve<'a>(
        &self,
        arguments: Arguments<'a>,
        function: impl FnOnce(&mut Reader<'a>, &mut Writer) -> Result<()>,
    ) -> WrapperFunctionBuffer {
        OWN_OPTIONS.get_or_init(|| self.options.of_executor());
        entry::serve(self.name, arguments, function)
    }
}

/// The place of the executor with these options.
fn place(options: Options) -> Arc<Mutex<Option<Library>>> {
    let mut executors = EXECUTORS.get().lock();
    let known = executors.iter().find(|(started, _)| *started == options);
    if let Some((_, place)) = known {
        return Arc::clone(place);
    }
    let place = Arc::default();
    executors.push((options, Arc::clone(&place)));
    place
}

/// Writes a message with the memory of the thread's last one. In a destructor of a thread-local that memory may be gone.
#[inline]
fn with_writer<T>(work: impl FnOnce(&mut Writer) -> T) -> T {
    let mut writer = Writer::new(MEMORY.try_with(Cell::take).unwrap_or_default());
    let outcome = work(&mut writer);
    let _ = MEMORY.try_with(|memory| memory.set(writer.into_memory()));
    outcome
}

impl<R> fmt::Debug for Isolated<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, options, .. } = self;
        f.debug_struct("Isolated")
            .field("name", name)
            .field("options", options)
            .finish_non_exhaustive()
    }
}

impl<R> Form for Isolate<R> {
    type Form = Read<R>;

    fn shape(_: &Read<R>) -> Option<Shape> {
        None
    }

    fn prototype(_: &Read<R>) -> Option<Signature> {
        None
    }
}

impl<R> FunctionType for Isolate<R> {
    type Arguments<'a> = &'a [u8];
    type Result = R;

    #[inline]
    fn with_message<T>(
        _: &Read<R>,
        _: &[u8; HEAD_BYTES],
        arguments: &[u8],
        send: impl FnOnce(&[u8]) -> Result<T>,
    ) -> Result<T> {
        send(arguments)
    }

    #[inline]
    fn decode(read: &Read<R>, bytes: &[u8]) -> Result<R> {
        read(&mut Reader::new(bytes))
    }
}
