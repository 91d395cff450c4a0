//! A round trip between two threads of one process, over two ring buffers of the `rtrb` crate: the cost of a call
//! within one process.
//!
//! Invariant: the other thread sleeps between blocks, and ends with the contender.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};

use rtrb::{Consumer, Producer, RingBuffer};

use crate::processes::poll::Poll;
use crate::transports::transport::Transport;
use crate::{Contender, CpuPair, Result};

/// The row.
pub(super) const TRANSPORT: Transport = Transport {
    word: "local",
    has_sizes: false,
    row_name: |_, _| Local::NAME.to_owned(),
    start: |setting| Ok(Box::new(Local::new(setting.cpus)?)),
};

/// Slots of each ring.
const SLOTS: usize = 256;

/// A number pushed there and popped here again.
#[derive(Debug)]
pub(crate) struct Local {
    to: Producer<u64>,
    from: Consumer<u64>,
    number: u64,
    poll: Poll,
    /// The channel of orders, each a number of calls; its end ends the thread.
    orders: Sender<u32>,
    thread: JoinHandle<()>,
}

impl Local {
    pub(crate) fn new(cpus: CpuPair) -> Result<Local> {
        let poll = if cpus.is_shared() { Poll::Yield } else { Poll::Pause };
        let (to, requests) = RingBuffer::new(SLOTS);
        let (replies, from) = RingBuffer::new(SLOTS);
        let (orders, received) = channel();
        let thread = thread::Builder::new().name("local server".to_owned()).spawn(move || {
            // If that CPU is not allowed, the thread runs on any other.
            let _pinned = CpuPair { caller: cpus.server, ..cpus }.pin_caller();
            serve(&received, requests, replies, poll);
        })?;
        Ok(Local { to, from, number: 0, poll, orders, thread })
    }
}

impl Local {
    /// The name of the row.
    pub(crate) const NAME: &str = "local";
}

impl Contender for Local {
    fn name(&self) -> &str {
        Local::NAME
    }

    fn prepare(&mut self, calls: u32) -> Result<()> {
        Ok(self.orders.send(calls)?)
    }

    #[inline]
    fn call(&mut self) -> Result<()> {
        self.number += 1;
        self.to.push(self.number)?;
        let thread = &self.thread;
        self.poll.until(
            || !self.from.is_empty(),
            || if thread.is_finished() { Err("the other thread ended".into()) } else { Ok(()) },
        )?;
        match self.from.pop()? {
            number if number == self.number => Ok(()),
            other => Err(format!("call {} came back as {other}", self.number).into()),
        }
    }
}

/// The other thread: answers the number of calls of each order.
fn serve(
    orders: &Receiver<u32>,
    mut requests: Consumer<u64>,
    mut replies: Producer<u64>,
    poll: Poll,
) {
    while let Ok(calls) = orders.recv() {
        for _ in 0..calls {
            let abandoned =
                || if requests.is_abandoned() { Err("the caller ended".into()) } else { Ok(()) };
            let Ok(()) = poll.until(|| !requests.is_empty(), abandoned) else { return };
            let Ok(number) = requests.pop() else { return };
            // There is room: one call is outstanding at a time.
            let Ok(()) = replies.push(number) else { return };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_come_back_and_the_thread_ends() {
        let mut local = Local::new(CpuPair::first_two().unwrap()).unwrap();
        for _ in 0..2 {
            local.prepare(100).unwrap();
            local.run(60).unwrap();
            local.run(40).unwrap();
        }
        // In the middle of a block.
        local.prepare(2).unwrap();
        local.call().unwrap();
        let Local { to, from, orders, thread, .. } = local;
        drop((to, from, orders));
        thread.join().unwrap();
    }
}
