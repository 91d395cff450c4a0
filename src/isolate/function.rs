//! The caller's side: an isolated function, and the executor that it shares with others.

use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;
use std::sync::OnceLock;

use super::entry::Entry;
use super::message::{Reader, Writer};
use super::options::Options;
use super::program;
use crate::call::typed::HEAD_BYTES;
use crate::controller::calls::FunctionType;
use crate::controller::calls::function_type::Form;
use crate::controller::{CallOptions, Executor, Function, Library, OnDeadline};
use crate::error::{ErrorKind, Result};
use crate::sync::Mutex;
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

/// An executor, and the library in which isolated functions have names.
type Started = (Options, Executor, Library);

/// The executors of this program, each with its options.
static EXECUTORS: Mutex<Vec<Started>> = Mutex::new(Vec::new());

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
        let mut writer = Writer::new(MEMORY.take());
        write(&mut writer);
        let outcome = writer.finish().and_then(|arguments| self.call_bytes(arguments));
        MEMORY.set(writer.into_memory());
        outcome
    }

    /// Calls the function whose only argument is these bytes.
    #[inline]
    pub fn call_bytes(&self, argument: &[u8]) -> Result<R> {
        let function = self.function()?;
        match self.options.timeout() {
            None => function.call(argument),
            Some(timeout) => {
                let options = CallOptions::new().timeout(timeout);
                function.call_with(&options.on_deadline(OnDeadline::InterruptOrKill), argument)
            }
        }
    }

    /// Submits a call of an asynchronous function.
    pub async fn submit(&self, write: impl FnOnce(&mut Writer)) -> Result<R> {
        let pending = {
            let mut writer = Writer::new(MEMORY.take());
            write(&mut writer);
            let pending = writer.finish().and_then(|arguments| self.function()?.submit(arguments));
            MEMORY.set(writer.into_memory());
            pending?
        };
        pending.await
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
        // Other threads wait until the name is defined in each process.
        let mut executors = EXECUTORS.lock();
        if let Some(function) = self.function.get() {
            return Ok(function);
        }
        let library = library(&mut executors, self.options.of_executor())?;
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
}

/// The library of the executor with these options, which is started if there is none.
fn library(executors: &mut Vec<Started>, options: Options) -> Result<Library> {
    if let Some((_, _, library)) = executors.iter().find(|(started, ..)| *started == options) {
        return Ok(library.clone());
    }
    let executor = options.builder()?.start()?;
    let library = executor.library("isolated functions");
    executors.push((options, executor, library.clone()));
    Ok(library)
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
