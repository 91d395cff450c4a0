//! Crash reports: how an executor's process died, and in which linked function.

use std::sync::Arc;

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
}

impl CrashReports {
    pub(crate) fn new(first: Arc<Segment>, code: Arc<LiveCode>, limits: Confinement) -> Self {
        Self { first, code, limits }
    }

    pub(crate) fn first_segment(&self) -> &Arc<Segment> {
        &self.first
    }

    /// The error to report instead of `error`: how the executor died, if it did. Kills an executor that broke the protocol.
    #[cold]
    pub(crate) fn explain(
        &self,
        error: Error,
        supervisor: &Supervisor,
        deadline: Deadline,
    ) -> Error {
        if !error.is_disconnected() || error.death().is_some() {
            return error;
        }
        let process = supervisor.process();
        if error.kind() == ErrorKind::Violation {
            process.kill();
            return error;
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
            return self.report(Ended::Killed(crash.signal));
        }
        match process.end(news, || has_died(layout::HOLDER_WORD), deadline) {
            Some(ended) => self.report(ended),
            None if news() == News::ThreadEnded => Error::remote(
                "the executor's thread that ran the call has ended without returning, as by the exit system call",
            ),
            None => error,
        }
    }

    fn report(&self, ended: Ended) -> Error {
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
            death.status_unknown || has_faulted || death.signal == Some(crash.signal)
        };
        let Some(crash) = self.record().filter(is_of) else {
            death.limit = death.signal.and_then(|signal| self.limits.of_signal(signal));
            return death;
        };
        death.signal = Some(crash.signal);
        death.fault_address = crash.fault_address;
        death.program_counter = Some(crash.program_counter);
        death.location = self.locate(&crash);
        death.backtrace = self.backtrace(&crash);
        death.stack_overflow = crash.stack_overflow;
        death.limit = self.limits.of_memory().filter(|_| crash.memory_is_used_up);
        death
    }

    /// The linked function that crashed, or the caller in linked code of the function that crashed.
    fn locate(&self, crash: &trap::Crash) -> Option<String> {
        let locate = |address| self.code.locate(address);
        locate(crash.program_counter).or_else(|| {
            // A return address may already be in the next function; the call before it is not.
            let caller = crash.frames.iter().find_map(|frame| locate(frame.saturating_sub(1)));
            caller.map(|caller| format!("a function called from {caller}"))
        })
    }

    /// The linked functions among the frames.
    fn backtrace(&self, crash: &trap::Crash) -> Vec<String> {
        let callers = crash.frames.iter().filter(|frame| **frame != crash.program_counter);
        // As above: a return address may already be in the next function.
        let calls = callers.map(|frame| frame.saturating_sub(1));
        let addresses = std::iter::once(crash.program_counter).chain(calls);
        addresses.filter_map(|address| self.code.locate(address)).collect()
    }
}
