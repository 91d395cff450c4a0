//! Functions of LLVM's runtime in a session that a host embeds: they receive the session, answer at any time, and
//! call the controller through the session.
#![allow(unsafe_code, reason = "has a public function whose caller must vouch for another")]

use std::collections::{BTreeMap, HashSet};
use std::sync::OnceLock;

use super::{connected, embedded};
use crate::ExecutorAddr;
use crate::error::{Error, Result};
use crate::executor::context::current::within;
use crate::executor::context::instance::Instance;
use crate::executor::entry::buffer::WrapperFunctionBuffer;
use crate::executor::entry::raw_session::{RawSession, WrapperFunction};
use crate::executor::entry::wrapper_function::{Answered, Convention};
use crate::executor::services::names_offered;
use crate::session::{Reply, SessionBuilder, SessionHandle};
use crate::sync::Mutex;

impl SessionBuilder {
    /// Offers a [`WrapperFunction`] under a name. It receives the address of the session.
    ///
    /// # Errors
    ///
    /// If the name is taken.
    ///
    /// # Safety
    ///
    /// The function must behave as [`WrapperFunction`] describes.
    pub unsafe fn wrapper_function(
        self,
        name: impl Into<String>,
        function: WrapperFunction,
    ) -> Result<Self> {
        let function = ExecutorAddr::new((function as *const ()).expose_provenance() as u64);
        self.function(name, move |session, args, reply| call(session, function, &args, reply))
    }

    /// Sets the calling convention of code that the controller brings or names by address; the default is LLVM 22's.
    /// The executor's own functions are called as before.
    #[must_use]
    pub fn linked_code(self, convention: Convention) -> Self {
        self.run_addresses(match convention {
            Convention::Llvm22 => embedded::run,
            Convention::WithSession => run,
        })
    }
}

/// The pending calls by number.
#[derive(Debug)]
struct Calls {
    next: u64,
    waiting: BTreeMap<u64, (RawSession, Reply)>,
}

static CALLS: Mutex<Calls> = Mutex::new(Calls { next: 1, waiting: BTreeMap::new() });

/// Calls the function at an address that the controller names.
fn run(session: &SessionHandle, function: ExecutorAddr, args: Vec<u8>, reply: Reply) {
    if is_own(session, function) {
        embedded::run(session, function, args, reply);
    } else {
        call(session, function, &args, reply);
    }
}

/// True for a function of this library, which has LLVM 22's form.
fn is_own(session: &SessionHandle, function: ExecutorAddr) -> bool {
    /// The functions of all sessions are the same.
    static OWN: OnceLock<HashSet<ExecutorAddr>> = OnceLock::new();
    let Some((instance, _)) = Instance::hosted(session.address()) else { return false };
    let own = OWN.get_or_init(|| {
        let own = names_offered::symbols(&instance).into_iter().chain(connected::functions());
        own.map(|(_, address)| address).collect()
    });
    own.contains(&function)
}

fn call(session: &SessionHandle, function: ExecutorAddr, args: &[u8], reply: Reply) {
    let raw = RawSession::new(session.address());
    let number = {
        let mut calls = CALLS.lock();
        let number = calls.next;
        calls.next += 1;
        calls.waiting.insert(number, (raw, reply));
        number
    };
    let args = WrapperFunctionBuffer::from_bytes(args);
    within(session, || Convention::call_for::<PendingAnswers>(function, raw, args, number));
}

/// The answers to the calls in [`CALLS`].
enum PendingAnswers {}

impl Answered for PendingAnswers {
    /// Passes the result on. Reports an answer with the number of no pending call, or with the wrong session.
    fn answered(session: RawSession, result: WrapperFunctionBuffer, number: u64) {
        let reply = {
            let mut calls = CALLS.lock();
            match calls.waiting.get(&number) {
                Some((own, _)) if *own == session => calls.waiting.remove(&number),
                _ => None,
            }
        };
        match reply {
            Some((_, reply)) => {
                reply.send(result.into_result().map(|bytes| bytes.as_bytes().to_vec()));
            }
            None => {
                if let Some((_, session)) = Instance::hosted(session.address()) {
                    session.report_error(Error::invalid(format!(
                        "an answer to call {number}, which has an answer already or was never made"
                    )));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
