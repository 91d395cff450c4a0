//! One conformance suite for calls both ways, run over every transport.
//!
//! Invariant: every test of the suite runs over every transport.

mod closing;
mod conformance;
mod eager;
mod interrupted;
mod nonsense;
mod ways;

use crate::call::Handler;
use crate::transport::{Payload, Transport};

type Answer = std::result::Result<Vec<u8>, String>;

/// Serves calls with a closure, which gets target and arguments.
struct By<F>(F);

impl<T: Transport, F: Fn(u64, &[u8]) -> Answer> Handler<T> for By<F> {
    type Reply = Vec<u8>;

    fn handle(&self, target: u64, args: Payload<'_>, _: Vec<u8>) -> Answer {
        (self.0)(target, &args.bytes())
    }
}

/// Target 2 fails; all others echo.
fn echo(target: u64, args: &[u8]) -> Answer {
    if target == 2 { Err("no, said two".to_owned()) } else { Ok(args.to_vec()) }
}
