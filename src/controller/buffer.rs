//! Memory of the executor for data that both sides read and write: structures, strings, arrays.
//!
//! It is a part of a slab, which the controller has mapped: reading and writing send no message.

use std::ops::Range;
use std::sync::Arc;

use super::memory::allocation::InFlightAlloc;
use super::session::{Controller, Session};
use crate::call::contract::Placement;
use crate::error::Result;
use crate::{AddrRange, ExecutorAddr, PerProt, Prot};

/// Writable memory in the executor, of whole pages, zero at first. Linked code may use it as long as the buffer lives; it is
/// given back when dropped.
///
/// What the executor does to it meanwhile is seen byte by byte, in no order, unless a call returns in between.
#[derive(Debug)]
pub struct Buffer {
    session: Arc<Session>,
    range: AddrRange,
}

impl Controller {
    /// Takes at least so many bytes for data in the executor, rounded up to pages. No message.
    ///
    /// # Errors
    ///
    /// When the slab has no hole of that size, or memory runs out ([`Error::is_exhausted`](crate::Error::is_exhausted)).
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # let controller = farcall::controller::ExecutorBuilder::new().start()?;
    /// # let dylib = controller.create_dylib("d");
    /// use farcall::ExecutorAddr;
    /// // struct point { int32_t x, y; }; int32_t sum(const struct point *)
    /// let mut point = controller.buffer(8)?;
    /// point.write(0, &3_i32.to_le_bytes());
    /// point.write(4, &4_i32.to_le_bytes());
    /// let sum = controller.function::<extern "C" fn(ExecutorAddr) -> i32>(dylib.lookup("sum")?);
    /// assert_eq!(sum.call(point.address())?, 7);
    /// # Ok::<(), farcall::Error>(())
    /// ```
    pub fn buffer(&self, bytes: u64) -> Result<Buffer> {
        let bytes = PerProt { data: bytes.max(1), ..PerProt::default() };
        let mut memory = InFlightAlloc::new(self.session.memory(), Placement::Near, bytes)?;
        memory.write(Prot::Data, &[]);
        let range = memory.range(Prot::Data);
        memory.finalize().release();
        Ok(Buffer { session: Arc::clone(&self.session), range })
    }
}

impl Buffer {
    /// Where it is in the executor.
    #[must_use]
    pub fn address(&self) -> ExecutorAddr {
        self.range.start
    }

    /// Its size in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.range.bytes()
    }

    /// Stores `bytes` from `offset` on. The next call sees them.
    ///
    /// # Panics
    ///
    /// When they do not fit.
    pub fn write(&mut self, offset: usize, bytes: &[u8]) {
        let range = self.checked(offset, bytes.len());
        self.session.memory().store(range.start, bytes);
    }

    /// The bytes as they are now.
    ///
    /// # Panics
    ///
    /// When the range does not lie inside.
    #[must_use]
    pub fn read(&self, range: Range<usize>) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.session.memory().load(self.checked(range.start, range.len()), &mut bytes);
        bytes
    }

    fn checked(&self, offset: usize, bytes: usize) -> AddrRange {
        let start = self.range.start.checked_add(offset as u64);
        let inside = start.and_then(|start| AddrRange::sized(start, bytes as u64));
        match inside {
            Some(inside) if self.range.encloses(inside) => inside,
            _ => panic!("{bytes} bytes at {offset} of a buffer of {}", self.bytes()),
        }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // It is there, and without actions.
        let _ = self.session.memory().deallocate([self.range.start]);
    }
}
