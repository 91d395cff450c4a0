//! A session that a host embeds: the functions it offers, how its calls run, and how linked code calls back.

use std::sync::Arc;

use super::connected;
use crate::ExecutorAddr;
use crate::call::contract::{Remote, SessionLookup};
use crate::error::Result;
use crate::executor::context::current::within;
use crate::executor::context::instance::Instance;
use crate::executor::entry::wrapper;
use crate::executor::services::{names_offered, process_info};
use crate::limits::PAGE_BYTES;
use crate::session::{
    BootstrapInfo, Done, Reply, SUBTARGET_FEATURES, Service, SessionBuilder, SessionHandle,
    SymbolLookupSet,
};
use crate::sps;
use crate::task::Task;
use crate::transport::Payload;

impl SessionBuilder {
    /// A session that offers the functions of every executor of this library, by all their names. They are memory, symbols,
    /// access to memory, programs, and registration with unwinders and debuggers.
    ///
    /// `dispatch` receives each task, on any thread. It must run the task soon, and on another thread unless it knows
    /// that tasks never wait: for example `move |task| pool.dispatch(task)` with a
    /// [`ThreadPool`](crate::task::ThreadPool).
    ///
    /// # Examples
    ///
    /// ```
    /// use farcall::session::SessionBuilder;
    /// use farcall::task::{TaskDispatcher, ThreadPool};
    ///
    /// let pool = ThreadPool::new(4);
    /// let session = SessionBuilder::new(move |task| pool.dispatch(task)).build()?;
    /// # Ok::<(), farcall::Error>(())
    /// ```
    #[must_use]
    pub fn new(dispatch: impl Fn(Task) + Send + Sync + 'static) -> Self {
        let memory = Memory(Instance::begin(None));
        let mut info = BootstrapInfo {
            triple: process_info::triple(),
            page_bytes: PAGE_BYTES,
            ..BootstrapInfo::default()
        };
        let symbols = names_offered::symbols(&memory.0).into_iter().chain(connected::functions());
        for (name, address) in symbols {
            // The same name always has the same address here.
            let _ = info.symbols.add_unique([(name, address)]);
        }
        info.values.insert(SUBTARGET_FEATURES.to_owned(), process_info::features().into_bytes());
        let instance = Arc::clone(&memory.0);
        let mut bare = Self::bare(dispatch, info, run);
        // No other function has this name.
        let _ = bare.offer(SessionLookup::NAME, look_up);
        bare.service(memory).on_start(move |session| instance.set_host(Some(session.clone())))
    }
}

/// Looks names up among the symbols of the session.
fn look_up(session: &SessionHandle, args: Vec<u8>, reply: Reply) {
    let names = sps::from_bytes::<(SymbolLookupSet,)>(&args);
    let found = names.map(|(names,)| session.bootstrap_info().symbols().lookup(&names));
    reply.send(found.map(|found| sps::to_bytes(&found)).map_err(|error| error.to_string()));
}

/// Runs the wrapper function at an address.
pub(crate) fn run(session: &SessionHandle, function: ExecutorAddr, args: Vec<u8>, reply: Reply) {
    let result = within(session, || wrapper::call(function.get(), Payload::Own(&args)));
    reply.send(result.map(|buffer| buffer.as_ref().to_vec()));
}

/// The instance of a session, with the memory map. It is the first service, so it is shut down last, and dealloc
/// actions run when every other service is shut down.
struct Memory(Arc<Instance>);

impl Service for Memory {
    fn name(&self) -> &'static str {
        "the native memory map"
    }

    fn on_shutdown(&self, done: Done) {
        let host = self.0.host();
        if let (Err(error), Some(session)) = (self.end(), host) {
            session.report_error(error);
        }
        done.complete();
    }
}

impl Memory {
    fn end(&self) -> Result<()> {
        self.0.set_host(None);
        self.0.end()
    }
}

impl Drop for Memory {
    /// Ends the instance of a builder that built no session.
    fn drop(&mut self) {
        // A second end does nothing.
        let _ = self.end();
    }
}

#[cfg(test)]
mod tests;
