//! farcall's rows with larger payloads: the bytes come back.
//!
//! Invariant: the function copies its argument to memory of its own, like every function that makes its result. The first and
//! last bytes tell the answers of two calls apart.

use farcall::ExecutorAddr;
use farcall::link::ObjectFile;

use crate::transports::copy::{ends, mark};
use crate::{Callee, Contender, Result, Size, TinyObject, tiny_code};

/// Calls of a function with a payload, which comes back.
#[derive(Debug)]
pub struct EchoCall {
    name: String,
    callee: Callee,
    bounce: ExecutorAddr,
    number: u64,
    bytes: Vec<u8>,
    result: Vec<u8>,
}

impl EchoCall {
    /// The row of calls with `size` bytes, more than 8, to the executor of `callee`.
    ///
    /// # Errors
    /// When the function cannot be linked there.
    pub fn new(callee: &Callee, size: Size) -> Result<EchoCall> {
        let object = TinyObject::new()
            .function("bounce", tiny_code::BOUNCE)
            .call_at(tiny_code::BOUNCE_MALLOC, "malloc")
            .call_at(tiny_code::BOUNCE_MEMCPY, "memcpy");
        // Its code stays in the executor when the dylib is dropped.
        let dylib = callee.executor().library("echo");
        dylib.add_object(&ObjectFile::parse("bounce.o", object.bytes())?)?;
        Ok(EchoCall {
            name: name(size),
            callee: callee.clone(),
            bounce: dylib.lookup("bounce")?,
            number: 0,
            bytes: vec![0x5a; size.bytes()],
            result: Vec::with_capacity(size.bytes()),
        })
    }
}

/// The name of the row with this payload.
pub(crate) fn name(size: Size) -> String {
    format!("{size} echo")
}

impl Contender for EchoCall {
    fn name(&self) -> &str {
        &self.name
    }

    #[inline]
    fn call(&mut self) -> Result<()> {
        self.number += 1;
        mark(&mut self.bytes, self.number);
        self.result.clear();
        self.callee.process().call_into(self.bounce, &self.bytes, &mut self.result)?;
        if ends(&self.result) == ends(&self.bytes) {
            Ok(())
        } else {
            Err(format!("call {} was answered with other bytes", self.number).into())
        }
    }
}
