//! The floor of large payloads: bare copies through shared memory, both sides of it.
//!
//! Each way the bytes go from memory of one process to shared memory to memory of the other. That is the least work of a call
//! that owns its arguments and its result.
//!
//! Invariant: four copies a round trip, and one line handed over twice.

use std::os::fd::{AsFd, BorrowedFd};
use std::rc::Rc;
use std::sync::atomic::Ordering;

use crate::processes::peer::{Peer, Slot};
use crate::processes::poll::Poll;
use crate::processes::server::{Server, Service};
use crate::processes::shared::SharedBytes;
use crate::transports::floor::{is_hop, parent_kills};
use crate::{Contender, Result, Size};

/// Descriptor: the memfd of the bytes. Copied out of it and back into it.
pub(crate) const SERVICE: Service = Service {
    name: "copy",
    make: |parts| {
        let poll = parts.poll;
        let [memfd] = parts.descriptors()?;
        Ok(Box::new(BareCopyServer::attach(memfd.as_fd(), poll)?))
    },
};

/// Bytes copied to the other process and back.
#[derive(Debug)]
pub(crate) struct BareCopy {
    name: String,
    shared: SharedBytes,
    slot: Slot,
    hop: u64,
    bytes: Vec<u8>,
    back: Vec<u8>,
}

impl BareCopy {
    pub(crate) fn new(peer: &Rc<Peer>, size: Size) -> Result<BareCopy> {
        let (shared, memfd) = SharedBytes::create(size.bytes())?;
        let slot = peer.install(&SERVICE, size, &[memfd.as_fd()])?;
        let (bytes, back) = (vec![0x5a; size.bytes()], vec![0; size.bytes()]);
        Ok(BareCopy { name: name(size), shared, slot, hop: 0, bytes, back })
    }
}

/// The name of the row with this payload.
pub(crate) fn name(size: Size) -> String {
    format!("{size} bare copy")
}

impl Contender for BareCopy {
    fn name(&self) -> &str {
        &self.name
    }

    fn prepare(&mut self, calls: u32) -> Result<()> {
        self.slot.serve(calls)
    }

    #[inline]
    fn call(&mut self) -> Result<()> {
        let (request, reply) = (self.hop + 1, self.hop + 2);
        self.hop = reply;
        mark(&mut self.bytes, request);
        self.shared.write(&self.bytes);
        let line = self.shared.word();
        // Release: pairs with the Acquire of the server's `is_hop`; the bytes are the other side's now.
        line.store(request, Ordering::Release);
        self.slot.poll_until(|| is_hop(line, reply))?;
        self.shared.read(&mut self.back);
        if ends(&self.back) == ends(&self.bytes) {
            Ok(())
        } else {
            Err(format!("bytes of hop {request} came back as others").into())
        }
    }
}

/// The other side of [`BareCopy`].
#[derive(Debug)]
pub(crate) struct BareCopyServer {
    shared: SharedBytes,
    poll: Poll,
    hop: u64,
    bytes: Vec<u8>,
}

impl BareCopyServer {
    pub(crate) fn attach(memfd: BorrowedFd<'_>, poll: Poll) -> Result<BareCopyServer> {
        let shared = SharedBytes::attach(memfd)?;
        let bytes = vec![0; shared.len()];
        Ok(BareCopyServer { shared, poll, hop: 0, bytes })
    }
}

impl Server for BareCopyServer {
    fn serve(&mut self, calls: u32) -> Result<()> {
        for _ in 0..calls {
            let (request, reply) = (self.hop + 1, self.hop + 2);
            self.hop = reply;
            self.poll.until(|| is_hop(self.shared.word(), request), parent_kills)?;
            self.shared.read(&mut self.bytes);
            self.shared.write(&self.bytes);
            // Release: pairs with the Acquire of the caller's `is_hop`; the bytes are the other side's now.
            self.shared.word().store(reply, Ordering::Release);
        }
        Ok(())
    }
}

/// Marks the first and the last bytes of a payload as this call's.
#[inline]
pub(crate) fn mark(bytes: &mut [u8], number: u64) {
    let number = number.to_le_bytes();
    let count = number.len().min(bytes.len());
    bytes[..count].copy_from_slice(&number[..count]);
    let rest = bytes.len() - count;
    bytes[rest..].copy_from_slice(&number[..count]);
}

/// The length, the first and the last bytes of a payload, which tell it from another call's payload.
#[inline]
pub(crate) fn ends(bytes: &[u8]) -> (usize, &[u8], &[u8]) {
    let count = bytes.len().min(8);
    (bytes.len(), &bytes[..count], &bytes[bytes.len() - count..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payloads_of_two_calls_differ_in_their_ends() {
        for length in [1, 7, 8, 9, 100] {
            let (mut one, mut other) = (vec![9; length], vec![9; length]);
            mark(&mut one, 1);
            mark(&mut other, 2);
            assert_ne!(ends(&one), ends(&other), "{length} bytes");
            mark(&mut other, 1);
            assert_eq!(ends(&one), ends(&other), "{length} bytes");
        }
    }
}
