//! How the calls of a shuttle model ended, over all its schedules.
//!
//! Invariant: a model fails if its calls did not end in all the ways that it is about.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use shuttle::scheduler::RandomScheduler;

/// How often calls ended in each way.
#[derive(Default)]
pub(super) struct OutcomeCounters {
    schedules: AtomicU64,
    pub(super) results: AtomicU64,
    /// Calls that timed out.
    pub(super) late: AtomicU64,
    /// Calls that the end of the session ended.
    pub(super) ends: AtomicU64,
}

/// Adds one.
pub(super) fn count(count: &AtomicU64) {
    count.fetch_add(1, Ordering::Relaxed);
}

/// Runs a model in `schedules` schedules, and prints how its calls ended. The model ends sessions if `dies`.
pub(super) fn explore(
    name: &str,
    schedules: usize,
    dies: bool,
    model: impl Fn(&Arc<OutcomeCounters>) + Send + Sync + 'static,
) {
    let outcomes = Arc::new(OutcomeCounters::default());
    let inner = Arc::clone(&outcomes);
    let mut config = shuttle::Config::new();
    config.stack_size = 256 << 10;
    config.failure_persistence = shuttle::FailurePersistence::None;
    let scheduler = RandomScheduler::new_from_seed(7, schedules);
    shuttle::Runner::new(scheduler, config).run(move || {
        count(&inner.schedules);
        model(&inner);
    });
    let [schedules, results, late, ends] =
        [&outcomes.schedules, &outcomes.results, &outcomes.late, &outcomes.ends]
            .map(|count| count.load(Ordering::Relaxed));
    println!(
        "shuttle {name}: {schedules} executions ({results} results, {late} timed out, {ends} ends)"
    );
    assert!(results > 1000 && late > 1000 && (ends > 1000) == dies, "{name}: not all was met");
}
