//! The core of an executor that has crashed: whole, small, and readable.

use std::fs;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use farcall::controller::ExecutorBuilder;
use nix::sys::resource::{RLIM_INFINITY, Resource, setrlimit};

use super::say;
use crate::alone;
use crate::commands::native::farcall_run;
use crate::testkit::corpus::{self, gcc};
use crate::testkit::launch;
use crate::testkit::process::run_to_end;

const PATTERN: &str = "/proc/sys/kernel/core_pattern";
/// All that an executor touches, its program included, is less. Its slabs have 256 MiB.
const CORE_BYTES_MAX: u64 = 100 << 20;

/// True where the kernel writes cores to the working directory. Says why they are not tried elsewhere.
fn is_written_here() -> bool {
    let pattern = fs::read_to_string(PATTERN).unwrap_or_default();
    let is_here = pattern.starts_with("core");
    if !is_here {
        let why = format!("{PATTERN} is {:?}, not a file of the working directory", pattern.trim());
        writeln!(std::io::stdout().lock(), "cores are not tried: {why}").expect("open");
    }
    is_here
}

/// The one core in a folder.
fn core_in(folder: &Path) -> PathBuf {
    let files = fs::read_dir(folder).expect("a folder").flatten().map(|entry| entry.path());
    let mut cores = files.filter(|path| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("core"))
    });
    let core = cores.next().expect("the kernel writes a core");
    assert_eq!(cores.next(), None, "of one process");
    core
}

/// Checks that a core has all bytes that its program headers name, and no more memory than the executor has used.
fn whole_and_small(core: &Path) {
    let bytes = fs::read(core).expect("a file");
    let number = |at: usize, size: usize| {
        let mut word = [0; 8];
        word[..size].copy_from_slice(&bytes[at..at + size]);
        u64::from_le_bytes(word)
    };
    let (table, count) = (usize::try_from(number(32, 8)).expect("a file"), number(56, 2));
    let headers = (0..count).map(|index| table + 56 * usize::try_from(index).expect("a file"));
    let end = headers.map(|at| number(at + 8, 8) + number(at + 32, 8)).max().expect("headers");
    let about = fs::metadata(core).expect("a file");
    assert!(end <= about.len(), "cut off: {} of {end} bytes", about.len());
    assert!(about.len() < CORE_BYTES_MAX, "{} bytes", about.len());
    assert!(about.blocks() * 512 < CORE_BYTES_MAX, "{} blocks", about.blocks());
}

#[test]
fn the_core_of_a_program_is_whole() {
    // U3
    if !is_written_here() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let object = corpus::object("crash.c", gcc(&["-O0", "-g"]));
    let run = farcall_run(&["--gdb".into(), object], &["store"]);
    let mut command = Command::new("bash");
    command.args(["-c", r#"ulimit -c unlimited; exec "$@""#, "sh"]).current_dir(folder.path());
    command.arg(run.get_program()).args(run.get_args());
    let ended = run_to_end(command, b"");
    assert_eq!(ended.status, 139, "{ended}");
    let core = core_in(folder.path());
    whole_and_small(&core);
    let mut gdb = Command::new("gdb");
    gdb.args(["-nx", "-batch", "-iex", "set debuginfod enabled off", launch::FARCALL]);
    gdb.arg(&core).args(["-ex", "backtrace", "-ex", "x/1i $pc"]);
    let Ok(output) = gdb.output() else { return say("not installed: no core is opened") };
    let said = String::from_utf8_lossy(&output.stdout);
    let line = said.lines().find(|line| line.contains("store_to_nowhere ("));
    assert!(line.is_some_and(|line| line.contains("crash.c:")), "{said}");
    let frame = said.lines().find(|line| line.contains(" main ("));
    assert!(frame.is_some_and(|line| line.contains("crash.c:")), "{said}");
    assert!(said.contains("=> 0x") && said.contains("mov"), "the code: {said}");
    say("a core");
}

/// Crashes an executor, drops the session, and returns the core.
fn crashed(builder: &ExecutorBuilder, name: &str) -> PathBuf {
    let folder = tempfile::tempdir().expect("a folder").keep().join(name);
    fs::create_dir(&folder).expect("a folder");
    std::env::set_current_dir(&folder).expect("a folder");
    let executor = builder.start().expect("an executor");
    let process = executor.process().expect("a process");
    let buffer = process.buffer(1 << 20).expect("memory");
    let nowhere = process.function::<extern "C" fn() -> i32>(buffer.address());
    assert!(nowhere.call(()).is_err(), "data cannot be run");
    drop((nowhere, buffer, process, executor));
    core_in(&folder)
}

#[test]
fn the_core_is_whole_when_the_session_has_been_dropped() {
    // U3
    if !is_written_here() {
        return;
    }
    let name = "executor::debugger::core_file::the_core_is_whole_when_the_session_has_been_dropped";
    alone::run(name, || {
        let program = fs::canonicalize(launch::FARCALL).expect("it is there");
        setrlimit(Resource::RLIMIT_CORE, RLIM_INFINITY, RLIM_INFINITY).expect("a higher limit");
        for (builder, name) in [
            (ExecutorBuilder::new().program(&program), "usual"),
            (ExecutorBuilder::new().program(&program).debuggable(), "debuggable"),
        ] {
            let core = crashed(&builder, name);
            whole_and_small(&core);
            fs::remove_dir_all(core.parent().and_then(Path::parent).expect("a folder"))
                .expect("removed");
        }
    });
}
