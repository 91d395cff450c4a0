//! Functions, addresses and programs of libraries, and their end.

use std::ffi::{CStr, c_char, c_int};

use super::buffer::{Out, required_text, texts};
use super::error::{Error, invalid};
use super::library::{Library, LiveLibrary, with, with_name};
use super::object;
use super::process::{Function, LiveFunction, signature};

/// The counts of one link, and the times of its phases.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct LinkReport {
    /// Objects linked, archive members included.
    pub objects: u64,
    /// Sections that became part of the image.
    pub sections: u64,
    /// Relocations applied.
    pub relocations: u64,
    /// Bytes of the image, zero-fill included.
    pub bytes: u64,
    /// Time to search archives, and to read the members that are needed.
    pub pull_ns: u64,
    /// Time to look symbols up.
    pub look_up_ns: u64,
    /// Time to lay the image out, and to allocate its memory.
    pub layout_ns: u64,
    /// Time to make the image for its addresses.
    pub fixup_ns: u64,
    /// Time to store the image.
    pub transfer_ns: u64,
}

/// Makes a function of a name and a prototype, such as "double scale(long count, double unit)". A NULL name is that of the prototype. The
/// function is looked up when it is called first, in each process. May be NULL: name, declarations.
///
/// The text of declarations has the structures and typedefs that the prototype uses, each ended by a semicolon.
///
/// If the function has other types, the executor may crash; calls then return an error, or a number without meaning.
///
/// # Safety
///
/// The name, the declarations and the prototype must be texts, and function writable.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn farcall_library_function(
    library: *mut Library,
    name: *const c_char,
    declarations: *const c_char,
    prototype: *const c_char,
    function: *mut *mut Function,
) -> *mut Error {
    // SAFETY: the caller vouches that the pointer is writable.
    Out::stored(unsafe { Out::new(function, "function", std::ptr::null_mut()) }, || {
        let live = object::find::<LiveLibrary>(library)?;
        // SAFETY: the caller vouches for the texts.
        let signature = unsafe { signature(declarations, prototype) }?;
        let name = match name.is_null() {
            true => signature.name(),
            // SAFETY: as above.
            false => unsafe { required_text(name, "name") }?,
        };
        if name.is_empty() {
            return Err(invalid(format!("{signature}: a prototype without a name")));
        }
        let function = live.library.function_with(name, &signature)?;
        LiveFunction::give(function, live.of.number)
    })
}

/// Links the objects added since the last link, in the present process; look-ups and calls do so by themselves. If it fails, the added
/// objects are dropped, and earlier links stay. May be NULL: report.
///
/// # Safety
///
/// report must be writable.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn farcall_library_link(
    library: *mut Library,
    report: *mut LinkReport,
) -> *mut Error {
    with(library, |library| {
        // SAFETY: the caller vouches that the pointer is writable.
        let place = unsafe { Out::optional(report, "report", LinkReport::default()) }?;
        let found = library.link()?;
        let ns = |time: std::time::Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        if let Some(place) = place {
            place.write(LinkReport {
                objects: found.objects,
                sections: found.sections,
                relocations: found.relocations,
                bytes: found.bytes,
                pull_ns: ns(found.pull),
                look_up_ns: ns(found.look_up),
                layout_ns: ns(found.layout),
                fixup_ns: ns(found.fixup),
                transfer_ns: ns(found.transfer),
            });
        }
        Ok(())
    })
}

/// Opens the shared libraries that were added, now and not in the next link. FARCALL_LINK if one cannot be opened: then none of them
/// belongs to the next link.
#[unsafe(no_mangle)]
#[must_use]
pub extern "C" fn farcall_library_open_libraries(library: *mut Library) -> *mut Error {
    with(library, farcall::controller::Library::open_libraries)
}

/// Stores the address of a symbol in the present process. Links the added objects first. FARCALL_SYMBOLS names the symbols that are
/// missing.
///
/// # Safety
///
/// The name must be a text, and address writable.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn farcall_library_lookup(
    library: *mut Library,
    name: *const c_char,
    address: *mut u64,
) -> *mut Error {
    // SAFETY: the caller vouches that the pointer is writable.
    let place = unsafe { Out::new(address, "address", 0) };
    let look_up = |library: &farcall::controller::Library, name: &str| {
        place?.write(library.lookup(name)?.get());
        Ok(())
    };
    // SAFETY: the caller vouches for the text.
    unsafe { with_name(library, name, look_up) }
}

/// Runs the initializers (static constructors) of what was added so far and has not run them, also in each next process.
#[unsafe(no_mangle)]
#[must_use]
pub extern "C" fn farcall_library_initialize(library: *mut Library) -> *mut Error {
    with(library, farcall::controller::Library::initialize)
}

/// Runs the initializers that have not run, then main with these arguments, which NULL ends, the program's name first. Stores what
/// main returns. FARCALL_DIED if the program calls exit: the fact exit_status has it. FARCALL_INTERRUPTED if it is interrupted. May be
/// NULL: argv.
///
/// # Safety
///
/// The arguments must be texts, and result writable.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn farcall_library_run_main(
    library: *mut Library,
    argv: *const *const c_char,
    result: *mut c_int,
) -> *mut Error {
    let run = |library: &farcall::controller::Library, words: Vec<&[u8]>| library.run_main(words);
    // SAFETY: the caller vouches for the texts and the place.
    unsafe { run_with(library, argv, result, run) }
}

/// Runs the program with fresh data, as a process of its own would. Its variables get their initial values. Then the initializers run,
/// main, the exit handlers and the finalizers. Links nothing again. The program was linked after farcall_library_keep_initial_data. May
/// be NULL: argv.
///
/// # Safety
///
/// The arguments must be texts, and result writable.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn farcall_library_run_fresh(
    library: *mut Library,
    argv: *const *const c_char,
    result: *mut c_int,
) -> *mut Error {
    let run = |library: &farcall::controller::Library, words: Vec<&[u8]>| library.run_fresh(words);
    // SAFETY: the caller vouches for the texts and the place.
    unsafe { run_with(library, argv, result, run) }
}

/// Starts a program at code of its own instead of main, as the kernel starts one at _start, and stores its exit status. The process has
/// ended when this returns. May be NULL: argv.
///
/// # Safety
///
/// The entry and the arguments must be texts, and result writable.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn farcall_library_run_start(
    library: *mut Library,
    entry: *const c_char,
    argv: *const *const c_char,
    result: *mut c_int,
) -> *mut Error {
    let run = |library: &farcall::controller::Library, words: Vec<&[u8]>| {
        // SAFETY: the caller vouches for the text.
        library.run_start(unsafe { required_text(entry, "entry") }?, words)
    };
    // SAFETY: the caller vouches for the texts and the place.
    unsafe { run_with(library, argv, result, run) }
}

/// # Safety
///
/// The arguments must be texts, and result writable.
unsafe fn run_with(
    library: *mut Library,
    argv: *const *const c_char,
    result: *mut c_int,
    run: impl FnOnce(&farcall::controller::Library, Vec<&[u8]>) -> farcall::Result<c_int>,
) -> *mut Error {
    with(library, |library| {
        // SAFETY: the caller vouches that the pointer is writable.
        let place = unsafe { Out::new(result, "result", 0) }?;
        // SAFETY: the caller vouches for the texts.
        let words = unsafe { texts(argv) }.map(|word| word.map(CStr::to_bytes));
        place.write(run(library, words.collect::<farcall::Result<_>>()?)?);
        Ok(())
    })
}

/// Removes all code of a library from each process, and forgets what was added, redirected functions as well: runs exit handlers, and
/// frees the memory. None of the code may be running. FARCALL_INVALID if a redirected function of another library leads to this one:
/// nothing has changed then. The library stays, empty.
#[unsafe(no_mangle)]
#[must_use]
pub extern "C" fn farcall_library_clear(library: *mut Library) -> *mut Error {
    with(library, farcall::controller::Library::clear)
}
