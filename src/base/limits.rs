//! Every maximum of the library, in one place, with the assertions that tie them together. Some are smaller under model
//! checkers, which try every order.

use std::time::Duration;

use crate::addr::PerProt;

/// The size of a page, and the unit in which stripes are allocated.
pub const PAGE_BYTES: u64 = 4096;

/// Lines in each ring of a lane; a power of two.
#[doc(hidden)]
pub const RING_LINES: usize = if cfg!(model) { 8 } else { 1024 };

/// The largest part of a payload that one ring record carries; longer payloads take several records.
#[doc(hidden)]
pub const CHUNK_BYTES_MAX: usize = RING_LINES * 64 / 2;

/// The bulk buffer of a lane, for payloads that do not fit a line. It takes memory only as far as it was used. A payload that
/// does not fit it is sent in parts.
pub const BULK_BYTES: usize = if cfg!(model) { 256 } else { 64 << 20 };

/// The longest argument or result of one call.
pub const PAYLOAD_BYTES_MAX: u64 = if cfg!(model) { 16 << 10 } else { 1 << 30 };

/// Calls nested in each other on one lane or connection, both directions together. Each takes room on the stacks of both
/// processes.
pub const CALL_DEPTH_MAX: u64 = 256;

/// A nested handler leaves this much of its thread's stack free, or a quarter of a small stack. That is more than the frames of the
/// handler and of its callees take.
#[doc(hidden)]
pub const STACK_RESERVE_BYTES: u64 = 128 << 10;

/// Calls that one `Polled::poll` serves before it returns to the host's other work.
pub const POLLED_CALLS_MAX: usize = 64;

/// Lanes that one side of a session has open: one for each thread that calls, and for each call that timed out and still runs.
pub const LANES_MAX: usize = 1024;

/// Processes of one executor. Each takes three descriptors of the host, and many hosts may have 1,024. A call that finds no free process
/// looks at all of them.
pub const PROCESSES_MAX: usize = 256;

/// How long a socket may be full while a lane's descriptor is to be sent over it.
pub const ATTACH_TIMEOUT: Duration = Duration::from_secs(10);

/// The time in which an executor must start, unless
/// `ExecutorBuilder::start_timeout` sets another.
pub const START_TIMEOUT: Duration = Duration::from_secs(10);

/// How long `farcall-executor tcp:listen=` waits for a controller, unless its argument `wait-seconds` says otherwise. A user may have to
/// log in to the controller's machine meanwhile.
pub const LISTEN_TIMEOUT: Duration = Duration::from_secs(600);

/// Start zygotes of one host: one for each program, with its arguments and environment. Each is an idle process.
pub const START_ZYGOTES_MAX: usize = 4;
/// How long a start waits for an answer of a start zygote. Then the zygote is ended, and the program is started anew.
pub const START_ZYGOTE_TIMEOUT: Duration = Duration::from_secs(1);

/// The time in which an executor must end after its session, before it is killed.
pub const END_TIMEOUT: Duration = Duration::from_secs(2);
/// How long the kernel may write the core of an executor that has crashed, before the controller kills it.
pub const CORE_TIMEOUT: Duration = Duration::from_secs(60);

/// The same when it still runs a call that the host has abandoned, which may never return. Enough for a dealloc action that is short.
#[doc(hidden)]
pub const ABANDONED_TIMEOUT: Duration = Duration::from_millis(100);

/// Lanes on which threads of the executed program call the controller. Each has a thread in the controller.
pub const REVERSE_LANES_MAX: usize = 64;

/// Idle lanes that are kept for later threads.
pub const IDLE_LANES_MAX: usize = if cfg!(model) { 1 } else { 16 };

/// Calls of one pipeline that are under way at a time; a thread that submits more waits for results. The small results of this
/// many calls and one large part always fit the ring, so only large results wait for room in the executor.
pub const PIPELINE_CALLS_MAX: usize = if cfg!(model) { 2 } else { 256 };

/// Threads of one pool of tasks: those that run tasks, and a thread that watches the queue.
pub const TASK_THREADS_MAX: usize = 4096;

/// Bytes that a session queues for its controller before a sending thread waits.
pub const SEND_QUEUE_BYTES_MAX: usize = 4 << 20;

/// How long a waiter polls before it sleeps in the kernel, unless
/// `ExecutorBuilder::spin` sets another time. About the time of a wake.
#[doc(hidden)]
pub const SPIN_NS: u64 = if cfg!(model) { 0 } else { 50_000 };

/// The largest alignment of a section or a common symbol. Thread-locals have at most a page's.
pub const ALIGNMENT_MAX: u64 = 64 << 10;

/// Default sizes of the stripes of a slab: code, constants, data. When a slab is full, there is another, below it. Code of the first
/// five or so reaches the libraries above them by 32-bit displacements. So does the code of a second one with 1.25 GiB of data.
#[doc(hidden)]
pub const SLAB_STRIPE_BYTES: PerProt<u64> =
    PerProt { code: 64 << 20, constants: 64 << 20, data: 128 << 20 };

/// Slabs of a session. Each has a word in the first lane's segment, and is looked at by every search for an address.
#[doc(hidden)]
pub const SLABS_MAX: usize = if cfg!(model) { 2 } else { 64 };

/// The largest stripe of a slab: its pages have numbers of 21 bits.
#[doc(hidden)]
pub const STRIPE_BYTES_MAX: u64 = ((1 << 21) - 1) * PAGE_BYTES;

/// How far code reaches by 32-bit displacements, less a margin for addends and the libraries.
#[doc(hidden)]
pub const SLAB_REACH_BYTES: u64 = (2 << 30) - (128 << 20);

/// Zero fill up to this takes memory when it is linked; more takes memory when code touches it. From about this size on,
/// a system call costs less than zeroes.
#[doc(hidden)]
pub const STORED_ZERO_FILL_BYTES_MAX: u64 = 64 << 10;

/// The largest region. Its page tables alone may take 128 MiB in each process.
pub const REGION_BYTES_MAX: u64 = 64 << 30;

/// Bytes of free pages of a session's private slabs that keep their memory for the next allocation.
#[doc(hidden)]
pub const KEPT_BYTES_MAX: u64 = 8 << 20;

/// The static TLS reserve of the executor's program. Every thread has a copy of it, in its stack's
/// mapping, and fills it when it starts.
#[doc(hidden)]
pub const STATIC_TLS_BYTES: usize = 64 << 10;

/// The largest static TLS reserve that an executor may offer.
#[doc(hidden)]
pub const STATIC_TLS_BYTES_MAX: u64 = 1 << 30;

/// Arguments of a C function that is called by its type.
pub const TYPED_ARGUMENTS_MAX: usize = 16;

/// Bytes of a structure that a function takes or returns by value, and of all arguments of one call on the stack. That is one page,
/// so that a stack which is too small for them ends in its guard page.
pub const BY_VALUE_BYTES_MAX: usize = 4096;

/// Bytes of all strings and slices of one call of a handler by name: they are copied. More lies in memory that both processes reach.
pub const HANDLER_BYTES_MAX: usize = 1 << 20;

/// Bytes of all strings that the host takes from a bound library at a time: they are copied, and a string may have no end.
pub const LIBRARY_TEXT_BYTES_MAX: usize = 16 << 20;

/// Strings of an array that a bound library passes to a closure.
pub const LIBRARY_TEXTS_MAX: u64 = 1 << 16;

/// Bytes of memory that the host and a bound library share: what calls lend, and `Memory`. The library can touch all of it.
pub const SANDBOX_BYTES: u64 = 1 << 30;

/// Links with dynamic thread-locals, for which the static TLS reserve had no room, at any time. A thread that uses any has a
/// word for each possible one.
pub const THREAD_MODULES_MAX: usize = 4096;

/// Addresses below this one fit 32 bits, whether those are sign-extended or zero-extended.
#[doc(hidden)]
pub const LOW_ADDRESS_END: u64 = 1 << 31;

/// Default sizes of the stripes of a slab below 2 GiB, where there is a hole for it; otherwise it is smaller.
#[doc(hidden)]
pub const LOW_SLAB_STRIPE_BYTES: PerProt<u64> =
    PerProt { code: 64 << 20, constants: 64 << 20, data: 256 << 20 };

/// Stack frames that are recorded of a crash.
#[doc(hidden)]
pub const CRASH_FRAMES_MAX: usize = 16;

/// Bytes of the name of a published session: it is a column of a table.
#[doc(hidden)]
pub const PUBLISHED_NAME_BYTES_MAX: usize = 64;

/// Executors of a published session that are shown. The calls of others are counted all the same.
#[doc(hidden)]
pub const PUBLISHED_EXECUTORS_MAX: usize = 256;

/// Published sessions of one host that a reader looks at: a host has one for each builder.
#[doc(hidden)]
pub const PUBLISHED_BY_HOST_MAX: usize = 64;

/// Processes between an executor and the host that has started it: snapshots of copies of snapshots.
#[doc(hidden)]
pub const PUBLISHED_GENERATIONS_MAX: usize = 32;

/// Bytes of an out-of-band error message; a longer one is cut.
pub const ERROR_BYTES_MAX: usize = 64 << 10;

/// Bytes of all zero-filled sections of one link that hold relocations, and so have to be stored.
#[doc(hidden)]
pub const RELOCATED_ZERO_FILL_BYTES_MAX: u64 = 64 << 20;

const _: () = assert!(RING_LINES.is_power_of_two());
const _: () = assert!(ALIGNMENT_MAX.is_power_of_two() && ALIGNMENT_MAX >= PAGE_BYTES);
const _: () = assert!((STATIC_TLS_BYTES as u64).is_multiple_of(PAGE_BYTES));
const _: () = assert!(STATIC_TLS_BYTES as u64 <= STATIC_TLS_BYTES_MAX);
const _: () = assert!(CHUNK_BYTES_MAX + 64 < (RING_LINES - 1) * 64);
const _: () = assert!(PIPELINE_CALLS_MAX + CHUNK_BYTES_MAX / 64 + 2 <= RING_LINES);
const _: () = assert!(STRIPE_BYTES_MAX >= SLAB_REACH_BYTES);
const _: () = assert!(
    5 * (SLAB_STRIPE_BYTES.code + SLAB_STRIPE_BYTES.constants + SLAB_STRIPE_BYTES.data)
        <= SLAB_REACH_BYTES
);
