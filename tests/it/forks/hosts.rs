//! Hosts that fork: what a child does with each handle of its parent's (H1, H6).
//!
//! | way | in the child | in the parent |
//! |---|---|---|
//! | use | an error that says why, within a bound | goes on |
//! | drop | no effect | goes on |
//! | lazy opening: a lane, a pipeline, a standby, a heap's next block | an error | the same number of lanes; its next block is its own |
//!
//! Invariant: behind every child the parent's data, calls and pending calls are whole.
#![allow(unsafe_code, reason = "forks the test's process")]

use std::alloc::Layout;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use farcall::controller::calls::{Batch, PendingCall, Pipeline};
use farcall::controller::hotswap::Redirectable;
use farcall::controller::memory::FinalizedAlloc;
use farcall::controller::plugin::ObjectPlugin;
use farcall::controller::profile::JitDump;
use farcall::controller::region::{Access, AttachedRegion, Buffer, HeapBlock, Region, RegionHeap};
use farcall::controller::{
    CallOptions, Client, Executor, Function, Library, Process, RestartPolicy, Snapshot, Spawned,
};
use farcall::link::ObjectFile;
use farcall::orc::{ExecutionSession, ResourceTracker};
use farcall::orc::{ObjectLayer, ProcessSymbols};
use farcall::session::{Session, SessionBuilder};
use farcall::task::{Task, TaskDispatcher, ThreadPool};
use farcall::{Connection, Error, ErrorKind, PerProt, Prot};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{ForkResult, fork};

use crate::alone;
use crate::testkit::corpus::{self, PLAIN};
use crate::testkit::launch;
use crate::testkit::process::{threads, until};

type Sum = extern "C" fn(u64, u64) -> u64;

/// How long a child may take. A child that hangs is a fault, and is killed.
const CHILD_TIMEOUT: Duration = Duration::from_secs(20);

/// Runs `body` in a forked child, which ends then. True when it has returned true.
pub(crate) fn in_child(body: impl FnOnce() -> bool) -> bool {
    // SAFETY: the child ends here. The C library's memory allocator survives a fork, and these tests are about the library's own
    // locks.
    match unsafe { fork() }.expect("a child") {
        ForkResult::Child => {
            let is_right = catch_unwind(AssertUnwindSafe(body)).unwrap_or(false);
            // SAFETY: no code of the child runs behind this.
            unsafe { nix::libc::_exit(i32::from(!is_right)) }
        }
        ForkResult::Parent { child } => {
            let begun = Instant::now();
            loop {
                match waitpid(child, Some(WaitPidFlag::WNOHANG)).expect("our own child") {
                    WaitStatus::Exited(_, status) => return status == 0,
                    WaitStatus::StillAlive if begun.elapsed() < CHILD_TIMEOUT => {}
                    WaitStatus::StillAlive => {
                        kill(child, Signal::SIGKILL).expect("our own child");
                        waitpid(child, None).expect("killed");
                        return false;
                    }
                    _ => return false,
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }
}

/// True when the error says that the process was forked.
fn says_forked(error: &Error) -> bool {
    let says = error.to_string().contains("forked");
    if !says {
        eprintln!("in the child: {error}");
    }
    says
}

fn refused<T>(outcome: Result<T, Error>) -> bool {
    match outcome {
        Ok(value) => {
            eprintln!("in the child: no error");
            std::mem::forget(value);
            false
        }
        Err(error) => says_forked(&error),
    }
}

fn panics(body: impl FnOnce()) -> bool {
    catch_unwind(AssertUnwindSafe(body)).is_err()
}

/// The present state of a pending call or a batch, polled once.
fn polled(pending: PendingCall<Sum>) -> Option<Result<u64, Error>> {
    match pin!(pending).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(outcome) => Some(outcome),
        Poll::Pending => None,
    }
}

fn object(name: &str) -> ObjectFile {
    let file = std::fs::read(corpus::object(name, PLAIN)).expect("just compiled");
    ObjectFile::parse(name, file).expect("an object")
}

const FILLED: u64 = 0x0706_0504_0302_0100;
const PAGE: usize = 4096;
const BLOCK_BYTES: usize = 4 * PAGE;

/// Every handle that a host may have. A child takes one of them.
struct Host {
    process: Option<Process>,
    dylib: Option<Library>,
    sum: Option<Function<Sum>>,
    buffer: Option<Buffer>,
    region: Option<Region>,
    heap: Option<RegionHeap>,
    block: Option<HeapBlock>,
    attached: Option<AttachedRegion>,
    pipeline: Option<Pipeline>,
    pending: Vec<PendingCall<Sum>>,
    batch: Option<Batch<Sum>>,
    redirectable: Option<Redirectable>,
    allocated: Option<FinalizedAlloc>,
    dump: Option<Arc<JitDump>>,
    supervised: Option<(Executor, Function<Sum>)>,
    pool: Option<(Executor, Function<Sum>)>,
    snapshot: Option<Snapshot>,
    copy: Option<Process>,
    spawned: Option<Spawned>,
    client: Option<Client>,
    jit: Option<(ExecutionSession, ObjectLayer, ResourceTracker)>,
    tasks: Option<ThreadPool>,
    session: Option<Session>,
    folder: tempfile::TempDir,
}

/// A client of a session that a thread of this process serves.
fn client() -> Client {
    let (ours, theirs) = std::os::unix::net::UnixStream::pair().expect("sockets");
    std::thread::spawn(|| farcall::executor::serve(Connection::socket(theirs)?));
    Client::connect(Connection::socket(ours).expect("a socket")).expect("a client")
}

impl Host {
    fn new() -> Self {
        let builder = launch::builder();
        let executor = builder.start().expect("an executor");
        let process = executor.process().expect("a process");
        let dylib = executor.library("region");
        let folder = tempfile::tempdir().expect("a folder");
        let dump = Arc::new(JitDump::create(&process, folder.path()).expect("a dump"));
        dylib.add_plugin(Arc::clone(&dump) as Arc<dyn ObjectPlugin>).expect("added");
        dylib.add_object(&object("region.c")).expect("added");
        let sum = dylib.function::<Sum>("sum").bind().expect("linked");
        let buffer = process.buffer(PAGE as u64).expect("a buffer");
        let region = Region::new(BLOCK_BYTES as u64, Access::ReadWrite).expect("a region");
        let heap = Region::new(1 << 20, Access::ReadWrite).expect("a region");
        let heap = RegionHeap::new(heap);
        let attached = process.attach(heap.region()).expect("attached");
        let block = heap.allocate(block_layout()).expect("a block");
        let bytes = PerProt { data: PAGE as u64, ..PerProt::default() };
        let mut allocated = process.allocate(bytes).expect("memory");
        allocated.write(Prot::Data, &FILLED.to_le_bytes());
        let allocated = allocated.finalize();
        let supervised =
            builder.clone().restart(RestartPolicy::new().standby()).start().expect("an executor");
        let of_supervised = supervised.library("region");
        of_supervised.add_object(&object("region.c")).expect("added");
        let pool =
            builder.clone().processes(2).restart(RestartPolicy::new()).start().expect("executors");
        let of_pool = pool.library("region");
        of_pool.add_object(&object("region.c")).expect("added");
        let snapshot = Snapshot::take(launch::executor()).expect("a snapshot");
        let jit = ExecutionSession::new();
        let layer = ObjectLayer::new(&jit, &process);
        let jit_dylib = jit.create_dylib("main").expect("the first");
        jit_dylib.add_generator(ProcessSymbols::new(&process)).expect("added");
        let tracker = jit_dylib.create_tracker().expect("a tracker");
        layer.add(&tracker, &object("region.c")).expect("added");
        jit_dylib.lookup("sum").expect("linked");
        let tasks = ThreadPool::new(2);
        tasks.dispatch(Task::new(|| {}));
        let session = SessionBuilder::new(|task| drop(std::thread::spawn(|| task.run())));
        let mut host = Self {
            pipeline: Some(process.pipeline().expect("a pipeline")),
            redirectable: Some(
                process.create_redirectable(sum.address().expect("bound")).expect("a stub"),
            ),
            process: Some(process),
            dylib: Some(dylib),
            sum: Some(sum),
            buffer: Some(buffer),
            region: Some(region),
            heap: Some(heap),
            block: Some(block),
            attached: Some(attached),
            pending: Vec::new(),
            batch: None,
            allocated: Some(allocated),
            dump: Some(dump),
            supervised: Some((supervised, of_supervised.function("sum"))),
            pool: Some((pool, of_pool.function("sum"))),
            copy: Some(snapshot.spawn().and_then(|copy| copy.process()).expect("a copy")),
            snapshot: Some(snapshot),
            spawned: Some(builder.spawn().expect("a process")),
            client: Some(client()),
            jit: Some((jit, layer, tracker)),
            tasks: Some(tasks),
            session: Some(session.build().expect("a session")),
            folder,
        };
        host.fill();
        host
    }

    /// Fills all memory, and submits calls that no one has awaited yet.
    fn fill(&mut self) {
        let (region, heap) =
            (self.region.as_ref().expect("here"), self.heap.as_ref().expect("here"));
        let block = self.block.as_ref().expect("here");
        let filled = [FILLED; BLOCK_BYTES / 8];
        region.write_from(0, &filled);
        heap.region().write_from(block.offset(), &filled);
        let page: Vec<u8> =
            filled.iter().take(PAGE / 8).flat_map(|word| word.to_le_bytes()).collect();
        self.buffer.as_mut().expect("here").write(0, &page);
        let sum = self.sum.as_ref().expect("here").over(self.pipeline.as_ref().expect("here"));
        let sum = sum.expect("of this process");
        let address = block.address().get();
        self.pending = (1..4).map(|words| sum.submit((address, words)).expect("sent")).collect();
        self.batch = Some(sum.batch((1..4).map(|words| (address, words))).expect("sent"));
    }

    fn dump_bytes(&self) -> u64 {
        std::fs::metadata(self.dump.as_ref().expect("here").path()).expect("a dump").len()
    }

    fn lanes(&self) -> usize {
        threads(self.process.as_ref().expect("here").pid())
    }

    /// Panics unless all that belongs to the parent is as it was, and works.
    fn assert_whole(&mut self, what: &str) {
        let mut bytes = [0_u64; BLOCK_BYTES / 8];
        let (region, heap) =
            (self.region.as_ref().expect("here"), self.heap.as_ref().expect("here"));
        let block = self.block.as_ref().expect("here");
        region.read_into(0, &mut bytes);
        assert!(bytes.iter().all(|word| *word == FILLED), "{what}: the region");
        heap.region().read_into(block.offset(), &mut bytes);
        assert!(bytes.iter().all(|word| *word == FILLED), "{what}: the block");
        let buffer = self.buffer.as_ref().expect("here").read(0..PAGE);
        let is_filled = buffer.as_chunks::<8>().0.iter().all(|word| *word == FILLED.to_le_bytes());
        assert!(is_filled, "{what}: the buffer");
        let next = heap.allocate(block_layout()).expect("a block");
        assert_ne!(next.offset(), block.offset(), "{what}: two blocks at one place");
        drop(next);
        let (address, mut expected) = (block.address().get(), FILLED);
        for pending in self.pending.drain(..) {
            assert_eq!(pending.wait().expect("awaited"), expected, "{what}: a pending call");
            expected = expected.wrapping_add(FILLED);
        }
        let batch: Vec<u64> =
            self.batch.take().expect("here").map(|one| one.expect(what)).collect();
        assert_eq!(batch, [1, 2, 3].map(|count| FILLED.wrapping_mul(count)), "{what}: a batch");
        let sum = self.sum.as_ref().expect("here");
        assert_eq!(sum.call((address, 2)).expect(what), FILLED.wrapping_mul(2), "{what}: a call");
        assert_eq!(sum.submit((address, 1)).expect(what).wait().expect(what), FILLED, "{what}");
        let process = self.process.as_ref().expect("here");
        let through = process.function::<Sum>(self.redirectable.as_ref().expect("here").address());
        assert_eq!(through.call((address, 1)).expect(what), FILLED, "{what}: a redirected call");
        let at = self.allocated.as_ref().expect("here").address();
        let read = process.memory_access().read::<u64>(&[at]);
        assert_eq!(read.expect(what), [FILLED], "{what}: allocated memory");
        let other = process.buffer(PAGE as u64).expect(what);
        let of_first = self.buffer.as_ref().expect("here").address();
        assert_ne!(other.address(), of_first, "{what}: two buffers at one place");
        drop(other);
        let of = |function: &Function<Sum>| function.call((0, 0)).expect(what);
        assert_eq!(of(&self.supervised.as_ref().expect("here").1), 0);
        assert_eq!(of(&self.pool.as_ref().expect("here").1), 0);
        let copy = self.snapshot.as_ref().expect("here").spawn().expect(what);
        copy.process().expect(what).process_info().expect(what);
        self.copy.as_ref().expect("here").process_info().expect(what);
        self.client.as_ref().expect("here").process_info().expect(what);
        self.fill();
    }
}

fn block_layout() -> Layout {
    Layout::from_size_align(BLOCK_BYTES, PAGE).expect("a layout")
}

/// A way in which a child uses what it has of its parent's handles: its name, and whether all was as it should be.
type Way = (&'static str, fn(&mut Host) -> bool);

/// Uses, each of which is an error in the child.
const USES: &[Way] = &[
    ("a call", |host| refused(host.sum.take().expect("here").call((0, 0)))),
    ("a call with a timeout", |host| {
        refused(
            host.sum
                .take()
                .expect("here")
                .call_with(&CallOptions::new().timeout(CHILD_TIMEOUT), (0, 0)),
        )
    }),
    ("a call on a thread without a lane", |host| {
        let sum = host.sum.take().expect("here");
        std::thread::spawn(move || refused(sum.call((0, 0)))).join().expect("ended")
    }),
    ("a watched call", |host| {
        let sum = host.sum.take().expect("here");
        refused(sum.call_with(&CallOptions::new().watch(CHILD_TIMEOUT, &|| Ok(())), (0, 0)))
    }),
    // H6: the session's pipeline is opened by its first use.
    ("a submitted call", |host| refused(host.sum.take().expect("here").submit((0, 0)))),
    ("a batch", |host| refused(host.sum.take().expect("here").batch([(0, 0)]))),
    ("a new pipeline", |host| refused(host.process.take().expect("here").pipeline())),
    ("a submitted call over a pipeline", |host| {
        let (sum, pipeline) = (host.sum.take().expect("here"), host.pipeline.take().expect("here"));
        refused(sum.over(&pipeline).expect("of this process").submit((0, 0)))
    }),
    ("the wait for a pending call", |host| {
        refused(host.pending.pop().expect("here").wait_timeout(CHILD_TIMEOUT))
    }),
    ("the poll of a pending call", |host| {
        polled(host.pending.pop().expect("here")).is_some_and(refused)
    }),
    ("the poll of a pipeline", |host| host.pipeline.take().expect("here").poll() == 0),
    ("the results of a batch", |host| host.batch.take().expect("here").all(refused)),
    ("memory", |host| {
        let bytes = PerProt { data: PAGE as u64, ..PerProt::default() };
        refused(host.process.take().expect("here").allocate(bytes).map(drop))
    }),
    ("a new buffer", |host| refused(host.process.take().expect("here").buffer(8))),
    ("a store into a buffer", |host| {
        let mut buffer = host.buffer.take().expect("here");
        panics(|| buffer.write(0, &[9; 8]))
    }),
    ("the end of memory", |host| {
        let (process, allocated) = (host.process.take(), host.allocated.take());
        refused(process.expect("here").deallocate(allocated))
    }),
    ("memory by address", |host| {
        let at = host.allocated.take().expect("here").release();
        refused(host.process.take().expect("here").memory_access().write([(at, 7_u64)]))
    }),
    ("a new block", |host| refused(host.heap.take().expect("here").allocate(block_layout()))),
    ("a trimmed heap", |host| refused(host.heap.take().expect("here").trim())),
    ("discarded bytes", |host| refused(host.region.take().expect("here").discard(0, PAGE))),
    ("an attached region", |host| {
        refused(host.process.take().expect("here").attach(host.region.as_ref().expect("here")))
    }),
    ("a detached region", |host| refused(host.attached.take().expect("here").detach())),
    ("a link", |host| {
        let dylib = Executor::from(host.process.as_ref().expect("here")).library("child");
        dylib.add_object(&object("region.c")).expect("added");
        refused(dylib.lookup("sum"))
    }),
    ("a cleared dylib", |host| refused(host.dylib.take().expect("here").clear())),
    ("a redirected function", |host| {
        let redirectable = host.redirectable.take().expect("here");
        refused(redirectable.redirect(redirectable.address()))
    }),
    ("a new redirectable", |host| {
        let address = host.sum.take().expect("here").address().expect("bound");
        refused(host.process.take().expect("here").create_redirectable(address))
    }),
    ("a removed tracker", |host| refused(host.jit.take().expect("here").2.remove())),
    ("the exit of the executor", |host| refused(host.process.take().expect("here").exit(3))),
    ("a kill", |host| {
        host.process.take().expect("here").kill();
        true
    }),
    ("a close", |host| {
        host.process.take().expect("here").close();
        true
    }),
    ("a snapshot", |host| {
        refused(Snapshot::take(Executor::from(host.process.as_ref().expect("here"))))
    }),
    ("a copy", |host| refused(host.snapshot.take().expect("here").spawn())),
    ("the numbers of processes", |host| host.supervised.take().expect("here").0.pids().is_empty()),
    ("the kill of a supervised executor", |host| {
        host.supervised.take().expect("here").0.kill();
        true
    }),
    ("the close of an executor", |host| {
        host.pool.take().expect("here").0.close();
        true
    }),
    ("a call of a supervised function", |host| {
        refused(host.supervised.take().expect("here").1.call((0, 0)))
    }),
    ("a call of a pool", |host| refused(host.pool.take().expect("here").1.call((0, 0)))),
    ("a process to connect to", |host| refused(host.spawned.take().expect("here").connect())),
    ("a client", |host| refused(host.client.take().expect("here").process_info())),
    ("a call of a session's controller", |host| {
        host.session.take().expect("here").call(1, Vec::new()).is_err()
    }),
    ("a task", |host| {
        let (sender, receiver) = std::sync::mpsc::channel();
        let task = Task::new(move || sender.send(7).expect("received"));
        host.tasks.take().expect("here").dispatch(task);
        receiver.recv_timeout(CHILD_TIMEOUT / 2) == Ok(7)
    }),
    ("an executor of its own", |_| {
        let executor = launch::executor();
        let process = executor.process().expect("a process");
        let region = Region::new(BLOCK_BYTES as u64, Access::ReadWrite).expect("a region");
        let heap = RegionHeap::new(region);
        let _attached = process.attach(heap.region()).expect("attached");
        let block = heap.copy(&[FILLED; 4]).expect("a block");
        let dylib = executor.library("region");
        dylib.add_object(&object("region.c")).expect("added");
        let sum = dylib.function::<Sum>("sum").bind().expect("linked");
        sum.submit((block.address().get(), 4)).expect("sent").wait().expect("a sum")
            == FILLED.wrapping_mul(4)
    }),
];

/// Drops, each of which has no effect.
const DROPS: &[Way] = &[
    ("a process", |host| drops(&mut host.process)),
    ("a dylib", |host| drops(&mut host.dylib)),
    ("a function", |host| drops(&mut host.sum)),
    ("a buffer", |host| drops(&mut host.buffer)),
    ("a region", |host| drops(&mut host.region)),
    ("a block", |host| drops(&mut host.block)),
    ("a heap", |host| drops(&mut host.heap) && drops(&mut host.block)),
    ("an attached region", |host| drops(&mut host.attached)),
    ("a pipeline", |host| drops(&mut host.pipeline)),
    ("a pending call", |host| host.pending.pop().is_some()),
    ("a batch", |host| drops(&mut host.batch)),
    ("a redirectable", |host| drops(&mut host.redirectable)),
    ("a dump", |host| drops(&mut host.dump) && drops(&mut host.dylib)),
    ("a supervised session", |host| drops(&mut host.supervised)),
    ("a pool", |host| drops(&mut host.pool)),
    ("a snapshot", |host| drops(&mut host.snapshot)),
    ("a copy", |host| drops(&mut host.copy)),
    ("a process", |host| drops(&mut host.spawned)),
    ("a client", |host| drops(&mut host.client)),
    ("a session of jit", |host| drops(&mut host.jit)),
    ("a thread pool", |host| drops(&mut host.tasks)),
    ("an embedded session", |host| drops(&mut host.session)),
];

/// True when there was something to drop.
fn drops<T>(handle: &mut Option<T>) -> bool {
    let handle = handle.take();
    handle.is_some()
}

/// H1, H6: each row of the table at the top.
#[test]
fn a_forked_child_of_a_host_leaves_all_of_its_parent_whole() {
    let name = "forks::hosts::a_forked_child_of_a_host_leaves_all_of_its_parent_whole";
    alone::run(name, || {
        let mut host = Host::new();
        host.assert_whole("before");
        let (lanes, dump) = (host.lanes(), host.dump_bytes());
        let mut faults = Vec::new();
        for (kind, ways) in [("use", USES), ("drop", DROPS)] {
            for (what, way) in ways {
                if !in_child(|| way(&mut host)) {
                    faults.push(format!("{kind} of {what}: the child"));
                }
                host.assert_whole(what);
            }
        }
        // A child that exits drops everything at once.
        if !in_child(|| {
            let Host { sum, buffer, block, pending, .. } = &mut host;
            drops(sum) && drops(buffer) && drops(block) && !std::mem::take(pending).is_empty()
        }) {
            faults.push("all: the child".to_owned());
        }
        host.assert_whole("all");
        assert!(faults.is_empty(), "{}", faults.join("\n"));
        until("no child has opened a lane", || host.lanes() == lanes);
        assert_eq!(host.dump_bytes(), dump, "written by a child");
        // The time in which it has to be connected may be over.
        match host.spawned.take().expect("here").connect() {
            Ok(executor) => {
                let process = executor.process().expect("alive");
                drop(process.process_info().expect("it answers"));
            }
            Err(error) => assert_eq!(error.kind(), ErrorKind::Timeout, "{error}"),
        }
        let address = host.allocated.take().expect("here");
        host.process.as_ref().expect("here").deallocate([address]).expect("the parent's");
        assert!(host.folder.path().exists());
    });
}
