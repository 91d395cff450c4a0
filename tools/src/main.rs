//! The `farcall` command: run objects in another process, reload them, show what that is like, measure it.
//!
//! The entry point is C's. What Rust's own does first takes 0.1 ms in each of the two processes of `farcall run` (it reads
//! the memory map to find the end of the stack), and ignores SIGPIPE, which a filter should die of.
#![no_main]
#![allow(unsafe_code, reason = "the entry point is exported by its name")]

mod bench;
mod demo;
mod inputs;
mod run;
mod status;
mod watch;

use std::ffi::c_int;

use clap::{Parser, Subcommand};

/// Run compiled objects in another process at nearly the cost of a function call.
#[derive(Parser)]
#[command(version, about, after_help = status::HELP)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Link objects and archives into an executor process and run their `main` there.
    Run(run::Options),
    /// Call a function of a C file again and again, and replace it whenever the file is saved.
    Watch(watch::Options),
    /// Show in one screen what farcall does. Needs no compiler.
    Demo(demo::Options),
    /// Measure round trips against the hardware floor, pipes and sockets.
    Bench(bench::Options),
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
    let status = match arguments.command {
        Command::Run(options) => run::run(&options),
        Command::Watch(options) => watch::watch(&options),
        Command::Demo(options) => demo::demo(&options),
        Command::Bench(options) => bench::bench(&options),
    };
    // Not a return: Rust writes out what it has buffered when its own exit is called.
    std::process::exit(status.unwrap_or_else(|failure| failure.report()))
}
