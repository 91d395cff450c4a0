//! The lane opener: the controller's end of the socket over which lanes are opened.
//!
//! The controller makes each segment, sends its descriptor, and rings the doorbell. One thread of the executor owns the other end of
//! the socket, and sleeps on the doorbell, a word of the first lane's segment.
//!
//! The messages are [`ControlMessage`]s. Messages of the executor are judged as they come. An unknown, malformed or misplaced
//! message ends the executor, and the error of each call names its letter.
//!
//! Invariant: the supervisor's thread, which reads here, never waits for the executor. A forked child, which has a copy of the socket,
//! neither sends nor receives.

mod interrupts;
mod request;
mod silence;
mod way;

use std::collections::HashMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, OnceLock};

use self::silence::Silence;
use self::way::Way;
use super::callbacks::Callbacks;
use super::pipelines::Pipelines;
use crate::call::contract::Placement;
use crate::call::pipeline::Caller;
use crate::call::{Lanes, Opened};
use crate::deadline::Deadline;
use crate::error::{Error, ErrorKind, Result};
use crate::shm::{Region, Segment};
use crate::sync::{Mutex, MutexGuard, Ordering};
use crate::sys::futex;
use crate::sys::io::identified::Identified;
use crate::sys::io::socket;
use crate::sys::process::child::Awaiter;
use crate::transport::control::{self, Heard};
use crate::transport::lane::segment;
use crate::transport::{Closer, End, Lane, PollPolicy, Side, pipeline};
use crate::wire::control::{ControlMessage, from_controller, from_zygote};
use crate::wire::hello::{Features, Hello};
use crate::wire::layout::DOORBELL_WORD;

/// The most messages of an ended executor that the controller reads to find its last words.
const LAST_MESSAGES_MAX: usize = 64;

/// Opens the lanes of one session.
#[derive(Debug)]
pub(crate) struct LaneOpener {
    way: Way,
    /// The segment of the first lane; set when it is made.
    first: OnceLock<Arc<Segment>>,
    lanes: Arc<Lanes>,
    /// The handlers, which also run on threads that serve reverse lanes.
    callbacks: Arc<Callbacks>,
    poll_policy: PollPolicy,
    pipelines: Pipelines,
    /// What the executor can do; set when it is ready.
    features: OnceLock<Features>,
    numbered: Mutex<Numbered>,
    /// Locked until a message that was received is noted. The supervisor and a thread that looks for last words both receive.
    hears: Mutex<()>,
    silence: Silence,
    /// The process that ends what the executor leaves; `None` inside for an executor that is not to be asked for one.
    sweeper: OnceLock<Option<Awaiter>>,
}

/// The segments that were sent, by number, and the executor's last words.
#[derive(Debug, Default)]
struct Numbered {
    last: u64,
    ends: HashMap<u64, End>,
    /// The lanes and pipelines with a call that is to be interrupted, each with the reason why it goes on.
    interrupted: HashMap<u64, Option<String>>,
    /// What an executor that ends by itself says of itself, and its reason.
    last_words: Option<(Hello, String)>,
    /// How the executor broke the protocol.
    violation: Option<Error>,
}

impl LaneOpener {
    pub(crate) fn new(socket: OwnedFd, poll_policy: PollPolicy) -> Self {
        let lanes = Lanes::new();
        let callbacks = Callbacks::new(Arc::clone(&lanes));
        Self::with(Way::Socket(Identified::new(socket)), lanes, callbacks, poll_policy)
    }

    fn with(
        way: Way,
        lanes: Arc<Lanes>,
        callbacks: Arc<Callbacks>,
        poll_policy: PollPolicy,
    ) -> Self {
        Self {
            way,
            first: OnceLock::new(),
            lanes,
            callbacks,
            poll_policy,
            pipelines: Pipelines::default(),
            features: OnceLock::new(),
            numbered: Mutex::default(),
            hears: Mutex::default(),
            silence: Silence::default(),
            sweeper: OnceLock::from(None),
        }
    }

    /// The same for a copy of the executor that `snapshot` belongs to. `first` is the segment of its first lane.
    pub(crate) fn of_copy(socket: OwnedFd, snapshot: &Self, first: &Arc<Segment>) -> Self {
        let lanes = Lanes::new();
        let callbacks = Callbacks::of_copy(&snapshot.callbacks, Arc::clone(&lanes));
        let first = OnceLock::from(Arc::clone(first));
        let features = snapshot.features.clone();
        Self { lanes, callbacks, first, features, ..Self::new(socket, snapshot.poll_policy) }
    }

    /// The same for an executor that confines itself: its first message names its sweeper.
    pub(crate) fn with_sweeper(socket: OwnedFd, poll_policy: PollPolicy) -> Self {
        Self { sweeper: OnceLock::new(), ..Self::new(socket, poll_policy) }
    }

    pub(crate) fn callbacks(&self) -> &Arc<Callbacks> {
        &self.callbacks
    }

    pub(crate) fn lanes(&self) -> &Arc<Lanes> {
        &self.lanes
    }

    pub(crate) fn pipelines(&self) -> &Pipelines {
        &self.pipelines
    }

    /// Sends the descriptor of the first lane's segment with the others. The doorbell is in that segment.
    pub(crate) fn begin(
        &self,
        first: &Arc<Segment>,
        files: &[BorrowedFd<'_>],
        deadline: Deadline,
    ) -> Result<()> {
        // Only the first call sets it.
        let _ = self.first.set(Arc::clone(first));
        let begin = ControlMessage::Begin { hello: Hello::OWN };
        control::send(self.socket()?, &begin, files, deadline)
    }

    /// Notes what the executor can do, as it says when it is ready.
    pub(crate) fn meet(&self, features: Features) {
        // An executor is ready once.
        let _ = self.features.set(features);
    }

    /// Refuses a message that the executor does not know.
    ///
    /// # Errors
    ///
    /// When the executor is of a build without the message's feature.
    pub(super) fn check(&self, message: &ControlMessage) -> Result<()> {
        message.check(self.features.get().copied().unwrap_or_default(), "executor")
    }

    /// Opens a lane for a calling thread. The executor answers over the lane itself.
    ///
    /// # Errors
    ///
    /// When memory or lanes run out, the session is over, or the socket stays full until the deadline.
    pub(crate) fn open(&self, deadline: Deadline) -> Result<Opened> {
        let opened = || {
            self.lanes.origin().check()?;
            let first = self.first()?;
            let (segment, file) = segment::create(self.poll_policy)?;
            let lane = Lane::of_executor(&segment, first);
            let number = self.expect(lane.end());
            let end = self.lanes.add(lane)?;
            end.counters().set_lane(number);
            self.send(&ControlMessage::Lane { number }, &[file.as_fd()], deadline)?;
            Ok(Opened::AwaitsSetup(end))
        };
        opened().map_err(|error: Error| error.during("opening a lane"))
    }

    /// Opens a pipeline. Waits only while the socket is full.
    ///
    /// # Errors
    ///
    /// As [`LaneOpener::open`].
    pub(crate) fn open_pipeline(&self, deadline: Deadline) -> Result<Arc<Caller>> {
        let opened = || {
            self.lanes.origin().check()?;
            let mut segment = pipeline::create_segment(self.poll_policy)?;
            let file = segment.take_file();
            let file = file.ok_or_else(|| Error::invalid("a segment without its descriptor"))?;
            let segment = Arc::new(segment);
            let lifeline = pipeline::lifeline(&segment, End::new(), self.first()?);
            let number = self.expect(lifeline.end());
            let ends = pipeline::end(&segment, Side::Controller, &lifeline, 0);
            let caller = Arc::new(Caller::new(ends, 0).with_number(number));
            self.pipelines.add(&caller);
            match self.executor() {
                Some(direct) => direct.executor().serve_pipeline(file)?,
                None => {
                    self.send(&ControlMessage::Pipeline { number }, &[file.as_fd()], deadline)?;
                }
            }
            Ok(caller)
        };
        opened().map_err(|error: Error| error.during("opening a pipeline"))
    }

    /// Sends the stripes of a slab. A later call makes the executor map them.
    ///
    /// # Errors
    ///
    /// When the session is over, or the socket stays full until the deadline.
    pub(crate) fn send_stripes(
        &self,
        index: usize,
        placement: Placement,
        files: &[BorrowedFd<'_>],
        deadline: Deadline,
    ) -> Result<()> {
        let place = placement.with_index(index);
        self.send(&ControlMessage::Slab { place }, files, deadline)
    }

    /// Makes the executor a zygote, which gets this socket.
    ///
    /// # Errors
    ///
    /// As [`LaneOpener::send_stripes`].
    pub(crate) fn send_freeze(&self, zygote: BorrowedFd<'_>, deadline: Deadline) -> Result<()> {
        self.send(&ControlMessage::Freeze, &[zygote], deadline)
    }

    /// How long both sides of a lane or a pipeline poll before they sleep.
    pub(crate) fn poll_policy(&self) -> PollPolicy {
        self.poll_policy
    }

    /// Sends a region. A later call makes the executor answer with its address.
    ///
    /// # Errors
    ///
    /// As [`LaneOpener::send_stripes`].
    pub(crate) fn send_region(&self, region: &Region, deadline: Deadline) -> Result<()> {
        let address = region.address().get();
        self.send(&ControlMessage::Region { address }, &[region.file()?], deadline)
    }

    /// Ends all lanes and pipelines, present and future: the executor has ended.
    pub(crate) fn end_all(&self) {
        if !self.lanes.origin().is_own() {
            return;
        }
        self.lanes.close();
        self.pipelines.close();
        // Other processes may hold a copy of the other end. Without this, a thread that waits for space would wait for them.
        if let Ok(socket) = self.socket() {
            socket::shut_down_writing(socket);
        }
    }

    /// Ends all calls, present and future: the host closes the session. The executor learns it from the end of the socket.
    pub(crate) fn end_calls(&self) {
        self.lanes.end_waits();
        self.pipelines.close();
    }

    /// Receives one message of the executor, if one has arrived. False when the executor has closed the socket or [broken the
    /// protocol](LaneOpener::violation): then it opens no more lanes.
    pub(crate) fn answer(&self) -> bool {
        self.take().is_ok()
    }

    /// True when a message had arrived.
    fn take(&self) -> Result<bool> {
        self.lanes.origin().check()?;
        let _hears = self.hears.lock();
        let taken = match control::hear(self.socket()?) {
            Ok(Heard::Nothing) => return Ok(false),
            Ok(Heard::End) => {
                return Err(Error::disconnected("the executor has closed its socket"));
            }
            Ok(Heard::Message(message)) => self.note(message),
            Err(error) => Err(error),
        };
        if let Err(error) = &taken
            && error.kind() == ErrorKind::Violation
        {
            // The first one counts.
            self.numbered().violation.get_or_insert_with(|| error.clone());
        }
        taken.map(|()| true)
    }

    /// Does what a message of the executor says.
    ///
    /// # Errors
    ///
    /// When the executor must not send it, or not now. When it cannot be answered.
    fn note(&self, message: ControlMessage) -> Result<()> {
        match message {
            ControlMessage::RequestLane if self.first.get().is_none() => {
                Err(message.misplaced("a controller ahead of its first message"))
            }
            ControlMessage::RequestLane => self.answer_reverse(),
            ControlMessage::Refused { number, why } => {
                let refused = self.numbered().ends.remove(&number);
                refused.into_iter().for_each(|end| end.refuse(&why));
                Ok(())
            }
            ControlMessage::NotInterrupted { number, why } => {
                // A late one is for a call that has ended.
                if let Some(obstacle) = self.numbered().interrupted.get_mut(&number) {
                    *obstacle = Some(why);
                }
                Ok(())
            }
            ControlMessage::Sweeper { pid } => {
                let sweeper = i32::try_from(pid).ok().filter(|pid| *pid > 0);
                let again = self.sweeper.set(sweeper.and_then(Awaiter::of));
                again.map_err(|_| message.misplaced("a controller that expects no sweeper"))
            }
            ControlMessage::LastWords { hello, why } => {
                self.numbered().last_words = Some((hello, why));
                Ok(())
            }
            from_controller!() | from_zygote!() => Err(message.misplaced("a controller")),
        }
    }

    /// The last words of the executor, and what it is. `has_ended` is true for a process that has ended.
    pub(crate) fn last_words(&self, has_ended: bool) -> Option<(Hello, String)> {
        if has_ended {
            self.take_last();
        }
        self.numbered().last_words.clone()
    }

    /// How the executor broke the protocol of the socket, as far as its messages were read.
    pub(crate) fn violation(&self) -> Option<Error> {
        self.numbered().violation.clone()
    }

    /// The sweeper of a process that has ended, which ends as well.
    pub(super) fn last_sweeper(&self) -> Option<&Awaiter> {
        self.take_last();
        self.sweeper.get()?.as_ref()
    }

    /// Reads the last messages of a process that has ended. The supervisor does not do that while it waits for the end.
    fn take_last(&self) {
        let came = (0..LAST_MESSAGES_MAX).take_while(|_| matches!(self.take(), Ok(true)));
        came.for_each(drop);
    }

    /// Never waits: an executor that requests a lane and reads no answer breaks the protocol.
    ///
    /// # Errors
    ///
    /// `ErrorKind::Violation`, when no answer can be sent: a thread of the executor would wait for it without end.
    fn answer_reverse(&self) -> Result<()> {
        if self.lanes.is_closed() {
            // The executor has ended, or learns from the end of the socket that it gets no lane.
            return Ok(());
        }
        let send = |message, files: &[BorrowedFd<'_>]| self.send(&message, files, Deadline::now());
        let opened = self.open_reverse().and_then(|(file, closer)| {
            let sent = send(ControlMessage::ReverseLane, &[file.as_fd()]);
            sent.inspect_err(|_| closer.close())
        });
        match opened.or_else(|_| send(ControlMessage::NoLane, &[])) {
            // The next read finds the end.
            Err(error) if error.is_disconnected() => Ok(()),
            Err(error) => Err(Error::violation(format!(
                "the executor requests a lane, and no answer can be sent: {error}"
            ))),
            Ok(()) => Ok(()),
        }
    }

    /// Starts a thread of this process that serves a new lane. Returns the segment's descriptor, and what ends the lane.
    fn open_reverse(&self) -> Result<(OwnedFd, Closer)> {
        let (segment, file) = segment::create(self.poll_policy)?;
        let lane = Lane::of_executor(&segment, self.first()?);
        let closer = lane.closer();
        let end = self.lanes.add_reverse(lane)?;
        let (lanes, callbacks) = (Arc::clone(&self.lanes), Arc::clone(&self.callbacks));
        // The lane ends with the session or with the thread that calls over it. No thread joins this one.
        let body = move || drop(lanes.serve(end, &*callbacks));
        let thread = std::thread::Builder::new().name("farcall-lane".to_owned()).spawn(body);
        thread.map_err(|error| Error::os("starting a thread for a lane", error))?;
        Ok((file, closer))
    }

    /// Ends the session: the executor sees the end of the socket.
    pub(crate) fn close(&self) {
        if let Way::Direct(direct) = &self.way {
            self.lanes.close();
            self.pipelines.close();
            direct.get().into_iter().for_each(|direct| direct.refuse_calls());
            // Their threads end then.
            return self.pipelines.callers().iter().for_each(|caller| caller.close());
        }
        if let Ok(socket) = self.socket() {
            socket::shut_down(socket);
        }
        self.ring();
    }

    fn first(&self) -> Result<&Arc<Segment>> {
        self.first.get().ok_or_else(|| Error::disconnected("the session has not begun"))
    }

    /// A number for the segment that is sent next, by which the executor may refuse it.
    fn expect(&self, end: &End) -> u64 {
        let mut numbered = self.numbered();
        numbered.ends.retain(|_, end| end.is_shared());
        numbered.last += 1;
        let number = numbered.last;
        numbered.ends.insert(number, end.clone());
        number
    }

    fn send(
        &self,
        message: &ControlMessage,
        files: &[BorrowedFd<'_>],
        deadline: Deadline,
    ) -> Result<()> {
        self.lanes.origin().check()?;
        self.check(message)?;
        let _sends = self.silence.sending()?;
        control::send(self.socket()?, message, files, deadline)?;
        self.ring();
        Ok(())
    }

    /// Runs `work`, during which no message is sent.
    ///
    /// # Errors
    ///
    /// As [`Silence::keep`].
    pub(crate) fn while_silent<R>(&self, work: impl FnOnce() -> Result<R>) -> Result<R> {
        self.silence.keep(work)
    }

    /// Makes the executor read the socket.
    fn ring(&self) {
        if let Some(first) = self.first.get() {
            let word = &first.words()[DOORBELL_WORD];
            // [DOORBELL] Release: the message is in the socket before the executor sees the count.
            word.fetch_add(1, Ordering::AcqRel);
            futex::wake(word);
        }
    }

    fn numbered(&self) -> MutexGuard<'_, Numbered> {
        self.numbered.lock()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_an_executor_lacks_is_refused_by_name() {
        let (ours, theirs) = socket::pair().expect("sockets");
        let opener = LaneOpener::new(ours, PollPolicy::default());
        let (segment, file) = segment::create(PollPolicy::default()).expect("memory");
        let file = file.as_fd();
        opener.begin(&segment, &[file; 4], Deadline::now()).expect("sent");
        opener.meet(Features::default());
        let refused = |sent: Result<()>, name: &str| {
            let error = sent.expect_err("another build");
            assert_eq!(error.kind(), ErrorKind::InvalidArgument);
            assert!(error.to_string().contains(&format!("a build without {name}")), "{error}");
        };
        refused(opener.open_pipeline(Deadline::now()).map(drop), "pipelines");
        refused(
            opener.send(&ControlMessage::Region { address: 1 }, &[file], Deadline::now()),
            "regions",
        );
        refused(opener.send_freeze(file, Deadline::now()), "snapshots");
        opener.open(Deadline::now()).expect("every build serves lanes");
        let received = || {
            let received = control::receive(theirs.as_fd(), Deadline::now()).expect("a message");
            received.expect("a message").message
        };
        assert_eq!(received(), ControlMessage::Begin { hello: Hello::OWN });
        assert!(matches!(received(), ControlMessage::Lane { .. }));
        let more = control::receive(theirs.as_fd(), Deadline::now()).expect_err("nothing more");
        assert_eq!(more.kind(), ErrorKind::Timeout);
    }

    /// An opener that has begun, and the executor's end of its socket.
    fn begun() -> (LaneOpener, OwnedFd) {
        let (ours, theirs) = socket::pair().expect("sockets");
        let opener = LaneOpener::new(ours, PollPolicy::default());
        let (segment, file) = segment::create(PollPolicy::default()).expect("memory");
        opener.begin(&segment, &[file.as_fd(); 4], Deadline::now()).expect("sent");
        control::receive(theirs.as_fd(), Deadline::now()).expect("a message").expect("a message");
        (opener, theirs)
    }

    fn request_lane(theirs: &OwnedFd) {
        let request = ControlMessage::RequestLane;
        control::send(theirs.as_fd(), &request, &[], Deadline::now()).expect("sent");
    }

    #[test]
    fn an_executor_that_reads_no_answer_is_named() {
        let (opener, theirs) = begun();
        let deadline = Deadline::after(Duration::from_secs(30));
        while opener.send(&ControlMessage::NoLane, &[], Deadline::now()).is_ok() {
            assert!(!deadline.has_passed(), "the socket takes everything");
        }
        request_lane(&theirs);
        assert!(!opener.answer());
        let error = opener.violation().expect("it is named");
        for words in ["requests a lane", "reads nothing"] {
            assert!(error.to_string().contains(words), "{words}: {error}");
        }
    }

    #[test]
    fn a_request_ahead_of_the_end_is_no_violation() {
        let (opener, theirs) = begun();
        request_lane(&theirs);
        drop(theirs);
        assert!(opener.answer(), "the request");
        // A process that another test starts has the socket as well, until it executes its program.
        let deadline = Deadline::after(Duration::from_secs(30));
        while opener.answer() {
            assert!(!deadline.has_passed(), "the end does not come");
            std::thread::yield_now();
        }
        assert!(opener.violation().is_none());
    }

    /// The kernel refuses descriptors to a user with more than the limit in sockets. It counts no such limit for a privileged user.
    #[test]
    fn a_lane_that_cannot_be_sent_is_refused() {
        use std::os::unix::fs::MetadataExt;
        use std::os::unix::process::CommandExt;

        use nix::sys::resource::{Resource, getrlimit, setrlimit};

        const NAME: &str =
            "controller::process::lane_opener::tests::a_lane_that_cannot_be_sent_is_refused";
        const VARIABLE: &str = "FARCALL_TEST_UNPRIVILEGED";
        const FILES_MAX: u64 = 128;
        if std::env::var_os(VARIABLE).is_none() {
            let program = std::env::current_exe().expect("this program");
            let mut command = std::process::Command::new(program);
            command.args([NAME, "--exact", "--nocapture"]).env(VARIABLE, "1");
            if std::fs::metadata("/proc/self").expect("this process").uid() == 0 {
                command.uid(65_534);
            }
            match command.output() {
                Err(error) => println!("skipped: no other user can run this program: {error}"),
                Ok(output) => {
                    let text = String::from_utf8_lossy(&output.stdout);
                    assert!(output.status.success() && text.contains("1 passed"), "{output:?}");
                }
            }
            return;
        }
        let (opener, theirs) = begun();
        let answer = || {
            request_lane(&theirs);
            assert!(opener.answer(), "{:?}", opener.violation());
            let received = control::receive(theirs.as_fd(), Deadline::now()).expect("a message");
            received.expect("a message").message
        };
        assert_eq!(answer(), ControlMessage::ReverseLane);
        let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).expect("the limit");
        setrlimit(Resource::RLIMIT_NOFILE, FILES_MAX, hard).expect("lowered");
        let (full, held) = socket::pair().expect("sockets");
        let files = [theirs.as_fd(); 8];
        for _ in 0..=FILES_MAX / 8 {
            socket::send(full.as_fd(), b"x", &files, Deadline::now()).expect("sent");
        }
        for _ in 0..2 * crate::limits::REVERSE_LANES_MAX {
            assert_eq!(answer(), ControlMessage::NoLane);
        }
        drop((full, held));
        let deadline = Deadline::after(Duration::from_secs(30));
        // The lanes that were not sent have ended, or do so soon.
        while answer() != ControlMessage::ReverseLane {
            assert!(!deadline.has_passed(), "no lane is free again");
        }
    }
}
