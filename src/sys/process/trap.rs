//! A dying process's last record: it writes signal, address, registers and callers into shared words.
//!
//! The handlers run on their own stack and store to one record. The default action is restored before they run, so the process
//! still dies by the signal, also after a fault inside a handler. The record is a hint for the controller; the wait status
//! is the truth.
//!
//! A crash inside the unwinder leaves the unwinder's lock taken. The search for callers then waits for that lock, until a timer
//! ends the process by the same signal.

use std::cell::Cell;
use std::mem::MaybeUninit;

use libc::{c_int, c_void};
use nix::errno::Errno;

use crate::error::{Death, Error, Result};
use crate::limits::CRASH_FRAMES_MAX;
use crate::sync::{AtomicPtr, AtomicU64, Ordering};
use crate::sys::futex;
use crate::sys::policy;
use crate::sys::process::core_file;
use crate::sys::process::stack;
use crate::sys::processor::{self, Registers};

/// The words of a crash record. A new one is added behind the frames, so that the others stay where they are. First the state: 1 while
/// a handler writes, 2 when all but the frames is there.
const STATE_WORD: usize = 0;
const SIGNAL_WORD: usize = 1;
const FAULT_ADDRESS_WORD: usize = 2;
const PROGRAM_COUNTER_WORD: usize = 3;
/// [`STACK`], [`MEMORY`], [`ACCESS`], [`PROTECTED`].
const FLAGS_WORD: usize = 4;
/// The number of frames.
const FRAMES_WORD: usize = 5;
const FIRST_FRAME_WORD: usize = 6;
/// Words of a whole record.
pub(crate) const RECORD_WORDS: usize = FIRST_FRAME_WORD + CRASH_FRAMES_MAX;

/// Bytes of the stack that the handlers run on. The unwinder alone needs about 10 KiB.
const HANDLER_STACK_BYTES: usize = 128 << 10;
/// The seconds that a handler may take, before a timer ends the process.
const HANDLER_SECONDS: i64 = 1;
/// The distance from the end of the stack within which a fault counts as overflow: frames can be large.
const OVERFLOW_SLACK_BYTES: u64 = 1 << 20;

/// The fault lies at the end of the stack.
const STACK: u64 = 1;
/// The memory is used up.
const MEMORY: u64 = 2;
/// The signal is for an access to the fault address. A process that sends the signal names none.
const ACCESS: u64 = 4;
/// The access was a write, and the rights of the page refuse it.
const PROTECTED: u64 = 8;
/// The code of a signal for an access that the rights of a page refuse. Source: sigaction(2).
const SEGV_ACCERR: c_int = 2;
/// Memory counts as used up when less than this part of its limit is left.
const MEMORY_PART: u64 = 8;

/// The signals that end a process for an error of its code.
const FATAL: [c_int; 7] = [
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGILL,
    libc::SIGFPE,
    libc::SIGTRAP,
    libc::SIGABRT,
    libc::SIGSYS,
];

/// The record of this process; null before the handlers are installed. A record is never freed.
static RECORD: AtomicPtr<Record> = AtomicPtr::new(std::ptr::null_mut());

/// The words that a crash is reported to.
#[derive(Debug)]
struct Record {
    words: &'static [AtomicU64],
    /// The word that tells that this process is dying.
    holder: &'static AtomicU64,
    reporter: Option<Reporter>,
    /// This process's number. A forked child has the same memory, but must not report its crash here.
    process: u32,
}

/// Functions by which a process tells of its own crash. The handler calls them on the dying thread. They must not allocate, since
/// that thread may be inside of the allocator.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reporter {
    /// Gets the crash before the callers are searched, which may fault.
    pub(crate) begin: fn(Crash),
    /// Gets the program counter, and the callers as far as the unwinder came.
    pub(crate) end: fn(u64, &[u64]),
}

thread_local! {
    /// The lowest address of the thread's stack; 0 when it is unknown or has no limit.
    static STACK_LOW: Cell<u64> = const { Cell::new(0) };
    /// The stack of this thread for the handlers.
    static HANDLER_STACK: HandlerStack = HandlerStack::new();
}

/// The content of a record.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Crash {
    /// The facts that a process can tell about itself. A signal and a program counter are always among them.
    pub(crate) death: Death,
    /// Less than [`MEMORY_PART`] of the limit on private memory was left.
    pub(crate) memory_is_used_up: bool,
    /// The callers of the program counter, innermost first, as far as the unwinder came.
    pub(crate) frames: Vec<u64>,
}

/// Installs the handlers for this process. They write to `record`, wake the sleepers of the given word, and call the reporter. The
/// calling thread gets a stack for them. Only the first call in a process has an effect. Call on the main thread.
///
/// # Errors
///
/// When the system refuses.
pub(crate) fn install(
    record: &'static [AtomicU64],
    holder: &'static AtomicU64,
    reporter: Option<Reporter>,
) -> Result<()> {
    let during = |errno| Error::os("installing the crash handlers", errno);
    let here = std::ptr::from_ref(&during) as u64;
    let limit = nix::sys::resource::getrlimit(nix::sys::resource::Resource::RLIMIT_STACK);
    let limit = limit.map_err(|errno| policy::named(during(errno), "prlimit64"))?.0;
    let stack_low = if limit == libc::RLIM_INFINITY { 0 } else { here.saturating_sub(limit) };
    if own_record().is_some() {
        return Ok(());
    }
    report_to(record, holder, reporter);
    STACK_LOW.set(stack_low);
    HANDLER_STACK.with(|_| ());
    for signal in FATAL {
        let inherited = change_action(signal, Some(&own_action())).map_err(during)?;
        if inherited.sa_sigaction == libc::SIG_IGN {
            change_action(signal, Some(&inherited)).map_err(during)?;
        }
    }
    Ok(())
}

/// The action of these handlers.
fn own_action() -> libc::sigaction {
    // SAFETY: all-zero bytes are a valid sigaction.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = on_signal as *const () as usize;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESETHAND | libc::SA_NODEFER;
    action
}

/// Changes the action of a signal as a program sees it, and returns the action before. The handlers here are no part of the
/// program. In their place it sees the default action. A program that sets the default action gets them back.
pub(crate) fn change_program_action(
    signal: c_int,
    new: Option<&libc::sigaction>,
) -> nix::Result<libc::sigaction> {
    /// Flags and blocked signals of the default actions that the program has set.
    static DEFAULTS: [[AtomicU64; 2]; FATAL.len()] =
        [const { [AtomicU64::new(0), AtomicU64::new(0)] }; FATAL.len()];

    let known = FATAL.iter().position(|fatal| *fatal == signal).map(|at| &DEFAULTS[at]);
    let default = new.filter(|new| new.sa_sigaction == libc::SIG_DFL && own_record().is_some());
    let (own, default) = (default.and(known).map(|_| own_action()), default.zip(known));
    let mut old = change_action(signal, own.as_ref().or(new))?;
    let words = |action: &mut libc::sigaction| (&raw mut action.sa_mask).cast::<u64>();
    if program_handler(old.sa_sigaction) != old.sa_sigaction {
        // SAFETY: all-zero bytes are the default action.
        old = unsafe { std::mem::zeroed() };
        if let Some([flags, mask]) = known {
            old.sa_flags =
                c_int::try_from(flags.load(Ordering::Relaxed).cast_signed()).unwrap_or(0);
            // SAFETY: a set starts with the word of the 64 signals.
            unsafe { *words(&mut old) = mask.load(Ordering::Relaxed) };
        }
    }
    if let Some((default, [flags, mask])) = default {
        let mut default = *default;
        flags.store(i64::from(default.sa_flags).cast_unsigned(), Ordering::Relaxed);
        // SAFETY: as above.
        mask.store(unsafe { *words(&mut default) }, Ordering::Relaxed);
    }
    Ok(old)
}

/// The handler that a program sees in the place of this one.
pub(crate) fn program_handler(handler: libc::sighandler_t) -> libc::sighandler_t {
    if handler == own_action().sa_sigaction { libc::SIG_DFL } else { handler }
}

/// Changes the action of a signal, if a new one is given, and returns the action before.
fn change_action(signal: c_int, new: Option<&libc::sigaction>) -> nix::Result<libc::sigaction> {
    // SAFETY: all-zero bytes are a valid sigaction.
    let mut old: libc::sigaction = unsafe { std::mem::zeroed() };
    let new = new.map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: the own handler has the three-argument form that its flags ask for; programs vouch for theirs.
    Errno::result(unsafe { libc::sigaction(signal, new, &raw mut old) })?;
    Ok(old)
}

/// Makes the handlers, which are installed, report to this record from now on. In a forked child they report nothing before.
pub(crate) fn report_to(
    record: &'static [AtomicU64],
    holder: &'static AtomicU64,
    reporter: Option<Reporter>,
) {
    assert!(record.len() >= RECORD_WORDS, "crash record of {} words", record.len());
    let process = std::process::id();
    let record = Box::new(Record { words: record, holder, reporter, process });
    // [RECORD] Release: pairs with the Acquire in `own_record`.
    RECORD.store(Box::into_raw(record), Ordering::Release);
}

/// The record of this process, unless it is its parent's.
fn own_record() -> Option<&'static Record> {
    // [RECORD] Acquire: pairs with the Release in `report_to`.
    let record = RECORD.load(Ordering::Acquire);
    // SAFETY: it is null or was leaked, and nothing changes it.
    let record = unsafe { record.as_ref() };
    record.filter(|record| record.process == std::process::id())
}

/// Gives the calling thread, which is not the main thread, a stack for the handlers until it ends. So they can report an
/// overflow of its own stack.
pub(crate) fn protect_thread() {
    if let Some(stack) = stack::bounds() {
        STACK_LOW.set(stack.start);
    }
    HANDLER_STACK.with(|_| ());
}

/// The stack of one thread for the handlers, in use while this value lives.
struct HandlerStack(Box<[MaybeUninit<u8>]>);

impl HandlerStack {
    fn new() -> Self {
        // Not zeroed, since most of it is never touched.
        let mut memory = Box::new_uninit_slice(HANDLER_STACK_BYTES);
        set_handler_stack(memory.as_mut_ptr().cast(), 0);
        Self(memory)
    }
}

impl Drop for HandlerStack {
    fn drop(&mut self) {
        set_handler_stack(self.0.as_mut_ptr().cast(), libc::SS_DISABLE);
    }
}

fn set_handler_stack(start: *mut c_void, flags: c_int) {
    let stack = libc::stack_t { ss_sp: start, ss_flags: flags, ss_size: HANDLER_STACK_BYTES };
    // SAFETY: the memory belongs to the thread's `HandlerStack`, which stops its use before it is freed.
    unsafe { libc::sigaltstack(&raw const stack, std::ptr::null_mut()) };
}

/// Reads a record; `None` when no handler came as far as writing one. Every number in it is a hint.
pub(crate) fn read(record: &[AtomicU64]) -> Option<Crash> {
    let word = |at: usize| record.get(at).map_or(0, |word| word.load(Ordering::Relaxed));
    // [CRASH] Acquire: pairs with the Release of the handler. A dying peer may also have scribbled here.
    if record.get(STATE_WORD)?.load(Ordering::Acquire) != 2 {
        return None;
    }
    let flag = |bit: u64| word(FLAGS_WORD) & bit != 0;
    let signal = i32::try_from(word(SIGNAL_WORD)).ok()?;
    let has_address = matches!(signal, libc::SIGSEGV | libc::SIGBUS) && flag(ACCESS);
    let mut death = Death::default();
    death.signal = Some(signal);
    death.fault_address = has_address.then(|| word(FAULT_ADDRESS_WORD));
    death.program_counter = Some(word(PROGRAM_COUNTER_WORD));
    death.stack_overflow = flag(STACK);
    death.write_protected = has_address && flag(PROTECTED) && !flag(STACK);
    let frames = usize::try_from(word(FRAMES_WORD)).unwrap_or(0).min(CRASH_FRAMES_MAX);
    let frames = (0..frames).map(|frame| word(FIRST_FRAME_WORD + frame)).collect();
    Some(Crash { death, memory_is_used_up: flag(MEMORY), frames })
}

extern "C" fn on_signal(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes a valid siginfo to a handler installed with SA_SIGINFO.
    let info = unsafe { &*info };
    let code = info.si_code;
    if let Some(record) = own_record()
        && record.words[STATE_WORD]
            .compare_exchange(0, 1, Ordering::Relaxed, Ordering::Relaxed)
            .is_ok()
    {
        // SAFETY: every siginfo has these bytes: an address for faults, some number for other signals.
        let address = unsafe { info.si_addr() } as u64;
        write(record, signal, code, address, processor::registers(context.cast()));
        // [HOLDER] Release: a controller that sees this word sees the record.
        record.holder.fetch_or(futex::OWNER_DIED, Ordering::Release);
        futex::wake(record.holder);
    }
    core_file::leave_out_untouched();
    if code <= 0 {
        // A process sent the signal, so the program would run on after this. The default action is in place: raise it again.
        // SAFETY: raise has no preconditions.
        unsafe { libc::raise(signal) };
    }
}

fn write(whole: &'static Record, signal: c_int, code: c_int, address: u64, registers: Registers) {
    let Registers { pc, sp, is_write } = registers;
    let record = whole.words;
    let set = |at: usize, value: u64| record[at].store(value, Ordering::Relaxed);
    let stack_low = STACK_LOW.get();
    let fault = signal == libc::SIGSEGV && code > 0;
    let near_end = address < stack_low.saturating_add(OVERFLOW_SLACK_BYTES)
        && address > stack_low.saturating_sub(OVERFLOW_SLACK_BYTES);
    set(SIGNAL_WORD, u64::from(signal.unsigned_abs()));
    set(FAULT_ADDRESS_WORD, address);
    set(PROGRAM_COUNTER_WORD, pc);
    let stack = if fault && stack_low != 0 && near_end { STACK } else { 0 };
    let access = if code > 0 { ACCESS } else { 0 };
    let protected = if fault && code == SEGV_ACCERR && is_write { PROTECTED } else { 0 };
    let memory = if memory_is_used_up() { MEMORY } else { 0 };
    set(FLAGS_WORD, stack | access | protected | memory);
    // [CRASH] Release: publishes what is written so far, even if the walk below faults.
    record[STATE_WORD].store(2, Ordering::Release);
    if let (Some(Reporter { begin, .. }), Some(crash)) = (whole.reporter, read(record)) {
        begin(crash);
    }
    limit_time(signal);
    let mut walk = Walk { record, frames: 0 };
    if pc < 4096 && sp.is_multiple_of(8) {
        // A jump to nowhere has no unwind information; the return address is still on the stack.
        // SAFETY: `sp` was the stack pointer of the faulting thread. If it is bad, the fault ends the process as the first one
        // does, with the record already published.
        walk.push(unsafe { *(sp as *const u64) });
    }
    // SAFETY: the callback has the expected form and `walk` outlives the call.
    unsafe { _Unwind_Backtrace(on_frame, (&raw mut walk).cast()) };
    if let Some(Reporter { end, .. }) = whole.reporter {
        let mut frames = [0; CRASH_FRAMES_MAX];
        for (frame, word) in frames.iter_mut().zip(&record[FIRST_FRAME_WORD..]) {
            *frame = word.load(Ordering::Relaxed);
        }
        end(pc, &frames[..walk.frames]);
    }
}

/// True when the limit on private memory, if there is one, leaves no more than a part of it.
fn memory_is_used_up() -> bool {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the kernel writes the limit.
    let got = unsafe { libc::getrlimit(libc::RLIMIT_DATA, &raw mut limit) };
    if got != 0 || limit.rlim_cur == libc::RLIM_INFINITY {
        return false;
    }
    let Ok(bytes) = usize::try_from(limit.rlim_cur / MEMORY_PART) else { return false };
    let (prot, flags) = (libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: the kernel chooses the address, where nothing is mapped.
    let memory = unsafe { libc::mmap(std::ptr::null_mut(), bytes.max(1), prot, flags, -1, 0) };
    if memory == libc::MAP_FAILED {
        return true;
    }
    // SAFETY: nothing has used this mapping.
    unsafe { libc::munmap(memory, bytes.max(1)) };
    false
}

/// Raises a signal, whose default action is in place, [`HANDLER_SECONDS`] from now. Where the system refuses there is no limit.
fn limit_time(signal: c_int) {
    // SAFETY: all-zero bytes are a valid event, time and number.
    let mut event: libc::sigevent = unsafe { std::mem::zeroed() };
    event.sigev_notify = libc::SIGEV_SIGNAL;
    event.sigev_signo = signal;
    let mut timer: c_int = 0;
    // The functions of the C library may allocate; the system calls do not.
    // SAFETY: the kernel reads the event and writes the number of the timer, which is an int.
    let made = unsafe {
        libc::syscall(
            libc::SYS_timer_create,
            libc::CLOCK_MONOTONIC,
            &raw const event,
            &raw mut timer,
        )
    };
    let never = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    let once = libc::timespec { tv_sec: HANDLER_SECONDS, tv_nsec: 0 };
    let time = libc::itimerspec { it_interval: never, it_value: once };
    if made == 0 {
        let no_old = std::ptr::null_mut::<libc::itimerspec>();
        // SAFETY: the kernel reads the time.
        unsafe { libc::syscall(libc::SYS_timer_settime, timer, 0, &raw const time, no_old) };
    }
}

struct Walk {
    record: &'static [AtomicU64],
    frames: usize,
}

impl Walk {
    fn push(&mut self, address: u64) -> bool {
        if self.frames == CRASH_FRAMES_MAX {
            return false;
        }
        self.record[FIRST_FRAME_WORD + self.frames].store(address, Ordering::Relaxed);
        self.frames += 1;
        self.record[FRAMES_WORD].store(self.frames as u64, Ordering::Release);
        true
    }
}

extern "C" fn on_frame(context: *mut c_void, walk: *mut c_void) -> c_int {
    // SAFETY: the unwinder passes back the pointer given to it, to a live `Walk`.
    let walk = unsafe { &mut *walk.cast::<Walk>() };
    // SAFETY: the context is valid inside the callback.
    let address = unsafe { _Unwind_GetIP(context) };
    let goes_on = walk.push(address as u64);
    c_int::from(!goes_on) * 5
}

unsafe extern "C" {
    fn _Unwind_Backtrace(
        callback: extern "C" fn(*mut c_void, *mut c_void) -> c_int,
        argument: *mut c_void,
    ) -> c_int;
    fn _Unwind_GetIP(context: *mut c_void) -> usize;
}
