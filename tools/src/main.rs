//! The `farcall` command: runs objects in another process, reloads them, shows and measures what that costs.
//!
//! The entry point is C's. Rust's own entry point reads the memory map to find the end of the stack, which takes 0.1 ms
//! in each of the two processes of `farcall run`. It also ignores SIGPIPE, by which a filter should end.
#![no_main]
#![allow(unsafe_code, reason = "the entry point is exported by its name")]

mod advice;
mod bench;
mod demo;
mod doctor;
mod inputs;
mod manual;
mod run;
mod run_report;
mod status;
mod watch;

use std::ffi::c_int;
use std::sync::Arc;

use clap::{Parser, Subcommand};
use signal_hook::consts::SIGXFSZ;

/// Run compiled objects in another process at nearly the cost of a function call.
#[derive(Parser)]
#[command(name = "farcall", version = env!("FARCALL_VERSION"), about, after_help = status::OF_ALL)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Link objects and archives into an executor process and run their `main` there.
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
    /// Show what this machine offers, and what is lost where it offers less.
    #[command(after_help = status::OF_DOCTOR)]
    Doctor(doctor::Options),
    /// Print the completions of a shell for this command.
    #[command(after_help = status::OF_COMPLETIONS)]
    Completions(manual::Shell),
    /// Print the manual page of this command, or write the pages of all its commands to a folder.
    #[command(after_help = status::OF_MAN)]
    Man(manual::Folder),
}

/// The one `main` of the program; the arguments reach Rust by another way.
#[unsafe(no_mangle)]
extern "C" fn main() -> c_int {
    farcall::executor::run_if_spawned();
    farcall_bench::serve_if_child();
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
        Command::Doctor(options) => doctor::doctor(&options),
        Command::Completions(shell) => manual::completions(&shell),
        Command::Man(folder) => manual::man(&folder),
    };
    // Not a return: Rust writes out what it has buffered when its own exit is called.
    std::process::exit(status.unwrap_or_else(|failure| failure.report()))
}

/// Makes a write above the limit on file sizes (`ulimit -f`) an error of that write, instead of the end of this process by
/// SIGXFSZ. The executor does not inherit a handler, so the signal still ends the program that it runs.
fn take_large_files_as_errors() {
    // Where the system refuses the handler, the signal keeps its meaning.
    let _ = signal_hook::flag::register(SIGXFSZ, Arc::default());
}
