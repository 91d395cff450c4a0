//! Links of single objects, for a host with a symbol table of its own.

use std::ffi::{c_char, c_void};
use std::sync::Arc;

use farcall::ExecutorAddr;
use farcall::orc::HostLink;

use super::buffer::{Out, array, required_text};
use super::call_options::CallOptions;
use super::error::{Error, invalid};
use super::files::object_of;
use super::host::Context;
use super::life::{LiveProcess, Process};
use super::object::{self, Number, Object};
use super::text::c_text;

/// A link of one object for a host that has a symbol table of its own, as LLVM's session. Others do best with a library
/// (farcall_library_create). A number, as farcall_executor is one. It belongs to the process.
///
/// The host takes the link from step to step, on any thread:
///
/// 1. farcall_link_create reads the object. Weak definitions that the host has from elsewhere are defined now (farcall_link_define).
/// 2. farcall_link_each_reference: the host defines the names that it has.
/// 3. farcall_link_place: now the definitions have addresses (farcall_link_each_definition).
/// 4. farcall_link_locate tells the addresses that were not known in step 2.
/// 5. farcall_link_finish: the next call may run the code.
///
/// So links may refer to each other in a circle. A step that fails ends the link and frees its memory; the handle is to be removed
/// (farcall_link_remove). A step out of its turn is FARCALL_INVALID, and changes nothing.
#[derive(Debug)]
pub struct Link {
    /// No value of this type exists: its address is a number.
    _nobody: std::convert::Infallible,
}

/// A name that the object of a link defines for others.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct LinkDefinition {
    /// The name, which lives until the visit returns.
    pub name: *const c_char,
    /// Its address; 0 before the object is placed. That of a thread-local is a number for farcall_link_define alone.
    pub address: u64,
    /// True for a function.
    pub is_callable: bool,
    /// True if a definition elsewhere may take its place.
    pub is_weak: bool,
    /// True if only objects of the same dylib may use it.
    pub is_hidden: bool,
}

/// A name that the object of a link refers to.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct LinkReference {
    /// The name, which lives until the visit returns.
    pub name: *const c_char,
    /// True if the host need not define it.
    pub is_weak: bool,
    /// True for a thread-local, whose address is to be told before the object is placed.
    pub is_thread_local: bool,
}

/// Receives a definition of a link.
pub type VisitDefinition =
    Option<unsafe extern "C" fn(definition: *const LinkDefinition, context: *mut c_void)>;

/// Receives a reference of a link.
pub type VisitReference =
    Option<unsafe extern "C" fn(reference: *const LinkReference, context: *mut c_void)>;

struct LiveLink(HostLink);

impl Object for LiveLink {
    type Handle = Link;
    const WHAT: &'static str = "link";
}

/// Begins a link of an ELF object from memory, of which this function makes a copy. Its name appears in messages. If is_debuggable is
/// true, debuggers of the executor see its debug information.
///
/// # Safety
///
/// The name must be a text, the bytes readable, and link writable.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn farcall_link_create(
    process: *mut Process,
    name: *const c_char,
    data: *const c_void,
    size: usize,
    is_debuggable: bool,
    link: *mut *mut Link,
) -> *mut Error {
    // SAFETY: the caller vouches that the pointer is writable.
    Out::stored(unsafe { Out::new(link, "link", std::ptr::null_mut()) }, || {
        let live = object::find::<LiveProcess>(process)?;
        // SAFETY: the caller vouches for the text and the bytes.
        let object = unsafe { object_of(name, data, size) }?;
        let link = HostLink::with_debug_objects(&live.process, &object, is_debuggable)?;
        Number::new().name(Some(live.number), Arc::new(LiveLink(link)))
    })
}

/// Calls visit for each name that the object defines for others, on this thread, before the link is finished.
#[unsafe(no_mangle)]
#[must_use]
pub extern "C" fn farcall_link_each_definition(
    link: *mut Link,
    visit: VisitDefinition,
    context: *mut c_void,
) -> *mut Error {
    object::with::<LiveLink>(link, |link| {
        let visit = visit.ok_or_else(|| invalid("visit is NULL"))?;
        let context = Context::new(context);
        for one in link.0.definitions()? {
            let name = c_text(&one.name);
            let definition = LinkDefinition {
                name: name.as_ptr(),
                address: one.address.get(),
                is_callable: one.callable,
                is_weak: one.weak,
                is_hidden: one.hidden,
            };
            // SAFETY: the host gave the function and its context for this.
            unsafe { visit(&raw const definition, context.get()) };
        }
        Ok(())
    })
}

/// Calls visit for each name that the object needs from elsewhere, on this thread, before the object is placed. Call it when the weak
/// definitions from elsewhere are defined.
#[unsafe(no_mangle)]
#[must_use]
pub extern "C" fn farcall_link_each_reference(
    link: *mut Link,
    visit: VisitReference,
    context: *mut c_void,
) -> *mut Error {
    object::with::<LiveLink>(link, |link| {
        let visit = visit.ok_or_else(|| invalid("visit is NULL"))?;
        let context = Context::new(context);
        for one in link.0.references()? {
            let name = c_text(&one.name);
            let reference = LinkReference {
                name: name.as_ptr(),
                is_weak: one.weak,
                is_thread_local: one.thread,
            };
            // SAFETY: the host gave the function and its context for this.
            unsafe { visit(&raw const reference, context.get()) };
        }
        Ok(())
    })
}

/// Defines a name as the host's. A weak definition of the object is dropped then. The address is any one of the executor, or a
/// thread-local's of another link. It is 0 if farcall_link_locate will tell it. is_callable is true for a function.
///
/// # Safety
///
/// The name must be a text.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn farcall_link_define(
    link: *mut Link,
    name: *const c_char,
    address: u64,
    is_callable: bool,
) -> *mut Error {
    object::with::<LiveLink>(link, |link| {
        // SAFETY: the caller vouches for the text.
        let name = unsafe { required_text(name, "name") }?;
        let address = (address != 0).then_some(ExecutorAddr::new(address));
        link.0.define(name, address, is_callable)
    })
}

/// Lays the object out and allocates its memory. Sends one message if it refers to thread-locals that the host has not defined.
/// FARCALL_LINK or FARCALL_SYMBOLS names what is missing.
#[unsafe(no_mangle)]
#[must_use]
pub extern "C" fn farcall_link_place(link: *mut Link) -> *mut Error {
    object::with::<LiveLink>(link, |link| link.0.place())
}

/// Tells the address of a name that was defined without one.
///
/// # Safety
///
/// The name must be a text.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn farcall_link_locate(
    link: *mut Link,
    name: *const c_char,
    address: u64,
) -> *mut Error {
    object::with::<LiveLink>(link, |link| {
        // SAFETY: the caller vouches for the text.
        let name = unsafe { required_text(name, "name") }?;
        link.0.locate(name, ExecutorAddr::new(address))
    })
}

/// Makes the code usable, and stores whether it has initializers. Its registration is posted ahead of the next call, which fails if that
/// fails. In this process (in_process) it has run when this function returns, so pointers to the code may be used.
///
/// # Safety
///
/// has_initializers must be writable.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn farcall_link_finish(
    link: *mut Link,
    has_initializers: *mut bool,
) -> *mut Error {
    // SAFETY: the caller vouches that the pointer is writable.
    Out::stored(unsafe { Out::new(has_initializers, "has_initializers", false) }, || {
        let link = object::find::<LiveLink>(link)?;
        link.0.finish()?;
        Ok(link.0.has_initializers())
    })
}

/// Runs the initializers (static constructors) of a finished link, once, as a call with these options. May be NULL: options.
///
/// # Safety
///
/// The options must be readable.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn farcall_link_initialize(
    link: *mut Link,
    options: *const CallOptions,
) -> *mut Error {
    object::with::<LiveLink>(link, |link| {
        // SAFETY: the caller vouches for the options.
        unsafe { CallOptions::with(options, |options| link.0.initialize(options)) }
    })
}

/// Runs the exit handlers and finalizers of a finished link now. Otherwise farcall_link_remove does.
#[unsafe(no_mangle)]
#[must_use]
pub extern "C" fn farcall_link_deinitialize(link: *mut Link) -> *mut Error {
    object::with::<LiveLink>(link, |link| link.0.deinitialize())
}

/// Removes the code of links of one process, whatever their step: runs exit handlers, and frees the memory and the handles. None of the
/// code may be running. Sends one message for all at most. May be NULL: links.
///
/// # Safety
///
/// The links must be readable.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn farcall_link_remove(links: *const *mut Link, count: usize) -> *mut Error {
    Error::of(|| {
        // SAFETY: the caller vouches for the links.
        let links = unsafe { array(links, count) }?;
        let removed = links.iter().map(|link| object::remove::<LiveLink>(*link));
        let (mut all, mut outcome) = (Vec::new(), Ok(()));
        for one in removed {
            match one {
                Ok(link) => all.push(link),
                Err(error) => outcome = Err(error),
            }
        }
        HostLink::remove(all.iter().map(|link| &link.0)).and(outcome)
    })
}
