//! How an executor starts, survives and is confined.

use std::ffi::{CStr, OsStr, c_char, c_void};
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::time::Duration;

use farcall::controller::{self, ExecutorBuilder};

use super::buffer::{required_text, texts};
use super::error::invalid;
use super::host::{Context, Dispatch, Dispatcher};
use super::process::Sizes;

/// What an executor may not do, and how much it may use. With all members 0 it may do all that the user may.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Confinement {
    /// 0: no confinement. 1, isolated: the executor writes no files, makes no TCP connections, and signals and traces no process
    /// outside; what it starts ends with it. 2, strict: it makes no system calls but those of a session.
    pub level: u32,
    /// Leaves out what this kernel cannot restrict. Otherwise the start fails.
    pub allow_missing: bool,
    /// Runs on CPUs that nothing else wants.
    pub background: bool,
    /// The most private memory; 0 is no limit.
    pub memory_bytes_max: u64,
    /// The most CPU time; 0 is no limit.
    pub cpu_seconds_max: u64,
    /// The most descriptors; 0 is no limit.
    pub descriptors_max: u64,
    /// The largest size of a file that the executor writes; 0 is no limit.
    pub file_bytes_max: u64,
}

/// When the next process starts after a death. With all members 0 none does: all calls fail then.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RestartPolicy {
    /// The call that finds a process dead starts the next one, with the same contents.
    pub restarts: bool,
    /// Ends a process when a call with a timeout has timed out. Otherwise the function runs on in it.
    pub kill_on_timeout: bool,
    /// Keeps one more process started, which becomes the next one.
    pub standby: bool,
    /// The pause before a start; 0 is none. It doubles with each death.
    pub pause_ms: u64,
    /// The longest pause. The pause begins anew when a process has lived for longer.
    pub pause_max_ms: u64,
    /// The most starts within within_ms; 0 is no limit. When one more is needed, all calls fail from then on.
    pub restarts_max: u32,
    /// See restarts_max.
    pub within_ms: u64,
}

/// How to start an executor. All members but size may be 0, which is the default.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct ExecutorOptions {
    /// sizeof(farcall_executor_options).
    pub size: usize,
    /// The path of the executor's program. NULL: the program that the environment variable FARCALL_EXECUTOR names, or the file
    /// farcall-executor beside this program.
    pub program: *const c_char,
    /// Makes this program the executor's as well. Its main must call farcall_run_if_spawned first. FARCALL_EXECUTOR has precedence.
    pub this_program: bool,
    /// Leaves descriptors without close-on-exec open in the executor.
    pub inherit_descriptors: bool,
    /// Lets debuggers set breakpoints in linked code.
    pub debuggable: bool,
    /// Runs linked code in this process, on the threads that call it, for code that is trusted as the host's own. A crash, exit or an
    /// uncaught exception of the code ends the host, and a call that hangs keeps its thread. farcall_function_pointer gives plain
    /// pointers. No program is started: program, this_program, start_timeout_ms and inherit_descriptors mean nothing.
    ///
    /// FARCALL_INVALID names what needs a process. Here that is confinement, restart, processes, environment and link_timeout_ms.
    /// For a call it is a timeout, a watch, a cancellation and farcall_executor_interrupt_all. Snapshots need one too, and
    /// farcall_process_exit, farcall_library_run_start and farcall_library_precede_libraries.
    /// A kill (farcall_executor_kill) closes the session. Closing the executor waits for no call: the memory of linked code lives until
    /// the last one has returned.
    pub in_process: bool,
    /// The first executor of a program, an environment and rights parts a process from itself that has loaded the program. That process
    /// runs no linked code. It forks restarts, standbys, further processes, and other executors while this one is there. They start in
    /// a fifth to two thirds of the time, and have the layout of their libraries in common. Executors without this option are started anew.
    pub shared_layout: bool,
    /// Variables to add to the executor's environment, as NAME=VALUE, ended by NULL.
    pub environment: *const *const c_char,
    /// What happens after a death.
    pub restart: RestartPolicy,
    /// The number of processes, at most 256; 0 is 1. Each of several runs one call at a time.
    pub processes: usize,
    /// What the executor may not do, and how much it may use.
    pub confinement: Confinement,
    /// The name under which farcall top shows the executor; NULL if it does not.
    pub publish: *const c_char,
    /// How long each side polls for the other before it sleeps; 50 us by default.
    pub spin_ns: u64,
    /// How long the executor may take until it is ready; 10 s by default.
    pub start_timeout_ms: u64,
    /// How long a link may wait for the executor's answer; 0 is no limit.
    pub link_timeout_ms: u64,
    /// The memory for linked code at first, whole pages: 64, 64 and 128 MiB by default. More is added when it is needed.
    pub slab_bytes: Sizes,
    /// The same for code with 32-bit addresses: 64, 64 and 256 MiB by default.
    pub low_slab_bytes: Sizes,
    /// Runs completions of calls. NULL: threads of the library.
    pub dispatch: Dispatch,
    /// Passed to dispatch; may be NULL.
    pub dispatch_context: *mut c_void,
}

impl ExecutorOptions {
    /// The same for the library, and what runs completions.
    ///
    /// # Errors
    ///
    /// When the size is another one, or a member is wrong.
    ///
    /// # Safety
    ///
    /// All that the options point to must be readable.
    pub(super) unsafe fn built(&self) -> farcall::Result<(ExecutorBuilder, Arc<Dispatcher>)> {
        let due = size_of::<Self>();
        if self.size != due {
            let size = self.size;
            let advice = "set size to sizeof(farcall_executor_options)";
            return Err(invalid(format!("options of {size} bytes in place of {due}: {advice}")));
        }
        let mut builder = ExecutorBuilder::new().confine(self.confinement.checked()?);
        if self.this_program {
            builder = builder.this_program();
        }
        if !self.program.is_null() {
            // SAFETY: the caller vouches for the text.
            let path = unsafe { CStr::from_ptr(self.program) };
            builder = builder.program(OsStr::from_bytes(path.to_bytes()));
        }
        if self.inherit_descriptors {
            builder = builder.inherit_descriptors();
        }
        if self.debuggable {
            builder = builder.debuggable();
        }
        if self.in_process {
            builder = builder.in_process();
        }
        if self.shared_layout {
            builder = builder.shared_layout();
        }
        // SAFETY: the caller vouches for the texts.
        for variable in unsafe { texts(self.environment) } {
            let variable = variable?.to_bytes();
            let middle = variable.iter().position(|byte| *byte == b'=');
            let middle = middle.ok_or_else(|| invalid("a variable is no NAME=VALUE"))?;
            let (name, value) = variable.split_at(middle);
            let value = value.get(1..).unwrap_or_default();
            builder = builder.env(OsStr::from_bytes(name), OsStr::from_bytes(value));
        }
        if self.restart != RestartPolicy::default() {
            builder = builder.restart(self.restart.checked()?);
        }
        if self.processes > 0 {
            builder = builder.processes(self.processes);
        }
        if !self.publish.is_null() {
            // SAFETY: the caller vouches for the text.
            builder = builder.publish(unsafe { required_text(self.publish, "publish") }?);
        }
        if self.spin_ns > 0 {
            builder = builder.spin(Duration::from_nanos(self.spin_ns));
        }
        if self.start_timeout_ms > 0 {
            builder = builder.start_timeout(Duration::from_millis(self.start_timeout_ms));
        }
        if self.link_timeout_ms > 0 {
            builder = builder.link_timeout(Duration::from_millis(self.link_timeout_ms));
        }
        if self.slab_bytes != Sizes::default() {
            builder = builder.slab_bytes(self.slab_bytes.into());
        }
        if self.low_slab_bytes != Sizes::default() {
            builder = builder.low_slab_bytes(self.low_slab_bytes.into());
        }
        Ok((builder, Dispatcher::new(self.dispatch, Context::new(self.dispatch_context))))
    }
}

impl RestartPolicy {
    /// The same for the library.
    fn checked(self) -> farcall::Result<controller::RestartPolicy> {
        if !self.restarts {
            return Err(invalid("a restart policy without restarts: set restarts to true"));
        }
        let ms = Duration::from_millis;
        let mut policy =
            controller::RestartPolicy::new().back_off(ms(self.pause_ms), ms(self.pause_max_ms));
        if self.restarts_max > 0 {
            policy = policy.at_most(self.restarts_max, ms(self.within_ms));
        }
        if self.kill_on_timeout {
            policy = policy.kill_on_timeout();
        }
        if self.standby {
            policy = policy.standby();
        }
        Ok(policy)
    }
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
        if self.background {
            confinement = confinement.background();
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
