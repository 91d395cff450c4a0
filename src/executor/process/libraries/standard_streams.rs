//! `std::cout` and the other standard streams of C++, for code whose static initializers are not run.
//!
//! Each source that includes `<iostream>` initializes them by a static object. A controller that runs no static initializers, as
//! LLVM's without its runtime, leaves them empty, and the first output of a program ends the process. So the executor makes such
//! an object of its own when a stream is looked up. The object goes when the process exits, as a program's object does: it then
//! writes what the streams have buffered.
#![allow(unsafe_code, reason = "calls the constructor and the destructor of a C++ class")]

use std::ffi::c_void;
use std::sync::OnceLock;

use super::find;
use crate::executor::entry::address::pointer;

/// The streams that `<iostream>` declares.
const STREAMS: [&str; 8] = [
    "_ZSt3cin",
    "_ZSt4cout",
    "_ZSt4cerr",
    "_ZSt4clog",
    "_ZSt4wcin",
    "_ZSt5wcout",
    "_ZSt5wcerr",
    "_ZSt5wclog",
];

/// Constructor and destructor of `std::ios_base::Init`, an empty class whose objects are counted.
type OfInit = unsafe extern "C" fn(*mut c_void);

static DESTRUCTOR: OnceLock<Option<OfInit>> = OnceLock::new();

/// Initializes the standard streams if this is the name of one, once per process. Does nothing where there is no libstdc++.
pub(crate) fn initialize_for(name: &str) {
    if STREAMS.contains(&name) && DESTRUCTOR.get().is_none() {
        let of_init = |name| {
            let address = pointer::<c_void>(find(name)?);
            // SAFETY: libstdc++ defines the functions with these names so; the class has no virtual bases.
            Some(unsafe { std::mem::transmute::<*const c_void, OfInit>(address) })
        };
        // They are found before, because no thread may wait here for a thread that waits for the dynamic linker.
        let functions =
            of_init(c"_ZNSt8ios_base4InitC1Ev").zip(of_init(c"_ZNSt8ios_base4InitD1Ev"));
        DESTRUCTOR.get_or_init(|| initialize(functions));
    }
}

fn initialize(functions: Option<(OfInit, OfInit)>) -> Option<OfInit> {
    let (construct, destruct) = functions?;
    // SAFETY: the constructor counts objects, and uses no byte of this one.
    unsafe { construct((&raw const OBJECT).cast_mut().cast()) };
    // SAFETY: the handler may run at any exit.
    unsafe { libc::atexit(at_exit) };
    Some(destruct)
}

/// The object; it has the size of an empty class.
static OBJECT: u8 = 0;

extern "C" fn at_exit() {
    if let Some(Some(destruct)) = DESTRUCTOR.get() {
        // SAFETY: the object was constructed, and this runs once. libstdc++ stays loaded until the process has ended.
        unsafe { destruct((&raw const OBJECT).cast_mut().cast()) };
    }
}
