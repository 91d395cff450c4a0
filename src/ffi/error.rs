//! Errors, which C has by reference.
//!
//! Invariant: [`code_of`] alone says which kind of error has which code.

use std::ffi::{CStr, CString, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};

use farcall::ErrorKind;

use super::facts::{Fact, Facts};
use super::text::{c_text, malloced, text};

/// What kind of error it is.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorCode {
    /// No error.
    Ok = 0,
    /// The executor's process has ended; farcall_error_facts says how.
    Died = 1,
    /// The session or the connection is over.
    Disconnected = 2,
    /// A call did not return in time, and could not be interrupted. It still runs, and its result will be dropped.
    Timeout = 3,
    /// The other side ran the request, and answered with an error.
    Remote = 4,
    /// An object or an archive cannot be linked. The message says what to change.
    Link = 5,
    /// Symbols are missing, defined twice, or could not be supplied.
    Symbols = 6,
    /// Memory, lanes, or the size of a message ran out. The message names the limit.
    Limit = 7,
    /// The other side broke the protocol, and the session is over.
    Violation = 8,
    /// The caller's own arguments were refused: NULL, a handle that is not live, a number out of range.
    Invalid = 9,
    /// An argument has another type than the function's parameter.
    Type = 10,
    /// The operating system refused.
    System = 11,
    /// farcall_error_create made the error, or a function of the host.
    Host = 12,
    /// The library has a defect. Please report the message.
    Internal = 13,
    /// The call was ended, and its process runs on; farcall_error_facts says where it was.
    Interrupted = 14,
}

/// The reason of a failure. The receiver owns it, and hands it on or frees it.
#[derive(Debug)]
pub struct Error {
    error: farcall::Error,
    code: ErrorCode,
    /// The texts that C sees while the error lives.
    message: CString,
    facts: Facts,
}

/// The code of a kind of error.
fn code_of(kind: ErrorKind) -> ErrorCode {
    match kind {
        ErrorKind::Died => ErrorCode::Died,
        ErrorKind::Disconnected | ErrorKind::ThreadGone => ErrorCode::Disconnected,
        ErrorKind::Timeout => ErrorCode::Timeout,
        ErrorKind::Interrupted => ErrorCode::Interrupted,
        ErrorKind::Remote => ErrorCode::Remote,
        ErrorKind::Link => ErrorCode::Link,
        ErrorKind::SymbolsNotFound
        | ErrorKind::DuplicateDefinition
        | ErrorKind::FailedToMaterialize
        | ErrorKind::MissingSymbolDefinitions
        | ErrorKind::UnexpectedSymbolDefinitions
        | ErrorKind::SymbolsCouldNotBeRemoved
        | ErrorKind::UnsatisfiedSymbolDependencies => ErrorCode::Symbols,
        ErrorKind::Exhausted => ErrorCode::Limit,
        ErrorKind::Violation => ErrorCode::Violation,
        ErrorKind::InvalidArgument | ErrorKind::TrackerDefunct | ErrorKind::DylibDefunct => {
            ErrorCode::Invalid
        }
        ErrorKind::TypeMismatch => ErrorCode::Type,
        ErrorKind::Os => ErrorCode::System,
        ErrorKind::Other => ErrorCode::Host,
        _ => ErrorCode::Internal,
    }
}

/// The error for arguments that C got wrong.
pub(super) fn invalid(message: impl std::fmt::Display) -> farcall::Error {
    farcall::Error::new(ErrorKind::InvalidArgument, message.to_string())
}

impl Error {
    /// The reference to an error that C gets.
    pub(super) fn give(error: farcall::Error) -> *mut Self {
        let code = code_of(error.kind());
        Self::give_as(error, code)
    }

    fn give_as(error: farcall::Error, code: ErrorCode) -> *mut Self {
        let message = c_text(&error.to_string());
        let facts = Facts::new(&error);
        Box::into_raw(Box::new(Self { error, code, message, facts }))
    }

    /// The reference that C gets for an outcome: NULL for success.
    pub(super) fn outcome(outcome: farcall::Result<()>) -> *mut Self {
        outcome.map_or_else(Self::give, |()| std::ptr::null_mut())
    }

    /// Does the work of a function, and returns what C gets for its outcome. A panic is an error.
    pub(super) fn of(work: impl FnOnce() -> farcall::Result<()>) -> *mut Self {
        match catch_unwind(AssertUnwindSafe(work)) {
            Ok(outcome) => Self::outcome(outcome),
            Err(panic) => {
                let said = panic.downcast_ref::<String>().map(String::as_str);
                let said = said.or_else(|| panic.downcast_ref::<&str>().copied());
                let message = format!("a defect of farcall: {}", said.unwrap_or("a panic"));
                Self::give_as(farcall::Error::other(message), ErrorCode::Internal)
            }
        }
    }

    /// As [`of`](Error::of), unless the handle is NULL, which needs no work.
    pub(super) fn of_given<T>(
        handle: *const T,
        work: impl FnOnce() -> farcall::Result<()>,
    ) -> *mut Self {
        if handle.is_null() { std::ptr::null_mut() } else { Self::of(work) }
    }

    /// The error that C gives back.
    ///
    /// # Safety
    ///
    /// C must have got it from here, and not given it back before.
    pub(super) unsafe fn take(error: *mut Self) -> Option<farcall::Error> {
        if error.is_null() {
            return None;
        }
        // SAFETY: the caller vouches for it.
        Some(unsafe { Box::from_raw(error) }.error)
    }

    /// # Safety
    ///
    /// C must have got it from here.
    unsafe fn look<'a>(error: *const Self) -> Option<&'a Self> {
        // SAFETY: the caller vouches for it, unless it is NULL.
        unsafe { error.as_ref() }
    }
}

/// An error of the host's own, with a copy of this message. May be NULL: message.
///
/// # Safety
///
/// The message must be a text.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn farcall_error_create(message: *const c_char) -> *mut Error {
    // SAFETY: the caller vouches for the text.
    let message = unsafe { text(message) };
    Error::give(farcall::Error::other(message))
}

/// The code of an error: FARCALL_OK for NULL. May be NULL: error.
///
/// # Safety
///
/// The error must be the caller's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_error_code_of(error: *const Error) -> ErrorCode {
    // SAFETY: the caller vouches for the error.
    unsafe { Error::look(error) }.map_or(ErrorCode::Ok, |error| error.code)
}

/// The message of an error, which belongs to the error. For NULL the message says that there is no error. May be NULL: error.
///
/// # Safety
///
/// The error must be the caller's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_error_message(error: *const Error) -> *const c_char {
    const SUCCESS: &CStr = c"success";
    // SAFETY: the caller vouches for the error.
    unsafe { Error::look(error) }.map_or(SUCCESS, |error| &error.message).as_ptr()
}

/// The facts about the executor's death or the call's interruption, and their number, if that is the reason of the error; otherwise NULL
/// and 0. What is unknown, or not so, is left out. The facts live as long as the error. May be NULL: error, count, the result.
///
/// | name | kind | what it is |
/// |---|---|---|
/// | exit_status | number | the status that the process gave to exit |
/// | signal | number | the signal that ended the process |
/// | status_unknown | flag | another part of this program has collected the exit status |
/// | fault_address | number | the address whose access faulted |
/// | program_counter | number | the instruction that was executing |
/// | location | text | the place of that instruction, as "function+0x12 (object.o)" |
/// | backtrace | list | the linked functions that had not returned, the innermost first |
/// | stack_overflow | flag | the fault lies at the end of a thread's stack |
/// | write_protected | flag | the fault was a write to memory that may not be written, as a constant |
/// | limit | text | the limit of the confinement that ended the process |
/// | cleanups_skipped | number | the functions with cleanups that an interrupted call has left without them |
/// | threads_started | number | the threads that an interrupted call has started by pthread_create, which run on |
///
/// An interrupted call has program_counter, location, cleanups_skipped and threads_started.
/// The exit status comes from the kernel, and mostly the signal as well.
/// The executor's process wrote the rest: take it as a hint. Later versions may have more facts.
///
/// # Safety
///
/// The error must be the caller's, and count writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_error_facts(
    error: *const Error,
    count: *mut usize,
) -> *const Fact {
    // SAFETY: the caller vouches for the error.
    let facts = unsafe { Error::look(error) }.map(|error| &error.facts.given[..]);
    let facts = facts.unwrap_or_default();
    if !count.is_null() {
        // SAFETY: the caller vouches that the pointer is writable.
        unsafe { count.write(facts.len()) };
    }
    if facts.is_empty() { std::ptr::null() } else { facts.as_ptr() }
}

/// The fact of this name about the executor's death or the call's interruption (farcall_error_facts); NULL if it is unknown, or
/// not so. May be NULL: error, the result.
///
/// # Safety
///
/// The error must be the caller's, and the name a text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_error_fact(
    error: *const Error,
    name: *const c_char,
) -> *const Fact {
    // SAFETY: the caller vouches for the error.
    let error = unsafe { Error::look(error) };
    if name.is_null() {
        return std::ptr::null();
    }
    // SAFETY: the caller vouches for the text.
    let name = unsafe { CStr::from_ptr(name) };
    let found = error.and_then(|error| error.facts.find(name));
    found.map_or(std::ptr::null(), std::ptr::from_ref)
}

/// The message of an error, to be freed with farcall_text_free. Takes the error. For NULL the message says that there is no
/// error. May be NULL: error.
///
/// # Safety
///
/// The error must be the caller's.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn farcall_error_to_string(error: *mut Error) -> *mut c_char {
    // SAFETY: the caller vouches for the error.
    let error = unsafe { Error::take(error) };
    let text = error.map_or_else(|| "success".to_owned(), |error| error.to_string());
    malloced(&text)
}

/// Frees an error. May be NULL: error.
///
/// # Safety
///
/// The error must be the caller's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_error_consume(error: *mut Error) {
    // SAFETY: the caller vouches for the error.
    drop(unsafe { Error::take(error) });
}

/// Ends the process if there is an error, after writing its message to standard error. No other function of this library ends the
/// process. May be NULL: error.
///
/// # Safety
///
/// The error must be the caller's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_error_cant_fail(error: *mut Error) {
    // SAFETY: the caller vouches for the error.
    if let Some(error) = unsafe { Error::take(error) } {
        eprintln!("farcall: {error}");
        std::process::abort();
    }
}

/// True when no further call can complete: the executor has died, or the session or the connection is over. May be NULL: error.
///
/// # Safety
///
/// The error must be the caller's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_error_is_disconnected(error: *const Error) -> bool {
    // SAFETY: the caller vouches for the error.
    unsafe { Error::look(error) }.is_some_and(|error| error.error.is_disconnected())
}
