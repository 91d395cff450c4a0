//! Shared libraries that are opened in this process.
#![allow(unsafe_code, reason = "calls the dynamic linker")]

use std::ffi::{CStr, CString, c_int, c_void};
use std::sync::Once;

use super::low_data::low_data;
use crate::ExecutorAddr;
use crate::error::{Error, Result};
use crate::executor::entry::address::pointer;
use crate::sync::Mutex;

/// Libraries that a compiler's driver links by itself or programs take for granted. They are opened, in this order, when
/// a symbol is missing otherwise.
const DEFAULT_LIBRARIES: [&CStr; 3] = [c"libm.so.6", c"libstdc++.so.6", c"libgcc_s.so.1"];

/// The libraries that a controller has loaded by name, to be closed when its session is over.
#[derive(Debug, Default)]
pub(crate) struct Libraries(Mutex<Vec<ExecutorAddr>>);

impl Libraries {
    /// Opens a library whose symbols only its handle finds.
    pub(crate) fn open(&self, path: &str) -> Result<ExecutorAddr> {
        let handle = dlopen(path, libc::RTLD_LAZY | libc::RTLD_LOCAL)?;
        let handle = ExecutorAddr::new(handle.expose_provenance() as u64);
        self.0.lock().push(handle);
        Ok(handle)
    }

    /// Closes each as often as it was opened, the last first. Nobody else may look into them any more.
    pub(crate) fn close(&self) {
        let handles = std::mem::take(&mut *self.0.lock());
        // Another session may be looking at what is loaded.
        let _nobody_looks = (!handles.is_empty()).then(low_data);
        for handle in handles.into_iter().rev() {
            // SAFETY: the handle is that of an opened library, once for each time that it was opened.
            unsafe { libc::dlclose(pointer::<c_void>(handle).cast_mut()) };
        }
    }
}

/// Opens a shared library, and leaves it open.
pub(crate) fn dlopen(path: &str, flags: c_int) -> Result<*mut c_void> {
    let name = CString::new(path).map_err(|_| Error::invalid("a library name with a NUL byte"))?;
    // SAFETY: the name is a C string; the library's initializers are the user's choice.
    let handle = unsafe { libc::dlopen(name.as_ptr(), flags) };
    if handle.is_null() {
        return Err(Error::invalid(format!("cannot open {path}: {}", last_error())));
    }
    Ok(handle)
}

/// Opens the libraries that are opened when something is missing, if that has not been done yet.
pub(crate) fn open_defaults() {
    static DEFAULTS: Once = Once::new();
    DEFAULTS.call_once(|| {
        for library in DEFAULT_LIBRARIES {
            // SAFETY: the name is a C string; these libraries have harmless initializers.
            unsafe { libc::dlopen(library.as_ptr(), libc::RTLD_NOW | libc::RTLD_GLOBAL) };
        }
    });
}

/// Why the dynamic linker's last function failed on this thread.
pub(crate) fn last_error() -> String {
    // SAFETY: returns null or a C string that is valid until the next call on this thread.
    let message = unsafe { libc::dlerror() };
    if message.is_null() {
        return "no reason given".to_owned();
    }
    // SAFETY: not null, so a C string.
    unsafe { CStr::from_ptr(message) }.to_string_lossy().into_owned()
}
