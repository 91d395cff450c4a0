//! Crash reports: how an executor's process died, and in which linked function.

use std::sync::{Arc, OnceLock};

use super::live_code::LiveCode;
use super::supervisor::{News, Supervisor};
use crate::deadline::Deadline;
use crate::error::{Death, Error, ErrorKind};
use crate::shm::Segment;
use crate::sync::Ordering;
use crate::sys::confine::confinement::Confinement;
use crate::sys::futex;
use crate::sys::memory::pages;
use crate::sys::process::dying::Ended;
use crate::sys::process::trap;
use crate::wire::layout;

/// The sources of a crash report: the first lane's segment, into which the executor's crash handler writes, and the symbols of live
/// code.
#[derive(Debug)]
pub(crate) struct CrashReports {
    first: Arc<Segment>,
    code: Arc<LiveCode>,
    limits: Confinement,
    /// The first report of the death. Later ones repeat it: a dying process releases its marks when the session ends, and may even exit
    /// before the signal ends it.
    told: OnceLock<Error>,
}

impl CrashReports {
    pub(crate) fn new(first: Arc<Segment>, code: Arc<LiveCode>, limits: Confinement) -> Self {
        Self { first, code, limits, told: OnceLock::new() }
    }

    pub(crate) fn first_segment(&self) -> &Arc<Segment> {
        &self.first
    }

    /// The error to report instead of `error`: how the executor died, if it did, or where the call was interrupted. Kills an executor
    /// that broke the protocol.
    #[cold]
    pub(crate) fn explain(
        &self,
        error: Error,
        supervisor: &Supervisor,
        deadline: Deadline,
    ) -> Error {
        if let Some(told) = error.interruption() {
            let located = told.located(self.code.locate(told.program_counter));
            return Error::interrupted(located);
        }
        if !error.is_disconnected() || error.death().is_some() {
            return error;
        }
        let process = supervisor.process();
        if error.kind() == ErrorKind::Violation {
            process.kill();
            return error;
        }
        if let Some(told) = self.told.get() {
            return told.clone();
        }
        if let Some(failure) = process.failure() {
            return failure;
        }
        let has_died = |word: usize| {
            // [HOLDER] Acquire: the crash record is seen with it.
            self.first.words()[word].load(Ordering::Acquire) & futex::OWNER_DIED != 0
        };
        let is_alone = error.kind() == ErrorKind::ThreadGone;
        let news = || match has_died(layout::PROCESS_HOLDER_WORD) {
            true => News::ProcessEnds,
            false if is_alone => News::ThreadEnded,
            false => News::HungUp,
        };
        // The crash handler's record is complete before the kernel reports the end.
        if news() == News::ProcessEnds
            && let Some(crash) = self.record()
        {
            return self.report(crash.death.signal.map_or(Ended::Unknown, Ended::Killed));
        }
        match process.end(news, || has_died(layout::HOLDER_WORD), deadline) {
            Some(ended) => self.report(ended),
            None if news() == News::ThreadEnded => Error::remote(
                "the executor's thread that ran the call has ended without returning, as by the exit system call",
            ),
            // Another thread may have told of the death meanwhile.
            None => self.told.get().cloned().unwrap_or(error),
        }
    }

    fn report(&self, ended: Ended) -> Error {
        self.told.get_or_init(|| self.reported(ended)).clone()
    }

    fn reported(&self, ended: Ended) -> Error {
        let death = self.death(ended);
        // The kernel reports the address of code that is not there as that of the access.
        let called = death.program_counter.filter(|_| death.program_counter == death.fault_address);
        let is_of_host = called.is_some_and(|address| address != 0 && pages::is_code(address));
        let error = Error::died(death);
        match is_of_host {
            false => error,
            true => error.and(&Error::invalid(
                "this process has code at that address, which the executor does not: let linked code call a function of the \
                 host as a handler (Dylib::define_handler), not by its address",
            )),
        }
    }

    fn record(&self) -> Option<trap::Crash> {
        trap::read(&self.first.words()[layout::CRASH_WORD..layout::SETTLED_WORD])
    }

    fn death(&self, ended: Ended) -> Death {
        let mut death = Death::default();
        match ended {
            Ended::Exited(status) => {
                death.exit_status = Some(status);
                return death;
            }
            Ended::Killed(signal) => death.signal = Some(signal),
            Ended::Unknown => death.status_unknown = true,
        }
        // The walk over a damaged stack may fault. What came before that is the reason.
        let has_faulted = matches!(death.signal, Some(libc::SIGSEGV | libc::SIGBUS));
        let is_of = |crash: &trap::Crash| {
            death.status_unknown || has_faulted || death.signal == crash.death.signal
        };
        let Some(crash) = self.record().filter(is_of) else {
            death.limit = death.signal.and_then(|signal| self.limits.of_signal(signal));
            return death;
        };
        let mut told = crash.death;
        told.status_unknown = death.status_unknown;
        told.limit = self.limits.of_memory().filter(|_| crash.memory_is_used_up);
        let own = told.program_counter.and_then(|address| self.code.locate(address));
        let callers = crash.frames.iter().filter(|frame| Some(**frame) != told.program_counter);
        // A return address may already be in the next function; the call before it is not.
        let callers = callers.filter_map(|frame| self.code.locate(frame.saturating_sub(1)));
        told.backtrace = own.iter().cloned().chain(callers).collect();
        let of_caller = |caller| format!("a function called from {caller}");
        told.location = own.or_else(|| told.backtrace.first().map(of_caller));
        told
    }
}
