//! Programs: linked code with a `main`, initializers, finalizers and exit handlers.
//!
//! A program is known by its handle, the address of its `__dso_handle`. Its initializers run once, with the arguments
//! given, before `main` or when asked for. Its exit handlers (`atexit`, `__cxa_atexit`) and finalizers run when it is removed
//! or when the process exits, whichever comes first, as those of a shared library do: handlers last registered first,
//! then finalizers.
//!
//! Invariant: nothing of a program runs under the lock.
#![allow(unsafe_code, reason = "calls the functions of programs by address")]

use std::ffi::{CString, c_char, c_int, c_void};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

use super::wrapper::{Serve, pointer};
use crate::call::contract::{
    ProcessExit, ProgramDeregister, ProgramInitialize, ProgramMain, ProgramRegister,
};
use crate::error::{Error, Result};
use crate::sps::Bytes;
use crate::{AddrRange, ExecutorAddr};

type Main = extern "C" fn(c_int, *const *const c_char, *const *const c_char) -> c_int;
type Finalizer = extern "C" fn();
type ExitHandler = extern "C" fn(*mut c_void);

#[derive(Debug)]
struct Program {
    handle: ExecutorAddr,
    code: AddrRange,
    initializers: AddrRange,
    finalizers: AddrRange,
    initialized: bool,
}

#[derive(Debug, Clone, Copy)]
struct Handler {
    /// The handle of the program it belongs to; null for one of nobody.
    program: ExecutorAddr,
    function: ExitHandler,
    argument: usize,
}

#[derive(Debug)]
struct Programs {
    programs: Vec<Program>,
    /// In the order of registration, over all programs.
    handlers: Vec<Handler>,
}

/// The programs of the process. `atexit` has no session to ask for, so this is one table.
static PROGRAMS: Mutex<Programs> =
    Mutex::new(Programs { programs: Vec::new(), handlers: Vec::new() });

impl Serve for ProgramRegister {
    fn serve(
        (handle, code, initializers, finalizers): (ExecutorAddr, AddrRange, AddrRange, AddrRange),
    ) -> Result<()> {
        static AT_EXIT: Once = Once::new();
        AT_EXIT.call_once(|| {
            // SAFETY: the function may run at any exit.
            unsafe { libc::atexit(exit_all) };
        });
        let program = Program { handle, code, initializers, finalizers, initialized: false };
        lock().programs.push(program);
        Ok(())
    }
}

impl Serve for ProgramDeregister {
    fn serve((handle,): (ExecutorAddr,)) -> Result<()> {
        finish(Some(handle));
        lock().programs.retain(|program| program.handle != handle);
        Ok(())
    }
}

impl Serve for ProgramInitialize {
    fn serve((handle, args): (ExecutorAddr, Vec<Bytes>)) -> Result<()> {
        let arguments = Arguments::new(&args)?;
        initialize(handle, &arguments)
    }
}

impl Serve for ProgramMain {
    fn serve((handle, main, args): (ExecutorAddr, ExecutorAddr, Vec<Bytes>)) -> Result<i32> {
        let arguments = Arguments::new(&args)?;
        initialize(handle, &arguments)?;
        // SAFETY: the controller looked this symbol up as `main`, and the executor obeys the controller.
        let main: Main = unsafe { std::mem::transmute(pointer::<c_void>(main)) };
        Ok(arguments.pass_to(main))
    }
}

impl Serve for ProcessExit {
    fn serve((status,): (i32,)) -> Result<()> {
        // SAFETY: ends the process as the program's own call would.
        unsafe { libc::exit(status) }
    }
}

/// Runs the initializers of every registration of `handle` that have not run, in order of registration. A program without
/// initializers, finalizers and exit handlers is not registered and has the null handle.
fn initialize(handle: ExecutorAddr, arguments: &Arguments) -> Result<()> {
    if handle.is_null() {
        return Ok(());
    }
    loop {
        let functions = {
            let mut programs = lock();
            let mut known = false;
            let next = programs.programs.iter_mut().find(|program| {
                known |= program.handle == handle;
                program.handle == handle && !program.initialized
            });
            match next {
                Some(program) => {
                    program.initialized = true;
                    functions(program.initializers)
                }
                None if known => return Ok(()),
                None => {
                    return Err(Error::invalid(format!("no program is registered at {handle}")));
                }
            }
        };
        for function in functions {
            // SAFETY: the controller made the array from the objects' sections of initializers.
            let function: Main = unsafe { std::mem::transmute(function as *const c_void) };
            arguments.pass_to(function);
        }
    }
}

/// Runs the exit handlers and finalizers of one program, or of all.
fn finish(handle: Option<ExecutorAddr>) {
    let concerns = |program: ExecutorAddr| handle.is_none_or(|handle| handle == program);
    loop {
        let handler = {
            let mut programs = lock();
            let last = programs.handlers.iter().rposition(|handler| concerns(handler.program));
            last.map(|at| programs.handlers.remove(at))
        };
        let Some(handler) = handler else { break };
        (handler.function)(std::ptr::with_exposed_provenance_mut(handler.argument));
    }
    loop {
        let functions = {
            let mut programs = lock();
            let mut newest_first = programs.programs.iter_mut().rev();
            let next = newest_first.find(|program| concerns(program.handle) && program.initialized);
            let Some(program) = next else { break };
            program.initialized = false;
            functions(program.finalizers)
        };
        for function in functions.into_iter().rev() {
            // SAFETY: the controller made the array from the objects' sections of finalizers.
            let function: Finalizer = unsafe { std::mem::transmute(function as *const c_void) };
            function();
        }
    }
}

extern "C" fn exit_all() {
    finish(None);
}

/// `__cxa_atexit` for linked code: the handler belongs to the program whose `__dso_handle` is given.
pub(super) extern "C" fn cxa_atexit(
    function: ExitHandler,
    argument: *mut c_void,
    handle: *mut c_void,
) -> c_int {
    let program = ExecutorAddr::new(handle as u64);
    lock().handlers.push(Handler { program, function, argument: argument.expose_provenance() });
    0
}

/// `atexit` for linked code: the handler belongs to the program whose code it is.
pub(super) extern "C" fn atexit(function: ExitHandler) -> c_int {
    let address = ExecutorAddr::new(function as usize as u64);
    let mut programs = lock();
    let owner = programs.programs.iter().find(|program| program.code.contains(address));
    let program = owner.map_or(ExecutorAddr::NULL, |program| program.handle);
    programs.handlers.push(Handler { program, function, argument: 0 });
    0
}

/// The function addresses in an array of the controller's making.
fn functions(array: AddrRange) -> Vec<usize> {
    let count = usize::try_from(array.bytes()).unwrap_or(0) / size_of::<usize>();
    if count == 0 {
        return Vec::new();
    }
    // SAFETY: the controller names an aligned array in its slab, which is mapped as long as the program is registered.
    let all: &[usize] = unsafe { std::slice::from_raw_parts(pointer(array.start), count) };
    // Old sections of constructors mark their ends with 0 and -1.
    all.iter().copied().filter(|function| !matches!(*function, 0 | usize::MAX)).collect()
}

/// An `argv` that lives as long as the process: programs keep pointers into theirs.
struct Arguments {
    pointers: &'static [*const c_char],
}

impl Arguments {
    fn new(args: &[Bytes]) -> Result<Self> {
        let mut pointers = Vec::with_capacity(args.len() + 1);
        for Bytes(arg) in args {
            let arg = CString::new(arg.as_slice())
                .map_err(|_| Error::invalid("a program argument with a NUL byte"))?;
            pointers.push(arg.into_raw().cast_const());
        }
        pointers.push(std::ptr::null());
        let arguments = Self { pointers: pointers.leak() };
        if let [name, _, ..] = arguments.pointers {
            set_program_name(*name);
        }
        Ok(arguments)
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        reason = "argc is an int"
    )]
    fn pass_to(&self, function: Main) -> c_int {
        // SAFETY: reads a pointer that the C library owns.
        let environment = unsafe { environ };
        function(self.pointers.len() as c_int - 1, self.pointers.as_ptr(), environment)
    }
}

/// Tells the C library the program's name, which `assert`, `error` and `warn` print.
fn set_program_name(name: *const c_char) {
    // SAFETY: the name is a C string.
    let slash = unsafe { libc::strrchr(name, c_int::from(b'/')) };
    let short = if slash.is_null() { name } else { slash.wrapping_add(1) };
    // SAFETY: the variables are the C library's, meant to be set; programs do not run yet.
    unsafe { program_invocation_name = name };
    // SAFETY: as above.
    unsafe { program_invocation_short_name = short };
}

fn lock() -> MutexGuard<'static, Programs> {
    PROGRAMS.lock().unwrap_or_else(PoisonError::into_inner)
}

unsafe extern "C" {
    static environ: *const *const c_char;
    static mut program_invocation_name: *const c_char;
    static mut program_invocation_short_name: *const c_char;
}
