//! `farcall run`: link a program into another process and run it, as if it had been linked natively.

mod confine;
mod file;
mod heap;
mod inputs;
mod linker_script;
mod mapped;
mod named;
mod report;
pub(crate) mod signals;
mod steps;

use std::ffi::OsString;
use std::fmt::Display;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use farcall::controller::plugin::LinkStep;
use farcall::controller::profile::{DebugObjects, JitDump, PerfMap};
use farcall::controller::{
    Confinement, ExecutorBuilder, Library, LinkReport, Process, Spawned, WeakProcess,
};
use farcall::{ErrorKind, PerProt};

use self::confine::Confine;
use self::inputs::Inputs;
use self::named::Named;
use self::report::{JsonFile, RunReport};
use self::steps::Steps;
use crate::advice;
use crate::status::{Failure, LINK, NOT_FOUND, TIMED_OUT, TOOL};

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Objects, archives, and linker scripts that name some, in any order. A member of an archive is linked if another object
    /// needs it.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Link with this library: libNAME.so, opened in the executor, or else libNAME.a. -l :FILE looks for a file of this name.
    #[arg(short = 'l', value_name = "NAME")]
    libraries: Vec<String>,
    /// Look for libraries in this folder first.
    #[arg(short = 'L', value_name = "DIR")]
    folders: Vec<PathBuf>,
    /// Print what was linked and sent, and the time and the page faults of each step, on standard error.
    #[arg(long)]
    stats: bool,
    /// Write the statistics and the exit code as one JSON object to this file when the program has ended. For - they follow the
    /// program's output on standard output. The file stays empty if nothing was run.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write each step of the link and the run to this file when the program has ended, as a trace that a browser's viewer opens.
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Kill the program after this time: 500ms, 10s, 2m.
    #[arg(long, value_name = "DUR", value_parser = duration)]
    timeout: Option<Duration>,
    /// Run code on the stack, as GNU C makes it for nested functions whose address is taken.
    #[arg(long)]
    allow_exec_stack: bool,
    /// Start at this symbol instead of main, as the kernel starts a program: with its arguments on the stack. Code that has
    /// its own _start, such as Pascal's, needs --entry _start.
    #[arg(long, value_name = "SYMBOL")]
    entry: Option<String>,
    /// The program's name, its argv[0]. Without this option it is the name of the first FILE.
    #[arg(long, value_name = "NAME")]
    argv0: Option<OsString>,
    /// The file of /proc/self/exe in the program: the executor is started as this file, a copy of or a hard link to farcall.
    #[arg(long, value_name = "PATH")]
    exe: Option<PathBuf>,
    /// Reserve these MiB for code, constants and data at first. More is reserved when it is needed, so this is for a limit on
    /// address space (ulimit -v).
    #[arg(long, value_name = "CODE,CONSTANTS,DATA", value_parser = slab)]
    slab: Option<PerProt<u64>>,
    /// The same for code with 32-bit addresses (-fno-pic), below 2 GiB.
    #[arg(long, value_name = "CODE,CONSTANTS,DATA", value_parser = slab)]
    low_slab: Option<PerProt<u64>>,
    #[command(flatten)]
    confine: Confine,
    /// Make the program known to a debugger, which can set breakpoints in it. The number of the process to attach to is printed on
    /// standard error.
    #[arg(long)]
    gdb: bool,
    /// List the program's functions in /tmp/perf-PID.map for perf.
    #[arg(long)]
    perf_map: bool,
    /// Write the program's code and lines to DIR/jit-PID.dump for perf record -k mono and perf inject --jit.
    #[arg(long, value_name = "DIR")]
    jitdump: Option<PathBuf>,
    /// The program's arguments.
    #[arg(last = true, value_name = "ARGS")]
    args: Vec<OsString>,
}

/// Runs the program and returns its exit status.
pub(crate) fn run(options: &Options) -> Result<i32, Failure> {
    let create = |option| move |path| JsonFile::create(option, path);
    let json = options.json.as_deref().map(create("--json")).transpose()?;
    let trace = options.trace.as_deref().map(create("--trace")).transpose()?;
    let named = Named::find(&options.files, &options.libraries, &options.folders)?;
    let spawned = start(options, &named)?;
    let mut steps = Steps::begin();
    let (inputs, load) = steps.alone("load", 1, || Inputs::read(&named));
    let (connected, connect) =
        steps.alone("connect", 1, || connect(spawned, &named, options.timeout));
    let inputs = inputs?;
    let Connected { process, program, timer } = connected?;
    steps.all.extend([load, connect]);
    steps.set_bytes("load", inputs.bytes());

    if options.allow_exec_stack {
        process.allow_executable_stacks()?;
    }
    if options.gdb {
        eprintln!("farcall: the program runs in process {0}: gdb -p {0}", process.pid());
    }
    add_plugins(options, &process, &program)?;
    inputs.add_to(&program)?;
    let link = link(options, &named, &inputs, &program, &mut steps)?;
    steps.set_bytes("fix up", link.bytes);
    let before_main = process.stats();

    steps.restart();
    let arguments = arguments(options);
    let ran = match &options.entry {
        None => program.run_main(arguments).and_then(|status| process.exit(status)),
        Some(entry) => program.run_start(entry, arguments),
    };
    let mut outcome = finish(ran);
    steps.end("run");
    if timer.is_some_and(|timer| timer.rang()) {
        let timeout = options.timeout.unwrap_or_default();
        outcome = Err(Failure::new(TIMED_OUT, format_args!("killed after {timeout:?}")));
    }
    let exit_code = outcome.as_ref().map_or_else(Failure::status, |status| *status);
    let report = RunReport::new(exit_code, link, before_main, &steps);
    if options.stats {
        eprintln!("{report}");
    }
    if let Some(json) = json {
        json.write(&report)?;
    }
    if let Some(trace) = trace {
        trace.write(&steps.trace())?;
    }
    if outcome.as_ref().is_err_and(|failure| failure.signal().is_some()) {
        // The kernel may still write the program's core.
        process.close();
    }
    if options.confine.is_confined() {
        // The session collects the process that has ended what the program left.
        drop((program, process));
        keep(inputs, None);
    } else {
        keep(inputs, Some(program));
    }
    outcome
}

/// Keeps what was read and linked until this process ends, which it does now. To free all that, piece by piece, takes longer. A static
/// holds it, so a leak checker that is preloaded for the program finds no leak here.
fn keep(inputs: Inputs, program: Option<Library>) {
    static KEPT: OnceLock<(Inputs, Option<Library>)> = OnceLock::new();
    let _ = KEPT.set((inputs, program));
}

/// Starts the executor that the options and libraries require.
fn start(options: &Options, named: &Named) -> Result<Spawned, Failure> {
    let mut builder = ExecutorBuilder::new();
    if let Some(bytes) = options.slab {
        builder = builder.slab_bytes(bytes);
    }
    if let Some(bytes) = options.low_slab {
        builder = builder.low_slab_bytes(bytes);
    }
    let tunables = tunables(named);
    let is_limited = options.confine.confinement() != Confinement::new();
    let is_plain = options.exe.is_none() && tunables.is_none() && !is_limited && !options.gdb;
    // Such an executor is ready sooner.
    if is_plain
        && std::env::var_os(EXECUTOR).is_none()
        && let Ok(forked) = farcall::executor::fork()
    {
        return Ok(builder.adopt(forked)?);
    }
    // A shell may have opened files for the program.
    builder = builder.this_program().inherit_descriptors().confine(options.confine.confinement());
    if options.gdb {
        builder = builder.debuggable();
    }
    if let Some(path) = &options.exe {
        require_executor(path)?;
        builder = builder.program(path);
    }
    if let Some(tunables) = tunables {
        builder = builder.env(TUNABLES, tunables);
    }
    Ok(builder.spawn()?)
}

/// The tunables of the C library for these libraries, if they need some.
fn tunables(named: &Named) -> Option<OsString> {
    // Natively the thread-locals of libraries have their room before the program starts.
    let bytes = named.thread_bytes();
    if bytes <= SPARE_THREAD_BYTES {
        return None;
    }
    let mut tunables = std::env::var_os(TUNABLES).unwrap_or_default();
    if !tunables.is_empty() {
        tunables.push(":");
    }
    tunables.push(format!("glibc.rtld.optional_static_tls={}", bytes + SPARE_THREAD_BYTES));
    Some(tunables)
}

/// The variable that names the executor's program.
const EXECUTOR: &str = "FARCALL_EXECUTOR";

/// The variable that sets the C library's tunables when a process starts.
const TUNABLES: &str = "GLIBC_TUNABLES";

/// The room for thread-locals of libraries that the C library leaves in each thread of any process.
const SPARE_THREAD_BYTES: u64 = 1024;

/// Refuses a file that is no copy of the program that runs as the executor. It would be run.
fn require_executor(path: &Path) -> Result<(), Failure> {
    let failure = |status, why: &dyn Display| {
        let failure = Failure::new(status, format_args!("--exe {}: {why}", path.display()));
        let own = std::env::current_exe().unwrap_or_default();
        let advice = format!(
            "the kernel lets no running process change its /proc/self/exe, so the executor is started as that file: \
             ln or cp {} {}",
            own.display(),
            path.display()
        );
        failure.hint(Some(advice))
    };
    let about = path.symlink_metadata().map_err(|error| {
        let missing = error.kind() == std::io::ErrorKind::NotFound;
        failure(if missing { NOT_FOUND } else { TOOL }, &error)
    })?;
    if about.is_symlink() {
        return Err(failure(TOOL, &"a symbolic link, of which the kernel would show the target"));
    }
    let same = std::env::current_exe().and_then(|own| {
        Ok(own.metadata()?.len() == about.len() && std::fs::read(own)? == std::fs::read(path)?)
    });
    match same {
        Ok(true) => Ok(()),
        Ok(false) => Err(failure(TOOL, &"not this farcall")),
        Err(error) => Err(failure(TOOL, &error)),
    }
}

/// A session with the executor, and the program there, without objects yet.
struct Connected {
    process: Process,
    program: Library,
    timer: Option<Timer>,
}

/// Connects to the executor, and names the program's shared libraries.
fn connect(
    spawned: Spawned,
    named: &Named,
    timeout: Option<Duration>,
) -> Result<Connected, Failure> {
    let executor = spawned.connect()?;
    let process = executor.process()?;
    signals::pass_on(process.pid())?;
    let timer = timeout.map(|timeout| Timer::start(timeout, process.downgrade()));
    let program = executor.library("program");
    for library in &named.libraries {
        program.add_library(library).expect("added");
    }
    // They are opened in the link: they may need names of the program.
    program.precede_libraries().expect("added");
    Ok(Connected { process, program, timer })
}

/// Links the program. If names are missing that libraries to open as needed define, opens those and links once more.
///
/// # Errors
///
/// If it cannot be linked, or has no entry. None of its code has run then.
fn link(
    options: &Options,
    named: &Named,
    inputs: &Inputs,
    program: &Library,
    steps: &mut Steps,
) -> Result<LinkReport, Failure> {
    let entry = options.entry.as_deref().unwrap_or("main");
    program.want(entry)?;
    steps.restart();
    let mut ended = |step| {
        steps.end(match step {
            LinkStep::Pull => "pull",
            LinkStep::LookUp => "look up",
            LinkStep::Layout => "lay out",
            LinkStep::Fixup => "fix up",
            _ => "transfer",
        });
    };
    let mut linked = program.link_with(&mut ended);
    if let Err(error) = &linked
        && let needed = named.needed_for(error.symbols())
        && !needed.is_empty()
    {
        needed.into_iter().try_for_each(|library| program.add_library(library))?;
        inputs.add_objects_to(program)?;
        program.want(entry)?;
        linked = program.link_with(&mut ended);
    }
    let linked = linked.and_then(|report| program.lookup(entry).map(|_| report));
    linked.map_err(|error| {
        if error.kind() == ErrorKind::Exhausted {
            return Failure::new(LINK, error);
        }
        if error.kind() != ErrorKind::SymbolsNotFound {
            return error.into();
        }
        if error.symbols() != [entry] {
            return Failure::from(error).hint(Some(advice::IF_UNDEFINED.to_owned()));
        }
        let files: Vec<_> = options.files.iter().map(|path| path.display().to_string()).collect();
        let files = files.join(", ");
        Failure::new(
            LINK,
            format_args!("no {entry} in {files}: add the object or the archive that defines it"),
        )
    })
}

/// Adds the plugins that the options name, which make the program known to debuggers and profilers.
fn add_plugins(options: &Options, process: &Process, program: &Library) -> Result<(), Failure> {
    if options.gdb {
        program.add_plugin(Arc::new(DebugObjects)).expect("added");
    }
    if options.perf_map {
        program.add_plugin(Arc::new(PerfMap::create(process)?)).expect("added");
    }
    if let Some(directory) = &options.jitdump {
        program.add_plugin(Arc::new(JitDump::create(process, directory)?)).expect("added");
    }
    Ok(())
}

/// The exit status of a program that has ended.
fn finish(ran: farcall::Result<i32>) -> Result<i32, Failure> {
    match ran {
        Ok(status) => Ok(status),
        // If the program has called exit, that is an error here, with an exit status.
        Err(error) => match error.death().and_then(|death| death.exit_status) {
            Some(status) => Ok(status),
            None => Err(Failure::of_program(error)),
        },
    }
}

/// The program's `argv`. Its name is the first file's, unless an option says otherwise.
fn arguments(options: &Options) -> Vec<Vec<u8>> {
    let name = options.argv0.as_deref();
    let name = name.or_else(|| Some(options.files.first()?.as_os_str()));
    let name = name.map(|name| name.as_bytes().to_vec());
    name.into_iter().chain(options.args.iter().map(|arg| arg.clone().into_vec())).collect()
}

/// Kills the program when its time is up.
struct Timer(Arc<AtomicBool>);

impl Timer {
    fn start(timeout: Duration, killer: WeakProcess) -> Self {
        let rang = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&rang);
        std::thread::spawn(move || {
            std::thread::sleep(timeout);
            flag.store(true, Ordering::SeqCst);
            killer.kill();
        });
        Self(rang)
    }

    fn rang(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

/// Reads three sizes in MiB: 64,64,256.
fn slab(text: &str) -> Result<PerProt<u64>, String> {
    let mib = |text: &str| text.parse::<u64>().ok().filter(|mib| (1..1 << 30).contains(mib));
    let sizes: Option<Vec<_>> = text.split(',').map(mib).collect();
    match sizes.as_deref() {
        Some([code, constants, data]) => {
            let sizes = PerProt { code, constants, data };
            Ok(sizes.map(|mib| mib << 20))
        }
        _ => Err(format!(
            "{text}: not three sizes in MiB for code, constants and data, such as 64,64,256"
        )),
    }
}

/// Reads a time: 500ms, 10s, 2m.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let split = text.find(|c: char| c != '.' && !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let number: f64 = number.parse().map_err(|_| format!("{text}: not a time"))?;
    let seconds = match unit {
        "ms" => number / 1e3,
        "" | "s" => number,
        "m" => number * 60.0,
        "h" => number * 3600.0,
        _ => return Err(format!("{text}: the unit is ms, s, m or h")),
    };
    Duration::try_from_secs_f64(seconds).map_err(|error| format!("{text}: {error}"))
}
