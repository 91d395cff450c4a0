//! The program that is its own executor: it becomes one before `main`, and both processes name its functions by their place in the file.
#![allow(unsafe_code, reason = "puts a function into the program's array of initializers")]

use std::ffi::{CString, OsStr, c_char, c_int, c_void};
use std::os::unix::ffi::OsStringExt;
use std::sync::OnceLock;

use crate::ExecutorAddr;
use crate::call::contract::{FILE_BASE, FILE_BUILD_ID};
use crate::controller::Process;
use crate::error::{Error, Result};
use crate::executor::{is_spawned, run_if_spawned};
use crate::sync::{AtomicBool, Ordering};
use crate::sys::environment;
use crate::sys::own_file::OwnFile;

/// The environment variable of executors of isolated functions. Its value is the version of this library: a program may have several.
pub(super) const ISOLATED_VARIABLE: &str = "FARCALL_ISOLATED";
pub(super) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Set in an executor, where isolated functions are called as they are.
static IS_EXECUTOR: AtomicBool = AtomicBool::new(false);

/// Runs before `main`, and in an executor of isolated functions instead of it. The C library calls the functions of this section with
/// these arguments, once, in the order of their numbers. The standard library has stored the arguments by 99.
#[used]
#[unsafe(link_section = ".init_array.00100")]
static BECOME_EXECUTOR: extern "C" fn(c_int, *const *const c_char, *const *const c_char) =
    become_executor;

extern "C" fn become_executor(
    argc: c_int,
    argv: *const *const c_char,
    variables: *const *const c_char,
) {
    let version = environment::variable(ISOLATED_VARIABLE);
    if version.is_none_or(|version| version != VERSION) || !is_spawned() {
        return;
    }
    // Relaxed: there is one thread.
    IS_EXECUTOR.store(true, Ordering::Relaxed);
    let place = (&raw const BECOME_EXECUTOR).cast::<c_void>();
    // The functions of the program need what its constructors make.
    // SAFETY: the C library runs the array in its order, and has come to this place. The arguments are its own.
    unsafe { OwnFile::find().run_initializers_behind(place, argc, argv, variables) };
    take_name();
    run_if_spawned();
}

/// Has the process shown by the name of the program, which was started under the name of a link.
fn take_name() {
    let name = std::env::current_exe().ok().and_then(|path| path.file_name().map(OsStr::to_owned));
    if let Some(Ok(name)) = name.map(|name| CString::new(name.into_vec())) {
        let _ = nix::sys::prctl::set_name(&name);
    }
}

/// Refuses to start an executor where the program would not become one.
///
/// # Errors
///
/// That is so with another C library than glibc, with rights that the parent does not have, and in constructors that run too early.
pub(crate) fn check() -> Result<()> {
    // Without a use the linker leaves the static out, and with it the array's entry.
    std::hint::black_box(&BECOME_EXECUTOR);
    if !cfg!(target_env = "gnu") {
        return Err(Error::invalid(
            "isolated functions need glibc, which passes the arguments of the program to its constructors",
        ));
    }
    if environment::has_gained_rights() {
        return Err(Error::invalid(
            "a program with rights that its parent does not have (set-user-ID) has no isolated functions",
        ));
    }
    if is_spawned() && !is_executor() {
        return Err(Error::invalid(
            "an isolated function was called in an executor, by a constructor that runs before the program becomes one",
        ));
    }
    Ok(())
}

/// True in an executor of isolated functions.
#[doc(hidden)]
#[inline]
#[must_use]
pub fn is_executor() -> bool {
    // Relaxed: it was stored before the program had threads.
    IS_EXECUTOR.load(Ordering::Relaxed)
}

/// The file of this program, found once.
fn own_file() -> &'static OwnFile {
    static OWN: OnceLock<OwnFile> = OnceLock::new();
    OWN.get_or_init(OwnFile::find)
}

/// The address of a function of this program in an executor.
///
/// # Errors
///
/// When the executor runs another program, or the function lies in another file than farcall.
pub(super) fn address_in(process: &Process, function: u64) -> Result<ExecutorAddr> {
    let own = own_file();
    let value = |name| {
        let mut values = process.values();
        values.find(|(offered, _)| *offered == name).map(|(_, value)| value.cast_unsigned())
    };
    let theirs = value(FILE_BUILD_ID);
    match (own.build_id, theirs) {
        (None, _) => Err(Error::invalid(
            "this program has no build id, by which its executor is known to be the same program: link it with -Wl,--build-id",
        )),
        (Some(ours), theirs) if theirs != Some(ours) => Err(Error::invalid(format!(
            "the executor runs another program: its build id begins with {:016x}, and that of this program with {:016x}",
            theirs.unwrap_or(0).swap_bytes(),
            ours.swap_bytes(),
        ))),
        _ if !own.contains(function) => Err(Error::invalid(
            "the isolated function is in another file than farcall: link both into the program",
        )),
        _ => {
            let base = value(FILE_BASE).unwrap_or(0);
            Ok(ExecutorAddr::new(base.wrapping_add(function.wrapping_sub(own.base))))
        }
    }
}
