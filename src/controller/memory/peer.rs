//! An executor that offers functions of the contract, reached through a session or through a client's connection.

use std::fmt;

use super::executor_memory::ExecutorMemory;
use crate::ExecutorAddr;
use crate::call::contract::{Remote, SESSION_INSTANCE};
use crate::deadline::Deadline;
use crate::error::Result;
use crate::sps;
use crate::transport::Incoming;

/// An executor of either kind.
pub(crate) trait Peer: fmt::Debug {
    /// The address that the executor offers under a name.
    fn named(&self, name: &str) -> Result<ExecutorAddr>;

    /// Calls a wrapper function.
    fn round_trip(&self, function: ExecutorAddr, args: &[u8]) -> Result<Vec<u8>>;

    /// Notes that the controller has written code: the next message must tell the executor.
    fn code_written(&self);
}

impl dyn Peer + '_ {
    /// Calls a function of the contract.
    ///
    /// # Errors
    ///
    /// When it is not offered, fails, or the session is over.
    pub(crate) fn ask<R: Remote>(&self, args: &R::Args) -> Result<R::Ret> {
        let result = self.round_trip(self.function::<R>()?, &sps::to_bytes(args))?;
        sps::from_bytes(&result)
            .map_err(|error| error.during(format_args!("result of {}", R::NAME)))
    }

    /// The address of a function of the contract.
    ///
    /// # Errors
    ///
    /// When it is not offered.
    pub(crate) fn function<R: Remote>(&self) -> Result<ExecutorAddr> {
        self.named(R::NAME)
    }

    /// The executor's address for this session.
    ///
    /// # Errors
    ///
    /// When it is not of this library.
    pub(crate) fn instance(&self) -> Result<ExecutorAddr> {
        self.named(SESSION_INSTANCE)
    }
}

impl Peer for ExecutorMemory {
    fn named(&self, name: &str) -> Result<ExecutorAddr> {
        self.remote().named(name)
    }

    fn round_trip(&self, function: ExecutorAddr, args: &[u8]) -> Result<Vec<u8>> {
        self.remote().round_trip(function, args, Deadline::SESSION_END, Incoming::to_vec)
    }

    fn code_written(&self) {
        self.remote().code_written(self.draw());
    }
}
