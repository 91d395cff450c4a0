//! The orders that the caller sends to the peer process over the control socket.
//!
//! Invariant: one packet is one order; the descriptors of a packet are owned the moment it is read.

use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};

use nix::errno::Errno;
use nix::sys::socket::{ControlMessage, ControlMessageOwned, MsgFlags, UnixAddr, recvmsg, sendmsg};

use crate::Result;
use crate::processes::shared;

/// Descriptors that one order may carry.
const FDS_MAX: usize = 2;
const SIZE_BYTES: usize = 12;

/// One order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// Make a server of this kind, for messages of this many bytes, from the descriptors in the same packet; it gets the
    /// next slot.
    Install(Service, u32),
    /// Answer exactly `calls` calls as the server in `slot`, then wait for the next order.
    Serve { slot: u32, calls: u32 },
}

/// The kinds of servers the peer process has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Service {
    /// Descriptor: the memfd of the words. Request and reply on two lines, polled by loads.
    TwoLines = 0,
    /// Descriptor: the memfd of the words. One line both ways, polled by compare-exchange.
    OneLine = 1,
    /// Descriptors: one to read messages from, one to write them back to.
    Echo = 2,
    /// Descriptor: the memfd of the bytes. Copied out of it and back into it.
    Copy = 3,
    /// Descriptor: the memfd of the words. Request and reply on two lines, for each of which the other side sleeps.
    Futex = 4,
    /// Descriptors: the event descriptor of requests and that of replies.
    Eventfd = 5,
    /// No descriptor: the two ends find each other by the number of the caller's process.
    Iceoryx = 6,
    /// Descriptors: the memory of the queue of calls and that of results.
    Shaq = 7,
    /// Descriptor: a Unix stream. farcall's executor over it, until the caller ends the connection; all of that is one call.
    Executor = 8,
}

impl Service {
    const ALL: [Service; 9] = [
        Service::TwoLines,
        Service::OneLine,
        Service::Echo,
        Service::Copy,
        Service::Futex,
        Service::Eventfd,
        Service::Iceoryx,
        Service::Shaq,
        Service::Executor,
    ];
}

impl Order {
    /// Sends the order with `fds`; the peer gets duplicates of them.
    pub(crate) fn send(self, control: &OwnedFd, fds: &[BorrowedFd<'_>]) -> Result<()> {
        let bytes = self.encode();
        let raw: Vec<RawFd> = fds.iter().map(AsRawFd::as_raw_fd).collect();
        let rights = [ControlMessage::ScmRights(&raw)];
        let rights = if raw.is_empty() { &[][..] } else { &rights[..] };
        sendmsg::<UnixAddr>(
            control.as_raw_fd(),
            &[IoSlice::new(&bytes)],
            rights,
            MsgFlags::MSG_NOSIGNAL,
            None,
        )
        .map_err(|errno| format!("sending {self:?} to the peer process: {errno}"))?;
        Ok(())
    }

    /// Waits for the next order and its descriptors; `None` when the other side has closed the
    /// socket.
    pub(crate) fn receive(control: BorrowedFd<'_>) -> Result<Option<(Order, Vec<OwnedFd>)>> {
        let mut bytes = [0; SIZE_BYTES];
        let mut rights = nix::cmsg_space!([RawFd; FDS_MAX]);
        let mut slices = [IoSliceMut::new(&mut bytes)];
        let message = loop {
            let flags = MsgFlags::MSG_CMSG_CLOEXEC;
            match recvmsg::<UnixAddr>(control.as_raw_fd(), &mut slices, Some(&mut rights), flags) {
                Err(Errno::EINTR) => {}
                Err(errno) => return Err(format!("reading the control socket: {errno}").into()),
                Ok(message) => break message,
            }
        };
        let mut fds = Vec::new();
        for part in message.cmsgs()? {
            if let ControlMessageOwned::ScmRights(received) = part {
                fds.extend(received.into_iter().map(shared::adopt));
            }
        }
        match message.bytes {
            0 => Ok(None),
            SIZE_BYTES => Ok(Some((Order::decode(bytes)?, fds))),
            other => Err(format!("an order of {other} bytes, not {SIZE_BYTES}").into()),
        }
    }

    fn encode(self) -> [u8; SIZE_BYTES] {
        let words = match self {
            Order::Install(service, bytes) => [0, service as u32, bytes],
            Order::Serve { slot, calls } => [1, slot, calls],
        };
        let mut bytes = [0; SIZE_BYTES];
        for (place, word) in bytes.chunks_exact_mut(4).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    fn decode(bytes: [u8; SIZE_BYTES]) -> Result<Order> {
        let [a0, a1, a2, a3, b0, b1, b2, b3, c0, c1, c2, c3] = bytes;
        let words = [[a0, a1, a2, a3], [b0, b1, b2, b3], [c0, c1, c2, c3]].map(u32::from_le_bytes);
        match words {
            [0, service, bytes] => Service::ALL
                .get(service as usize)
                .map(|&service| Order::Install(service, bytes))
                .ok_or_else(|| format!("no service has the number {service}").into()),
            [1, slot, calls] => Ok(Order::Serve { slot, calls }),
            other => Err(format!("no order has the words {other:?}").into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::socket::{AddressFamily, SockFlag, SockType, socketpair};
    use std::fs::File;
    use std::io::{Read, Write};
    use std::os::fd::AsFd;

    fn control_pair() -> (OwnedFd, OwnedFd) {
        let (family, kind) = (AddressFamily::Unix, SockType::SeqPacket);
        socketpair(family, kind, None, SockFlag::SOCK_CLOEXEC).unwrap()
    }

    #[test]
    fn orders_arrive_as_sent_then_the_end() {
        let (here, there) = control_pair();
        let mut orders = vec![Order::Serve { slot: 3, calls: u32::MAX }];
        orders.extend(Service::ALL.map(|service| Order::Install(service, 1 << 20)));
        for &order in &orders {
            order.send(&here, &[]).unwrap();
        }
        drop(here);
        for order in orders {
            let (received, fds) = Order::receive(there.as_fd()).unwrap().unwrap();
            assert_eq!(received, order);
            assert!(fds.is_empty());
        }
        assert!(Order::receive(there.as_fd()).unwrap().is_none());
    }

    #[test]
    fn descriptors_travel_with_their_order() {
        let (here, there) = control_pair();
        let (mut reader, writer) = std::io::pipe().unwrap();
        Order::Install(Service::Echo, 8).send(&here, &[writer.as_fd()]).unwrap();
        drop(writer);
        let (_, mut fds) = Order::receive(there.as_fd()).unwrap().unwrap();
        let mut theirs = File::from(fds.remove(0));
        assert!(fds.is_empty());
        theirs.write_all(b"through").unwrap();
        drop(theirs);
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "through");
    }

    #[test]
    fn a_packet_that_is_no_order_is_an_error() {
        let (here, there) = control_pair();
        nix::unistd::write(&here, &[9; SIZE_BYTES]).unwrap();
        let error = Order::receive(there.as_fd()).unwrap_err();
        assert!(error.to_string().contains("no order"), "{error}");
        nix::unistd::write(&here, &[0; 3]).unwrap();
        let error = Order::receive(there.as_fd()).unwrap_err();
        assert!(error.to_string().contains("3 bytes"), "{error}");
    }
}
