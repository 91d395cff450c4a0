//! The rows of each contest, by name, before anything is started.
//!
//! Invariant: a kind of row has the name that its contenders have, so a name can be checked before anything runs.

use std::rc::Rc;

use crate::callers::caller::Caller;
use crate::callers::calling::Calling;
use crate::calls::in_flight;
use crate::calls::threads::{self, Threads};
use crate::calls::typed::TypedBatch;
use crate::processes::peer::Peer;
use crate::transports::copy::{self, BareCopy};
use crate::transports::transport::Setting;
use crate::{Callee, Contender, CpuPair, EchoCall, InFlight, Result, Size, Versus};

/// A row that a contest can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RowKind {
    /// In a caller process for each place, if the contest has any.
    Calling(Calling),
    /// Null calls of this many threads at once.
    Threads(usize),
    /// This many calls in flight over one pipeline.
    InFlight(usize),
    /// A thousand calls of a C function together.
    Batch,
    /// Calls with a payload that is copied for longer than a line is polled.
    LargeEcho(Size),
    /// The floor of a payload.
    Copy(Size),
    /// Another transport, with this payload if it is a byte stream.
    Versus(Versus, Size),
}

/// The processes that rows call.
pub(crate) struct Servers<'a> {
    pub(crate) cpus: CpuPair,
    /// One for each place; empty for a contest of one place.
    pub(crate) callers: Vec<Rc<Caller>>,
    pub(crate) peer: &'a Rc<Peer>,
    pub(crate) callee: &'a Callee,
}

/// The choices of the hot contest; see the fields of [`Plan`](crate::Plan).
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asked<'a> {
    pub(crate) versus: &'a [Versus],
    pub(crate) sizes: &'a [Size],
    pub(crate) threads: usize,
    pub(crate) in_flight: usize,
}

impl RowKind {
    /// The unit of all rows; they come first in each contest of calls back to back.
    pub(crate) const FLOORS: [RowKind; 2] =
        [RowKind::Calling(Calling::TwoLines), RowKind::Calling(Calling::OneLine)];
    const NULL: RowKind = RowKind::Calling(Calling::Null);

    /// Calls back to back on two CPUs.
    pub(crate) fn hot(asked: Asked<'_>) -> Vec<RowKind> {
        use Calling::{CallBack, Code, Data, Echo, NestedByName, NestedRound, Spin, Typed};
        let mut rows = RowKind::FLOORS.to_vec();
        rows.push(RowKind::NULL);
        rows.extend([Typed, CallBack, NestedRound, NestedByName].map(RowKind::Calling));
        if asked.threads > 1 {
            rows.push(RowKind::Threads(asked.threads));
        }
        if asked.in_flight > 1 {
            rows.push(RowKind::InFlight(asked.in_flight));
        }
        rows.push(RowKind::Batch);
        rows.extend([Code, Data].map(RowKind::Calling));
        for &size in asked.sizes {
            let is_small = size <= Size::PAGE;
            let echo = RowKind::Calling(Echo(size));
            rows.push(if is_small { echo } else { RowKind::LargeEcho(size) });
            rows.push(RowKind::Copy(size));
        }
        for &versus in asked.versus {
            match versus.transport() {
                // At as many places as the null call that it is compared with.
                None => rows.push(RowKind::Calling(Spin)),
                Some(transport) if transport.has_sizes => {
                    let sizes = [&[Size::WORD], asked.sizes].concat();
                    rows.extend(sizes.into_iter().map(|size| RowKind::Versus(versus, size)));
                }
                Some(_) => rows.push(RowKind::word(versus)),
            }
        }
        rows
    }

    /// Calls back to back with both sides on the caller's CPU.
    pub(crate) fn one_cpu() -> Vec<RowKind> {
        let others = [Versus::FUTEX, Versus::PIPE].map(RowKind::word);
        RowKind::FLOORS.into_iter().chain([RowKind::NULL]).chain(others).collect()
    }

    /// Single calls after a rest.
    pub(crate) fn cold() -> Vec<RowKind> {
        let others = [Versus::FUTEX, Versus::PIPE, Versus::UNIX].map(RowKind::word);
        [RowKind::NULL].into_iter().chain(others).collect()
    }

    fn word(versus: Versus) -> RowKind {
        RowKind::Versus(versus, Size::WORD)
    }

    /// The name of the row in tables; `in_flight` is the number of messages in flight, for rows that can have many.
    pub(crate) fn name(self, in_flight: usize) -> String {
        match self {
            RowKind::Calling(calling) => calling.name(),
            RowKind::Threads(threads) => threads::name(threads),
            RowKind::InFlight(calls) => in_flight::name(calls),
            RowKind::Batch => TypedBatch::NAME.to_owned(),
            RowKind::LargeEcho(size) => Calling::Echo(size).name(),
            RowKind::Copy(size) => copy::name(size),
            RowKind::Versus(versus, size) => match versus.transport() {
                Some(transport) => (transport.row_name)(size, in_flight.max(1)),
                None => Calling::Spin.name(),
            },
        }
    }

    /// Makes the contenders of the row, one for each of its places.
    ///
    /// # Errors
    /// When a process does not answer, or its pipes or memory cannot be made.
    pub(crate) fn start(
        self,
        servers: &Servers<'_>,
        in_flight: usize,
    ) -> Result<Vec<Box<dyn Contender>>> {
        let &Servers { cpus, ref callers, peer, callee } = servers;
        let one: Box<dyn Contender> = match self {
            RowKind::Calling(calling) if callers.is_empty() => calling.start(cpus, peer, callee)?,
            RowKind::Calling(calling) => {
                let rows = callers.iter().map(|caller| Ok(Box::new(caller.row(calling)?) as _));
                return rows.collect();
            }
            RowKind::Threads(threads) => Box::new(Threads::new(callee, threads)?),
            RowKind::InFlight(calls) => Box::new(InFlight::new(callee, calls)?),
            RowKind::Batch => Box::new(TypedBatch::new(callee)?),
            RowKind::LargeEcho(size) => Box::new(EchoCall::new(callee, size)?),
            RowKind::Copy(size) => Box::new(BareCopy::new(peer, size)?),
            RowKind::Versus(versus, size) => match versus.transport() {
                Some(transport) => {
                    (transport.start)(&Setting { peer, cpus, size, in_flight: in_flight.max(1) })?
                }
                None => Calling::Spin.start(cpus, peer, callee)?,
            },
        };
        Ok(vec![one])
    }
}
