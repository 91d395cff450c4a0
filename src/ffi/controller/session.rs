//! Controllers: the sessions with the executors that this program starts.

use std::collections::BTreeMap;
use std::ffi::{CStr, OsStr, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use farcall::PerProt;
use farcall::controller::handler::HandlerTag;
use farcall::controller::region::AttachedRegion;
use farcall::controller::{self, ExecutorBuilder, WeakProcess};
use farcall::orc::{ExecutionSession, JITDylib};
use farcall::orc::{ObjectLayer, ProcessSymbols};

use super::answers::Answers;
use super::buffer::{Out, required_text};
use super::error::{Error, invalid};
use super::host::{Context, Dispatch, Dispatcher};
use super::object::{self, Number, Object};

/// A session with an executor process, which this program has started. A number: if the session was closed, functions return
/// FARCALL_INVALID.
#[derive(Debug)]
pub struct Controller {
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

/// The executor has died; error says how (farcall_error_facts), and belongs to this function. Called once, on a thread of the
/// library. It may wait, and may close the controller.
pub type OnDeath = Option<
    unsafe extern "C" fn(controller: *mut Controller, error: *mut Error, context: *mut c_void),
>;

/// What an executor may not do, and how much it may use. With all members 0 it may do all that the user may.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Confinement {
    /// 0: no confinement. 1, isolated: the executor writes no files, makes no TCP connections, and signals and traces no process
    /// outside; what it starts ends with it. 2, strict: it makes no system calls but those of a session.
    pub level: u32,
    /// Leaves out what this kernel cannot restrict. Otherwise the start fails.
    pub allow_missing: bool,
    /// The most private memory; 0 is no limit.
    pub memory_bytes_max: u64,
    /// The most CPU time; 0 is no limit.
    pub cpu_seconds_max: u64,
    /// The most descriptors; 0 is no limit.
    pub descriptors_max: u64,
    /// The largest size of a file that the executor writes; 0 is no limit.
    pub file_bytes_max: u64,
}

/// How to start an executor. All members but size may be 0, which is the default.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct StartOptions {
    /// sizeof(farcall_start_options).
    pub size: usize,
    /// The path of the executor's program. NULL: the program that the environment variable FARCALL_EXECUTOR names, or the file
    /// farcall-executor beside this program.
    pub program: *const c_char,
    /// Makes this program the executor's as well. Its main must call farcall_run_if_spawned first. FARCALL_EXECUTOR has precedence.
    pub this_program: bool,
    /// Leaves descriptors without close-on-exec open in the executor.
    pub inherit_descriptors: bool,
    /// Variables to add to the executor's environment, as NAME=VALUE, ended by NULL.
    pub environment: *const *const c_char,
    /// How long each side polls for the other before it sleeps; 50 us by default.
    pub spin_ns: u64,
    /// How long the executor may take until it is ready; 10 s by default.
    pub start_timeout_ms: u64,
    /// The memory for linked code at first, whole pages: 64, 64 and 128 MiB by default. More is added when it is needed.
    pub slab_bytes: Sizes,
    /// The same for code with 32-bit addresses: 64, 64 and 256 MiB by default.
    pub low_slab_bytes: Sizes,
    /// Runs completions of calls. NULL: threads of the library.
    pub dispatch: Dispatch,
    /// Passed to dispatch; may be NULL.
    pub dispatch_context: *mut c_void,
    /// Called when the executor has died, unless it is NULL. Not called for the end by farcall_controller_close.
    pub on_death: OnDeath,
    /// Passed to on_death; may be NULL.
    pub on_death_context: *mut c_void,
    /// What the executor may not do, and how much it may use.
    pub confinement: Confinement,
    /// The name under which farcall top shows the session; NULL if it does not.
    pub publish: *const c_char,
}

/// A live controller. Its parts that own the session are dropped with it.
pub(super) struct Live {
    pub(super) number: Number,
    pub(super) controller: farcall::controller::Process,
    pub(super) answers: Answers,
    /// The handlers by their tags.
    pub(super) handlers: Mutex<BTreeMap<u64, HandlerTag>>,
    /// The attached regions, by the numbers of the regions.
    pub(super) regions: Mutex<BTreeMap<Number, AttachedRegion>>,
    pub(super) jit: ExecutionSession,
    pub(super) layer: ObjectLayer,
    /// The dylib behind all others: what the executor's process and its libraries define.
    pub(super) process: JITDylib,
    pub(super) dispatcher: Arc<Dispatcher>,
    kill: WeakProcess,
}

impl Object for Live {
    type Handle = Controller;
    const WHAT: &'static str = "controller";
}

/// The number of bytes of the first version of the options.
const START_OPTIONS_BYTES: usize = size_of::<StartOptions>();

/// Serves as an executor and ends the process, if a controller has started this program with this_program; returns at once
/// otherwise. Call it first in main, before the program starts threads.
#[unsafe(no_mangle)]
pub extern "C" fn farcall_run_if_spawned() {
    farcall::executor::run_if_spawned();
}

/// Starts an executor, and waits until it is ready. The executor ends with the session. May be NULL: options.
///
/// # Safety
///
/// The options must be readable, with what they point to, and controller writable.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn farcall_controller_start(
    options: *const StartOptions,
    controller: *mut *mut Controller,
) -> *mut Error {
    Error::of(|| {
        // SAFETY: the caller vouches that the pointer is writable.
        let place = unsafe { Out::new(controller, "controller", std::ptr::null_mut()) }?;
        // SAFETY: the caller vouches for the options.
        let options = unsafe { options.as_ref() };
        if let Some(size) = options.map(|one| one.size).filter(|size| *size != START_OPTIONS_BYTES)
        {
            return Err(invalid(format!(
                "options of {size} bytes in place of {START_OPTIONS_BYTES}: set size to sizeof(farcall_start_options)"
            )));
        }
        let mut builder = ExecutorBuilder::new();
        if let Some(options) = options {
            // SAFETY: the caller vouches for the options.
            builder = unsafe { built(options) }?;
        }
        let (dispatch, context) = options
            .map_or((None, std::ptr::null_mut()), |one| (one.dispatch, one.dispatch_context));
        let dispatcher = Dispatcher::new(dispatch, Context::new(context));
        let started = builder.start()?.process()?;
        let number = Number::new();
        let jit = ExecutionSession::new();
        let layer = ObjectLayer::new(&jit, &started);
        let process = jit.create_dylib("the executor's process")?;
        process.add_generator(ProcessSymbols::new(&started))?;
        let live = Live {
            number,
            kill: started.downgrade(),
            controller: started,
            answers: Answers::default(),
            handlers: Mutex::default(),
            regions: Mutex::default(),
            jit,
            layer,
            process,
            dispatcher,
        };
        let live = Arc::new(live);
        let pointer = number.name(None, Arc::clone(&live))?;
        let mut registered = Ok(());
        if let Some((Some(on_death), context)) =
            options.map(|one| (one.on_death, Context::new(one.on_death_context)))
        {
            registered = live.controller.on_death(move |error| {
                // SAFETY: the host gave the function and its context for this.
                unsafe { on_death(number.pointer(), Error::give(error), context.get()) };
            });
        }
        if let Err(error) = registered {
            object::remove::<Live>(pointer)?;
            return Err(error);
        }
        place.write(pointer);
        Ok(())
    })
}

/// # Safety
///
/// All that the options point to must be readable.
unsafe fn built(options: &StartOptions) -> farcall::Result<ExecutorBuilder> {
    let mut builder = ExecutorBuilder::new();
    if options.this_program {
        builder = builder.this_program();
    }
    if !options.program.is_null() {
        // SAFETY: the caller vouches for the text.
        let path = unsafe { CStr::from_ptr(options.program) };
        builder = builder.program(OsStr::from_bytes(path.to_bytes()));
    }
    if options.inherit_descriptors {
        builder = builder.inherit_descriptors();
    }
    // SAFETY: the caller vouches for the texts.
    for variable in unsafe { texts(options.environment) } {
        let variable = variable?.to_bytes();
        let middle = variable.iter().position(|byte| *byte == b'=');
        let middle = middle.ok_or_else(|| invalid("a variable is no NAME=VALUE"))?;
        let (name, value) = variable.split_at(middle);
        let value = value.get(1..).unwrap_or_default();
        builder = builder.env(OsStr::from_bytes(name), OsStr::from_bytes(value));
    }
    if options.spin_ns > 0 {
        builder = builder.spin(Duration::from_nanos(options.spin_ns));
    }
    if options.start_timeout_ms > 0 {
        builder = builder.start_timeout(Duration::from_millis(options.start_timeout_ms));
    }
    if options.slab_bytes != Sizes::default() {
        builder = builder.slab_bytes(options.slab_bytes.into());
    }
    if options.low_slab_bytes != Sizes::default() {
        builder = builder.low_slab_bytes(options.low_slab_bytes.into());
    }
    if !options.publish.is_null() {
        // SAFETY: the caller vouches for the text.
        let name = unsafe { required_text(options.publish, "publish") }?;
        builder = builder.publish(name);
    }
    Ok(builder.confine(options.confinement.checked()?))
}

impl Confinement {
    /// The same for the library.
    fn checked(self) -> farcall::Result<controller::Confinement> {
        let mut confinement = match self.level {
            0 => controller::Confinement::new(),
            1 => controller::Confinement::isolated(),
            2 => controller::Confinement::strict(),
            level => return Err(invalid(format!("a confinement of level {level}"))),
        };
        if self.allow_missing {
            confinement = confinement.allow_missing();
        }
        if self.memory_bytes_max > 0 {
            confinement = confinement.memory_bytes_max(self.memory_bytes_max);
        }
        if self.cpu_seconds_max > 0 {
            confinement = confinement.cpu_seconds_max(self.cpu_seconds_max);
        }
        if self.descriptors_max > 0 {
            confinement = confinement.descriptors_max(self.descriptors_max);
        }
        if self.file_bytes_max > 0 {
            confinement = confinement.file_bytes_max(self.file_bytes_max);
        }
        Ok(confinement)
    }
}

/// The texts of an array that NULL ends; none for NULL.
///
/// # Safety
///
/// The array and its texts must be readable and stay so.
pub(super) unsafe fn texts<'a>(
    array: *const *const c_char,
) -> impl Iterator<Item = farcall::Result<&'a CStr>> {
    let mut at = array;
    std::iter::from_fn(move || {
        if at.is_null() {
            return None;
        }
        if !at.is_aligned() {
            at = std::ptr::null();
            return Some(Err(invalid("an array of texts that is not aligned")));
        }
        // SAFETY: the array goes on to its NULL, which has not come.
        let text = unsafe { at.read() };
        // SAFETY: as above.
        at = unsafe { at.add(1) };
        // SAFETY: the caller vouches for the text.
        (!text.is_null()).then(|| Ok(unsafe { CStr::from_ptr(text) }))
    })
}

impl From<Sizes> for PerProt<u64> {
    fn from(Sizes { code, constants, data }: Sizes) -> Self {
        Self { code, constants, data }
    }
}

/// Ends the session, also while other threads call: each call under way fails with FARCALL_DISCONNECTED, as does each completion
/// that has not come. All that belongs to the controller goes with it: dylibs, trackers, functions, pipelines, memory.
///
/// A handler that runs goes to its end before its call fails. The executor has ended when this returns; it is killed if it does
/// not end in 2 s. Waits for completions that run on threads of the library. May be NULL: controller.
#[unsafe(no_mangle)]
#[must_use]
pub extern "C" fn farcall_controller_close(controller: *mut Controller) -> *mut Error {
    if controller.is_null() {
        return std::ptr::null_mut();
    }
    Error::of(|| {
        let live = object::remove::<Live>(controller)?;
        let owned = live.number.remove_owned();
        live.controller.close();
        owned.iter().for_each(|object| object.close());
        drop(owned);
        live.lock_regions().clear();
        // The executor has ended, so what would be told to it fails. The memory of this process is freed.
        let _ = live.jit.end_session();
        Ok(())
    })
}

/// Ends the executor as exit(status) ends a program, and stores the exit status of the process. The controller stays, to be
/// closed.
///
/// # Safety
///
/// exit_status must be writable.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn farcall_controller_exit(
    controller: *mut Controller,
    status: c_int,
    exit_status: *mut c_int,
) -> *mut Error {
    Error::of(|| {
        let live = object::find::<Live>(controller)?;
        // SAFETY: the caller vouches that the pointer is writable.
        let place = unsafe { Out::new(exit_status, "exit_status", 0) }?;
        place.write(live.controller.exit(status)?);
        Ok(())
    })
}

/// Kills the executor at once. Calls under way fail with FARCALL_DIED. Does nothing when it has ended. The controller stays, to be
/// closed.
#[unsafe(no_mangle)]
#[must_use]
pub extern "C" fn farcall_controller_kill(controller: *mut Controller) -> *mut Error {
    Error::of(|| {
        object::find::<Live>(controller)?.kill.kill();
        Ok(())
    })
}

/// How the executor died, as an error of the code FARCALL_DIED; NULL while it runs. Sends no message.
#[unsafe(no_mangle)]
#[must_use]
pub extern "C" fn farcall_controller_death(controller: *mut Controller) -> *mut Error {
    Error::of(|| match object::find::<Live>(controller)?.controller.death() {
        Some(death) => Err(death),
        None => Ok(()),
    })
}

impl Live {
    pub(super) fn lock_regions(
        &self,
    ) -> std::sync::MutexGuard<'_, BTreeMap<Number, AttachedRegion>> {
        self.regions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The names of an array, for a look-up.
    ///
    /// # Safety
    ///
    /// The names must be texts.
    pub(super) unsafe fn names<'a>(names: &[*const c_char]) -> farcall::Result<Vec<&'a str>> {
        // SAFETY: the caller vouches for the texts.
        names.iter().map(|name| unsafe { required_text(*name, "a name") }).collect()
    }
}
