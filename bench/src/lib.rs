//! Round trips between two processes, measured side by side: the harness behind `farcall bench`.
//!
//! A [`Plan`] runs every [`Contender`] in every round, in blocks of about one millisecond, and
//! reports each as a ratio to the *floor*, the bare cache-line ping-pong of the same round. How and
//! why is in `bench/README.md`.
//!
//! A host program calls [`serve_if_child`] and [`farcall::executor::run_if_spawned`] as the first
//! things in `main`, because the other processes are further runs of the host's own executable.
//!
//! Invariant: nothing here outlives the contest: no process, no descriptor, no name in a file
//! system, no changed affinity; and no row's server uses a CPU while another row is measured.

mod bars;
mod call_back;
mod caller;
mod calls;
mod cdf;
mod contender;
mod contest;
mod copy;
mod cpus;
mod echo;
mod entry;
mod eventfd;
mod floor;
mod futex;
mod hgrm;
#[cfg(feature = "iceoryx2")]
mod iceoryx;
mod idle;
mod in_flight;
mod jitlink;
mod json;
mod json_report;
mod kernel;
mod life;
mod link_race;
mod llvm_race;
mod local;
mod machine;
mod order;
mod peer;
mod plan;
mod poll;
mod rate;
mod regime;
mod removal;
mod report;
mod section;
mod serve;
#[cfg(feature = "shaq")]
mod shaq;
mod shared;
mod size;
mod spin;
mod spread;
mod swap;
mod table;
mod threads;
mod tiny_object;
mod versus;

pub use bars::Bar;
pub use calls::{Callee, CodeCall, DataCall, FRESH_BYTES, NullCall};
pub use contender::Contender;
pub use contest::Effort;
pub use cpus::{CpuPair, Pinned};
pub use echo::EchoCall;
pub use idle::Idle;
pub use in_flight::InFlight;
pub use life::{Life, Made};
pub use link_race::{LinkRace, LinkReport};
pub use llvm_race::LlvmReport;
pub use machine::Machine;
pub use plan::Plan;
pub use rate::Rate;
pub use regime::Regime;
pub use removal::{Removal, Removals, Removed};
pub use report::Report;
pub use section::{Comparison, Row, Section};
pub use serve::serve_if_child;
pub use size::Size;
pub use spread::Spread;
pub use swap::Swap;
pub use tiny_object::{TinyObject, tiny_code};
pub use versus::Versus;

/// What every fallible function of the harness returns; an error ends the contest.
pub type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;
