//! Shared libraries that this process has opened.
#![allow(unsafe_code, reason = "calls the dynamic linker")]

pub(crate) mod ahead;
mod allocator;
pub(crate) mod constructors;
mod earlier_blocks;
mod name_file;
pub(crate) mod name_library;
pub(crate) mod precedence;
pub(crate) mod standard_streams;

use std::ffi::{CStr, CString, c_int, c_void};

use super::loaded;
use crate::ExecutorAddr;
use crate::error::{Error, Result};
use crate::executor::entry::address::pointer;
use crate::sync::{AtomicBool, Mutex, Ordering};

/// Libraries that a compiler's driver links by default, or that programs take for granted. [`open_defaults`] opens
/// them in this order.
const DEFAULT_LIBRARIES: [&CStr; 3] = [c"libm.so.6", c"libstdc++.so.6", c"libgcc_s.so.1"];

/// The version of the processor's features (`__cpu_model`, `__cpu_indicator_init`), which ifunc resolvers read. Compilers link
/// them statically from `libgcc.a`; the shared library has them for old programs only.
const OLD_VERSION: &CStr = c"GCC_4.8.0";

/// The libraries that one controller opened by path. They are closed at the end of its session.
#[derive(Debug, Default)]
pub(crate) struct Libraries(Mutex<Vec<ExecutorAddr>>);

impl Libraries {
    /// Opens a library and returns its handle. Its symbols are found through the handle only.
    pub(crate) fn open(&self, path: &str) -> Result<ExecutorAddr> {
        let handle = dlopen(path, libc::RTLD_LAZY | libc::RTLD_LOCAL)?;
        let handle = ExecutorAddr::new(handle.expose_provenance() as u64);
        self.0.lock().push(handle);
        Ok(handle)
    }

    /// Closes each library as often as it was opened, in reverse order. Their destructors run under no lock of this process's own.
    pub(crate) fn close(&self) {
        let handles = std::mem::take(&mut *self.0.lock());
        for handle in handles.into_iter().rev() {
            close(handle);
        }
    }
}

/// Opens a shared library with these flags of `dlopen`, and returns its handle.
pub(crate) fn dlopen(path: &str, flags: c_int) -> Result<*mut c_void> {
    let name = CString::new(path).map_err(|_| Error::invalid("a library name with a NUL byte"))?;
    // SAFETY: the name is a C string; the library's initializers are the user's choice.
    let handle = unsafe { libc::dlopen(name.as_ptr(), flags) };
    if handle.is_null() {
        return Err(Error::invalid(format!("cannot open {path}: {}", last_error())));
    }
    Ok(handle)
}

/// Closes a library once.
pub(crate) fn close(handle: ExecutorAddr) {
    // SAFETY: callers close a library as often as they opened it.
    unsafe { libc::dlclose(pointer::<c_void>(handle).cast_mut()) };
}

/// Opens the default libraries, if that was not done. The look-up functions call it when they miss a symbol. Two threads may open them
/// both: no thread waits here for another one, which may be in a library's constructor.
pub(crate) fn open_defaults() {
    static ARE_OPEN: AtomicBool = AtomicBool::new(false);
    // Acquire: pairs with the store.
    if ARE_OPEN.load(Ordering::Acquire) {
        return;
    }
    for library in DEFAULT_LIBRARIES {
        // SAFETY: the name is a C string; these libraries have harmless initializers.
        unsafe { libc::dlopen(library.as_ptr(), libc::RTLD_NOW | libc::RTLD_GLOBAL) };
    }
    ARE_OPEN.store(true, Ordering::Release);
}

/// The address of a symbol in the process: the default version, else [`OLD_VERSION`].
pub(crate) fn find(name: &CStr) -> Option<ExecutorAddr> {
    // SAFETY: the name is a C string.
    let address = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    if !address.is_null() {
        return Some(ExecutorAddr::new(address as u64));
    }
    // SAFETY: name and version are C strings.
    let old = unsafe { libc::dlvsym(libc::RTLD_DEFAULT, name.as_ptr(), OLD_VERSION.as_ptr()) };
    (!old.is_null()).then(|| ExecutorAddr::new(old as u64))
}

/// The address of a version of a symbol in the process.
pub(crate) fn find_version(name: &CStr, version: &CStr) -> Option<ExecutorAddr> {
    // SAFETY: name and version are C strings.
    let found = unsafe { libc::dlvsym(libc::RTLD_DEFAULT, name.as_ptr(), version.as_ptr()) };
    (!found.is_null()).then(|| ExecutorAddr::new(found as u64))
}

/// The first definition of a name in the loaded libraries that is not at the address `own`; null if there is none.
pub(crate) fn find_another(name: &CStr, own: ExecutorAddr) -> *mut c_void {
    // The first file is the process's own program.
    let paths: Vec<_> = loaded::with_files(|files, _| {
        let defining = files.iter().skip(1).filter(|file| file.defines(name));
        defining.map(|file| file.path().to_owned()).collect()
    });
    for path in paths {
        let mode = libc::RTLD_LAZY | libc::RTLD_NOLOAD;
        // SAFETY: the path is a C string, and nothing is loaded.
        let library = unsafe { libc::dlopen(path.as_ptr(), mode) };
        if library.is_null() {
            continue;
        }
        // SAFETY: the library is open, and the name is a C string.
        let found = unsafe { libc::dlsym(library, name.as_ptr()) };
        // SAFETY: it was opened above, and stays loaded.
        unsafe { libc::dlclose(library) };
        if !found.is_null() && found as u64 != own.get() {
            return found;
        }
    }
    std::ptr::null_mut()
}

/// The address of a symbol in an open library or its dependencies. A symbol may have the value null.
pub(crate) fn find_in(library: ExecutorAddr, name: &CStr) -> Option<ExecutorAddr> {
    // SAFETY: clears the message of an earlier failure.
    unsafe { libc::dlerror() };
    let handle = pointer::<c_void>(library).cast_mut();
    // SAFETY: callers have the handle of an open library; the name is a C string.
    let address = unsafe { libc::dlsym(handle, name.as_ptr()) };
    // SAFETY: returns null if the symbol was found.
    let is_missing = address.is_null() && !unsafe { libc::dlerror() }.is_null();
    (!is_missing).then(|| ExecutorAddr::new(address.expose_provenance() as u64))
}

/// Functions that the C library has for static linking only, so that the dynamic linker does not find them.
pub(crate) fn static_symbols() -> [(&'static str, *const c_void); 2] {
    [
        ("at_quick_exit", at_quick_exit as *const c_void),
        ("pthread_atfork", libc::pthread_atfork as *const c_void),
    ]
}

unsafe extern "C" {
    fn at_quick_exit(function: extern "C" fn()) -> c_int;
}

/// The reason for which the dynamic linker's last function failed on this thread.
pub(crate) fn last_error() -> String {
    // SAFETY: returns null or a C string that is valid until the next call on this thread.
    let message = unsafe { libc::dlerror() };
    if message.is_null() {
        return "no reason given".to_owned();
    }
    // SAFETY: not null, so a C string.
    unsafe { CStr::from_ptr(message) }.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;
    use crate::sync::AtomicU64;
    use crate::sys::alone;

    /// The step of the destructor and of another thread. They use no channel: a thread that waits at its first channel takes the dynamic
    /// linker's lock.
    static STEP: AtomicU64 = AtomicU64::new(0);
    const READY: u64 = 1;
    const ASKED: u64 = 2;
    const ANSWERED: u64 = 3;

    fn wait_for(step: u64) {
        let start = Instant::now();
        while STEP.load(Ordering::Acquire) != step {
            assert!(start.elapsed() < Duration::from_secs(20), "no step {step}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// The work of a library's destructor in the test below: it asks for a function that comes after the caller's own. It waits for
    /// another thread that reads the loaded files.
    extern "C" fn ask_in_destructor() {
        assert!(!find_another(c"strlen", ExecutorAddr::NULL).is_null());
        STEP.store(ASKED, Ordering::Release);
        wait_for(ANSWERED);
    }

    /// A4: destructors run under no lock that functions of the executor take.
    #[test]
    fn a_destructor_may_call_what_reads_the_loaded_files() {
        alone::run(
            "executor::process::libraries::tests::a_destructor_may_call_what_reads_the_loaded_files",
            || {
                let folder = tempfile::tempdir().expect("a folder");
                let [source, library] = ["end.c", "libend.so"].map(|name| folder.path().join(name));
                let text = "void (*at_end)(void); __attribute__((destructor)) static void end(void) { if (at_end) at_end(); }";
                std::fs::write(&source, text).expect("written");
                let mut compiler = std::process::Command::new("cc");
                compiler.args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source);
                assert!(compiler.status().expect("cc").success());
                let libraries = Libraries::default();
                let handle = libraries.open(library.to_str().expect("text")).expect("a library");
                let word = find_in(handle, c"at_end").expect("it has it");
                let word = pointer::<extern "C" fn()>(word).cast_mut();
                // SAFETY: the library's variable is a pointer to such a function, and no other code uses it now.
                unsafe { word.write(ask_in_destructor) };
                // It runs before: a thread that starts may wait for the dynamic linker.
                std::thread::spawn(|| {
                    STEP.store(READY, Ordering::Release);
                    wait_for(ASKED);
                    if loaded::with_files(|files, _| files.len()) > 1 {
                        STEP.store(ANSWERED, Ordering::Release);
                    }
                });
                wait_for(READY);
                libraries.close();
                assert_eq!(STEP.load(Ordering::Acquire), ANSWERED, "the destructor has run");
            },
        );
    }
}
