//! Round trips between two processes, measured side by side: the harness behind `farcall bench`.
//!
//! A [`Plan`] runs every [`Contender`] in every round, in blocks of about one millisecond. It
//! reports each row as a ratio to the *floor*, the bare cache-line ping-pong of the same round.
//! `bench/README.md` describes the method.
//!
//! A host program calls [`serve_if_child`] and [`farcall::executor::run_if_spawned`] first in
//! `main`, because the other processes are further runs of the host's own executable.
//!
//! | folder | what is in it |
//! |---|---|
//! | `busy/` | calls beside neighbours that want the CPU |
//! | `contest/` | the plan of a run: rows, rounds, regimes, time |
//! | `calls/` | farcall's own rows |
//! | `transports/` | the floors, and the rows that farcall is compared with |
//! | `processes/` | peers and callers: the other processes |
//! | `costs/` | operations beside calls: memory, links, removal, hot swaps, starts, idle |
//! | `races/` | whole commands against each other |
//! | `machine/` | CPUs, pinning, load |
//! | `report/` | what a run found, as text, JSON, CSV, `.hgrm` and SVG, and compared with a saved run |
//!
//! Invariant: nothing here outlives the contest: no process, no descriptor, no name in a file system, no changed affinity. No
//! row's server uses a CPU while another row is measured.

mod busy;
mod calls;
mod contest;
mod costs;
mod machine;
mod processes;
mod races;
mod report;
mod transports;

pub use busy::crowd::{CrowdFigures, CrowdRow};
pub use busy::plan::BusyPlan;
pub use busy::repeats::{RepeatReport, RepeatedRow, Repeats};
pub use busy::report::{Busy, BusyLoad, BusyReport, BusyRow};
pub use busy::soak::{Soak, Soaked};
pub use calls::echo::EchoCall;
pub use calls::in_flight::InFlight;
pub use calls::tiny_object::{TinyObject, tiny_code};
pub use calls::{Callee, CodeCall, DataCall, FRESH_BYTES, NullCall};
pub use contest::Effort;
pub use contest::contender::Contender;
pub use contest::plan::{Plan, Progress};
pub use contest::regime::Regime;
pub use contest::size::Size;
pub use contest::spread::Spread;
pub use contest::versus::Versus;
pub use costs::hot_swap::HotSwap;
pub use costs::idle::Idle;
pub use costs::life::{Life, Made};
pub use costs::removal::{Removal, Removals, Removed};
pub use costs::start::Start;
pub use machine::Machine;
pub use machine::cpus::{CpuPair, Pinned};
pub use machine::load::Load;
pub use machine::slice::Slice;
pub use processes::serve::serve_if_child;
pub use races::link_race::LinkRace;
pub use races::link_report::{LinkReport, LinkRow, LinkedProgram};
pub use races::lljit_race::{LljitReport, LljitRow};
pub use races::llvm_race::LlvmReport;
pub use report::bars::{Bar, Judged};
pub use report::changes::{Change, Changes, Verdict};
pub use report::origin::Origin;
pub use report::output::Output;
pub use report::section::{Row, Section};
pub use report::{Report, SCHEMA};

/// The result of every fallible function of the harness; an error ends the contest.
pub type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;
