//! farcall's own rows: calls into an executor, with and without new code or data for each.
//!
//! Invariant: the functions called are linked or written here; each answer depends on its call, so
//! that a stale or lost one is an error.

pub(crate) mod call_back;
pub(crate) mod echo;
pub(crate) mod in_flight;
pub(crate) mod spin;
pub(crate) mod threads;
pub mod tiny_code;
pub(crate) mod tiny_object;
pub(crate) mod typed;

use std::time::Duration;

use farcall::controller::{Executor, ExecutorBuilder, Library, Process};
use farcall::link::ObjectFile;
use farcall::{ExecutorAddr, PerProt, Prot};

use crate::{Contender, CpuPair, Result, TinyObject};

/// The bytes of code or data that are new with each call.
pub const FRESH_BYTES: usize = 4096;

/// An executor on the server's CPU with the null call linked into it: a wrapper function that
/// returns the first 8 bytes of its argument.
#[derive(Debug, Clone)]
pub struct Callee {
    executor: Executor,
    process: Process,
    echo: ExecutorAddr,
}

impl Callee {
    /// Starts this program again as the executor and pins it.
    ///
    /// # Errors
    /// When the executor does not start, or cannot be pinned.
    pub fn start(cpus: CpuPair) -> Result<Callee> {
        Callee::launch(&ExecutorBuilder::new(), Some(cpus))
    }

    /// As [`Callee::start`], on the CPUs of the calling thread.
    pub(crate) fn start_unpinned() -> Result<Callee> {
        Callee::launch(&ExecutorBuilder::new(), None)
    }

    /// As [`Callee::start`], with sides that never sleep.
    pub(crate) fn start_awake(cpus: CpuPair) -> Result<Callee> {
        Callee::launch(&ExecutorBuilder::new().spin(Duration::MAX), Some(cpus))
    }

    fn launch(launch: &ExecutorBuilder, cpus: Option<CpuPair>) -> Result<Callee> {
        let executor = launch.clone().this_program().start()?;
        let process = executor.process()?;
        if let Some(cpus) = cpus {
            cpus.pin_server(process.pid().try_into()?)?;
        }
        let object = TinyObject::new().function("echo", tiny_code::NULL_CALL).bytes();
        // Its code stays in the executor when the dylib is dropped.
        let dylib: Library = executor.library("null call");
        dylib.add_object(&ObjectFile::parse("echo.o", object)?)?;
        Ok(Callee { echo: dylib.lookup("echo")?, executor, process })
    }

    /// The executor, for rows with libraries of their own.
    pub(crate) fn executor(&self) -> &Executor {
        &self.executor
    }

    /// Its process, for rows that need addresses.
    #[must_use]
    pub fn process(&self) -> &Process {
        &self.process
    }

    /// The function of the null call.
    pub(crate) fn echo(&self) -> ExecutorAddr {
        self.echo
    }

    /// The row of 8-byte calls.
    #[must_use]
    pub fn null_call(&self) -> NullCall {
        NullCall { callee: self.clone(), number: 0, result: Vec::with_capacity(8) }
    }

    /// The row of calls after new code: the function called is written and finalized before each
    /// call and its memory deallocated after it.
    #[must_use]
    pub fn code_call(&self) -> CodeCall {
        let mut code = vec![BREAKPOINT; FRESH_BYTES];
        let function = tiny_code::constant(0);
        code[..function.len()].copy_from_slice(&function);
        CodeCall { callee: self.clone(), number: 0, code, result: Vec::with_capacity(8) }
    }

    /// The row of null calls after new data, which the executor does not read: the cost of
    /// writing alone.
    #[must_use]
    pub fn data_call(&self) -> DataCall {
        DataCall { call: self.null_call(), data: vec![BREAKPOINT; FRESH_BYTES] }
    }

    fn call(&self, function: ExecutorAddr, number: u64, result: &mut Vec<u8>) -> Result<()> {
        result.clear();
        self.process.call_into(function, &number.to_le_bytes(), result)?;
        if *result == number.to_le_bytes() {
            Ok(())
        } else {
            Err(format!("call {number} was answered with {result:x?}").into())
        }
    }
}

/// Fills code that must not run: `int3` on x86-64.
const BREAKPOINT: u8 = 0xcc;

/// One call of a function with 8 bytes, which come back.
#[derive(Debug)]
pub struct NullCall {
    callee: Callee,
    number: u64,
    result: Vec<u8>,
}

impl NullCall {
    /// The name of the row.
    pub(crate) const NAME: &str = "null call";
}

impl Contender for NullCall {
    fn name(&self) -> &str {
        NullCall::NAME
    }

    #[inline]
    fn call(&mut self) -> Result<()> {
        self.number += 1;
        self.callee.call(self.callee.echo, self.number, &mut self.result)
    }
}

/// 4 KiB of code written and finalized, one call of it, and the memory deallocated.
#[derive(Debug)]
pub struct CodeCall {
    callee: Callee,
    number: u64,
    code: Vec<u8>,
    result: Vec<u8>,
}

impl CodeCall {
    /// The name of the row.
    pub(crate) const NAME: &str = "4 KiB code + call";
}

impl Contender for CodeCall {
    fn name(&self) -> &str {
        CodeCall::NAME
    }

    #[inline]
    fn call(&mut self) -> Result<()> {
        self.number += 1;
        self.code[tiny_code::CONSTANT..][..8].copy_from_slice(&self.number.to_le_bytes());
        let mut memory = self
            .callee
            .process
            .allocate(PerProt { code: FRESH_BYTES as u64, ..PerProt::default() })?;
        memory.write(Prot::Code, &self.code);
        let memory = memory.finalize();
        let called = self.callee.call(memory.address(), self.number, &mut self.result);
        self.callee.process.deallocate([memory])?;
        called
    }
}

/// 4 KiB of data written, one null call, and the memory deallocated.
#[derive(Debug)]
pub struct DataCall {
    call: NullCall,
    data: Vec<u8>,
}

impl DataCall {
    /// The name of the row.
    pub(crate) const NAME: &str = "4 KiB data + call";
}

impl Contender for DataCall {
    fn name(&self) -> &str {
        DataCall::NAME
    }

    #[inline]
    fn call(&mut self) -> Result<()> {
        let process = &self.call.callee.process;
        let mut memory =
            process.allocate(PerProt { data: FRESH_BYTES as u64, ..PerProt::default() })?;
        memory.write(Prot::Data, &self.data);
        let memory = memory.finalize();
        self.call.call()?;
        self.call.callee.process.deallocate([memory])?;
        Ok(())
    }
}
