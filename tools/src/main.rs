//! The `farcall` command: run objects in another process, show what that is like, measure it.

mod bench;
mod demo;
mod inputs;
mod run;
mod status;

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
    /// Show in one screen what farcall does. Needs no compiler.
    Demo(demo::Options),
    /// Measure round trips against the hardware floor, pipes and sockets.
    Bench(bench::Options),
}

fn main() {
    farcall::executor::serve_if_asked();
    farcall_bench::serve_if_child();
    let arguments = Arguments::try_parse().unwrap_or_else(|refusal| {
        let _ = refusal.print();
        std::process::exit(if refusal.use_stderr() { status::TOOL } else { 0 })
    });
    let status = match arguments.command {
        Command::Run(options) => run::run(&options),
        Command::Demo(options) => demo::demo(&options),
        Command::Bench(options) => bench::bench(&options),
    };
    std::process::exit(status.unwrap_or_else(|failure| failure.report()));
}
