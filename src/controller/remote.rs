//! Calls of the executor: functions of the contract by name, any wrapper function by address.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::process::crash_reports::CrashReports;
use super::process::hello;
use super::process::lane_opener::LaneOpener;
use super::process::last_words;
use super::process::supervisor::Supervisor;
use super::process::zygote::{Asked, Made, NotFrozen, Zygote};
use crate::ExecutorAddr;
use crate::call::contract::{
    ENFORCED, ProcessInfo, Remote as Contract, SESSION_INSTANCE, Setup, THREAD_ADDRESS,
    THREAD_DESCRIPTOR,
};
use crate::call::direct::{self, Direct, Started};
use crate::call::pipeline::Caller;
use crate::call::{GracePeriod, LaneEnd, Wait};
use crate::deadline::Deadline;
use crate::error::{Error, Result};
use crate::limits::{ABANDONED_TIMEOUT, END_TIMEOUT, PAGE_BYTES, START_TIMEOUT};
use crate::link::SymbolTable;
use crate::origin::{Origin, forked};
use crate::shm::Segment;
use crate::sps;
use crate::sync::Mutex;
use crate::sys::confine::confinement::Confinement;
use crate::sys::confine::enforced::Enforced;
use crate::sys::process::child::{Child, Parent};
use crate::transport::lane::segment;
use crate::transport::{Incoming, PollPolicy};

/// An executor that was started and may not be ready yet. Dropping it ends the process.
#[derive(Debug)]
pub(crate) struct Starting {
    pub(crate) supervisor: Supervisor,
    pub(crate) opener: Arc<LaneOpener>,
    pub(crate) segment: Arc<Segment>,
    pub(crate) end: LaneEnd,
    pub(crate) deadline: Deadline,
    pub(crate) timeouts: Timeouts,
    pub(crate) program: PathBuf,
    pub(crate) confinement: Confinement,
    pub(crate) is_debuggable: bool,
}

/// How long an executor may take. Its copies have as long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Timeouts {
    /// Until it is ready.
    pub(crate) start: Duration,
    /// For the messages of a link, if there is a limit.
    pub(crate) link: Option<Duration>,
}

/// A running executor. Dropping it ends the process.
#[derive(Debug)]
pub(crate) struct Remote {
    opener: Arc<LaneOpener>,
    offered: Arc<Offered>,
    crashes: CrashReports,
    supervisor: Supervisor,
    enforced: Enforced,
    timeouts: Timeouts,
    /// The executor, if it is in this process.
    direct: Option<Arc<Direct>>,
    /// How the host has ended the session.
    ended: OnceLock<&'static str>,
    /// What forks copies of the executor, once the host has taken a snapshot.
    zygote: OnceLock<Arc<Zygote>>,
    /// The zygote that has forked the executor, if the executor is a copy.
    parent: Option<Arc<Zygote>>,
    /// Locked while a snapshot is taken.
    freezes: Mutex<()>,
}

/// The functions that an executor offers, by name. Each link looks some up.
pub(crate) type Functions = HashMap<String, ExecutorAddr, foldhash::fast::RandomState>;

/// What an executor has told when it was ready. Copies of it offer the same.
#[derive(Debug)]
struct Offered {
    functions: Functions,
    values: HashMap<String, i64>,
    triple: String,
    confinement: Confinement,
    is_debuggable: bool,
}

impl Offered {
    /// Reads what an executor tells.
    ///
    /// # Errors
    ///
    /// When it is for another processor, or its pages have another size.
    fn read(setup: Setup, confinement: Confinement, is_debuggable: bool) -> Result<Self> {
        let (triple, page_bytes, symbols, numbers) = setup;
        hello::check_processor(&triple)?;
        if page_bytes != PAGE_BYTES {
            return Err(Error::violation(format!("an executor with pages of {page_bytes} bytes")));
        }
        let (functions, values) = (symbols.into_iter().collect(), numbers.into_iter().collect());
        Ok(Self { functions, values, triple, confinement, is_debuggable })
    }
}

impl Remote {
    /// Waits until the executor is ready.
    ///
    /// # Errors
    ///
    /// When the executor could not be started, ended early, is of another build, or is not ready in time. In a forked child.
    pub(crate) fn connect(starting: Starting) -> Result<Self> {
        let Starting { supervisor, opener, segment, end, deadline, timeouts, program, .. } =
            starting;
        let (confinement, is_debuggable) = (starting.confinement, starting.is_debuggable);
        if !supervisor.is_own() {
            return Err(forked());
        }
        let code = Arc::clone(opener.callbacks().code());
        let crashes = CrashReports::new(segment, code, confinement);
        let setup = end.receive_setup(deadline).map_err(|error| {
            let error = crashes.explain(error, &supervisor, deadline);
            last_words::add_before_ready(error, &opener, &program)
        })?;
        opener.lanes().give_back(end);
        let setup = sps::from_bytes::<Setup>(&setup);
        let setup = setup.map_err(|error| error.during("reading the setup"))?;
        let offered = Offered::read(setup, confinement, is_debuggable)?;
        opener.meet(hello::features(&offered.values)?);
        let enforced = offered.values.get(ENFORCED).copied().unwrap_or(0);
        let enforced = Enforced::from_number(confinement.level(), enforced);
        Ok(Self::ready(opener, Arc::new(offered), (crashes, supervisor), enforced, timeouts))
    }

    /// Starts an executor in this process.
    ///
    /// # Errors
    ///
    /// When memory runs out.
    pub(crate) fn in_process(
        start: direct::Start,
        poll_policy: PollPolicy,
        is_debuggable: bool,
    ) -> Result<Self> {
        let (first, _) = segment::create(poll_policy)?;
        let opener = Arc::new(LaneOpener::direct(&first, poll_policy));
        let controller = Arc::downgrade(opener.callbacks());
        let Started { executor, setup } = start(controller, is_debuggable)?;
        let direct = Direct::new(executor, opener.lanes());
        opener.set_direct(&direct);
        let confinement = Confinement::new();
        let offered = Offered::read(setup, confinement, is_debuggable)?;
        opener.meet(hello::features(&offered.values)?);
        let code = Arc::clone(opener.callbacks().code());
        let crashes = CrashReports::new(first, code, confinement);
        let supervisor = Supervisor::of_this_process(&opener);
        let enforced = Enforced::from_number(confinement.level(), 0);
        let timeouts = Timeouts { start: START_TIMEOUT, link: None };
        let watched = (crashes, supervisor);
        let mut ready = Self::ready(opener, Arc::new(offered), watched, enforced, timeouts);
        ready.direct = Some(direct);
        Ok(ready)
    }

    /// The executor, if it is in this process.
    #[inline]
    pub(crate) fn direct(&self) -> Option<&Arc<Direct>> {
        self.direct.as_ref()
    }

    /// An executor that is ready: its process is `watched`.
    fn ready(
        opener: Arc<LaneOpener>,
        offered: Arc<Offered>,
        watched: (CrashReports, Supervisor),
        enforced: Enforced,
        timeouts: Timeouts,
    ) -> Self {
        let (crashes, supervisor) = watched;
        Self {
            opener,
            offered,
            crashes,
            supervisor,
            enforced,
            timeouts,
            direct: None,
            ended: OnceLock::new(),
            zygote: OnceLock::new(),
            parent: None,
            freezes: Mutex::default(),
        }
    }

    /// Makes the executor a zygote. The session is over then. `freeze` stops all changes of its memory before, unless it returns false,
    /// or allows them again after a refusal.
    ///
    /// # Errors
    ///
    /// When the executor or `freeze` refuses; the session goes on then. When it ends, or does not answer in [`END_TIMEOUT`]. When the
    /// session is over, as by another snapshot, or belongs to this process's parent.
    pub(crate) fn freeze(&self, freeze: impl Fn(bool) -> bool) -> Result<()> {
        self.origin().check()?;
        let frozen = self.try_freeze(freeze);
        frozen.map_err(|why| self.explain(why, Deadline::after(END_TIMEOUT)))
    }

    fn try_freeze(&self, freeze: impl Fn(bool) -> bool) -> Result<()> {
        let _freezes = self.freezes.lock();
        if !self.is_open() {
            return Err(Error::disconnected("the session is over"));
        }
        if !freeze(true) {
            return Err(Error::invalid("a link is under way, and a copy would not go on with it"));
        }
        let pipelines = self.opener.pipelines();
        pipelines.callers().iter().for_each(|caller| caller.close());
        match Zygote::make(&self.opener, Deadline::after(END_TIMEOUT)) {
            Ok(zygote) => {
                let _ = self.ended.set("the session has become a snapshot, whose copies run calls");
                let _ = self.zygote.set(Arc::new(zygote));
                self.opener.end_all();
                Ok(())
            }
            Err(NotFrozen { why, is_lost: true }) => {
                self.supervisor.process().kill();
                Err(why)
            }
            Err(NotFrozen { why, is_lost: false }) => {
                freeze(false);
                Err(why)
            }
        }
    }

    /// Waits until no snapshot is being taken.
    ///
    /// # Errors
    ///
    /// When the session is over, as behind a snapshot.
    pub(crate) fn check_not_frozen(&self) -> Result<()> {
        drop(self.freezes.lock());
        self.check_alive()
    }

    /// The deadline of a link whose caller waits up to `deadline`.
    pub(crate) fn link_deadline(&self, deadline: Deadline) -> Deadline {
        self.timeouts.link.map_or(deadline, |timeout| deadline.or_after(timeout))
    }

    /// True when the executor has become a snapshot.
    pub(crate) fn is_frozen(&self) -> bool {
        self.zygote.get().is_some()
    }

    /// Makes the zygote that the executor has become fork a copy, and waits until that is ready.
    ///
    /// # Errors
    ///
    /// When the zygote has ended or cannot fork, the kernel refuses a resource, or the copy is not ready in time.
    pub(crate) fn fork(&self) -> Result<Self> {
        let deadline = Deadline::after(self.timeouts.start);
        self.origin().check()?;
        let zygote = self.zygote.get().ok_or_else(|| Error::invalid("this is no snapshot"))?;
        let (Asked { opener, segment, end }, child) = self.fork_by(zygote, deadline)?;
        let supervisor = Supervisor::of_started(child, Arc::clone(&opener))?;
        let code = Arc::clone(opener.callbacks().code());
        let offered = Arc::clone(&self.offered);
        let crashes = CrashReports::new(segment, code, offered.confinement);
        // The copy offers what the zygote does, so its setup is empty.
        if let Err(error) = end.receive_setup(deadline) {
            let error = crashes.explain(error, &supervisor, deadline);
            return Err(last_words::add(error, &opener).during("a copy that is not ready"));
        }
        opener.lanes().give_back(end);
        let (enforced, timeouts) = (self.enforced.of_copy(), self.timeouts);
        let mut ready = Self::ready(opener, offered, (crashes, supervisor), enforced, timeouts);
        ready.parent = Some(Arc::clone(zygote));
        Ok(ready)
    }

    /// A copy that the zygote has made, which may not be ready yet. A copy that has ended since it was made ahead is left out.
    fn fork_by(&self, zygote: &Arc<Zygote>, deadline: Deadline) -> Result<(Asked, Child)> {
        loop {
            let made = zygote.fork(deadline).map_err(|error| self.zygote_is_lost(error, deadline));
            let Made { asked, pid, is_ahead } = made?;
            let child = Child::of(Arc::clone(zygote) as _, self.supervisor.process().pid(), pid)
                .inspect_err(|_| asked.opener.close())?;
            if !is_ahead || !child.is_ending() {
                return Ok((asked, child));
            }
            zygote.collect(pid);
        }
    }

    /// The error of a zygote that does not answer any more, with its death and what it said.
    fn zygote_is_lost(&self, error: Error, deadline: Deadline) -> Error {
        let said = error.clone();
        let death = self.crashes.explain(error, &self.supervisor, deadline.or_after(END_TIMEOUT));
        let death = last_words::add(death, &self.opener);
        match death.death() {
            Some(_) => death.during(said),
            None => death,
        }
    }

    /// The process that has the session. Its forked children use nothing of it.
    #[inline]
    pub(crate) fn origin(&self) -> Origin {
        self.opener.lanes().origin()
    }

    /// What the executor reported before it ran linked code.
    pub(crate) fn enforced(&self) -> Enforced {
        self.enforced
    }

    pub(crate) fn opener(&self) -> &LaneOpener {
        &self.opener
    }

    pub(crate) fn supervisor(&self) -> &Supervisor {
        &self.supervisor
    }

    /// The segment of the first lane.
    pub(crate) fn first_segment(&self) -> &Arc<Segment> {
        self.crashes.first_segment()
    }

    pub(crate) fn triple(&self) -> &str {
        &self.offered.triple
    }

    /// Calls a function of the contract.
    pub(crate) fn ask<C: Contract>(&self, args: &C::Args, deadline: Deadline) -> Result<C::Ret> {
        let args = sps::to_bytes(args);
        self.round_trip(self.function::<C>()?, &args, deadline, |result| {
            let result = sps::from_bytes(&result.payload().bytes());
            result.map_err(|error| error.during(format_args!("result of {}", C::NAME)))
        })?
    }

    /// Sends a call of a function of the contract ahead of the next call.
    pub(crate) fn post<C: Contract>(&self, args: &C::Args) -> Result<()> {
        let function = self.function::<C>()?;
        self.opener.lanes().posts.push(function.get(), sps::to_bytes(args));
        Ok(())
    }

    /// Calls a wrapper function, and returns what `take` makes of its result. A call with a deadline has a lane of its own, which its
    /// late answer does not hold up.
    #[inline(always)]
    pub(crate) fn round_trip<'w, R>(
        &self,
        function: ExecutorAddr,
        args: &[u8],
        wait: impl Into<Wait<'w>> + Copy,
        take: impl FnOnce(&Incoming) -> R,
    ) -> Result<R> {
        if let Some(direct) = &self.direct {
            let take = |answer: &[u8]| Ok(take(&Incoming::answer(answer)));
            let outcome = direct.call(function.get(), args, take);
            return outcome.map_err(|error| self.explain(error, Deadline::now()));
        }
        let (lanes, callbacks) = (self.opener.lanes(), &**self.opener.callbacks());
        let deadline = wait.into().deadline;
        let open = || self.opener.open(deadline);
        // Two closures, because the compiler inlines each at its only use.
        let outcome = if deadline == Deadline::SESSION_END {
            lanes.with(open, |end| end.call(callbacks, wait, function.get(), args, take))
        } else {
            let call = |end: &LaneEnd| end.call(callbacks, wait, function.get(), args, take);
            let late = |end| finish_later(Arc::clone(&self.opener), end);
            lanes.with_idle(deadline, open, call, late)
        };
        // Also behind a watch that has killed the process: its death is known then, so the next call goes to another one.
        outcome.map_err(|error| self.explain(error, deadline))
    }

    /// Opens a pipeline.
    pub(crate) fn open_pipeline(&self) -> Result<Arc<Caller>> {
        self.origin().check()?;
        let opened = self.opener.open_pipeline(Deadline::after(END_TIMEOUT));
        opened.map_err(|error| self.explain(error, Deadline::SESSION_END))
    }

    /// The calls that have not returned yet.
    pub(crate) fn grace_period(&self) -> GracePeriod {
        let mut calls = self.opener.lanes().grace_period();
        if let Some(direct) = &self.direct {
            direct.add_to(&mut calls);
        }
        let callers = self.opener.pipelines().callers();
        callers.into_iter().for_each(|caller| calls.add_pipeline(caller));
        calls
    }

    /// Waits until all posted calls have run, for calls that go over no lane. Returns the number of the code written last.
    ///
    /// # Errors
    ///
    /// When a posted call has failed, or the session is over. In a forked child.
    #[inline]
    pub(crate) fn settle(&self) -> Result<u64> {
        let lanes = self.opener.lanes();
        lanes.origin().check()?;
        while !lanes.posts.are_settled() {
            // This call goes behind the posted ones.
            self.ask::<ProcessInfo>(&(), Deadline::SESSION_END)?;
            lanes.posts.look();
        }
        Ok(lanes.code_epoch())
    }

    /// Makes the next message of each lane tell the executor that code was written. `number` is unique to that code.
    #[inline]
    pub(crate) fn code_written(&self, number: u64) {
        self.opener.lanes().code_written(number);
        if let Some(direct) = &self.direct {
            direct.code_written();
        }
    }

    /// The address of a function of the contract.
    pub(crate) fn function<C: Contract>(&self) -> Result<ExecutorAddr> {
        self.named(C::NAME)
    }

    /// The executor's functions for TLS modules, if it offers them: the function that code calls, and that for TLS descriptors.
    pub(crate) fn thread_functions(&self) -> Option<[ExecutorAddr; 2]> {
        let [address, descriptor] = [THREAD_ADDRESS, THREAD_DESCRIPTOR]
            .map(|name| self.offered.functions.get(name).copied());
        Some([address?, descriptor?])
    }

    /// The executor's address for this session.
    pub(crate) fn instance(&self) -> Result<ExecutorAddr> {
        self.named(SESSION_INSTANCE)
    }

    /// The addresses that the executor offers, by name.
    pub(crate) fn functions(&self) -> &Functions {
        &self.offered.functions
    }

    /// The numbers in the executor's setup, by name.
    pub(crate) fn values(&self) -> &HashMap<String, i64> {
        &self.offered.values
    }

    /// The address that the executor offers under a name.
    pub(crate) fn named(&self, name: &str) -> Result<ExecutorAddr> {
        let address = self.offered.functions.get(name).copied();
        address.ok_or_else(|| Error::violation(format!("the executor does not offer {name}")))
    }

    /// Adds code to crash reports until it is [removed](Remote::forget).
    pub(crate) fn remember(&self, symbols: &Arc<SymbolTable>) {
        self.opener.callbacks().code().remember(symbols);
    }

    /// Removes code from crash reports.
    pub(crate) fn forget<'s>(&self, removed: impl Iterator<Item = &'s Arc<SymbolTable>>) {
        self.opener.callbacks().code().forget(removed);
    }

    /// True when debuggers can write copies of the executor's pages of code.
    #[inline]
    pub(crate) fn is_debuggable(&self) -> bool {
        self.offered.is_debuggable
    }

    /// False when the executor is known to have ended, or the session is over.
    #[inline]
    pub(crate) fn is_open(&self) -> bool {
        !self.opener.lanes().is_closed()
    }

    /// Refuses what has no meaning without an executor.
    ///
    /// # Errors
    ///
    /// When the executor is known to have ended, or the session is over.
    pub(crate) fn check_alive(&self) -> Result<()> {
        if self.is_open() {
            return Ok(());
        }
        Err(self.explain(Error::disconnected("the session is over"), Deadline::after(END_TIMEOUT)))
    }

    /// The reason why a call could not complete.
    #[cold]
    pub(crate) fn explain(&self, error: Error, deadline: Deadline) -> Error {
        if !self.origin().is_here() {
            return forked();
        }
        if error.is_disconnected() && error.death().is_none() {
            // A call that fails because of a snapshot must not take the silence of the executor for its end.
            drop(self.freezes.lock());
        }
        if let Some(how) = self.ended.get().filter(|_| error.is_disconnected()) {
            return Error::disconnected(*how);
        }
        let mut error = match self.direct {
            Some(_) => error,
            None => self.crashes.explain(error, &self.supervisor, deadline),
        };
        if error.death().is_none()
            && error.is_disconnected()
            && let Some(why) = self.supervisor.process().refusal()
        {
            error = error.and(why);
        }
        if error.death().is_some() {
            // Other callers then need not wait for the kernel either.
            self.opener.end_all();
        }
        last_words::add(error, &self.opener)
    }

    /// How the executor died; `None` while it runs, or when the host has ended the session.
    pub(crate) fn death(&self) -> Option<Error> {
        if !self.origin().is_here() {
            return None;
        }
        // A call may have learnt of the death before the kernel tells it.
        if self.is_open() {
            self.supervisor.process().wait(Deadline::now())?;
        }
        let error = self.explain(Error::disconnected("the peer is gone"), Deadline::now());
        error.death().is_some().then_some(error)
    }

    /// Ends the session: calls under way fail, later ones are refused, and the executor exits. Kills the executor if it has not ended
    /// in [its time](Remote::end_timeout).
    pub(crate) fn close(&self) {
        if !self.supervisor.is_own() || self.ended.set("the session was closed").is_err() {
            return;
        }
        let timeout = self.end_timeout();
        self.opener.end_calls();
        self.opener.close();
        if let Some(direct) = &self.direct {
            self.supervisor.process().leave();
            return direct.close();
        }
        let process = self.supervisor.process();
        if process.end_by_itself(timeout).is_none() {
            process.kill();
            process.wait(Deadline::after(END_TIMEOUT));
        }
    }

    /// The time in which the executor has to end by itself. It cannot end while it runs a call.
    fn end_timeout(&self) -> Duration {
        match self.opener.lanes().finishes() || self.opener.pipelines().are_held_up() {
            true => ABANDONED_TIMEOUT,
            false => END_TIMEOUT,
        }
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        if !self.supervisor.is_own() {
            // A forked child closes its descriptors and mappings. The session belongs to the parent.
            return;
        }
        let timeout = self.end_timeout();
        self.opener.close();
        if let Some(direct) = &self.direct {
            return direct.end();
        }
        drop(self.zygote.take());
        // The next copy starts while this thread waits for the end of this one.
        self.parent.iter().for_each(|parent| parent.ask_ahead());
        if !self.supervisor.is_blind() {
            self.supervisor.process().end_by_itself(timeout);
        }
        self.opener.lanes().end_own();
    }
}

/// Starts a thread that waits for the answer of a call that timed out.
fn finish_later(opener: Arc<LaneOpener>, end: LaneEnd) {
    let closer = end.with_transport(|lane| lane.closer());
    let lanes = Arc::clone(opener.lanes());
    let body = move || opener.lanes().finish(end, &**opener.callbacks());
    let thread = std::thread::Builder::new().name("farcall-late".to_owned()).spawn(body);
    if thread.is_err() {
        lanes.finished();
        // Without the thread the lane closes, and the executor's thread ends when the function returns.
        closer.close();
    }
}
