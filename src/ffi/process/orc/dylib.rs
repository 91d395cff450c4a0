//! LLVM's dylibs and trackers: an object is linked when a symbol of it is looked up, and can be removed alone.

use std::ffi::{c_char, c_void};
use std::sync::Arc;

use farcall::ExecutorAddr;
use farcall::link::Archive;
use farcall::orc::{ArchiveMembers, JITDylib, ResourceTracker, Symbol};

use super::buffer::{Out, array, required_text};
use super::error::{Error, invalid};
use super::files::{archive_at, archive_of, object_at, object_of};
use super::life::{LiveProcess, Process};
use super::object::{self, Number, Object};

/// A set of linked code in one process, as LLVM's JITDylib. Most programs do best with a library (farcall_library_create). A number, as
/// farcall_executor is one.
///
/// An object is linked when a symbol of it is looked up, or referred to by such an object. Names are searched in this order: the
/// dylib, its archives, the dylibs of its link order, and the executor's process with its libraries.
#[derive(Debug)]
pub struct Dylib {
    /// No value of this type exists: its address is a number.
    _nobody: std::convert::Infallible,
}

/// Owns objects of a dylib, which are removed together. A number, as farcall_executor is one.
#[derive(Debug)]
pub struct Tracker {
    /// No value of this type exists: its address is a number.
    _nobody: std::convert::Infallible,
}

pub(super) struct LiveDylib {
    pub(super) live: Arc<LiveProcess>,
    dylib: JITDylib,
}

impl Object for LiveDylib {
    type Handle = Dylib;
    const WHAT: &'static str = "dylib";
}

pub(super) struct LiveTracker(ResourceTracker);

impl Object for LiveTracker {
    type Handle = Tracker;
    const WHAT: &'static str = "tracker";
}

/// Creates an empty dylib. Its name, which no other dylib of the process has, appears in messages.
///
/// # Safety
///
/// The name must be a text, and dylib writable.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn farcall_dylib_create(
    process: *mut Process,
    name: *const c_char,
    dylib: *mut *mut Dylib,
) -> *mut Error {
    // SAFETY: the caller vouches that the pointer is writable.
    Out::stored(unsafe { Out::new(dylib, "dylib", std::ptr::null_mut()) }, || {
        let live = object::find::<LiveProcess>(process)?;
        let orc = live.orc()?;
        // SAFETY: the caller vouches for the text.
        let dylib = orc.jit.create_dylib(unsafe { required_text(name, "name") }?)?;
        dylib.add_to_link_order(&orc.symbols)?;
        let number = live.number;
        Number::new().name(Some(number), Arc::new(LiveDylib { live, dylib }))
    })
}

/// Makes a dylib search another dylib of the same process, before the executor's process.
#[unsafe(no_mangle)]
#[must_use]
pub extern "C" fn farcall_dylib_add_to_link_order(
    dylib: *mut Dylib,
    other: *mut Dylib,
) -> *mut Error {
    Error::of(|| {
        let (dylib, other) = (object::find::<LiveDylib>(dylib)?, object::find::<LiveDylib>(other)?);
        if !Arc::ptr_eq(&dylib.live, &other.live) {
            return Err(invalid("the dylibs are of different processes"));
        }
        let mut order = dylib.dylib.link_order()?;
        if order.iter().all(|(one, _)| *one != other.dylib) {
            let flags = farcall::orc::JITDylibLookupFlags::MatchExportedSymbolsOnly;
            order.insert(order.len().saturating_sub(1), (other.dylib.clone(), flags));
        }
        dylib.dylib.set_link_order(&order)
    })
}

/// Adds an ELF object from memory, of which this function makes a copy. Its name appears in messages. The tracker owns it; NULL is the
/// dylib's default tracker. FARCALL_SYMBOLS if the dylib defines one of its symbols already. May be NULL: tracker.
///
/// # Safety
///
/// The name must be a text, and the bytes readable.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn farcall_dylib_add_object(
    dylib: *mut Dylib,
    tracker: *mut Tracker,
    name: *const c_char,
    data: *const c_void,
    size: usize,
) -> *mut Error {
    object::with::<LiveDylib>(dylib, |dylib| {
        let tracker = dylib.tracker(tracker)?;
        // SAFETY: the caller vouches for the text and the bytes.
        dylib.live.orc()?.layer.add(&tracker, &unsafe { object_of(name, data, size) }?)
    })
}

/// Adds an ELF object from a file, as farcall_dylib_add_object. May be NULL: tracker.
///
/// # Safety
///
/// The path must be a text.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn farcall_dylib_add_object_file(
    dylib: *mut Dylib,
    tracker: *mut Tracker,
    path: *const c_char,
) -> *mut Error {
    object::with::<LiveDylib>(dylib, |dylib| {
        let tracker = dylib.tracker(tracker)?;
        // SAFETY: the caller vouches for the text.
        dylib.live.orc()?.layer.add(&tracker, &unsafe { object_at(path) }?)
    })
}

/// Adds an archive from memory, of which this function makes a copy. Its members are linked when they define a missing symbol.
///
/// # Safety
///
/// The name must be a text, and the bytes readable.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn farcall_dylib_add_archive(
    dylib: *mut Dylib,
    name: *const c_char,
    data: *const c_void,
    size: usize,
) -> *mut Error {
    object::with::<LiveDylib>(dylib, |dylib| {
        // SAFETY: the caller vouches for the text and the bytes.
        dylib.add_archive(&unsafe { archive_of(name, data, size) }?)
    })
}

/// Adds an archive from a file, as farcall_dylib_add_archive. A thin archive is read from the folder that it lies in.
///
/// # Safety
///
/// The path must be a text.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn farcall_dylib_add_archive_file(
    dylib: *mut Dylib,
    path: *const c_char,
) -> *mut Error {
    object::with::<LiveDylib>(dylib, |dylib| {
        // SAFETY: the caller vouches for the text.
        dylib.add_archive(&unsafe { archive_at(path) }?)
    })
}

/// Defines a name as an address of the executor. FARCALL_SYMBOLS if the dylib defines the name already.
///
/// # Safety
///
/// The name must be a text.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn farcall_dylib_define(
    dylib: *mut Dylib,
    name: *const c_char,
    address: u64,
) -> *mut Error {
    object::with::<LiveDylib>(dylib, |dylib| {
        // SAFETY: the caller vouches for the text.
        let name = unsafe { required_text(name, "name") }?;
        let symbol = Symbol::exported(ExecutorAddr::new(address));
        dylib.dylib.define_absolute([(name, symbol)])
    })
}

/// Looks a symbol up, links the objects that it needs, and stores its address. FARCALL_SYMBOLS names the symbols that are missing.
///
/// # Safety
///
/// The name must be a text, and address writable.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn farcall_dylib_lookup(
    dylib: *mut Dylib,
    name: *const c_char,
    address: *mut u64,
) -> *mut Error {
    // SAFETY: the caller vouches that the pointer is writable.
    Out::stored(unsafe { Out::new(address, "address", 0) }, || {
        let dylib = object::find::<LiveDylib>(dylib)?;
        // SAFETY: the caller vouches for the text.
        let name = unsafe { required_text(name, "name") }?;
        Ok(dylib.dylib.lookup(name)?.address.get())
    })
}

/// Looks count symbols up at once, and stores their addresses in the order of the names. Stores all or none. May be NULL: names,
/// addresses.
///
/// # Safety
///
/// The names must be texts, and there must be as many writable addresses.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn farcall_dylib_lookup_many(
    dylib: *mut Dylib,
    names: *const *const c_char,
    count: usize,
    addresses: *mut u64,
) -> *mut Error {
    object::with::<LiveDylib>(dylib, |dylib| {
        // SAFETY: the caller vouches for the names.
        let names = unsafe { array(names, count) }?;
        // SAFETY: the caller vouches for the texts.
        let names = names.iter().map(|name| unsafe { required_text(*name, "a name") });
        let names = names.collect::<farcall::Result<Vec<_>>>()?;
        // SAFETY: the addresses are only counted.
        unsafe { array(addresses.cast_const(), count) }?;
        let found = dylib.dylib.lookup_all(&names)?;
        for (at, name) in names.iter().enumerate() {
            let address = found.get(*name).map_or(0, |symbol| symbol.address.get());
            // SAFETY: the caller vouches that this many are writable.
            let place = unsafe { addresses.add(at) };
            // SAFETY: as above.
            unsafe { place.write(address) };
        }
        Ok(())
    })
}

/// Runs the initializers (static constructors) of the objects in a dylib, each once. Links those objects first.
#[unsafe(no_mangle)]
#[must_use]
pub extern "C" fn farcall_dylib_initialize(dylib: *mut Dylib) -> *mut Error {
    object::with::<LiveDylib>(dylib, |dylib| {
        let orc = dylib.live.orc()?;
        orc.layer.initialize(&orc.jit, &dylib.dylib)
    })
}

/// Removes all code of a dylib, with that of its trackers: runs exit handlers, and frees the memory. None of the code may be running.
/// The dylib stays, empty.
#[unsafe(no_mangle)]
#[must_use]
pub extern "C" fn farcall_dylib_clear(dylib: *mut Dylib) -> *mut Error {
    Error::of(|| object::find::<LiveDylib>(dylib)?.dylib.clear())
}

/// Removes a dylib and all its code, as farcall_dylib_clear. May be NULL: dylib.
#[unsafe(no_mangle)]
#[must_use]
pub extern "C" fn farcall_dylib_remove(dylib: *mut Dylib) -> *mut Error {
    Error::of_given(dylib, || {
        let number = Number::of(dylib);
        let removed = object::remove::<LiveDylib>(dylib)?;
        drop(number.remove_owned());
        removed.live.orc()?.jit.remove_dylib(&removed.dylib)
    })
}

/// Creates a tracker, which owns nothing yet.
///
/// # Safety
///
/// tracker must be writable.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn farcall_tracker_create(
    dylib: *mut Dylib,
    tracker: *mut *mut Tracker,
) -> *mut Error {
    // SAFETY: the caller vouches that the pointer is writable.
    Out::stored(unsafe { Out::new(tracker, "tracker", std::ptr::null_mut()) }, || {
        let made = object::find::<LiveDylib>(dylib)?.dylib.create_tracker()?;
        let owner = Number::of(dylib);
        Number::new().name(Some(owner), Arc::new(LiveTracker(made)))
    })
}

/// Removes the objects of a tracker from the dylib: runs exit handlers, and frees the memory. None of the code may be running. Frees
/// the tracker. May be NULL: tracker.
#[unsafe(no_mangle)]
#[must_use]
pub extern "C" fn farcall_tracker_remove(tracker: *mut Tracker) -> *mut Error {
    Error::of_given(tracker, || object::remove::<LiveTracker>(tracker)?.0.remove())
}

/// Frees a tracker, whose objects go to another one of the same dylib; NULL is the dylib's default tracker. May be NULL: to.
#[unsafe(no_mangle)]
#[must_use]
pub extern "C" fn farcall_tracker_transfer(tracker: *mut Tracker, to: *mut Tracker) -> *mut Error {
    Error::of(|| {
        if !to.is_null() && tracker == to {
            return Err(invalid("a tracker cannot be emptied into itself"));
        }
        let to = if to.is_null() { None } else { Some(object::find::<LiveTracker>(to)?) };
        let from = object::find::<LiveTracker>(tracker)?;
        match to {
            Some(to) => from.0.transfer_to(&to.0)?,
            None => from.0.transfer_to(&from.0.dylib().default_tracker()?)?,
        }
        object::remove::<LiveTracker>(tracker).map(drop)
    })
}

impl LiveDylib {
    /// The tracker of a handle; the default one for NULL.
    pub(super) fn tracker(&self, tracker: *mut Tracker) -> farcall::Result<ResourceTracker> {
        if tracker.is_null() {
            return self.dylib.default_tracker();
        }
        let tracker = object::find::<LiveTracker>(tracker)?.0.clone();
        match *tracker.dylib() == self.dylib {
            true => Ok(tracker),
            false => Err(invalid("the tracker is of another dylib")),
        }
    }

    fn add_archive(&self, archive: &Archive) -> farcall::Result<()> {
        self.dylib.add_generator(ArchiveMembers::new(&self.live.orc()?.layer, archive))
    }
}
