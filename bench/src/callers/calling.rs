//! The kinds of rows that a caller process has, their names and their starts.
//!
//! Invariant: a kind travels in an order as two numbers, and is read back as the same kind.

use std::rc::Rc;

use crate::callers::rows::{BURST, Burst, COLD_CALL, COLD_PIPE, Cold};
use crate::calls::call_back::{CallBack, NestedByName, NestedRound};
use crate::calls::spin::SpinCall;
use crate::calls::typed::TypedCall;
use crate::calls::{echo, in_flight};
use crate::processes::peer::Peer;
use crate::transports::floor::{OneLine, TwoLines};
use crate::transports::futex::Futex;
use crate::transports::kernel::{self, Echo};
use crate::{Callee, CodeCall, Contender, CpuPair, DataCall, EchoCall, NullCall, Result, Size};

/// The rows that a caller process has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Calling {
    TwoLines,
    OneLine,
    Null,
    Typed,
    CallBack,
    NestedRound,
    NestedByName,
    Code,
    Data,
    Echo(Size),
    Spin,
    /// Null calls, each after a rest.
    Cold,
    /// Round trips over two pipes, each after a rest.
    ColdPipe,
    /// Calls of [`BURST`] at a time over one pipeline.
    Burst,
    Futex,
    Pipe,
    Unix,
}

impl Calling {
    pub(crate) const PLAIN: [Calling; 16] = [
        Calling::TwoLines,
        Calling::OneLine,
        Calling::Null,
        Calling::Typed,
        Calling::CallBack,
        Calling::NestedRound,
        Calling::NestedByName,
        Calling::Code,
        Calling::Data,
        Calling::Spin,
        Calling::Cold,
        Calling::ColdPipe,
        Calling::Burst,
        Calling::Futex,
        Calling::Pipe,
        Calling::Unix,
    ];

    /// A number for the kind, and the bytes of a payload.
    pub(crate) fn encode(self) -> (u64, u64) {
        match self {
            Calling::Echo(size) => (Self::PLAIN.len() as u64, size.bytes() as u64),
            plain => (Self::PLAIN.iter().position(|&kind| kind == plain).unwrap_or(0) as u64, 0),
        }
    }

    pub(crate) fn decode(kind: u64, bytes: u64) -> Result<Calling> {
        match Self::PLAIN.get(usize::try_from(kind)?) {
            Some(&plain) => Ok(plain),
            None => Ok(Calling::Echo(bytes.to_string().parse()?)),
        }
    }

    /// The name of the row.
    pub(crate) fn name(self) -> String {
        let name = match self {
            Calling::TwoLines => TwoLines::NAME,
            Calling::OneLine => OneLine::NAME,
            Calling::Null => NullCall::NAME,
            Calling::Typed => TypedCall::NAME,
            Calling::CallBack => CallBack::NAME,
            Calling::NestedRound => NestedRound::NAME,
            Calling::NestedByName => NestedByName::NAME,
            Calling::Code => CodeCall::NAME,
            Calling::Data => DataCall::NAME,
            Calling::Echo(size) => return echo::name(size),
            Calling::Spin => SpinCall::NAME,
            Calling::Cold => COLD_CALL,
            Calling::ColdPipe => COLD_PIPE,
            Calling::Burst => return in_flight::name(BURST as usize),
            Calling::Futex => Futex::NAME,
            Calling::Pipe => kernel::PIPES,
            Calling::Unix => kernel::UNIX,
        };
        name.to_owned()
    }

    /// Makes the row, with the servers that it needs.
    pub(crate) fn start(
        self,
        cpus: CpuPair,
        peer: &Rc<Peer>,
        callee: &Callee,
    ) -> Result<Box<dyn Contender>> {
        Ok(match self {
            Calling::TwoLines => Box::new(TwoLines::new(peer)?),
            Calling::OneLine => Box::new(OneLine::new(peer)?),
            Calling::Null => Box::new(callee.null_call()),
            Calling::Typed => Box::new(TypedCall::new(callee)?),
            Calling::CallBack => Box::new(CallBack::new(callee)?),
            Calling::NestedRound => Box::new(NestedRound::new(callee)?),
            Calling::NestedByName => Box::new(NestedByName::new(callee)?),
            Calling::Code => Box::new(callee.code_call()),
            Calling::Data => Box::new(callee.data_call()),
            Calling::Echo(size) => Box::new(EchoCall::new(callee, size)?),
            Calling::Spin => Box::new(SpinCall::new(cpus)?),
            Calling::Cold => Box::new(Cold::new(COLD_CALL, callee.null_call())),
            Calling::ColdPipe => {
                Box::new(Cold::new(COLD_PIPE, Echo::over_pipes(peer, Size::WORD)?))
            }
            Calling::Burst => Box::new(Burst::new(callee)?),
            Calling::Futex => Box::new(Futex::new(peer)?),
            Calling::Pipe => Box::new(Echo::over_pipes(peer, Size::WORD)?),
            Calling::Unix => Box::new(Echo::over_unix_stream(peer, Size::WORD)?),
        })
    }

    /// True if the peer process serves the row, and false if an executor does.
    pub(crate) fn is_of_peer(self) -> bool {
        use Calling::{ColdPipe, Futex, OneLine, Pipe, TwoLines, Unix};
        matches!(self, TwoLines | OneLine | Futex | Pipe | ColdPipe | Unix)
    }

    /// The rows that this row is compared with: a futex, if there is one of the kind, and a pipe.
    pub(crate) fn units(self) -> (Option<Calling>, Calling) {
        match self {
            Calling::Cold | Calling::ColdPipe => (None, Calling::ColdPipe),
            _ => (Some(Calling::Futex), Calling::Pipe),
        }
    }

    /// The calls that one sample is the time of.
    pub(crate) fn calls_of_sample(self) -> u32 {
        if self == Calling::Burst { BURST } else { 1 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_of_rows_are_read_as_written() {
        for calling in [&Calling::PLAIN[..], &[Calling::Echo(Size::PAGE)]].concat() {
            assert!((4..=18).contains(&calling.name().len()), "{calling:?}");
            let (kind, bytes) = calling.encode();
            assert_eq!(Calling::decode(kind, bytes).unwrap(), calling);
        }
    }
}
