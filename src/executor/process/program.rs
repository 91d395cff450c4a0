//! Programs: linked code with a `main`, initializers, finalizers and exit handlers.
//!
//! A program is identified by its handle, the address of its `__dso_handle`. Its initializers run once, with the
//! given arguments, before `main` or on request. Its end comes when it is removed or when the process exits,
//! whichever is first. It runs, as for a shared library:
//!
//! 1. the destructors of the calling thread's thread-locals,
//! 2. the exit handlers (`atexit`, `__cxa_atexit`), the last registered first,
//! 3. the finalizers.
//!
//! A child that a program forks, and that returns from `main`, exits as natively: the call of `main` is its parent's.
//!
//! Invariant: no code of a program runs under the lock.
#![allow(unsafe_code, reason = "calls the functions of programs by address")]

mod arguments;
pub(crate) mod signal_actions;
mod start;
mod table;

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::Once;

use arguments::Arguments;
pub(crate) use arguments::take_over_service;
use table::{Handler, Programs, Registration};

use crate::call::contract::{
    CallVoidVoid, ProcessExit, ProgramDeregister, ProgramInitialize, ProgramMain, ProgramRegister,
    ProgramRun, ProgramStart, RunAsInt, RunAsMain, RunAsVoid,
};
use crate::error::{Error, Result};
use crate::executor::entry::address::pointer;
use crate::executor::entry::enter;
use crate::executor::entry::wrapper::Serve;
use crate::executor::process::libraries::constructors;
use crate::executor::process::thread_end;
use crate::sps::Bytes;
use crate::sync::Mutex;
use crate::sys::process::{fork, thread};
use crate::{AddrRange, ExecutorAddr};

/// The programs of the process. There is one table, because `atexit` has no session argument.
static PROGRAMS: Mutex<Programs> = Mutex::new(Programs::new());

impl Serve for ProgramRegister {
    fn serve(
        (handle, code, initializers, finalizers): (ExecutorAddr, AddrRange, AddrRange, AddrRange),
    ) -> Result<()> {
        static AT_EXIT: Once = Once::new();
        AT_EXIT.call_once(|| {
            // SAFETY: the function may run at any exit, and takes no argument.
            unsafe { libc_on_exit(exit_all, std::ptr::null_mut()) };
        });
        PROGRAMS.lock().register(handle, Registration { code, initializers, finalizers });
        Ok(())
    }
}

impl Serve for ProgramDeregister {
    fn serve((handle,): (ExecutorAddr,)) -> Result<()> {
        thread_end::finish(handle);
        finish(Some(handle), 0);
        PROGRAMS.lock().remove(handle);
        Ok(())
    }
}

impl Serve for ProgramInitialize {
    fn serve((handle, args): (ExecutorAddr, Vec<Bytes>)) -> Result<()> {
        let arguments = Arguments::for_good(&args)?;
        initialize(handle, &arguments)
    }
}

impl Serve for ProgramMain {
    fn serve((handle, main, args): (ExecutorAddr, ExecutorAddr, Vec<Bytes>)) -> Result<i32> {
        let arguments = Arguments::for_good(&args)?;
        let generation = fork::generation();
        initialize(handle, &arguments)?;
        // SAFETY: the controller looked this symbol up as `main`, and the executor obeys the controller.
        let ran = unsafe { arguments.pass_to(main) };
        exit_in_child(generation, &ran);
        ran
    }
}

impl Serve for ProgramRun {
    fn serve((handle, main, args): (ExecutorAddr, ExecutorAddr, Vec<Bytes>)) -> Result<i32> {
        let arguments = Arguments::new(&args)?;
        // Handlers left from an earlier run would meet data of this one.
        abandon(handle);
        let generation = fork::generation();
        // SAFETY: the controller looked this symbol up as `main`, and the executor obeys the controller.
        let ran = initialize(handle, &arguments).and_then(|()| unsafe { arguments.pass_to(main) });
        exit_in_child(generation, &ran);
        match &ran {
            Ok(status) if !handle.is_null() => {
                thread_end::finish(handle);
                finish(Some(handle), *status);
            }
            Ok(_) => {}
            Err(_) => abandon(handle),
        }
        ran
    }
}

impl Serve for ProgramStart {
    fn serve((start, args): (ExecutorAddr, Vec<Bytes>)) -> Result<()> {
        let arguments = Arguments::for_good(&args)?;
        initialize_libraries(&arguments)?;
        // SAFETY: the controller looked this symbol up as the program's start, and the executor obeys the controller.
        unsafe { arguments.start(start) }
    }
}

impl Serve for RunAsMain {
    fn serve((main, args): (ExecutorAddr, Vec<Bytes>)) -> Result<i64> {
        let arguments = Arguments::for_good(&args)?;
        let generation = fork::generation();
        // SAFETY: the controller names a `main`, and the executor obeys the controller.
        let ran = unsafe { arguments.pass_to(main) };
        exit_in_child(generation, &ran);
        ran.map(i64::from)
    }
}

impl Serve for RunAsVoid {
    fn serve((function,): (ExecutorAddr,)) -> Result<i32> {
        RunAsInt::serve((function, 0))
    }
}

impl Serve for RunAsInt {
    fn serve((function, argument): (ExecutorAddr, i32)) -> Result<i32> {
        // SAFETY: the controller names a function that takes an int or nothing and returns an int; it ignores further
        // arguments.
        unsafe { enter::main(function, argument, std::ptr::null(), std::ptr::null()) }
    }
}

impl Serve for CallVoidVoid {
    fn serve((function,): (ExecutorAddr,)) -> Result<()> {
        // SAFETY: the controller names a function that takes and returns nothing.
        unsafe { enter::function(function, 0, 0) }
    }
}

impl Serve for ProcessExit {
    fn serve((status,): (i32,)) -> Result<()> {
        exit(status)
    }
}

/// Ends the process as the program's own call of `exit` would: with its exit handlers.
fn exit(status: c_int) -> ! {
    // SAFETY: the program asks for its end, or `main` has returned.
    unsafe { libc::exit(status) }
}

/// Exits where `main` has returned in another process than the one of this [generation](fork::generation): in a child that `main` or
/// an initializer has forked. A child in which it has failed ends with its call (`entry::wrapper`).
fn exit_in_child(generation: u64, ran: &Result<c_int>) {
    if fork::generation() != generation
        && let Ok(status) = ran
    {
        exit(*status);
    }
}

/// `__cxa_thread_atexit` for linked code: the destructor belongs to the calling thread, and to the program whose
/// `__dso_handle` is given.
pub(crate) extern "C" fn cxa_thread_atexit(
    function: *const c_void,
    object: *mut c_void,
    handle: *const c_void,
) -> c_int {
    let function = ExecutorAddr::new(function.expose_provenance() as u64);
    let program = owner(ExecutorAddr::new(handle as u64), function);
    thread_end::register(program, function, object);
    0
}

/// Runs the initializers of every registration of `handle` that have not run, in order of registration. A program without
/// initializers, finalizers and exit handlers is not registered and has the null handle.
fn initialize(handle: ExecutorAddr, arguments: &Arguments) -> Result<()> {
    initialize_libraries(arguments)?;
    if handle.is_null() {
        return Ok(());
    }
    loop {
        let functions = match PROGRAMS.lock().initialize(handle) {
            Some(Some(initializers)) => functions(initializers),
            Some(None) => return Ok(()),
            None => return Err(Error::invalid(format!("no program is registered at {handle}"))),
        };
        for function in functions {
            // SAFETY: the controller made the array from the objects' sections of initializers.
            unsafe { arguments.pass_to(function) }?;
        }
    }
}

/// Runs the constructors of the program's libraries that wait for it.
fn initialize_libraries(arguments: &Arguments) -> Result<()> {
    constructors::run(|function| {
        // SAFETY: a library names the function as a constructor.
        unsafe { arguments.pass_to(function) }.map(drop)
    })
}

/// Runs the exit handlers and finalizers of one program, or of all (`None`).
fn finish(handle: Option<ExecutorAddr>, status: c_int) {
    // Each lock ends before the code that it found is called.
    let handler = || PROGRAMS.lock().take_handler(handle);
    while let Some(handler) = handler() {
        let (first, second) = match handler.wants_status {
            true => (status.cast_unsigned() as usize, handler.argument),
            false => (handler.argument, 0),
        };
        // SAFETY: the program registered this function as an exit handler of this form.
        unsafe { enter::handler(handler.function, first, second) };
    }
    let finalizers = || PROGRAMS.lock().finalize(handle).map(functions);
    while let Some(functions) = finalizers() {
        for function in functions.into_iter().rev() {
            // SAFETY: the controller made the array from the objects' sections of finalizers.
            unsafe { enter::handler(function, 0, 0) };
        }
    }
}

/// Discards the handlers, finalizers and destructors that a run of a program has left.
fn abandon(handle: ExecutorAddr) {
    if handle.is_null() {
        return;
    }
    thread_end::forget(handle);
    PROGRAMS.lock().abandon(handle);
}

extern "C" fn exit_all(status: c_int, _argument: *mut c_void) {
    finish(None, status);
}

/// `__cxa_atexit` for linked code: `handle` is the `__dso_handle` of the handler's program.
pub(crate) extern "C" fn cxa_atexit(
    function: *const c_void,
    argument: *mut c_void,
    handle: *const c_void,
) -> c_int {
    register(ExecutorAddr::new(handle as u64), function, argument, false)
}

/// `atexit` for linked code: the handler belongs to the program that contains its code.
pub(crate) extern "C" fn atexit(function: *const c_void) -> c_int {
    register(ExecutorAddr::NULL, function, std::ptr::null_mut(), false)
}

/// `on_exit` for linked code: as `atexit`, and the handler receives the exit status.
pub(crate) extern "C" fn on_exit(function: *const c_void, argument: *mut c_void) -> c_int {
    register(ExecutorAddr::NULL, function, argument, true)
}

fn register(
    handle: ExecutorAddr,
    function: *const c_void,
    argument: *mut c_void,
    wants_status: bool,
) -> c_int {
    let function = ExecutorAddr::new(function.expose_provenance() as u64);
    let program = owner(handle, function);
    let argument = argument.expose_provenance();
    PROGRAMS.lock().add_handler(program, Handler { function, argument, wants_status });
    0
}

/// The handle of the program that registers `function` with `handle`. The C library accepts any address in a program as the
/// handle. Rust's standard library passes the address of a variable that holds the handle. In that case the function's
/// program is meant.
pub(crate) fn owner(handle: ExecutorAddr, function: ExecutorAddr) -> ExecutorAddr {
    PROGRAMS.lock().owner(handle, function)
}

/// The function addresses in an array that the controller wrote.
fn functions(array: AddrRange) -> Vec<ExecutorAddr> {
    let count = usize::try_from(array.bytes()).unwrap_or(0) / size_of::<u64>();
    if count == 0 {
        return Vec::new();
    }
    // SAFETY: the controller names an aligned array in its slab, which is mapped while the program is registered.
    let all: &[u64] = unsafe { std::slice::from_raw_parts(pointer(array.start), count) };
    // Old constructor sections mark their ends with 0 and -1.
    let real = all.iter().copied().filter(|function| !matches!(*function, 0 | u64::MAX));
    real.map(ExecutorAddr::new).collect()
}

/// Sets the program's name in the C library, where `assert`, `error` and `warn` read it. Sets it in the kernel as well, where `ps`
/// and `top` read it. A new name is never freed.
fn set_name(name: &CStr) {
    // SAFETY: the C library's name is a C string, or null.
    let is_same = unsafe { self::name().as_ref() }.is_some_and(|first| {
        // SAFETY: as above.
        unsafe { CStr::from_ptr(first) == name }
    });
    if is_same {
        return;
    }
    let name = name.to_owned().into_raw().cast_const();
    // SAFETY: the name is a C string.
    let slash = unsafe { libc::strrchr(name, c_int::from(b'/')) };
    let short = if slash.is_null() { name } else { slash.wrapping_add(1) };
    // SAFETY: the C library provides these variables to be set; no program runs yet.
    unsafe { program_invocation_name = name };
    // SAFETY: as above.
    unsafe { program_invocation_short_name = short };
    if thread::number().cast_unsigned() == std::process::id() {
        // SAFETY: the kernel copies the start of the C string.
        unsafe { libc::prctl(libc::PR_SET_NAME, short) };
    }
}

/// The name of the program that ran last, or of the process: a C string that is never freed.
pub(crate) fn name() -> *const c_char {
    // SAFETY: reads a pointer that programs rarely change, as the C library itself does.
    unsafe { program_invocation_name }
}

unsafe extern "C" {
    /// The C library's `on_exit`: as `atexit`, and the function receives the status.
    #[link_name = "on_exit"]
    fn libc_on_exit(function: extern "C" fn(c_int, *mut c_void), argument: *mut c_void) -> c_int;
    static mut program_invocation_name: *const c_char;
    static mut program_invocation_short_name: *const c_char;
}

#[cfg(test)]
mod tests;
