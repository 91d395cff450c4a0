//! A build beside the calls, as of `make -j2`: two threads that compile C, file after file.
//!
//! The sources go to the compiler's standard input, and the assembly to nowhere, so no file is written.
//!
//! Invariant: the process leads a group of its own, with all compilers in it. When its standard input ends, which is when the
//! bench ends in any way, it kills the group.

use std::fmt::Write as _;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::thread;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::getpgrp;

use crate::Result;

/// The first argument of the process.
pub(crate) const ARGUMENT: &str = "--farcall-bench-compiling";
/// Compilers at a time.
const JOBS: usize = 2;
/// Functions of a source file, for a few tenths of a second.
const FUNCTIONS: usize = 150;

/// A build that goes on until this is dropped.
#[derive(Debug)]
pub(crate) struct Compiling(Child);

impl Compiling {
    /// Starts the build and waits until a first file is compiled.
    ///
    /// # Errors
    /// The reason why nothing can be compiled here.
    pub(crate) fn start() -> std::result::Result<Compiling, String> {
        let child = Command::new("/proc/self/exe")
            .arg0("farcall-bench-compiling")
            .arg(ARGUMENT)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn();
        let child = child.map_err(|error| format!("starting this executable again: {error}"))?;
        let mut compiling = Compiling(child);
        let output = compiling.0.stdout.take().ok_or("no standard output")?;
        let mut outcome = String::new();
        // Ends with the process.
        let read = BufReader::new(output).read_line(&mut outcome);
        match (read, outcome.trim_end()) {
            (Ok(_), "compiled") => Ok(compiling),
            (Ok(_), "") | (Err(_), _) => Err("the build ended at once".to_owned()),
            (Ok(_), why) => Err(why.to_owned()),
        }
    }
}

impl Drop for Compiling {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        // It kills itself with its group.
        let _ = self.0.wait();
    }
}

/// The build from inside; ends when its standard input does.
pub(crate) fn run() -> Result<()> {
    let source = source();
    let outcome = match compile(&source) {
        Ok(()) => "compiled".to_owned(),
        Err(why) => why.replace('\n', " "),
    };
    println!("{outcome}");
    io::stdout().flush()?;
    for _ in 0..JOBS {
        let source = source.clone();
        // A compiler that fails later says nothing new.
        thread::spawn(move || while compile(&source).is_ok() {});
    }
    let mut rest = Vec::new();
    io::stdin().read_to_end(&mut rest)?;
    // Ends this process too.
    Ok(killpg(getpgrp(), Signal::SIGKILL)?)
}

fn compile(source: &str) -> std::result::Result<(), String> {
    let mut compiler = Command::new("cc");
    compiler.args(["-O2", "-w", "-x", "c", "-S", "-o", "-", "-"]);
    compiler.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = compiler.spawn().map_err(|error| format!("no C compiler: cc: {error}"))?;
    let input = child.stdin.take();
    // A compiler that ends early does not read all.
    let _ = input.map(|mut input| input.write_all(source.as_bytes()));
    match child.wait() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("cc refuses a generated file: {status}")),
        Err(error) => Err(format!("cc: {error}")),
    }
}

/// A file of functions with loops and switches, which takes the optimizer some time.
fn source() -> String {
    let mut text = String::new();
    for number in 0..FUNCTIONS {
        // Writing to a String cannot fail.
        let _ = write!(
            text,
            "long f{number}(long *a, long n) {{\n  long s = {number};\n  for (long i = 0; i < n; i++) {{\n    \
             switch ((a[i] + s) % 7) {{\n    case 0: s += a[i] * {number}; break;\n    case 1: s ^= a[n - i - 1]; break;\n    \
             case 2: for (long j = 0; j < i; j++) s += a[j] * a[i]; break;\n    case 3: a[i] = s; break;\n    \
             default: s = s * 31 + (a[i] >> 3);\n    }}\n  }}\n  return s;\n}}\n"
        );
    }
    text
}
