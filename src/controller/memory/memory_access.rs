//! The executor's memory by address.

use super::peer::Peer;
use crate::call::contract::{
    ReadBuffers, ReadPointers, ReadStrings, ReadU8s, ReadU16s, ReadU32s, ReadU64s, Remote,
    WriteBuffers, WritePointers, WriteU8s, WriteU16s, WriteU32s, WriteU64s,
};
use crate::error::{Error, Result};
use crate::sps::Bytes;
use crate::{AddrRange, ExecutorAddr};

/// Memory of the executor by address. Each function sends one message. An address that cannot be read or written is an error, and the
/// executor continues. No access is atomic.
///
/// # Examples
///
/// ```standalone_crate
/// # farcall::executor::run_if_spawned();
/// # let process = farcall::controller::ExecutorBuilder::new().this_program().start()?.process()?;
/// let buffer = process.buffer(16)?;
/// let memory = process.memory_access();
/// memory.write([(buffer.address(), 7_u32)])?;
/// assert_eq!(memory.read::<u32>(&[buffer.address()])?, [7]);
/// assert!(memory.read::<u8>(&[farcall::ExecutorAddr::NULL]).is_err());
/// # Ok::<(), farcall::Error>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub struct MemoryAccess<'a> {
    peer: &'a dyn Peer,
}

/// A word that [`MemoryAccess`] reads and writes: `u8`, `u16`, `u32`, `u64`, or a pointer ([`ExecutorAddr`]).
///
/// # Examples
///
/// ```
/// use farcall::controller::memory::{MemoryAccess, Word};
/// use farcall::{Error, ExecutorAddr};
///
/// fn increment(memory: MemoryAccess<'_>, at: ExecutorAddr) -> Result<(), Error> {
///     let value: Vec<u64> = memory.read(&[at])?;
///     memory.write([(at, value[0] + 1)])
/// }
/// # fn is_word<W: Word>() {}
/// # is_word::<u64>();
/// ```
#[expect(private_bounds, reason = "the functions behind it are private")]
pub trait Word: Functions {}

trait Functions: Sized {
    type Write: Remote<Args = (Vec<(ExecutorAddr, Self)>,), Ret = ()>;
    type Read: Remote<Args = (Vec<ExecutorAddr>,), Ret = Vec<Self>>;
}

macro_rules! words {
    ($($word:ty: $write:ty, $read:ty;)*) => {$(
        impl Word for $word {}
        impl Functions for $word {
            type Write = $write;
            type Read = $read;
        }
    )*};
}

words! {
    u8: WriteU8s, ReadU8s;
    u16: WriteU16s, ReadU16s;
    u32: WriteU32s, ReadU32s;
    u64: WriteU64s, ReadU64s;
    ExecutorAddr: WritePointers, ReadPointers;
}

impl<'a> MemoryAccess<'a> {
    pub(crate) fn of(peer: &'a dyn Peer) -> Self {
        Self { peer }
    }

    /// Writes words, in order.
    ///
    /// # Errors
    ///
    /// When an address cannot be written ([`ErrorKind::Remote`](crate::ErrorKind::Remote)): the message names it, and the words before it
    /// are written. When the session is over.
    pub fn write<W: Word>(&self, words: impl IntoIterator<Item = (ExecutorAddr, W)>) -> Result<()> {
        self.peer.ask::<W::Write>(&(words.into_iter().collect(),))
    }

    /// Reads words, in order.
    ///
    /// # Errors
    ///
    /// When an address cannot be read ([`ErrorKind::Remote`](crate::ErrorKind::Remote)); the message names it. When the session is over.
    pub fn read<W: Word>(&self, addresses: &[ExecutorAddr]) -> Result<Vec<W>> {
        let query = (addresses.to_vec(),);
        counted(addresses.len(), self.peer.ask::<W::Read>(&query)?)
    }

    /// Writes bytes, one buffer after the other.
    ///
    /// # Errors
    ///
    /// As [`MemoryAccess::write`].
    pub fn write_buffers<'b>(
        &self,
        buffers: impl IntoIterator<Item = (ExecutorAddr, &'b [u8])>,
    ) -> Result<()> {
        let buffers = buffers.into_iter().map(|(address, bytes)| (address, Bytes(bytes.to_vec())));
        self.peer.ask::<WriteBuffers>(&(buffers.collect(),))
    }

    /// Reads ranges of bytes.
    ///
    /// # Errors
    ///
    /// As [`MemoryAccess::read`], or when the bytes are too many for one answer
    /// ([`PAYLOAD_BYTES_MAX`](crate::limits::PAYLOAD_BYTES_MAX)).
    pub fn read_buffers(&self, ranges: &[AddrRange]) -> Result<Vec<Vec<u8>>> {
        let buffers = counted(ranges.len(), self.peer.ask::<ReadBuffers>(&(ranges.to_vec(),))?)?;
        for (Bytes(buffer), range) in buffers.iter().zip(ranges) {
            if buffer.len() as u64 != range.bytes() {
                return Err(Error::violation(format!(
                    "{} bytes came for the {} at {}",
                    buffer.len(),
                    range.bytes(),
                    range.start
                )));
            }
        }
        Ok(buffers.into_iter().map(|Bytes(buffer)| buffer).collect())
    }

    /// Reads strings that end with a zero byte, which is left out.
    ///
    /// # Errors
    ///
    /// As [`MemoryAccess::read_buffers`].
    pub fn read_strings(&self, addresses: &[ExecutorAddr]) -> Result<Vec<Vec<u8>>> {
        let query = (addresses.to_vec(),);
        let strings = counted(addresses.len(), self.peer.ask::<ReadStrings>(&query)?)?;
        Ok(strings.into_iter().map(|Bytes(string)| string).collect())
    }
}

/// The answers, if their number is that of the questions.
fn counted<T>(questions: usize, answers: Vec<T>) -> Result<Vec<T>> {
    if answers.len() == questions {
        return Ok(answers);
    }
    Err(Error::violation(format!("{} answers to {questions} questions", answers.len())))
}
