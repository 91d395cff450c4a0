//! Processes of executors: what belongs to one, and its end.

use std::collections::BTreeMap;
use std::ffi::c_int;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use farcall::PerProt;
use farcall::controller;
use farcall::controller::handler::HandlerTag;
use farcall::controller::region::AttachedRegion;
use farcall::orc::{ExecutionSession, JITDylib, ObjectLayer, ProcessSymbols};

use super::answers::Answers;
use super::buffer::Out;
use super::error::Error;
use super::host::Dispatcher;
use super::object::{self, Number, Object};

/// A process of an executor: what has addresses. A number, as farcall_executor is one. It belongs to the executor.
#[derive(Debug)]
pub struct Process {
    /// No value of this type exists: its address is a number.
    _nobody: std::convert::Infallible,
}

/// Bytes for each protection of memory in the executor.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sizes {
    /// Bytes that can be executed and read.
    pub code: u64,
    /// Bytes that can be read.
    pub constants: u64,
    /// Bytes that can be read and written.
    pub data: u64,
}

impl From<Sizes> for PerProt<u64> {
    fn from(Sizes { code, constants, data }: Sizes) -> Self {
        Self { code, constants, data }
    }
}

/// A process that C has as a number.
pub(crate) struct LiveProcess {
    pub(super) number: Number,
    pub(super) process: controller::Process,
    pub(super) answers: Answers,
    /// The handlers by their tags.
    pub(super) handlers: Mutex<BTreeMap<u64, HandlerTag>>,
    /// The attached regions, by the numbers of the regions.
    regions: Mutex<BTreeMap<Number, AttachedRegion>>,
    pub(super) dispatcher: Arc<Dispatcher>,
    orc: OnceLock<Orc>,
}

/// LLVM's view of a process.
pub(super) struct Orc {
    pub(super) jit: ExecutionSession,
    pub(super) layer: ObjectLayer,
    /// The dylib behind all others: what the process and its libraries define.
    pub(super) symbols: JITDylib,
}

impl Object for LiveProcess {
    type Handle = Process;
    const WHAT: &'static str = "process";

    fn close(&self) {
        self.lock_regions().clear();
        if let Some(orc) = self.orc.get() {
            // If the process has ended, what would be told to it fails. The memory of this program is freed.
            let _ = orc.jit.end_session();
        }
    }
}

impl LiveProcess {
    /// The pointer that C gets for a process.
    pub(crate) fn give(
        process: controller::Process,
        owner: Number,
        dispatcher: &Arc<Dispatcher>,
    ) -> farcall::Result<*mut Process> {
        let number = Number::new();
        let live = Self {
            number,
            process,
            answers: Answers::default(),
            handlers: Mutex::default(),
            regions: Mutex::default(),
            dispatcher: Arc::clone(dispatcher),
            orc: OnceLock::new(),
        };
        number.name(Some(owner), Arc::new(live))
    }

    /// Does something with a process that C has meanwhile.
    pub(crate) fn lend(
        process: &controller::Process,
        owner: Number,
        dispatcher: &Arc<Dispatcher>,
        work: impl FnOnce(*mut Process) -> farcall::Result<()>,
    ) -> farcall::Result<()> {
        let pointer = Self::give(process.clone(), owner, dispatcher)?;
        let outcome = work(pointer);
        // C may have disposed of it.
        drop(dispose(pointer));
        outcome
    }

    pub(super) fn orc(&self) -> farcall::Result<&Orc> {
        if let Some(orc) = self.orc.get() {
            return Ok(orc);
        }
        let jit = ExecutionSession::new();
        let layer = ObjectLayer::new(&jit, &self.process);
        let symbols = jit.create_dylib("the executor's process")?;
        symbols.add_generator(ProcessSymbols::new(&self.process))?;
        Ok(self.orc.get_or_init(|| Orc { jit, layer, symbols }))
    }

    pub(super) fn lock_regions(&self) -> MutexGuard<'_, BTreeMap<Number, AttachedRegion>> {
        self.regions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn dispose(process: *mut Process) -> farcall::Result<()> {
    let live = object::remove::<LiveProcess>(process)?;
    let owned = live.number.remove_owned();
    owned.iter().for_each(|object| object.close());
    live.close();
    Ok(())
}

/// Frees the handle of a process with all that belongs to it: dylibs, functions by address, pipelines and handlers. So it does with
/// memory that was not finalized, and with regions that were attached by the handle. Calls that were submitted complete with
/// FARCALL_DISCONNECTED, on this thread. The process itself runs on. May be NULL: process.
#[unsafe(no_mangle)]
#[must_use]
pub extern "C" fn farcall_process_dispose(process: *mut Process) -> *mut Error {
    Error::of_given(process, || dispose(process))
}

/// Ends the process as exit(status) ends a program, and stores the exit status of the process. The handle stays.
///
/// # Safety
///
/// exit_status must be writable.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn farcall_process_exit(
    process: *mut Process,
    status: c_int,
    exit_status: *mut c_int,
) -> *mut Error {
    object::with::<LiveProcess>(process, |live| {
        // SAFETY: the caller vouches that the pointer is writable.
        let place = unsafe { Out::new(exit_status, "exit_status", 0) }?;
        place.write(live.process.exit(status)?);
        Ok(())
    })
}

/// Kills the process at once. Calls under way fail with FARCALL_DIED. Does nothing when it has ended. The handle stays.
#[unsafe(no_mangle)]
#[must_use]
pub extern "C" fn farcall_process_kill(process: *mut Process) -> *mut Error {
    Error::of(|| {
        object::find::<LiveProcess>(process)?.process.kill();
        Ok(())
    })
}

/// How the process died, as an error of the code FARCALL_DIED; NULL while it runs. Sends no message.
#[unsafe(no_mangle)]
#[must_use]
pub extern "C" fn farcall_process_death(process: *mut Process) -> *mut Error {
    Error::of(|| match object::find::<LiveProcess>(process)?.process.death() {
        Some(death) => Err(death),
        None => Ok(()),
    })
}
