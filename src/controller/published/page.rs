//! The page of a publication: words that its host writes and other processes read.
//!
//! | words | meaning |
//! |---|---|
//! | 0 | [`LAYOUT`] |
//! | 1 | the host's process number |
//! | 2 | the moment of publication, in nanoseconds of the system's monotonic clock |
//! | 3 | executors that were started because one had died |
//! | 4 | how many bytes the name has |
//! | 8 to 15 | the name |
//! | 16 to 143 | 16 cache lines of counters, each for some of the host's threads |
//! | 144 to 399 | the process numbers of executors, 0 where there is none |
//! | 400 to 959 | how often a call took how long |
//!
//! Times have 16 buckets for each power of two, so a time is known to 1/16.

use std::ffi::CStr;
use std::ops::Range;

use crate::limits::{PUBLISHED_EXECUTORS_MAX, PUBLISHED_NAME_BYTES_MAX};

/// The first word. Its last byte is the number of this layout.
pub(super) const LAYOUT: u64 = u64::from_be_bytes(*b"farcall\x01");
/// The name of the memory file, by which readers find it.
pub(super) const FILE_NAME: &CStr = c"farcall-published";

pub(super) const HOST: usize = 1;
pub(super) const BEGUN_NS: usize = 2;
pub(super) const RESTARTS: usize = 3;
pub(super) const NAME_BYTES: usize = 4;
pub(super) const NAME: Range<usize> = 8..8 + PUBLISHED_NAME_BYTES_MAX / 8;
pub(super) const COUNTERS: Range<usize> = 16..144;
pub(super) const EXECUTORS: Range<usize> = 144..144 + PUBLISHED_EXECUTORS_MAX;
pub(super) const TIMES: Range<usize> = 400..960;
pub(super) const PAGE_BYTES: usize = 960 * 8;

/// The words of a cache line of counters. The first counts calls.
pub(super) const COUNTER_WORDS: usize = 8;
/// In a line of counters: 1 if the last call that was timed took long.
pub(super) const IS_SLOW: usize = 1;

const PER_POWER: u64 = 16;

const _: () = assert!(NAME.end == COUNTERS.start && COUNTERS.end == EXECUTORS.start);
const _: () = assert!(EXECUTORS.end == TIMES.start && TIMES.end * 8 == PAGE_BYTES);

/// The bucket of a time, counted from the first word of [`TIMES`]. The last one also has all longer times.
pub(super) fn bucket(time_ns: u64) -> usize {
    let shift = time_ns.max(PER_POWER).ilog2() - PER_POWER.ilog2();
    let bucket = u64::from(shift) * PER_POWER + (time_ns >> shift);
    usize::try_from(bucket).unwrap_or(usize::MAX).min(TIMES.len() - 1)
}

/// The longest time of a bucket.
pub(super) fn longest_ns(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    let shift = (bucket / PER_POWER).saturating_sub(1);
    ((bucket - shift * PER_POWER + 1) << shift) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_time_lies_in_a_bucket_of_at_most_a_sixteenth_of_it() {
        let mut last = 0;
        for time_ns in (0..4096).chain((12..37).map(|power| (1 << power) + 7)) {
            let bucket = bucket(time_ns);
            let longest = longest_ns(bucket);
            assert!(last <= bucket && time_ns <= longest, "{time_ns} ns in bucket {bucket}");
            assert!(longest - time_ns <= time_ns / PER_POWER, "{time_ns} ns up to {longest} ns");
            last = bucket;
        }
        assert_eq!(bucket(u64::MAX), TIMES.len() - 1);
    }
}
