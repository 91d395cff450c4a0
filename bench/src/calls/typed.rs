//! farcall's rows of C functions called by their types.
//!
//! Invariant: every result is compared with what arithmetic here says.

use std::time::{Duration, Instant};

use farcall::controller::Function;
use farcall::link::ObjectFile;

use crate::{Callee, Contender, Result, TinyObject, tiny_code};

/// Calls of a batch.
const BATCH: i64 = 1000;

/// Calls of a C function that returns its argument.
#[derive(Debug)]
pub(crate) struct TypedCall {
    function: Function<extern "C" fn(i64) -> i64>,
    number: i64,
}

/// Calls of a C function with three arguments, a thousand in a batch.
#[derive(Debug)]
pub(crate) struct TypedBatch {
    function: Function<extern "C" fn(i64, i64, i64) -> i64>,
    number: i64,
}

impl TypedCall {
    /// The name of the row.
    pub(crate) const NAME: &str = "typed call";

    pub(crate) fn new(callee: &Callee) -> Result<TypedCall> {
        let object = TinyObject::new().function("same", tiny_code::SAME);
        // Its code stays in the executor when the dylib is dropped.
        let dylib = callee.executor().library("typed");
        dylib.add_object(&ObjectFile::parse("same.o", object.bytes())?)?;
        Ok(TypedCall { function: dylib.function("same").bind()?, number: 0 })
    }
}

impl TypedBatch {
    /// The name of the row.
    pub(crate) const NAME: &str = "batch of 1000";

    pub(crate) fn new(callee: &Callee) -> Result<TypedBatch> {
        let object = TinyObject::new().function("sum", tiny_code::SUM);
        let dylib = callee.executor().library("batch");
        dylib.add_object(&ObjectFile::parse("sum.o", object.bytes())?)?;
        Ok(TypedBatch { function: dylib.function("sum").bind()?, number: 0 })
    }

    fn batch(&mut self, calls: i64) -> Result<()> {
        let first = self.number;
        self.number += calls;
        let rows = (first..self.number).map(|number| (number, 1, 2));
        for (number, result) in (first..).zip(self.function.batch(rows)?) {
            let result = result?;
            if result != number + 3 {
                return Err(format!("call {number} was answered with {result}").into());
            }
        }
        Ok(())
    }
}

impl Contender for TypedCall {
    fn name(&self) -> &str {
        TypedCall::NAME
    }

    #[inline]
    fn call(&mut self) -> Result<()> {
        self.number += 1;
        let result = self.function.call((self.number,))?;
        if result == self.number {
            Ok(())
        } else {
            Err(format!("call {} was answered with {result}", self.number).into())
        }
    }
}

impl Contender for TypedBatch {
    fn name(&self) -> &str {
        TypedBatch::NAME
    }

    fn call(&mut self) -> Result<()> {
        self.batch(1)
    }

    fn run(&mut self, calls: u32) -> Result<Duration> {
        let start = Instant::now();
        let mut left = i64::from(calls);
        while left > 0 {
            let calls = left.min(BATCH);
            self.batch(calls)?;
            left -= calls;
        }
        Ok(start.elapsed())
    }
}
