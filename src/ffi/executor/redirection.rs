//! Functions that are redirected from one implementation to the next.

use std::ffi::c_char;
use std::sync::Arc;

use farcall::controller;

use super::buffer::{Out, required_text};
use super::error::Error;
use super::library::{Library, LiveLibrary};
use super::object::{self, Number, Object};

/// A function of a library that is redirected from one implementation to the next, while the program runs. In a next process it leads
/// to the latest one from the start. A number, as farcall_executor is one.
#[derive(Debug)]
pub struct Redirection {
    /// No value of this type exists: its address is a number.
    _nobody: std::convert::Infallible,
}

struct LiveRedirection(controller::Redirection);

impl Object for LiveRedirection {
    type Handle = Redirection;
    const WHAT: &'static str = "redirection";
}

/// Defines name in a library as a function that can be redirected, for look-ups and for objects that are linked later. At first it
/// leads to the function symbol of the library of, which belongs to the same executor.
///
/// # Safety
///
/// The name and the symbol must be texts, and redirection writable.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn farcall_redirection_create(
    library: *mut Library,
    name: *const c_char,
    of: *mut Library,
    symbol: *const c_char,
    redirection: *mut *mut Redirection,
) -> *mut Error {
    // SAFETY: the caller vouches that the pointer is writable.
    Out::stored(unsafe { Out::new(redirection, "redirection", std::ptr::null_mut()) }, || {
        let library = object::find::<LiveLibrary>(library)?;
        let of = object::find::<LiveLibrary>(of)?;
        // SAFETY: the caller vouches for the texts.
        let name = unsafe { required_text(name, "name") }?;
        // SAFETY: as above.
        let symbol = unsafe { required_text(symbol, "symbol") }?;
        let made = library.library.create_redirection(name, &of.library, symbol)?;
        let owner = library.of.number;
        Number::new().name(Some(owner), Arc::new(LiveRedirection(made)))
    })
}

/// Redirects the function to symbol of the library of, for each call that begins later on any thread. Links of first. If that fails,
/// nothing has changed.
///
/// # Safety
///
/// The symbol must be a text.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn farcall_redirection_redirect(
    redirection: *mut Redirection,
    of: *mut Library,
    symbol: *const c_char,
) -> *mut Error {
    object::with::<LiveRedirection>(redirection, |live| {
        let of = object::find::<LiveLibrary>(of)?;
        // SAFETY: the caller vouches for the text.
        live.0.redirect(&of.library, unsafe { required_text(symbol, "symbol") }?)
    })
}

/// As farcall_redirection_redirect. Then forgets what was added to the library old. Its code is removed from each process, when the calls
/// that are under way now have left it.
///
/// # Safety
///
/// The symbol must be a text.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn farcall_redirection_redirect_and_remove(
    redirection: *mut Redirection,
    of: *mut Library,
    symbol: *const c_char,
    old: *mut Library,
) -> *mut Error {
    object::with::<LiveRedirection>(redirection, |live| {
        let (of, old) = (object::find::<LiveLibrary>(of)?, object::find::<LiveLibrary>(old)?);
        // SAFETY: the caller vouches for the text.
        let symbol = unsafe { required_text(symbol, "symbol") }?;
        live.0.redirect_and_remove(&of.library, symbol, &old.library)
    })
}

/// Removes the function from each process, and forgets it. Linked code should call it no more: it crashes at address 0 then. Frees the
/// redirection. May be NULL: redirection.
#[unsafe(no_mangle)]
#[must_use]
pub extern "C" fn farcall_redirection_remove(redirection: *mut Redirection) -> *mut Error {
    Error::of_given(redirection, || object::remove::<LiveRedirection>(redirection)?.0.remove())
}

/// Frees the handle of a redirection. The function stays. May be NULL: redirection.
#[unsafe(no_mangle)]
#[must_use]
pub extern "C" fn farcall_redirection_dispose(redirection: *mut Redirection) -> *mut Error {
    object::dispose::<LiveRedirection>(redirection)
}
