//! When the next process of an executor starts, and when none does any more.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// When the next executor starts after a death. By default at once, and each time.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use farcall::controller::RestartPolicy;
///
/// let policy = RestartPolicy::new()
///     .back_off(Duration::from_millis(1), Duration::from_secs(1))
///     .at_most(100, Duration::from_secs(60))
///     .kill_on_timeout()
///     .standby();
/// # let _ = policy;
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RestartPolicy {
    pause: Duration,
    pause_max: Duration,
    /// The most starts of a next executor within a time.
    most: Option<(u32, Duration)>,
    pub(in crate::controller) kills_on_timeout: bool,
    pub(in crate::controller) has_standby: bool,
    /// The first process is the last one.
    pub(in crate::controller) is_never: bool,
}

impl RestartPolicy {
    /// The next executor starts at once, each time.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// No other process starts: after a death all calls fail with it. This is what an executor does that was given no policy.
    #[must_use]
    pub fn never() -> Self {
        Self { is_never: true, ..Self::default() }
    }

    /// The next executor starts `first` after a death. The pause doubles with each death, up to `most`, and begins anew when an
    /// executor has lived for longer than `most`. A call that needs the executor waits meanwhile.
    #[must_use]
    pub fn back_off(self, first: Duration, most: Duration) -> Self {
        Self { pause: first, pause_max: most.max(first), ..self }
    }

    /// Starts at most `restarts` next executors within `time`. When one more is needed, all calls fail from then on.
    #[must_use]
    pub fn at_most(self, restarts: u32, time: Duration) -> Self {
        Self { most: Some((restarts, time)), ..self }
    }

    /// Kills the executor when a call with a timeout has timed out. A submitted call that is abandoned
    /// ([`PendingCall`](crate::controller::calls::PendingCall)) does the same. The calls that are under way in the executor fail with its
    /// death. Without this, the function runs on in it.
    #[must_use]
    pub fn kill_on_timeout(self) -> Self {
        Self { kills_on_timeout: true, ..self }
    }

    /// Keeps one more process started, in which nothing is linked yet. It becomes the next executor, which so need not wait for the
    /// start of a process. Behind the first call of each executor, the thread of that call starts the next process, without
    /// waiting for it. Until it is used, it takes about a megabyte of memory and no CPU time.
    #[must_use]
    pub fn standby(self) -> Self {
        Self { has_standby: true, ..self }
    }
}

/// The starts of next executors so far.
#[derive(Debug, Default)]
pub(in crate::controller) struct History {
    restarts: VecDeque<Instant>,
    pause: Duration,
}

impl History {
    /// Counts a restart and says how long it waits, or why there is none.
    ///
    /// # Errors
    ///
    /// Why there is none.
    pub(in crate::controller) fn next(
        &mut self,
        policy: &RestartPolicy,
        now: Instant,
        lived: Duration,
    ) -> Result<Duration, String> {
        if let Some((restarts, time)) = policy.most {
            while self.restarts.front().is_some_and(|at| now.duration_since(*at) > time) {
                self.restarts.pop_front();
            }
            if self.restarts.len() >= restarts as usize {
                return Err(format!(
                    "no other executor is started: there were {restarts} within {time:?}, the most that the policy allows"
                ));
            }
            self.restarts.push_back(now);
        }
        self.pause = if self.pause.is_zero() || lived > policy.pause_max {
            policy.pause
        } else {
            (self.pause * 2).min(policy.pause_max)
        };
        Ok(self.pause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn the_pause_doubles_and_begins_anew() {
        let policy = RestartPolicy::new().back_off(SECOND, 5 * SECOND);
        let mut history = History::default();
        let mut next = |lived| history.next(&policy, Instant::now(), lived).expect("no limit");
        let short = SECOND / 10;
        assert_eq!([short; 4].map(&mut next), [1, 2, 4, 5].map(|pause| pause * SECOND));
        assert_eq!(next(6 * SECOND), SECOND, "it has lived long");
        let mut at_once = History::default();
        let none = RestartPolicy::new();
        assert_eq!(at_once.next(&none, Instant::now(), short), Ok(Duration::ZERO));
    }

    #[test]
    fn too_many_restarts_within_the_time_are_the_last() {
        let policy = RestartPolicy::new().at_most(2, 10 * SECOND);
        let (mut history, begun) = (History::default(), Instant::now());
        let mut next = |at: u32| history.next(&policy, begun + at * SECOND, SECOND);
        assert!(next(0).is_ok() && next(6).is_ok());
        assert!(next(9).expect_err("the third within 10 s").contains("there were 2"));
        assert!(next(11).is_ok(), "the first is long ago");
        assert!(next(12).is_err());
    }
}
