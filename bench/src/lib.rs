//! Round trips between two processes, measured side by side: the harness behind `farcall bench`.
//!
//! A [`Plan`] runs every [`Contender`] in every round, in blocks of about one millisecond. It
//! reports each row as a ratio to the *floor*, the bare cache-line ping-pong of the same round.
//! `bench/README.md` describes the method.
//!
//! A host program calls [`serve_if_child`] and [`farcall::executor::run_if_spawned`] first in
//! `main`, because the other processes are further runs of the host's own executable.
//!
//! | folder, each over those above it | what is in it |
//! |---|---|
//! | `machine/` | CPUs, pinning, load |
//! | `measure/` | what a row is, and its sizes, regimes and spreads |
//! | `figures/` | tables, bars and samples, of every run |
//! | `processes/` | the peer, its orders and servers, and neighbours that want the CPU |
//! | `transports/` | the floors, and the rows that farcall is compared with |
//! | `calls/` | farcall's own rows |
//! | `contest/` | rows against each other, round by round |
//! | `costs/` | operations beside calls: memory, links, removal, hot swaps, starts, idle |
//! | `races/` | whole commands against each other |
//! | `callers/` | processes that make calls, and their rows |
//! | `busy/` | calls beside neighbours |
//! | `report/` | what a run found, as text, JSON, CSV, `.hgrm` and SVG, and compared with a saved run |
//! | `plan/` | a whole run: rows, time, order |
//!
//! Invariant: nothing here outlives the contest: no process, no descriptor, no name in a file system, no changed affinity. No
//! row's server uses a CPU while another row is measured.

mod busy;
mod callers;
mod calls;
mod contest;
mod costs;
mod figures;
mod machine;
mod measure;
mod plan;
mod processes;
mod races;
mod report;
mod transports;

pub use busy::crowd::{CrowdFigures, CrowdRow};
pub use busy::figures::{Busy, BusyLoad, BusyRow};
pub use busy::plan::BusyPlan;
pub use busy::repeats::{RepeatReport, RepeatedRow, Repeats};
pub use busy::report::BusyReport;
pub use busy::soak::{Soak, Soaked};
pub use callers::serve::serve_if_child;
pub use calls::echo::EchoCall;
pub use calls::in_flight::InFlight;
pub use calls::tiny_code;
pub use calls::tiny_object::TinyObject;
pub use calls::{Callee, CodeCall, DataCall, FRESH_BYTES, NullCall};
pub use contest::{Effort, Progress};
pub use costs::hot_swap::HotSwap;
pub use costs::idle::Idle;
pub use costs::in_process::InProcess;
pub use costs::life::{Life, Made};
pub use costs::removal::{Removal, Removals, Removed};
pub use costs::start::Start;
pub use figures::SCHEMA;
pub use figures::bars::{Bar, Judged};
pub use figures::origin::Origin;
pub use figures::output::Output;
pub use figures::section::{Row, Section};
pub use machine::Machine;
pub use machine::cpus::{CpuPair, Pinned};
pub use machine::load::Load;
pub use machine::slice::Slice;
pub use measure::contender::Contender;
pub use measure::regime::Regime;
pub use measure::size::Size;
pub use measure::spread::Spread;
pub use plan::Plan;
pub use plan::versus::Versus;
pub use races::link_race::LinkRace;
pub use races::link_report::{LinkReport, LinkRow, LinkedProgram};
pub use races::lljit_race::{LljitReport, LljitRow};
pub use races::llvm_race::LlvmReport;
pub use report::Report;
pub use report::changes::{Change, Changes, Verdict};

/// The result of every fallible function of the harness; an error ends the contest.
pub type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;
