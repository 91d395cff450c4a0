//! A peer whose next message is there whenever one is waited for.

use std::time::{Duration, Instant};

use super::{By, echo};
use crate::call::{Endpoint, Watch};
use crate::deadline::Deadline;
use crate::error::{ErrorKind, Result};
use crate::transport::{Incoming, Transport};
use crate::wire::Kind;

/// Calls back and never answers.
struct Eager;

impl Transport for Eager {
    fn send(&mut self, _: Kind, _: u64, _: &[u8], _: Deadline) -> Result<()> {
        Ok(())
    }

    fn post(&mut self, _: Kind, _: u64, _: u64, _: &[u8], _: Deadline) -> Result<()> {
        Ok(())
    }

    fn receive(&mut self, _: Deadline, message: &mut Incoming) -> Result<bool> {
        (message.kind, message.target) = (Kind::Call, 1);
        Ok(true)
    }

    fn settle(&mut self, _: u64) {}

    fn code_written(&mut self) {}
}

const TIMEOUT: Duration = Duration::from_millis(20);

#[test]
fn a_deadline_holds_while_the_peer_calls_back_without_end() {
    let end = Endpoint::new(Eager);
    let error = end.call(&By(echo), Deadline::after(TIMEOUT), 1, &[], Incoming::to_vec);
    assert_eq!(error.expect_err("it has no end").kind(), ErrorKind::Timeout);
}

#[test]
fn a_watch_looks_while_the_peer_calls_back_without_end() {
    let end = Endpoint::new(Eager);
    let begun = Instant::now();
    let looks = std::cell::Cell::new(0);
    let look = |_| {
        looks.set(looks.get() + 1);
        (looks.get() < 3).then(|| Deadline::after(TIMEOUT))
    };
    let watch = Watch::new(Deadline::after(TIMEOUT), &look);
    let wait = watch.until(Deadline::SESSION_END);
    let error = end.call(&By(echo), wait, 1, &[], Incoming::to_vec);
    assert_eq!(error.expect_err("it has no end").kind(), ErrorKind::Timeout);
    assert_eq!(looks.get(), 3);
    assert!(begun.elapsed() >= 3 * TIMEOUT);
}
