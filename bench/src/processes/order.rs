//! The orders that the caller sends to the peer process over the control socket.
//!
//! Invariant: one packet is one order; the descriptors of a packet are owned the moment it is read.

use std::borrow::Cow;
use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};

use nix::errno::Errno;
use nix::sys::socket::{ControlMessage, ControlMessageOwned, MsgFlags, UnixAddr, recvmsg, sendmsg};

use crate::Result;
use crate::processes::shared;

/// Descriptors that one order may carry.
const FDS_MAX: usize = 2;
/// The words of an order. The name of a service follows.
const WORDS_BYTES: usize = 12;
const NAME_BYTES_MAX: usize = 20;
const SIZE_BYTES: usize = WORDS_BYTES + NAME_BYTES_MAX;

/// One order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Order {
    /// Make a server of the service with this name, for messages of this many bytes. The packet has its descriptors, and it gets
    /// the next slot.
    Install(Cow<'static, str>, u32),
    /// Answer exactly `calls` calls as the server in `slot`, then wait for the next order.
    Serve { slot: u32, calls: u32 },
}

impl Order {
    /// Sends the order with `fds`; the peer gets duplicates of them.
    pub(crate) fn send(&self, control: &OwnedFd, fds: &[BorrowedFd<'_>]) -> Result<()> {
        let bytes = self.encode()?;
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
            came => Ok(Some((Order::decode(&bytes[..came])?, fds))),
        }
    }

    fn encode(&self) -> Result<Vec<u8>> {
        let (words, name) = match self {
            Order::Install(service, bytes) => ([0, *bytes, 0], &**service),
            Order::Serve { slot, calls } => ([1, *slot, *calls], ""),
        };
        if name.len() > NAME_BYTES_MAX {
            return Err(format!("{name}: a name of more than {NAME_BYTES_MAX} bytes").into());
        }
        Ok([&words.map(u32::to_le_bytes).concat(), name.as_bytes()].concat())
    }

    fn decode(bytes: &[u8]) -> Result<Order> {
        let Some((words, name)) = bytes.split_first_chunk::<WORDS_BYTES>() else {
            let came = bytes.len();
            return Err(format!("an order of {came} bytes, not {WORDS_BYTES} or more").into());
        };
        let [a0, a1, a2, a3, b0, b1, b2, b3, c0, c1, c2, c3] = *words;
        let words = [[a0, a1, a2, a3], [b0, b1, b2, b3], [c0, c1, c2, c3]].map(u32::from_le_bytes);
        match words {
            [0, bytes, 0] => Ok(Order::Install(str::from_utf8(name)?.to_owned().into(), bytes)),
            [1, slot, calls] if name.is_empty() => Ok(Order::Serve { slot, calls }),
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
        orders.extend(["echo", "two lines"].map(|service| Order::Install(service.into(), 1 << 20)));
        for order in &orders {
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
    fn a_name_that_no_packet_holds_is_refused_by_its_sender() {
        let (here, _there) = control_pair();
        let error = Order::Install("x".repeat(21).into(), 8).send(&here, &[]).unwrap_err();
        assert!(error.to_string().contains("more than 20 bytes"), "{error}");
    }

    #[test]
    fn descriptors_travel_with_their_order() {
        let (here, there) = control_pair();
        let (mut reader, writer) = std::io::pipe().unwrap();
        Order::Install("echo".into(), 8).send(&here, &[writer.as_fd()]).unwrap();
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
        nix::unistd::write(&here, &[9; WORDS_BYTES]).unwrap();
        let error = Order::receive(there.as_fd()).unwrap_err();
        assert!(error.to_string().contains("no order"), "{error}");
        nix::unistd::write(&here, &[0; 3]).unwrap();
        let error = Order::receive(there.as_fd()).unwrap_err();
        assert!(error.to_string().contains("3 bytes"), "{error}");
    }
}
