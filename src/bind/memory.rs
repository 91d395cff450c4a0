//! Memory that the host and the library use in place.

use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::ExecutorAddr;
use crate::controller::region::HeapBlock;
use crate::error::{Error, Result};

/// Memory that the host and the library map at one address. Functions that keep a pointer get the
/// [`address`](Memory::address) of a memory, which must outlive that use. It outlives the library's process.
///
/// The library may write it at any time, so the host copies out of it and into it.
///
/// # Examples
///
/// ```no_run
/// # fn take(_: farcall::ExecutorAddr) {}
/// fn exchange(sandbox: &farcall::bind::Sandbox) -> farcall::Result<[u8; 4]> {
///     let memory = sandbox.memory(4096)?;
///     memory.write(0, b"some")?;
///     take(memory.address()); // a function of a binding
///     let mut bytes = [0; 4];
///     memory.read(0, &mut bytes)?;
///     Ok(bytes)
/// }
/// ```
#[derive(Debug)]
pub struct Memory {
    block: HeapBlock,
}

impl Memory {
    pub(super) fn new(block: HeapBlock) -> Self {
        Self { block }
    }

    /// The address of the first byte, for the library.
    #[must_use]
    pub fn address(&self) -> ExecutorAddr {
        self.block.address()
    }

    /// The size in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.block.bytes()
    }

    /// Copies numbers to the memory, from the byte `offset` on.
    ///
    /// # Errors
    ///
    /// When they reach past the end ([`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument)).
    pub fn write<T: IntoBytes + Immutable>(&self, offset: usize, values: &[T]) -> Result<()> {
        let at = self.place(offset, size_of_val(values))?;
        self.block.region().write_from(at, values);
        Ok(())
    }

    /// Copies numbers out of the memory, from the byte `offset` on.
    ///
    /// # Errors
    ///
    /// When they reach past the end ([`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument)).
    pub fn read<T: FromBytes + IntoBytes>(&self, offset: usize, out: &mut [T]) -> Result<()> {
        let at = self.place(offset, size_of_val(out))?;
        self.block.region().read_into(at, out);
        Ok(())
    }

    /// The offset in the region of a part of the memory.
    fn place(&self, offset: usize, bytes: usize) -> Result<usize> {
        match offset.checked_add(bytes).is_some_and(|end| end <= self.bytes()) {
            true => Ok(self.block.offset() + offset),
            false => Err(Error::invalid(format!(
                "{bytes} bytes from byte {offset} on, in a memory of {} bytes",
                self.bytes()
            ))),
        }
    }
}
