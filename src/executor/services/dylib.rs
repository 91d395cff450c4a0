//! Look-ups of symbols in this process: its shared libraries, its own definitions, and what static linking would have
//! added.

use std::ffi::{CString, c_void};

use crate::ExecutorAddr;
use crate::call::contract::handler_call::CALL_HANDLER;
use crate::call::contract::{
    DylibFind, DylibLookup, DylibOpen, DylibResolve, Found, LibraryNames, NativeLoad, NativeLookup,
    Placement, SymbolDef, Wanted,
};
use crate::error::{Error, Result};
use crate::executor::context::controller_access::CurrentSession;
use crate::executor::context::instance::Instance;
use crate::executor::entry::controller_call;
use crate::executor::entry::stubs::handler_entry;
use crate::executor::entry::unwind_boundary::static_guards;
use crate::executor::entry::wrapper::Serve;
use crate::executor::interrupt;
use crate::executor::memory::advice;
use crate::executor::process::copy_relocations::{self, CopyRelocations};
use crate::executor::process::libraries::{
    constructors, dlopen, find, find_in, find_version, open_defaults, precedence, standard_streams,
    static_symbols,
};
use crate::executor::process::loaded::{self, LoadedFile, SymbolKind};
use crate::executor::process::names::{dladdr, dlsym};
use crate::executor::process::program::{self, signal_actions};
use crate::executor::tls::{library, thread};
use crate::limits::LOW_ADDRESS_END;
use crate::sps::Expected;
use crate::sys::processor;

/// The handle of the whole process.
const PROCESS: ExecutorAddr = ExecutorAddr::new(1);

/// LLVM's flag of an exported symbol.
const EXPORTED: u8 = 0x10;

impl Serve for DylibLookup {
    fn serve(
        (libraries, placement, wanted, mut preceding): (
            Vec<String>,
            Placement,
            Vec<Wanted>,
            Option<Vec<u32>>,
        ),
    ) -> Result<(Vec<Option<Found>>, Option<LibraryNames>)> {
        if preceding.is_some() && !libraries.is_empty() {
            constructors::hold();
        }
        let gate = preceding.as_ref().and_then(|_| constructors::gate());
        let opened = libraries.iter().try_for_each(|library| open(library, gate).map(drop));
        precedence::libraries_are_open(opened.is_ok());
        opened?;
        let mut found: Vec<Option<Found>> = Vec::with_capacity(wanted.len());
        for (name, required, _) in &wanted {
            found.push(look_up(name, *required).map(|address| (address, false)));
        }
        let mut are_chosen = false;
        loop {
            let mut relocations = copy_relocations::lock();
            let read = loaded::with_files(|files, loaded| {
                let versions = match are_chosen {
                    true => Vec::new(),
                    false => versions_of_several(files, &wanted, &found),
                };
                if !versions.is_empty() {
                    return Ok(Err(versions));
                }
                if !relocations.is_empty() || wanted.iter().any(|(.., narrow)| *narrow) {
                    describe(&mut relocations, (files, loaded), placement, &wanted, &mut found)?;
                }
                let hashes = preceding.take();
                Ok(Ok(hashes.map(|hashes| precedence::names_among(files, hashes))))
            });
            match read? {
                Ok(names) => return Ok((found, names)),
                // The dynamic linker is asked without that lock: a constructor that a thread runs under its lock may wait for it.
                Err(versions) => {
                    drop(relocations);
                    choose(versions, &mut found);
                    are_chosen = true;
                }
            }
        }
    }
}

impl Serve for DylibFind {
    fn serve((libraries, name): (Vec<String>, String)) -> Result<Option<ExecutorAddr>> {
        let Ok(name) = CString::new(name) else { return Ok(None) };
        for library in libraries {
            if let Some(found) = find_in(open(&library, None)?, &name) {
                let current = copy_relocations::lock().current(found.get());
                return Ok(Some(ExecutorAddr::new(current)));
            }
        }
        Ok(None)
    }
}

impl Serve for DylibOpen {
    fn serve((_, path, mode): (ExecutorAddr, String, u64)) -> Result<Expected<ExecutorAddr>> {
        if mode != 0 {
            return Ok(
                Err(Error::invalid(format!("opening {path} in mode {mode}: no such"))).into()
            );
        }
        let opened = if path.is_empty() { Ok(()) } else { open(&path, None).map(drop) };
        Ok(opened.map(|()| PROCESS).into())
    }
}

impl Serve for DylibResolve {
    fn serve(
        (_, wanted): (ExecutorAddr, Vec<(String, bool)>),
    ) -> Result<Expected<Vec<Option<SymbolDef>>>> {
        let found = wanted.iter().map(|(name, required)| match look_up(name, true) {
            Some(address) => {
                // LLVM's controllers may run no static initializers.
                standard_streams::initialize_for(name);
                Some((address, EXPORTED, 0))
            }
            None => (!required).then_some((ExecutorAddr::NULL, 0, 0)),
        });
        Ok(Ok(found.collect::<Vec<_>>()).into())
    }
}

impl Serve for NativeLoad {
    fn serve((instance, path): (ExecutorAddr, String)) -> Result<Expected<ExecutorAddr>> {
        let session = Instance::at(instance)?;
        if path.is_empty() {
            return Ok(Expected(Ok(PROCESS)));
        }
        Ok(session.libraries.open(&path).into())
    }
}

impl Serve for NativeLookup {
    fn serve(
        (_, handle, wanted): (ExecutorAddr, ExecutorAddr, Vec<(String, bool)>),
    ) -> Result<Expected<Vec<Option<ExecutorAddr>>>> {
        let found = wanted.iter().map(|(name, required)| {
            let found = match handle {
                PROCESS => look_up(name, *required),
                // The controller has the handle from `Libraries::open` of a live session.
                library => {
                    CString::new(name.as_str()).ok().and_then(|name| find_in(library, &name))
                }
            };
            found.or((!required).then_some(ExecutorAddr::NULL))
        });
        Ok(Expected(Ok(found.collect())))
    }
}

/// A wanted symbol that several files define: its place among the wanted ones, its name, and its version in the file that is
/// chosen.
type Versioned = (usize, CString, CString);

/// The found symbols with versions that other files define as well.
fn versions_of_several(
    files: &[LoadedFile],
    wanted: &[Wanted],
    found: &[Option<Found>],
) -> Vec<Versioned> {
    let version = |(at, ((name, ..), found)): (usize, (&Wanted, &Option<Found>))| {
        let (name, (address, _)) = (CString::new(name.as_str()).ok()?, (*found)?);
        let version = loaded::rival_version(files, &name, address.get())?.to_owned();
        Some((at, name, version))
    };
    wanted.iter().zip(found).enumerate().filter_map(version).collect()
}

/// Replaces addresses as the dynamic linker binds a program. A linker has written down the version that the library had then, and the
/// first file with this version has the symbol. That may be a preloaded library, in which the version is not the default one.
fn choose(versions: Vec<Versioned>, found: &mut [Option<Found>]) {
    for (at, name, version) in versions {
        if let (Some(first), Some((address, _))) = (find_version(&name, &version), &mut found[at]) {
            *address = first;
        }
    }
}

/// Marks the functions among the narrow symbols, copies variables below 2 GiB for low code, and replaces each address
/// by the current one.
fn describe(
    relocations: &mut CopyRelocations,
    (files, loaded): (&[LoadedFile], u64),
    placement: Placement,
    wanted: &[Wanted],
    found: &mut [Option<Found>],
) -> Result<()> {
    let mut is_bound = !relocations.needs_bind(loaded);
    for ((name, _, narrow), found) in wanted.iter().zip(&mut *found) {
        let (Some((address, is_function)), true) = (found, *narrow) else { continue };
        let (stem, _) = without_version(name);
        let Ok(c_name) = CString::new(stem) else { continue };
        match loaded::kind_of(files, &c_name, address.get()) {
            SymbolKind::Function => *is_function = true,
            SymbolKind::Variable(bytes) if placement == Placement::Low => {
                is_bound &= !relocations.copy_low(name, address.get(), bytes)?;
            }
            SymbolKind::Protected
                if placement == Placement::Low && address.get() >= LOW_ADDRESS_END =>
            {
                return Err(Error::invalid(format!(
                    "{name} is a protected variable of a shared library: code with 32-bit addresses would get a copy, and the \
                     library would go on with its own; compile the code that uses it with -fPIE or -fPIC"
                )));
            }
            SymbolKind::Variable(_) | SymbolKind::Protected | SymbolKind::Unknown => {}
        }
    }
    if !is_bound {
        relocations.bind(files, loaded)?;
    }
    for (address, _) in found.iter_mut().flatten() {
        *address = ExecutorAddr::new(relocations.current(address.get()));
    }
    Ok(())
}

/// Opens a shared library for the rest of the process's life, and returns its handle. Its symbols are found from then on. Its
/// constructors wait at a gate, if there is one.
fn open(path: &str, gate: Option<u64>) -> Result<ExecutorAddr> {
    library::load_ahead(path, gate);
    let handle = dlopen(path, libc::RTLD_NOW | libc::RTLD_GLOBAL)?;
    Ok(ExecutorAddr::new(handle.expose_provenance() as u64))
}

fn look_up(name: &str, required: bool) -> Option<ExecutorAddr> {
    let (stem, version) = without_version(name);
    let helpers = processor::helpers();
    let mut own = own_symbols().into_iter().chain(static_symbols()).chain(helpers);
    if let Some((_, address)) = own.find(|(own, _)| *own == stem) {
        return Some(ExecutorAddr::new(address as u64));
    }
    let [stem, version] = [stem, version].map(|part| CString::new(part).ok());
    let (stem, version) = (stem?, version?);
    let find = || if version.is_empty() { find(&stem) } else { find_version(&stem, &version) };
    let found = find();
    let found = if found.is_some() || !required {
        found
    } else {
        open_defaults();
        find()
    };
    Some(interrupt::in_place_of(name, static_guards::in_place_of(name, found?)))
}

/// A name as `.symver` makes it, such as `memcpy@GLIBC_2.2.5`: without its version, and the version. The version is empty if there is
/// none.
fn without_version(name: &str) -> (&str, &str) {
    match name.split_once('@') {
        Some((stem, version)) if !stem.is_empty() && !version.is_empty() => (stem, version),
        _ => (name, ""),
    }
}

/// Functions that the executor defines itself:
///
/// | functions | because |
/// |---|---|
/// | exit handlers, destructors of thread-locals | they belong to programs, which may be removed |
/// | `pthread_create` | its threads have the static TLS reserve, and their stack overflows are reported |
/// | `sigaction`, `signal` | the handlers that report crashes are no part of the program |
/// | `madvise` | variables lie in shared memory |
/// | `dladdr`, `dl_iterate_phdr`, backtraces | they find linked functions |
/// | `dlopen`, `dlsym` | they find what linked code defines |
/// | calls of the controller | there is no other way to it |
///
/// Throws and the marks of static variables are the executor's as well, if the process has the C++ library.
fn own_symbols() -> [(&'static str, *const c_void); 23] {
    let call = controller_call::call_controller::<CurrentSession> as *const c_void;
    let call_async = controller_call::call_controller_async::<CurrentSession> as *const c_void;
    [
        ("farcall_call_controller", call),
        ("orc_rt_Session_callController", call_async),
        (CALL_HANDLER, handler_entry::address::<CurrentSession>()),
        ("atexit", program::atexit as *const c_void),
        ("__cxa_atexit", program::cxa_atexit as *const c_void),
        ("on_exit", program::on_exit as *const c_void),
        ("__cxa_thread_atexit", program::cxa_thread_atexit as *const c_void),
        ("__cxa_thread_atexit_impl", program::cxa_thread_atexit as *const c_void),
        ("pthread_create", thread::create as *const c_void),
        ("sigaction", signal_actions::sigaction as *const c_void),
        ("__sigaction", signal_actions::sigaction as *const c_void),
        ("signal", signal_actions::signal as *const c_void),
        ("bsd_signal", signal_actions::signal as *const c_void),
        ("ssignal", signal_actions::signal as *const c_void),
        ("sysv_signal", signal_actions::sysv_signal as *const c_void),
        ("__sysv_signal", signal_actions::sysv_signal as *const c_void),
        ("madvise", advice::madvise as *const c_void),
        ("dl_iterate_phdr", dladdr::dl_iterate_phdr as *const c_void),
        ("dladdr", dladdr::dladdr as *const c_void),
        ("backtrace_symbols", dladdr::backtrace_symbols as *const c_void),
        ("backtrace_symbols_fd", dladdr::backtrace_symbols_fd as *const c_void),
        ("dlopen", dlsym::dlopen::<CurrentSession> as *const c_void),
        ("dlsym", dlsym::dlsym::<CurrentSession> as *const c_void),
    ]
}

#[cfg(test)]
mod tests;
