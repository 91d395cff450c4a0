//! The `farcall` command: it runs objects in another process, reloads them, and measures calls there.
//!
//! The entry point is C's `main`. Rust's entry point reads the memory map to find the end of the stack. That takes 0.1 ms,
//! and `farcall run` has two processes. Rust's entry point also ignores SIGPIPE, the signal that should end a filter.
#![no_main]
#![allow(unsafe_code, reason = "the entry point is exported by its name")]

mod advice;
mod bench;
mod bind;
mod death;
mod demo;
mod doctor;
mod manual;
mod output;
mod run;
mod status;
mod top;
mod watch;

use std::ffi::c_int;
use std::sync::Arc;

use clap::{Parser, Subcommand};
use nix::sys::resource::{Resource, getrlimit};
use signal_hook::consts::SIGXFSZ;

/// Run compiled objects in another process at nearly the cost of a function call.
#[derive(Parser)]
#[command(name = "farcall", version = env!("FARCALL_VERSION"), after_help = status::OF_ALL)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Link objects and archives into an executor process and run their main there.
    #[command(after_help = status::OF_RUN)]
    Run(run::Options),
    /// Call a function of a C file again and again, and replace it whenever the file is saved.
    #[command(after_help = status::OF_WATCH)]
    Watch(watch::Options),
    /// Show in one screen what farcall does. Needs no compiler.
    #[command(after_help = status::OF_DEMO)]
    Demo(demo::Options),
    /// Measure round trips against the hardware floor, pipes and sockets.
    #[command(after_help = status::OF_BENCH)]
    Bench(bench::Options),
    /// Write bindings that run the functions of a C library in a process of their own.
    #[command(after_help = status::OF_BIND)]
    Bind(bind::Options),
    /// Show all published sessions of this user: calls and their times, executors, memory, restarts.
    #[command(after_help = status::OF_TOP)]
    Top(top::Options),
    /// Show what this machine offers to farcall, and what is lost without it.
    #[command(after_help = status::OF_DOCTOR)]
    Doctor(doctor::Options),
    /// Print the C header for code that farcall links: farcall/linked.h.
    #[command(after_help = status::OF_HEADER)]
    Header,
    /// Print the completions of farcall for a shell.
    #[command(after_help = status::OF_COMPLETIONS)]
    Completions(manual::Shell),
    /// Print the manual page of farcall, or write the pages of all its commands to a folder.
    #[command(after_help = status::OF_MAN)]
    Man(manual::Folder),
}

/// The program's entry point. It needs no parameters: Rust's standard library has the arguments already.
#[unsafe(no_mangle)]
extern "C" fn main() -> c_int {
    farcall::executor::run_if_spawned();
    farcall_bench::serve_if_child();
    if let Err(failure) = require_stack() {
        std::process::exit(failure.report());
    }
    let arguments = Arguments::try_parse().unwrap_or_else(|refusal| {
        let _ = refusal.print();
        std::process::exit(if refusal.use_stderr() { status::TOOL } else { 0 })
    });
    take_large_files_as_errors();
    let status = match arguments.command {
        Command::Run(options) => run::run(&options),
        Command::Watch(options) => watch::watch(&options),
        Command::Demo(options) => demo::demo(&options),
        Command::Bench(options) => bench::bench(&options),
        Command::Bind(options) => bind::bind(&options),
        Command::Top(options) => top::top(&options),
        Command::Doctor(options) => doctor::doctor(&options),
        Command::Header => manual::header(),
        Command::Completions(shell) => manual::completions(&shell),
        Command::Man(folder) => manual::man(&folder),
    };
    // A return would lose buffered output: Rust flushes standard output in its own exit function.
    std::process::exit(status.unwrap_or_else(|failure| failure.report()))
}

/// Refuses a limit on the stack under which this process would die without a word.
fn require_stack() -> Result<(), status::Failure> {
    match getrlimit(Resource::RLIMIT_STACK) {
        Ok((limit, _)) if limit < STACK_BYTES_MIN => {
            let (has, needs) = (limit >> 10, STACK_BYTES_MIN >> 10);
            let why = format!(
                "a stack of {has} KiB is too small for farcall, which takes {needs} KiB: raise it with ulimit -s"
            );
            Err(status::Failure::new(status::TOOL, why))
        }
        _ => Ok(()),
    }
}

/// The stack that reading the command line takes, and some room.
const STACK_BYTES_MIN: u64 = 256 << 10;

/// Handles SIGXFSZ, so that a write above the limit on file sizes (`ulimit -f`) returns an error and does not end this process.
/// The executor does not inherit the handler: the signal still ends the program that runs there.
fn take_large_files_as_errors() {
    // If the system refuses the handler, the signal ends this process as before.
    let _ = signal_hook::flag::register(SIGXFSZ, Arc::default());
}
