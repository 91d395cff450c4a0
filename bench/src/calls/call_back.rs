//! farcall's rows in the other direction: the executor calls the controller, from within a call.
//!
//! Invariant: every answer is added up where it arrives; a wrong or missing one changes the sum.

use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use farcall::ExecutorAddr;
use farcall::controller::handler::HandlerTag;
use farcall::link::ObjectFile;

use crate::{Callee, Contender, Result, TinyObject, tiny_code};

/// Calls of the controller by the executor, as many in one call of the executor as a block has. A sample is the time from
/// one call that arrives to the next.
#[derive(Debug)]
pub(crate) struct CallBack(Looping);

/// One call of the executor that calls the controller once.
#[derive(Debug)]
pub(crate) struct NestedRound(Looping);

/// The same with a handler that the function in the executor calls by its name, as a C function.
#[derive(Debug)]
pub(crate) struct NestedByName {
    callee: Callee,
    function: ExecutorAddr,
    result: Vec<u8>,
}

/// A function in the executor that calls a handler of this process; its argument is the number of calls.
#[derive(Debug)]
struct Looping {
    callee: Callee,
    function: ExecutorAddr,
    handler: HandlerTag,
    arrivals: Arc<Arrivals>,
    result: Vec<u8>,
}

/// The times of the handler's calls.
#[derive(Debug, Default)]
struct Arrivals {
    are_kept: AtomicBool,
    times: Mutex<Vec<Instant>>,
}

impl CallBack {
    pub(crate) fn new(callee: &Callee) -> Result<CallBack> {
        Ok(CallBack(Looping::new(callee)?))
    }
}

impl NestedRound {
    pub(crate) fn new(callee: &Callee) -> Result<NestedRound> {
        Ok(NestedRound(Looping::new(callee)?))
    }
}

impl CallBack {
    /// The name of the row.
    pub(crate) const NAME: &str = "call back";
}

impl Contender for CallBack {
    fn name(&self) -> &str {
        CallBack::NAME
    }

    fn call(&mut self) -> Result<()> {
        self.0.call(1)
    }

    fn run(&mut self, calls: u32) -> Result<Duration> {
        let start = Instant::now();
        self.0.call(calls)?;
        Ok(start.elapsed())
    }

    fn sample(&mut self, calls: u32, samples_ns: &mut Vec<u64>) -> Result<()> {
        let arrivals = Arc::clone(&self.0.arrivals);
        arrivals.lock().reserve(calls as usize + 1);
        arrivals.are_kept.store(true, Ordering::Relaxed);
        let called = self.0.call(calls + 1);
        arrivals.are_kept.store(false, Ordering::Relaxed);
        let times = mem::take(&mut *arrivals.lock());
        let between = times.windows(2).map(|pair| (pair[1] - pair[0]).as_nanos());
        samples_ns.extend(between.map(|ns| u64::try_from(ns).unwrap_or(u64::MAX)));
        called
    }
}

impl NestedRound {
    /// The name of the row.
    pub(crate) const NAME: &str = "nested round";
}

impl Contender for NestedRound {
    fn name(&self) -> &str {
        NestedRound::NAME
    }

    #[inline]
    fn call(&mut self) -> Result<()> {
        self.0.call(1)
    }
}

impl NestedByName {
    /// The name of the row.
    pub(crate) const NAME: &str = "nested by name";

    pub(crate) fn new(callee: &Callee) -> Result<NestedByName> {
        let object = TinyObject::new()
            .function("loop", tiny_code::CALL_BY_NAME)
            .call_at(tiny_code::CALL_BY_NAME_CALL, "same");
        // Its code stays in the executor when the dylib is dropped.
        let dylib = callee.executor().library("call back by name");
        dylib.define_handler("same", |number: u64| number)?;
        dylib.add_object(&ObjectFile::parse("loop.o", object.bytes())?)?;
        let function = dylib.lookup("loop")?;
        Ok(NestedByName { callee: callee.clone(), function, result: Vec::new() })
    }
}

impl Contender for NestedByName {
    fn name(&self) -> &str {
        NestedByName::NAME
    }

    #[inline]
    fn call(&mut self) -> Result<()> {
        let calls = 1_u64.to_le_bytes();
        self.result.clear();
        self.callee.process().call_into(self.function, &calls, &mut self.result)?;
        if self.result == calls {
            Ok(())
        } else {
            Err(format!("the answer to one call is {:x?}", self.result).into())
        }
    }
}

impl Looping {
    fn new(callee: &Callee) -> Result<Looping> {
        let arrivals = Arc::new(Arrivals::default());
        let arrived = Arc::clone(&arrivals);
        let handler = callee.process().register_handler(move |args, result| {
            if arrived.are_kept.load(Ordering::Relaxed) {
                arrived.lock().push(Instant::now());
            }
            result.extend_from_slice(args);
            Ok(())
        });
        let object = TinyObject::new()
            .function("loop", tiny_code::CALL_BACK)
            .call_at(tiny_code::CALL_BACK_CALL, "farcall_call_controller");
        // Its code stays in the executor when the dylib is dropped.
        let dylib = callee.executor().library("call back");
        dylib.add_object(&ObjectFile::parse("loop.o", object.bytes())?)?;
        let function = dylib.lookup("loop")?;
        Ok(Looping { callee: callee.clone(), function, handler, arrivals, result: Vec::new() })
    }

    /// Makes the executor call `calls` times, with the numbers from `calls` down to 1, and checks the sum that comes back.
    #[inline]
    fn call(&mut self, calls: u32) -> Result<()> {
        let calls = u64::from(calls);
        let mut args = [0; 16];
        args[..8].copy_from_slice(&self.handler.get().to_le_bytes());
        args[8..].copy_from_slice(&calls.to_le_bytes());
        self.result.clear();
        self.callee.process().call_into(self.function, &args, &mut self.result)?;
        let sum = calls * (calls + 1) / 2;
        if self.result == sum.to_le_bytes() {
            Ok(())
        } else {
            Err(format!("the answers to {calls} calls add up to {:x?}", self.result).into())
        }
    }
}

impl Drop for Looping {
    fn drop(&mut self) {
        self.callee.process().remove_handler(self.handler);
    }
}

impl Arrivals {
    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Instant>> {
        self.times.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
