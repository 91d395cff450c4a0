//! The form of a row's samples in JSON: percentiles for readers, and the whole histogram.
//!
//! Invariant: what is written reads back as an equal histogram.

use hdrhistogram::Histogram;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Samples above this are recorded as this.
const SAMPLE_NS_MAX: u64 = 60_000_000_000;

/// Three digits between 1 ns and [`SAMPLE_NS_MAX`].
pub(crate) fn new_histogram() -> Histogram<u64> {
    let made = Histogram::new_with_bounds(1, SAMPLE_NS_MAX, 3);
    made.expect("1 and SAMPLE_NS_MAX are bounds that a histogram accepts")
}

/// The members that a row has in place of its histogram.
#[derive(Serialize, Deserialize)]
struct Form {
    samples: u64,
    p50_ns: u64,
    p99_ns: u64,
    p99_9_ns: u64,
    max_ns: u64,
    /// Pairs of nanoseconds and the number of samples that took that long, to three digits.
    histogram_ns: Vec<(u64, u64)>,
}

pub(crate) fn serialize<S: Serializer>(
    samples: &Histogram<u64>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let recorded = samples.iter_recorded();
    let pairs = recorded.map(|step| (step.value_iterated_to(), step.count_at_value()));
    let form = Form {
        samples: samples.len(),
        p50_ns: samples.value_at_quantile(0.5),
        p99_ns: samples.value_at_quantile(0.99),
        p99_9_ns: samples.value_at_quantile(0.999),
        max_ns: samples.max(),
        histogram_ns: pairs.collect(),
    };
    form.serialize(serializer)
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Histogram<u64>, D::Error> {
    let form = Form::deserialize(deserializer)?;
    let mut samples = new_histogram();
    for (ns, count) in form.histogram_ns {
        samples.saturating_record_n(ns, count);
    }
    Ok(samples)
}
