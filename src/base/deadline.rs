//! The moment when a wait times out.
//!
//! Every wait for another process takes a [`Deadline`], so a wait without a bound does not compile. The end of the session ends
//! such a wait too; the object that waits knows that bound.

use std::time::{Duration, Instant};

/// The moment when a wait times out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deadline(Option<Instant>);

impl Deadline {
    /// The wait lasts until it succeeds or the session ends.
    pub const SESSION_END: Self = Self(None);

    /// The wait times out `timeout` from now. A `timeout` that the clock cannot represent is no limit.
    pub fn after(timeout: Duration) -> Self {
        Self(Instant::now().checked_add(timeout))
    }

    /// The wait times out at once, unless its condition is already met.
    pub fn now() -> Self {
        Self(Some(Instant::now()))
    }

    /// The time left; `None` without a limit.
    #[inline]
    pub fn left(self) -> Option<Duration> {
        self.0.map(|instant| instant.saturating_duration_since(Instant::now()))
    }

    /// The time left at `now`; `None` without a limit.
    #[inline]
    pub fn left_at(self, now: Instant) -> Option<Duration> {
        self.0.map(|instant| instant.saturating_duration_since(now))
    }

    /// True when the deadline has passed.
    #[inline]
    pub fn has_passed(self) -> bool {
        self.0.is_some_and(|instant| Instant::now() >= instant)
    }

    /// The earlier of this deadline and `timeout` from now.
    pub fn or_after(self, timeout: Duration) -> Self {
        self.earlier(Self::after(timeout))
    }

    /// The deadline that is earlier by `time`.
    pub fn ahead(self, time: Duration) -> Self {
        Self(self.0.map(|instant| instant.checked_sub(time).unwrap_or(instant)))
    }

    /// The earlier of two deadlines.
    pub fn earlier(self, other: Self) -> Self {
        match (self.0, other.0) {
            (Some(one), Some(two)) => Self(Some(one.min(two))),
            (one, two) => Self(one.or(two)),
        }
    }
}

impl From<Option<Duration>> for Deadline {
    /// The wait times out after this time from now, if there is one.
    fn from(timeout: Option<Duration>) -> Self {
        timeout.map_or(Self::SESSION_END, Self::after)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_left_shrinks_to_nothing_and_no_limit_stays_none() {
        assert_eq!(Deadline::SESSION_END.left(), None);
        assert!(!Deadline::SESSION_END.has_passed());
        assert_eq!(Deadline::after(Duration::MAX), Deadline::SESSION_END);
        assert!(Deadline::now().has_passed());
        assert_eq!(Deadline::now().left(), Some(Duration::ZERO));
        let hour = Duration::from_secs(3600);
        let left = Deadline::after(hour).left().expect("a limit");
        assert!(left <= hour && left > hour / 2);
    }

    #[test]
    fn the_earlier_deadline_counts() {
        let [minute, hour] = [60, 3600].map(Duration::from_secs);
        let left = |deadline: Deadline| deadline.left().expect("a limit");
        assert!(left(Deadline::SESSION_END.or_after(minute)) <= minute);
        assert!(left(Deadline::after(hour).or_after(minute)) <= minute);
        assert!(left(Deadline::after(minute).or_after(hour)) <= minute);
        assert_eq!(Deadline::SESSION_END.or_after(Duration::MAX), Deadline::SESSION_END);
    }

    #[test]
    fn a_deadline_is_moved_ahead_and_no_limit_stays_none() {
        let [minute, hour] = [60, 3600].map(Duration::from_secs);
        let left = Deadline::after(hour).ahead(minute).left().expect("a limit");
        assert!(left <= hour - minute && left > hour / 2);
        assert!(Deadline::after(minute).ahead(hour).has_passed());
        assert_eq!(Deadline::SESSION_END.ahead(hour), Deadline::SESSION_END);
    }
}
