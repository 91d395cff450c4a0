//! Memory of one executor for a few structures of the program that both sides read and write.
//!
//! A buffer is a part of a slab, which the controller maps: making, reading and writing it send no message.

use std::ops::Range;
use std::sync::Arc;

use crate::call::contract::Placement;
use crate::controller::memory::allocation::InFlightAlloc;
use crate::controller::session::{Process, Session};
use crate::error::Result;
use crate::{AddrRange, ExecutorAddr, PerProt, Prot};

/// Writable memory in the executor, whole pages, zero at first. Linked code may use it until the buffer is dropped, which frees it.
///
/// Data that is used in place, shared by executors, or needed beyond this one, is for a [`Region`](crate::controller::region::Region).
///
/// Stores of the executor that no returned call orders before a read appear byte by byte, in any order.
///
/// # Examples
///
/// ```standalone_crate
/// # farcall::executor::run_if_spawned();
/// # let process = farcall::controller::ExecutorBuilder::new().this_program().start()?.process()?;
/// let mut buffer = process.buffer(8)?;
/// buffer.write(0, &3_i32.to_le_bytes());
/// assert_eq!(buffer.read(0..4), 3_i32.to_le_bytes());
/// assert_eq!(buffer.bytes(), 4096); // whole pages
/// # Ok::<(), farcall::Error>(())
/// ```
#[derive(Debug)]
pub struct Buffer {
    session: Arc<Session>,
    range: AddrRange,
}

impl Process {
    /// Allocates at least `bytes` bytes for data in the executor, rounded up to pages. Sends no message.
    ///
    /// # Errors
    ///
    /// When the slab has no hole of that size, or memory runs out ([`ErrorKind::Exhausted`](crate::ErrorKind::Exhausted)).
    ///
    /// # Examples
    ///
    /// ```standalone_crate
    /// # farcall::executor::run_if_spawned();
    /// # let process = farcall::controller::ExecutorBuilder::new().this_program().start()?.process()?;
    /// use farcall::{ExecutorAddr, PerProt, Prot};
    /// // int32_t sum(const int32_t *pair): mov eax, [rdi]; add eax, [rdi + 4]; ret
    /// # let mut memory = process.allocate(PerProt { code: 6, ..PerProt::default() })?;
    /// # memory.write(Prot::Code, &[0x8b, 0x07, 0x03, 0x47, 0x04, 0xc3]);
    /// # let code = memory.finalize();
    /// let mut pair = process.buffer(8)?;
    /// pair.write(0, &3_i32.to_le_bytes());
    /// pair.write(4, &4_i32.to_le_bytes());
    /// let sum = process.function::<extern "C" fn(ExecutorAddr) -> i32>(code.address());
    /// assert_eq!(sum.call((pair.address(),))?, 7);
    /// # process.deallocate([code])?;
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
    /// The executor's address of the first byte.
    #[must_use]
    pub fn address(&self) -> ExecutorAddr {
        self.range.start
    }

    /// The size in bytes, a multiple of the page size.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.range.bytes()
    }

    /// Stores `bytes` from `offset` on. The next call sees them.
    ///
    /// # Panics
    ///
    /// When they reach past the end of the buffer. In a forked child: the buffer is that of the parent's executor.
    pub fn write(&mut self, offset: usize, bytes: &[u8]) {
        let range = self.checked(offset, bytes.len());
        self.session.memory().store(range.start, bytes);
    }

    /// The present bytes of a range.
    ///
    /// # Panics
    ///
    /// When the range reaches past the end of the buffer.
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
        // It is allocated and has no actions, so this cannot fail but in a forked child, whose memory it is not.
        let _ = self.session.memory().deallocate([self.range.start]);
    }
}
