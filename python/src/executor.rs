//! Executors with the same contents, one after the other, and what their functions and libraries share.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use farcall::controller::profile::DebugObjects;
use farcall::controller::{self, Confinement, ExecutorBuilder, Library, Process, RestartPolicy};
use farcall::orc::{ExecutionSession, ProcessSymbols};
use farcall::types::Declarations;
use farcall::{ExecutorAddr, Result};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::{PyTraverseError, PyVisit};

use crate::array::{Heap, Memory};
use crate::callback::definitions::Definitions;
use crate::error;
use crate::wait::seconds;

/// The state that the objects of one `Executor` share.
pub(crate) struct Shared {
    executor: controller::Executor,
    heap: OnceLock<Heap>,
    heap_bytes: u64,
    /// Held while the heap is made.
    heap_making: Mutex<()>,
    declarations: Mutex<Declarations>,
    timeout: Option<Duration>,
    is_debuggable: bool,
    is_in_process: bool,
    is_closed: AtomicBool,
}

impl Shared {
    /// A library without contents, of which debuggers learn if they may.
    ///
    /// # Errors
    ///
    /// When an executor cannot be started.
    pub(crate) fn library(&self, name: String) -> Result<Library> {
        let library = self.executor.library(name);
        library.check_types()?;
        if self.is_debuggable {
            library.add_plugin(Arc::new(DebugObjects))?;
        }
        Ok(library)
    }

    /// The timeout of calls that are given none.
    pub(crate) fn timeout(&self) -> Option<Duration> {
        self.timeout
    }

    pub(crate) fn declarations(&self) -> MutexGuard<'_, Declarations> {
        self.declarations.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Refuses what has no meaning after the end.
    ///
    /// # Errors
    ///
    /// `ValueError`.
    pub(crate) fn check_open(&self) -> PyResult<()> {
        // Relaxed: a call that runs at the same time may go either way.
        match self.is_closed.load(Ordering::Relaxed) {
            false => Ok(()),
            true => Err(PyValueError::new_err("the executor is closed")),
        }
    }

    /// True when linked code runs in the interpreter's process.
    pub(crate) fn is_in_process(&self) -> bool {
        self.is_in_process
    }

    /// Refuses what an executor in the interpreter's process does not have.
    ///
    /// # Errors
    ///
    /// `ValueError`.
    pub(crate) fn check_process(&self, what: &str) -> PyResult<()> {
        if self.is_in_process { Err(refused(what)) } else { Ok(()) }
    }

    /// The memory of arrays, if any was needed so far.
    pub(crate) fn arrays(&self) -> Option<&Heap> {
        self.heap.get()
    }

    /// The memory of arrays, which is attached when it is needed first.
    ///
    /// # Errors
    ///
    /// When the system refuses, or an executor cannot be started.
    pub(crate) fn heap(&self) -> Result<&Heap> {
        if let Some(heap) = self.heap.get() {
            return Ok(heap);
        }
        let _making = self.heap_making.lock().unwrap_or_else(PoisonError::into_inner);
        if self.heap.get().is_none() {
            let heap = Heap::new(self.heap_bytes)?;
            self.executor.attach(heap.region().clone())?;
            let _ = self.heap.set(heap);
        }
        self.heap.get().ok_or_else(|| farcall::Error::other("no memory for arrays"))
    }

    fn close(&self) {
        if !self.is_closed.swap(true, Ordering::Relaxed) {
            self.executor.close();
        }
    }
}

/// The class below the package's `Executor`.
#[pyclass(frozen, subclass, module = "farcall._farcall")]
pub(crate) struct Executor {
    shared: Arc<Shared>,
    definitions: Py<Definitions>,
}

impl Executor {
    pub(crate) fn definitions(&self) -> &Py<Definitions> {
        &self.definitions
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }
}

#[pymethods]
impl Executor {
    #[new]
    #[pyo3(signature = (
        *, program, processes = 1, sandbox = None, memory = None, cpu_seconds = None, allow_missing = false, timeout = None,
        link_timeout = None, standby = false, name = None, spin = None, debuggable = false, in_process = false,
        shared_layout = false, arrays = 64 << 30
    ))]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments of Python")]
    fn new(
        py: Python<'_>,
        program: std::path::PathBuf,
        processes: usize,
        sandbox: Option<&str>,
        memory: Option<u64>,
        cpu_seconds: Option<u64>,
        allow_missing: bool,
        timeout: Option<f64>,
        link_timeout: Option<f64>,
        standby: bool,
        name: Option<String>,
        spin: Option<f64>,
        debuggable: bool,
        in_process: bool,
        shared_layout: bool,
        arrays: u64,
    ) -> PyResult<Self> {
        if in_process {
            let asked = [
                (processes != 1, "processes"),
                (sandbox.is_some(), "sandbox"),
                (memory.is_some(), "memory"),
                (cpu_seconds.is_some(), "cpu_seconds"),
                (allow_missing, "allow_missing"),
                (timeout.is_some(), "timeout"),
                (link_timeout.is_some(), "link_timeout"),
                (standby, "standby"),
            ];
            if let Some((_, option)) = asked.iter().find(|(is_asked, _)| *is_asked) {
                return Err(refused(&format!("the option {option}")));
            }
        }
        let mut confinement = match sandbox {
            None => Confinement::new(),
            Some("isolated") => Confinement::isolated(),
            Some("strict") => Confinement::strict(),
            Some(other) => {
                let message = format!("sandbox={other:?}: None, \"isolated\" or \"strict\"");
                return Err(PyValueError::new_err(message));
            }
        };
        if let Some(bytes) = memory {
            confinement = confinement.memory_bytes_max(bytes);
        }
        if let Some(seconds) = cpu_seconds {
            confinement = confinement.cpu_seconds_max(seconds);
        }
        if allow_missing {
            confinement = confinement.allow_missing();
        }
        let timeout = timeout.map(seconds).transpose()?;
        let mut builder = ExecutorBuilder::new().program(program).confine(confinement);
        if let Some(time) = link_timeout {
            builder = builder.link_timeout(seconds(time)?);
        }
        if debuggable {
            builder = builder.debuggable();
        }
        if shared_layout {
            builder = builder.shared_layout();
        }
        if let Some(name) = name {
            builder = builder.publish(name);
        }
        if let Some(spin) = spin {
            builder = builder.spin(seconds(spin)?);
        }
        let started = if in_process {
            // Streams and signals are the interpreter's.
            error::detached(py, || builder.in_process().start())
        } else {
            // A call that no thread waits for any more would keep the later ones waiting.
            let policy = RestartPolicy::new().kill_on_timeout();
            let policy = if standby { policy.standby() } else { policy };
            let builder = builder.restart(policy).processes(processes);
            error::detached(py, || start(&builder))
        };
        let executor = started?;
        let shared = Shared {
            executor,
            heap: OnceLock::new(),
            heap_bytes: arrays,
            heap_making: Mutex::default(),
            declarations: Mutex::default(),
            timeout,
            is_debuggable: debuggable,
            is_in_process: in_process,
            is_closed: AtomicBool::new(false),
        };
        let definitions = Py::new(py, Definitions::default())?;
        Ok(Self { shared: Arc::new(shared), definitions })
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> std::result::Result<(), PyTraverseError> {
        visit.call(&self.definitions)
    }

    /// Reads definitions of structures and `typedef`s, for prototypes that use them.
    fn declare(&self, py: Python<'_>, text: &str) -> PyResult<()> {
        self.shared.declarations().declare(text).map_err(|error| error::raise(py, &error))
    }

    /// Memory of zeros that executors map.
    #[pyo3(signature = (bytes, large_pages = false))]
    fn allocate(&self, py: Python<'_>, bytes: usize, large_pages: bool) -> PyResult<Memory> {
        self.shared.check_open()?;
        error::detached(py, || self.shared.heap()?.allocate(bytes, large_pages)).map(Memory::new)
    }

    /// Reads bytes of the only executor: for addresses that linked code has returned or passed to a function of Python.
    fn bytes_at(&self, py: Python<'_>, address: u64, bytes: u64) -> PyResult<Vec<u8>> {
        let start = ExecutorAddr::new(address);
        let end = address.checked_add(bytes).map(ExecutorAddr::new);
        let end = end.ok_or_else(|| PyValueError::new_err("past the end of memory"))?;
        let ranges = [farcall::AddrRange { start, end }];
        self.read(py, |process| process.memory_access().read_buffers(&ranges))
    }

    /// Reads a text of the only executor, up to its zero.
    fn text_at(&self, py: Python<'_>, address: u64) -> PyResult<Vec<u8>> {
        let addresses = [ExecutorAddr::new(address)];
        self.read(py, |process| process.memory_access().read_strings(&addresses))
    }

    /// The processes of executors that run now.
    #[getter]
    fn pids(&self) -> PyResult<Vec<i32>> {
        self.shared.check_process("Executor.pids")?;
        Ok(self.shared.executor.pids())
    }

    #[getter]
    fn closed(&self) -> bool {
        self.shared.check_open().is_err()
    }

    /// Ends the processes that run now, whatever they do. Calls under way fail with `ExecutorDied`; the next call starts the next
    /// process, with the same contents.
    fn kill(&self, py: Python<'_>) -> PyResult<()> {
        self.shared.check_open()?;
        self.shared.check_process("Executor.kill")?;
        py.detach(|| self.shared.executor.kill());
        Ok(())
    }

    /// Ends the calls that run now: each raises `CallInterrupted`, unless it returns first, or cannot be left within `grace` seconds. The
    /// processes live on, with their variables. A call that begins later is not ended. Waits for nothing, so any thread may use it, as a
    /// timer's.
    #[pyo3(signature = (grace = 0.01))]
    fn interrupt_all(&self, py: Python<'_>, grace: f64) -> PyResult<()> {
        self.shared.check_open()?;
        self.shared.check_process("Executor.interrupt_all")?;
        let grace = seconds(grace)?;
        error::detached(py, || self.shared.executor.interrupt_all(grace))
    }

    /// As `kill`, and starts the next processes now.
    fn restart(&self, py: Python<'_>) -> PyResult<()> {
        self.shared.check_open()?;
        self.shared.check_process("Executor.restart")?;
        error::detached(py, || self.shared.executor.restart())
    }

    /// Ends the executors. Calls under way fail, later ones are refused. Arrays stay.
    fn close(&self, py: Python<'_>) {
        py.detach(|| self.shared.close());
    }
}

impl Executor {
    fn read(
        &self,
        py: Python<'_>,
        read: impl FnOnce(&Process) -> Result<Vec<Vec<u8>>> + Send,
    ) -> PyResult<Vec<u8>> {
        self.shared.check_open()?;
        if self.shared.executor.processes() > 1 {
            return Err(PyValueError::new_err("an address means nothing among several processes"));
        }
        let found = error::detached(py, || read(&self.shared.executor.process()?))?;
        Ok(found.into_iter().next().unwrap_or_default())
    }
}

/// The exception for what needs a process of the executor's own.
#[cold]
fn refused(what: &str) -> PyErr {
    PyValueError::new_err(format!(
        "{what} needs a process of the executor's own, and this executor is in the interpreter's: start it without in_process=True"
    ))
}

/// Starts executors that write each line at once, and that Ctrl-C at a terminal does not end.
fn start(builder: &ExecutorBuilder) -> Result<controller::Executor> {
    let executor = builder.start()?;
    executor.establish(prepare)?;
    Ok(executor)
}

/// Makes the executor's C library write lines when they end, and the process ignore SIGINT, which a terminal sends to all processes.
fn prepare(process: &Process) -> Result<()> {
    const SIGINT: i32 = 2;
    const SIG_IGN: u64 = 1;
    const LINES: i32 = 1;
    let session = ExecutionSession::new();
    let symbols = session.create_dylib("process")?;
    symbols.add_generator(ProcessSymbols::new(process))?;
    let found = symbols.lookup_all(["signal", "stdout", "setvbuf"])?;
    let address = |name: &str| found.get(name).map_or(ExecutorAddr::NULL, |symbol| symbol.address);
    let signal = process.function::<extern "C" fn(i32, u64) -> u64>(address("signal"));
    signal.call((SIGINT, SIG_IGN))?;
    let stdout = process.memory_access().read::<u64>(&[address("stdout")])?;
    type SetBuffer = extern "C" fn(ExecutorAddr, ExecutorAddr, i32, u64) -> i32;
    let set_buffer = process.function::<SetBuffer>(address("setvbuf"));
    for stream in stdout {
        set_buffer.call((ExecutorAddr::new(stream), ExecutorAddr::NULL, LINES, 0))?;
    }
    session.end_session()
}
