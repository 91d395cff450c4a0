//! Libraries, and what they contain.

use std::error::Error as StdError;
use std::ffi::{c_char, c_void};
use std::sync::Arc;

use farcall::{ExecutorAddr, controller};

use super::buffer::{Out, required_text};
use super::error::{Error, invalid};
use super::files::{archive_at, archive_of, object_at, object_of};
use super::host::Context;
use super::life::{Executor, LiveExecutor};
use super::object::{self, Number, Object};
use super::process::{LiveProcess, NamedHandler, Process, handler_of};

/// A set of objects in an executor: linked together, looked up, run and removed as a whole. A number, as farcall_executor is one.
///
/// What is added is there in each process of the executor, and in each next one, in the order in which it was added. An object that is
/// refused leaves the library as it was.
#[derive(Debug)]
pub struct Library {
    /// No value of this type exists: its address is a number.
    _nobody: std::convert::Infallible,
}

/// Makes the code of a function at its first call, and stores its address. The process is lent to this function. An error that it
/// returns belongs to the library: linked code is unwound, and the next call tries again. May be NULL: the result.
pub type Compile = Option<
    unsafe extern "C" fn(
        process: *mut Process,
        address: *mut u64,
        context: *mut c_void,
    ) -> *mut Error,
>;

pub(super) struct LiveLibrary {
    pub(super) library: controller::Library,
    pub(super) of: Arc<LiveExecutor>,
}

impl Object for LiveLibrary {
    type Handle = Library;
    const WHAT: &'static str = "library";
}

impl LiveLibrary {
    /// The pointer that C gets for a library.
    pub(super) fn give(
        library: controller::Library,
        of: Arc<LiveExecutor>,
    ) -> farcall::Result<*mut Library> {
        let owner = of.number;
        Number::new().name(Some(owner), Arc::new(Self { library, of }))
    }
}

/// Does something with a library.
pub(super) fn with(
    library: *mut Library,
    work: impl FnOnce(&controller::Library) -> farcall::Result<()>,
) -> *mut Error {
    object::with::<LiveLibrary>(library, |live| work(&live.library))
}

/// Does something with a library and a name.
///
/// # Safety
///
/// The name must be a text.
pub(super) unsafe fn with_name(
    library: *mut Library,
    name: *const c_char,
    work: impl FnOnce(&controller::Library, &str) -> farcall::Result<()>,
) -> *mut Error {
    // SAFETY: the caller vouches for the text.
    with(library, |library| work(library, unsafe { required_text(name, "name") }?))
}

/// Creates an empty library. Its name appears in messages.
///
/// # Safety
///
/// The name must be a text, and library writable.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn farcall_library_create(
    executor: *mut Executor,
    name: *const c_char,
    library: *mut *mut Library,
) -> *mut Error {
    // SAFETY: the caller vouches that the pointer is writable.
    Out::stored(unsafe { Out::new(library, "library", std::ptr::null_mut()) }, || {
        let live = object::find::<LiveExecutor>(executor)?;
        // SAFETY: the caller vouches for the text.
        let library = live.executor.library(unsafe { required_text(name, "name") }?);
        LiveLibrary::give(library, live)
    })
}

/// Frees the handle of a library. Its code stays, until the executor is closed. May be NULL: library.
#[unsafe(no_mangle)]
#[must_use]
pub extern "C" fn farcall_library_dispose(library: *mut Library) -> *mut Error {
    object::dispose::<LiveLibrary>(library)
}

/// Adds an ELF object from memory, of which this function makes a copy. Its name appears in messages. FARCALL_LINK if the library
/// defines a symbol of it already.
///
/// # Safety
///
/// The name must be a text, and the bytes readable.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn farcall_library_add_object(
    library: *mut Library,
    name: *const c_char,
    data: *const c_void,
    size: usize,
) -> *mut Error {
    // SAFETY: the caller vouches for the text and the bytes.
    with(library, |library| library.add_object(&unsafe { object_of(name, data, size) }?))
}

/// Adds an ELF object from a file, as farcall_library_add_object.
///
/// # Safety
///
/// The path must be a text.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn farcall_library_add_object_file(
    library: *mut Library,
    path: *const c_char,
) -> *mut Error {
    // SAFETY: the caller vouches for the text.
    with(library, |library| library.add_object(&unsafe { object_at(path) }?))
}

/// Adds an archive from memory, of which this function makes a copy. A link takes the members that define a missing symbol.
///
/// # Safety
///
/// The name must be a text, and the bytes readable.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn farcall_library_add_archive(
    library: *mut Library,
    name: *const c_char,
    data: *const c_void,
    size: usize,
) -> *mut Error {
    // SAFETY: the caller vouches for the text and the bytes.
    with(library, |library| library.add_archive(&unsafe { archive_of(name, data, size) }?))
}

/// Adds an archive from a file, as farcall_library_add_archive. A thin archive is read from the folder that it lies in.
///
/// # Safety
///
/// The path must be a text.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn farcall_library_add_archive_file(
    library: *mut Library,
    path: *const c_char,
) -> *mut Error {
    // SAFETY: the caller vouches for the text.
    with(library, |library| library.add_archive(&unsafe { archive_at(path) }?))
}

/// Makes the next link open a shared library in the executor, by file name or path as of dlopen. Look-ups find its symbols as well,
/// behind those of the library's own objects.
///
/// # Safety
///
/// The name must be a text.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn farcall_library_add_library(
    library: *mut Library,
    name: *const c_char,
) -> *mut Error {
    // SAFETY: the caller vouches for the text.
    unsafe { with_name(library, name, |library, name| library.add_library(name)) }
}

/// Makes the next link search the archives for a symbol that no object refers to, such as main.
///
/// # Safety
///
/// The name must be a text.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn farcall_library_want(
    library: *mut Library,
    name: *const c_char,
) -> *mut Error {
    // SAFETY: the caller vouches for the text.
    unsafe { with_name(library, name, |library, name| library.want(name)) }
}

/// Defines a name as an address of the present process, for look-ups and for objects that are linked later. A next process does not
/// have it: farcall_executor_establish can define it there. FARCALL_LINK if the library defines the name already.
///
/// # Safety
///
/// The name must be a text.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn farcall_library_define(
    library: *mut Library,
    name: *const c_char,
    address: u64,
) -> *mut Error {
    let address = ExecutorAddr::new(address);
    // SAFETY: the caller vouches for the text.
    unsafe { with_name(library, name, |library, name| library.define(name, address)) }
}

/// Defines a C function that calls a handler of this program, for linked code and for look-ups. The prototype says its name and
/// its types: numbers, bool and pointers, at most 16. declarations has the typedefs that the prototype uses.
///
/// Strings and arrays come as addresses of the executor, which farcall_process_read reads. The context must live until the executor is
/// closed, or the library is cleared and no call of the handler runs. May be NULL: declarations.
///
/// # Safety
///
/// The declarations and the prototype must be texts.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn farcall_library_define_handler(
    library: *mut Library,
    declarations: *const c_char,
    prototype: *const c_char,
    handler: NamedHandler,
    context: *mut c_void,
) -> *mut Error {
    with(library, |library| {
        // SAFETY: the caller vouches for the texts, the handler and its context.
        let (name, handler) = unsafe { handler_of(declarations, prototype, handler, context) }?;
        library.define_handler(&name, handler)
    })
}

/// Defines a function that compile makes at its first call, in each process. The context must live until the executor is closed.
///
/// # Safety
///
/// The name must be a text.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn farcall_library_create_lazy(
    library: *mut Library,
    name: *const c_char,
    compile: Compile,
    context: *mut c_void,
) -> *mut Error {
    object::with::<LiveLibrary>(library, |live| {
        // SAFETY: the caller vouches for the text.
        let name = unsafe { required_text(name, "name") }?;
        let compile = compile.ok_or_else(|| invalid("compile is NULL"))?;
        let (owner, context) = (live.of.number, Context::new(context));
        let dispatcher = Arc::clone(&live.of.dispatcher);
        live.library.create_lazy(name, move |process| {
            let mut address = 0;
            let compiled = LiveProcess::lend(process, owner, &dispatcher, |process| {
                // SAFETY: the host gave the function and its context for this.
                let error = unsafe { compile(process, &raw mut address, context.get()) };
                // SAFETY: the function gives its error.
                unsafe { Error::take(error) }.map_or(Ok(()), Err)
            });
            compiled.map_err(Box::<dyn StdError + Send + Sync>::from)?;
            Ok(ExecutorAddr::new(address))
        })
    })
}

/// Makes the library a program to shared libraries: its names come before theirs, as those of a native program do. Call it before the
/// first link, for one library of an executor.
#[unsafe(no_mangle)]
#[must_use]
pub extern "C" fn farcall_library_precede_libraries(library: *mut Library) -> *mut Error {
    with(library, controller::Library::precede_libraries)
}

/// Makes the links from now on a version of a program that shares variables with an earlier version, and with later ones. A variable that
/// the earlier version has under the same name, with the same size, keeps its address and its value. That holds for variables in sections
/// of their own, as -fdata-sections makes them. May be NULL: earlier.
#[unsafe(no_mangle)]
#[must_use]
pub extern "C" fn farcall_library_keep_variables(
    library: *mut Library,
    earlier: *mut Library,
) -> *mut Error {
    with(library, |library| {
        let earlier = match earlier.is_null() {
            true => None,
            false => Some(object::find::<LiveLibrary>(earlier)?),
        };
        library.keep_variables(earlier.as_ref().map(|earlier| &earlier.library))
    })
}

/// Makes links from now on keep a copy of their initial data, for farcall_library_run_fresh.
#[unsafe(no_mangle)]
#[must_use]
pub extern "C" fn farcall_library_keep_initial_data(library: *mut Library) -> *mut Error {
    with(library, controller::Library::keep_initial_data)
}

/// Has the prototypes of functions compared with the debug information of the objects that are linked from now on.
#[unsafe(no_mangle)]
#[must_use]
pub extern "C" fn farcall_library_check_types(library: *mut Library) -> *mut Error {
    with(library, controller::Library::check_types)
}
