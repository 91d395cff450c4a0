//! An executor in the process of its controller: calls run on the threads that make them.
//!
//! It has no socket, no acceptor and no handlers for crashes: signals and descriptors are the host's. Its pipelines have threads of
//! their own, as elsewhere.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::{Arc, Weak};

use super::pipeline_calls::PipelineCalls;
use super::{acceptor_thread, connected, standby};
use crate::call::contract::{
    FEATURES, Placement, STATIC_TLS_BYTES, STATIC_TLS_OFFSET, Setup, VERSION,
};
use crate::call::direct::{DirectController, DirectExecutor, Other, Started};
use crate::error::{Error, Result};
use crate::executor::context::instance::Instance;
use crate::executor::entry::unwind_boundary::direct_calls;
use crate::executor::entry::wrapper;
use crate::executor::log::{self, Level};
use crate::executor::services::{names_offered, process_info, thread_room};
use crate::executor::tls::{own_thread, static_reserve};
use crate::limits::{END_TIMEOUT, PAGE_BYTES};
use crate::sync::{Condvar, Mutex};
use crate::sys::memory::map::Reservation;
use crate::sys::process::thread::SignalMask;
use crate::wire::hello::Hello;

/// The executor, for its controller.
#[derive(Debug)]
struct InProcess(Arc<Serving>);

/// The executor, for its controller and for the threads of its pipelines.
#[derive(Debug)]
struct Serving {
    session: Arc<Instance>,
    /// The number of the session.
    number: u64,
    /// The signals that linked code on threads of pipelines begins with.
    mask: SignalMask,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Threads that serve pipelines.
    threads: usize,
    phase: Phase,
}

/// How far the session's end has come.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Phase {
    #[default]
    Open,
    /// The controller waits for the threads, and then releases the memory.
    Ending,
    /// The controller waits no more: the last thread releases the memory.
    Left,
    Ended,
}

/// Starts an executor in this process.
///
/// # Errors
///
/// When a controller over a connection has thread-locals in this process.
pub(crate) fn start(
    controller: Weak<dyn DirectController>,
    is_debuggable: bool,
) -> Result<Started> {
    static_reserve::expect_threads_of_host();
    let session = Instance::begin_direct(controller);
    if let Err(error) = thread_room::check_free() {
        return session.end().and(Err(error));
    }
    if is_debuggable {
        session.memory.map_code_privately();
    }
    let setup = setup(&session);
    let (number, mask) = (session.instance().get(), SignalMask::of_thread());
    let (state, changed) = (Mutex::default(), Condvar::new());
    let executor = Arc::new(InProcess(Arc::new(Serving { session, number, mask, state, changed })));
    Ok(Started { executor, setup })
}

/// The names, addresses and numbers of the executor.
fn setup(session: &Instance) -> Setup {
    let Hello { version, features } = Hello::OWN;
    let mut numbers = vec![
        (VERSION.to_owned(), version.cast_signed()),
        (FEATURES.to_owned(), features.bits().cast_signed()),
    ];
    if let Some(reserve) = static_reserve::get() {
        numbers.push((STATIC_TLS_OFFSET.to_owned(), reserve.offset));
        numbers.push((STATIC_TLS_BYTES.to_owned(), reserve.bytes.cast_signed()));
    }
    let mut symbols = names_offered::symbols(session);
    // The controller may be a program of LLVM's, over the C ABI.
    symbols.extend(connected::functions());
    (process_info::triple(), PAGE_BYTES, symbols, numbers)
}

impl DirectExecutor for InProcess {
    #[inline]
    fn call(&self, function: u64, args: &[u8], word: &mut u64, other: &mut Other) -> bool {
        static_reserve::catch_up();
        direct_calls::within(self.0.number, || {
            let Some(called) = wrapper::call_for_word(function, args, word) else { return true };
            *other = Some(called.map(|buffer| buffer.as_ref().to_vec()));
            false
        })
    }

    fn map_slab(
        &self,
        placement: Placement,
        files: [BorrowedFd<'_>; 2],
        data_bytes: u64,
    ) -> Result<Arc<Reservation>> {
        self.0.session.memory.reserve_in_process(placement, files, data_bytes)
    }

    fn serve_pipeline(&self, segment: OwnedFd) -> Result<()> {
        let segment = acceptor_thread::pipeline(segment)?;
        let thread = Thread::new(&self.0)?;
        own_thread::start("farcall-lane", standby::STACK_BYTES, move || {
            standby::prepare_thread();
            let serving = Arc::clone(&thread.0);
            serving.mask.set();
            let calls = PipelineCalls::new(Some(serving.number));
            // The controller learns of its end from the pipeline.
            let _ = calls.served().serve(|| calls.serve(&segment));
            // The end of the session waits for the thread's, behind which nothing of it is left.
            drop((segment, calls));
            drop(thread);
        })
    }

    fn end(&self) -> Result<()> {
        let serving = &self.0;
        let mut state = serving.state.lock();
        if state.phase == Phase::Ended {
            return Ok(());
        }
        state.phase = Phase::Ending;
        let waits = |state: &mut State| state.threads > 0;
        let mut state = serving.changed.wait_timeout_while(state, END_TIMEOUT, waits);
        if state.threads > 0 {
            state.phase = Phase::Left;
            return Err(Error::timeout(
                "a submitted call goes on, and keeps the memory of linked code",
            ));
        }
        if std::mem::replace(&mut state.phase, Phase::Ended) == Phase::Ended {
            return Ok(());
        }
        drop(state);
        serving.end()
    }
}

impl Serving {
    /// Runs the dealloc actions that are left.
    fn end(&self) -> Result<()> {
        let call = || self.session.end();
        direct_calls::within(self.number, call)
            .inspect_err(|error| log::write(Level::Error, format_args!("{error}")))
    }
}

/// A thread that serves a pipeline. The last one releases the memory of a session that its controller has left.
struct Thread(Arc<Serving>);

impl Thread {
    fn new(serving: &Arc<Serving>) -> Result<Self> {
        let mut state = serving.state.lock();
        if state.phase != Phase::Open {
            return Err(Error::disconnected("the session is over"));
        }
        state.threads += 1;
        drop(state);
        Ok(Self(Arc::clone(serving)))
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.threads -= 1;
        let is_last = state.threads == 0 && state.phase == Phase::Left;
        if is_last {
            state.phase = Phase::Ended;
        }
        drop(state);
        self.0.changed.notify_all();
        if is_last {
            // Failures were written.
            let _ = self.0.end();
        }
    }
}
