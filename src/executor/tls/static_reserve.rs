//! The static TLS reserve: room for thread-locals of linked code in every thread.
//!
//! The reserve is itself a thread-local, without initializer code and without destructor. So it is part of the
//! program's TLS block, which the C library gives every thread at the same distance from its thread pointer. The
//! controller allocates ranges of it to links. Linked code reaches these thread-locals at constant distances from the
//! thread pointer, faster than code of a shared library. Thread-locals that do not fit are dynamic (`dynamic`).
//!
//! Initial values are written to three targets:
//!
//! | threads | target | how |
//! |---|---|---|
//! | future ones | the program's *template*, its segment of initial values | its pages are made writable once |
//! | the calling one | its copy | a plain copy |
//! | all others | their copies | found by their thread pointers, written by the kernel |
//!
//! The reserve's initial value is all ones, because zeroes would lie outside of the template. The thread pointer of another
//! thread is found from its robust list. The list's head lies in the C library's descriptor of the thread, at one distance from
//! the thread pointer in all threads. The kernel tells any thread of the process that address. This needs no signal, which
//! would interrupt system calls of the program. Before the pointer is used, the first word there must be what the ABI demands: on
//! x86-64 its own address. The kernel does the reading and the writing, so a thread that ends meanwhile is no error.
//!
//! The C library copies the template to a new thread before `/proc` lists the thread. So linked code starts no thread
//! meanwhile (see `thread`), and the list is read again until it has no new entry.
//!
//! Threads of a host are started without that guard. They catch up before they run linked code ([`catch_up`]).
//!
//! Invariant: only ranges of the reserve that no code uses yet are written.
#![allow(unsafe_code, reason = "copies into thread-locals by address")]

use std::cell::UnsafeCell;
use std::collections::HashSet;
use std::ffi::{c_int, c_void};
use std::mem::offset_of;
use std::ptr::NonNull;
use std::sync::{OnceLock, PoisonError, RwLock, RwLockReadGuard};
use std::thread::sleep;
use std::time::Duration;

use crate::call::contract::ThreadInitialize;
use crate::error::{Error, Result};
use crate::executor::entry::address::pointer;
use crate::executor::entry::wrapper::Serve;
use crate::limits::STATIC_TLS_BYTES;
use crate::sync::{AtomicU64, Mutex, Ordering};
use crate::sys::memory::pages;
use crate::sys::process::thread;
use crate::{AddrRange, ExecutorAddr};

/// The position of the reserve.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StaticReserve {
    /// The distance of a thread's copy from its thread pointer.
    pub(crate) offset: i64,
    pub(crate) bytes: u64,
    /// The address of the reserve's part of the template.
    template: u64,
}

/// The thread-local: whole pages, so that its part of the template is whole pages.
#[repr(C, align(4096))]
struct Copied {
    /// The number of the newest initialization that the copy has. It comes first: the C library copies it before the reserve.
    newest: UnsafeCell<u64>,
    reserve: Reserve,
}

#[repr(C, align(4096))]
struct Reserve(UnsafeCell<[u8; STATIC_TLS_BYTES]>);

/// The bytes in front of the reserve.
const HEAD_BYTES: u64 = offset_of!(Copied, reserve) as u64;
/// The bytes that the reserve takes of each thread.
pub(super) const TAKEN_BYTES: u64 = size_of::<Copied>() as u64;

thread_local! {
    static COPY: Copied = const {
        Copied {
            newest: UnsafeCell::new(FIRST),
            reserve: Reserve(UnsafeCell::new([1; STATIC_TLS_BYTES])),
        }
    };
}

/// The number before the first initialization. It is not 0, for the same reason as the reserve's value.
const FIRST: u64 = 1;
/// The number of the newest initialization.
static NEWEST: AtomicU64 = AtomicU64::new(FIRST);
/// The initializations that threads may lack: their numbers, and their first and last bytes in the reserve. `None` where no thread asks.
static LOG: Mutex<Option<Vec<Initialized>>> = Mutex::new(None);

#[derive(Debug, Clone, Copy)]
struct Initialized {
    number: u64,
    start: u64,
    end: u64,
}

/// How long a new thread may take to register its robust list, which is the first thing that it does.
const ROBUST_LIST_TIMEOUT: Duration = Duration::from_millis(100);
const ROBUST_LIST_PAUSE: Duration = Duration::from_micros(100);

/// Write-locked while thread-locals are initialized, read-locked while a thread is started.
static STARTING: RwLock<()> = RwLock::new(());

/// The reserve of this process; `None` if this library was loaded by `dlopen`, so that the distances differ between
/// threads.
pub(crate) fn get() -> Option<StaticReserve> {
    static RESERVE: OnceLock<Option<StaticReserve>> = OnceLock::new();
    *RESERVE.get_or_init(|| {
        let own = COPY.with(|copy| copy.reserve.0.get()) as u64;
        let mut search = Search { own, template: None };
        // SAFETY: the callback has the expected form, and `search` outlives the call.
        unsafe { libc::dl_iterate_phdr(Some(on_module), (&raw mut search).cast()) };
        let offset = own.wrapping_sub(thread::pointer()).cast_signed();
        let bytes = STATIC_TLS_BYTES as u64;
        search.template.map(|template| StaticReserve { offset, bytes, template })
    })
}

/// Delays the initialization of thread-locals while the guard lives. The thread that starts another one holds it.
pub(crate) fn while_starting() -> RwLockReadGuard<'static, ()> {
    STARTING.read().unwrap_or_else(PoisonError::into_inner)
}

/// Frees the memory of the calling thread's copy. Linked code may run on this thread when [`refill`] has returned, and not before.
pub(crate) fn give_back() {
    if get().is_none() {
        // Nothing could fill it again.
        return;
    }
    let copy = COPY.with(|copy| NonNull::from(copy).cast());
    // SAFETY: these are whole pages of this thread's copy, which no code uses.
    unsafe { pages::discard(copy, size_of::<Copied>()) };
}

/// Gives the calling thread's copy the present initial values, after [`give_back`].
pub(crate) fn refill() {
    let Some(StaticReserve { offset, template, .. }) = get() else { return };
    // Nothing is initialized meanwhile.
    let _turn = while_starting();
    let from = pointer::<u8>(ExecutorAddr::new(template - HEAD_BYTES));
    // SAFETY: the template has as many bytes, and only an initialization writes it.
    let values = unsafe { std::slice::from_raw_parts(from, size_of::<Copied>()) };
    let own = thread::pointer().wrapping_add_signed(offset) - HEAD_BYTES;
    // SAFETY: the range is this thread's copy, and no code that uses it has run on this thread.
    unsafe { copy(values, own) };
}

impl Serve for ThreadInitialize {
    fn serve((offset, initial, bytes): (i64, AddrRange, u64)) -> Result<()> {
        let refuse = || {
            Error::invalid(format!(
                "{bytes} bytes of thread-locals, {} of them with values, at {offset} from the thread \
                 pointer: not in the static TLS reserve",
                initial.bytes()
            ))
        };
        let reserve = get().ok_or_else(refuse)?;
        let start = offset.checked_sub(reserve.offset).and_then(|start| u64::try_from(start).ok());
        let end =
            start.and_then(|start| start.checked_add(bytes)).filter(|end| *end <= reserve.bytes);
        let (Some(start), Some(_), true) = (start, end, initial.bytes() <= bytes) else {
            return Err(refuse());
        };
        let mut values = stored(initial).to_vec();
        values.resize(usize::try_from(bytes).unwrap_or(0), 0);
        let _turn = STARTING.write().unwrap_or_else(PoisonError::into_inner);
        reserve.write_template(start, &values)?;
        let number = reserve.note(start, bytes);
        let own = thread::pointer().wrapping_add_signed(offset);
        // SAFETY: the range is part of this thread's copy, and no code uses it yet.
        unsafe { copy(&values, own) };
        reserve.advance(thread::pointer(), number)?;
        write_to_others(offset, &values, |pointer| reserve.advance(pointer, number))
    }
}

/// From now on, threads that the host starts while thread-locals are initialized can [catch up](catch_up).
///
/// The host's threads do not hold the guard of [`while_starting`]. So the C library may have copied the template before an
/// initialization, and start the thread when that has read the list of threads. Such a thread has the older number in its copy.
pub(crate) fn expect_threads_of_host() {
    LOG.lock().get_or_insert_default();
}

/// Gives the calling thread the initial values that it lacks. Costs two loads if it lacks none.
#[inline(always)]
pub(crate) fn catch_up() {
    // SAFETY: only initializations and this thread write the word, which is aligned.
    let known = COPY.with(|copy| unsafe { copy.newest.get().read_volatile() });
    // Acquire: the thread runs code whose initialization it has learnt of before.
    if known < NEWEST.load(Ordering::Acquire) {
        catch_up_from();
    }
}

#[cold]
fn catch_up_from() {
    let _turn = STARTING.write().unwrap_or_else(PoisonError::into_inner);
    let Some(StaticReserve { offset, template, .. }) = get() else { return };
    // SAFETY: as in `catch_up`; nothing is initialized meanwhile.
    let known = COPY.with(|copy| unsafe { copy.newest.get().read_volatile() });
    let log = LOG.lock();
    let lacking = log.iter().flatten().filter(|initialized| initialized.number > known);
    for Initialized { start, end, .. } in lacking {
        let bytes = usize::try_from(end - start).unwrap_or(0);
        let from = pointer::<u8>(ExecutorAddr::new(template + start));
        // SAFETY: the range is part of the template, which only an initialization writes.
        let values = unsafe { std::slice::from_raw_parts(from, bytes) };
        let own = thread::pointer().wrapping_add_signed(offset).wrapping_add(*start);
        // SAFETY: the range is part of this thread's copy. Code that uses it has not run on this thread.
        unsafe { copy(values, own) };
    }
    let newest = NEWEST.load(Ordering::Relaxed);
    // SAFETY: as above.
    COPY.with(|copy| unsafe { copy.newest.get().write_volatile(newest) });
}

impl StaticReserve {
    /// Notes an initialization whose values the template has, and returns its number; `None` where no thread can lack it.
    fn note(&self, start: u64, bytes: u64) -> Option<u64> {
        let mut log = LOG.lock();
        let log = log.as_mut()?;
        let (number, end) = (NEWEST.load(Ordering::Relaxed) + 1, start + bytes);
        // The earlier link with these bytes is gone.
        log.retain(|earlier| earlier.end <= start || end <= earlier.start);
        log.push(Initialized { number, start, end });
        // SAFETY: the word in front of the reserve is part of the template. New threads copy it before the values.
        unsafe { copy(&number.to_ne_bytes(), self.template - HEAD_BYTES) };
        NEWEST.store(number, Ordering::Release);
        Some(number)
    }

    /// Tells the thread with this pointer that it has all values up to this number, if it had all before.
    fn advance(&self, pointer: u64, number: Option<u64>) -> Result<()> {
        let at = pointer.wrapping_add_signed(self.offset).wrapping_sub(HEAD_BYTES);
        match number {
            Some(number) if thread::word_at(at) == Some(number - 1) => {
                // SAFETY: the word in front of the reserve is part of that thread's copy.
                unsafe { thread::write(at, &number.to_ne_bytes()) }.map(drop)
            }
            _ => Ok(()),
        }
    }

    fn write_template(&self, start: u64, values: &[u8]) -> Result<()> {
        static WRITABLE: OnceLock<Result<()>> = OnceLock::new();
        // SAFETY: the reserve's part of the template is written here only, and read by the C library only.
        let writable = WRITABLE.get_or_init(|| unsafe {
            pages::make_writable(self.template - HEAD_BYTES, TAKEN_BYTES)
        });
        if let Err(error) = writable {
            return Err(Error::remote(error.to_string()));
        }
        // SAFETY: the range is part of the template, which is writable now, and whose copies in new threads do not use these
        // bytes yet.
        unsafe { copy(values, self.template + start) };
        Ok(())
    }
}

/// Writes the values to the copies of all threads but the calling one. `written` gets the pointer of each.
fn write_to_others(offset: i64, values: &[u8], written: impl Fn(u64) -> Result<()>) -> Result<()> {
    let own = thread::number();
    let mut done = HashSet::from([own]);
    loop {
        let threads = thread::numbers()?;
        if !threads.contains(&own) {
            return Err(Error::invalid(format!(
                "thread {own} is not in /proc/self/task, which belongs to another namespace"
            )));
        }
        let new: Vec<i32> = threads.into_iter().filter(|thread| done.insert(*thread)).collect();
        if new.is_empty() {
            return Ok(());
        }
        for thread in new {
            write_to(thread, offset, values)?.map_or(Ok(()), &written)?;
        }
    }
}

/// Writes the values to the copy of a thread, and returns its thread pointer; `None` if it has ended, or has to catch up.
fn write_to(number: i32, offset: i64, values: &[u8]) -> Result<Option<u64>> {
    let own_list = thread::robust_list(0)?.unwrap_or(0);
    let distance = own_list.wrapping_sub(thread::pointer());
    let mut left = ROBUST_LIST_TIMEOUT;
    loop {
        let Some(list) = thread::robust_list(number)? else { return Ok(None) };
        let pointer = list.wrapping_sub(distance);
        let is_thread = |word| thread::is_thread_pointer(pointer, word);
        if own_list != 0 && list != 0 && thread::word_at(pointer).is_some_and(is_thread) {
            let at = pointer.wrapping_add_signed(offset);
            // SAFETY: the range is part of that thread's copy, and no code uses it yet.
            if unsafe { thread::write(at, values) }? {
                return Ok(Some(pointer));
            }
        }
        if thread::is_zombie(number) {
            return Ok(None);
        }
        if left.is_zero() && LOG.lock().is_some() {
            // It has run no code yet, and will catch up.
            return Ok(None);
        }
        if left.is_zero() {
            return Err(Error::invalid(format!(
                "thread {number} has not said within {ROBUST_LIST_TIMEOUT:?} where its thread-locals are; it was not \
                 started by the C library"
            )));
        }
        sleep(ROBUST_LIST_PAUSE);
        left = left.saturating_sub(ROBUST_LIST_PAUSE);
    }
}

/// The initial values of a link.
fn stored<'a>(initial: AddrRange) -> &'a [u8] {
    let bytes = usize::try_from(initial.bytes()).unwrap_or(0);
    if bytes == 0 {
        return &[];
    }
    // SAFETY: the controller names a range of constants in its slab.
    unsafe { std::slice::from_raw_parts(pointer(initial.start), bytes) }
}

/// # Safety
///
/// `values.len()` bytes at the address must be writable, and no other code may use them.
unsafe fn copy(values: &[u8], address: u64) {
    let to = pointer::<u8>(crate::ExecutorAddr::new(address)).cast_mut();
    // SAFETY: the caller vouches for the bytes.
    unsafe { std::ptr::copy_nonoverlapping(values.as_ptr(), to, values.len()) };
}

struct Search {
    /// The address of the calling thread's copy.
    own: u64,
    template: Option<u64>,
}

/// Reads the first loaded file only, which is the program.
unsafe extern "C" fn on_module(
    info: *mut libc::dl_phdr_info,
    _size: usize,
    search: *mut c_void,
) -> c_int {
    // SAFETY: the C library passes valid information to the callback.
    let info = unsafe { &*info };
    // SAFETY: the pointer is the one given to `dl_iterate_phdr`, to a live `Search`.
    let search = unsafe { &mut *search.cast::<Search>() };
    // SAFETY: the file has this many program headers.
    let headers = unsafe { std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()) };
    let segment = headers.iter().find(|header| header.p_type == libc::PT_TLS);
    if let Some(segment) = segment {
        let distance = search.own.wrapping_sub(info.dlpi_tls_data as u64);
        let end = distance.checked_add(STATIC_TLS_BYTES as u64);
        if end.is_some_and(|end| end <= segment.p_filesz) {
            search.template = Some(info.dlpi_addr + segment.p_vaddr + distance);
        }
    }
    1
}

#[cfg(test)]
mod tests {
    use crate::error::ErrorKind;
    use std::sync::mpsc;
    use std::thread::{self as std_thread, JoinHandle};

    use super::*;

    /// A thread that sends the 8 bytes at an offset of its copy on each request.
    fn reader(offset: i64) -> (mpsc::Sender<()>, mpsc::Receiver<[u8; 8]>, JoinHandle<()>) {
        let (ask, asked) = mpsc::channel();
        let (answer, answers) = mpsc::channel();
        let thread = std_thread::spawn(move || {
            for () in asked {
                let at = thread::pointer().wrapping_add_signed(offset);
                answer.send(thread::word_at(at).expect("mapped").to_ne_bytes()).expect("listening");
            }
        });
        (ask, answers, thread)
    }

    #[test]
    fn all_threads_get_the_values_and_zeroes() {
        let reserve = get().expect("a test is a program of its own");
        assert_eq!(reserve.offset % 4096, 0);
        let offset = reserve.offset + 40;
        let old: Vec<_> = (0..5).map(|_| reader(offset)).collect();
        for (round, length) in [(1_u8, 5_usize), (2, 8), (3, 0)] {
            let values = [round; 8];
            let start = ExecutorAddr::new(values.as_ptr() as u64);
            let initial = AddrRange::sized(start, length as u64).expect("short");
            ThreadInitialize::serve((offset, initial, 8)).expect("written");
            let mut expected = [0; 8];
            expected[..length].fill(round);
            let new = [reader(offset)];
            for (ask, answers, _) in old.iter().chain(&new) {
                ask.send(()).expect("running");
                assert_eq!(answers.recv().expect("an answer"), expected, "round {round}");
            }
            let own = thread::word_at(thread::pointer().wrapping_add_signed(offset));
            assert_eq!(own.expect("mapped").to_ne_bytes(), expected);
        }
        for (ask, _, thread) in old {
            drop(ask);
            thread.join().expect("no panic");
        }
    }

    #[test]
    fn a_copy_that_was_given_back_gets_the_present_values() {
        let reserve = get().expect("a test is a program of its own");
        let offset = reserve.offset + 8192;
        let (ask, asked) = mpsc::channel::<()>();
        let (answer, answers) = mpsc::channel();
        let thread = std_thread::spawn(move || {
            let at = thread::pointer().wrapping_add_signed(offset);
            let words = || [at, at + 8].map(|at| thread::word_at(at).expect("mapped"));
            give_back();
            answer.send(words()).expect("listening");
            asked.recv().expect("asked");
            refill();
            answer.send(words()).expect("listening");
        });
        assert_eq!(answers.recv().expect("an answer"), [0; 2], "no memory");
        let values = [7_u8; 8];
        let initial = AddrRange::sized(ExecutorAddr::new(values.as_ptr() as u64), 8);
        ThreadInitialize::serve((offset, initial.expect("short"), 8)).expect("written");
        ask.send(()).expect("running");
        let expected = [7, 1].map(|byte| u64::from_ne_bytes([byte; 8]));
        assert_eq!(answers.recv().expect("an answer"), expected);
        thread.join().expect("no panic");
    }

    #[test]
    fn threads_that_come_and_go_do_no_harm() {
        let reserve = get().expect("a test is a program of its own");
        let offset = reserve.offset + 4096;
        std_thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for _ in 0..300 {
                        std_thread::spawn(|| ()).join().expect("no panic");
                    }
                });
            }
            for _ in 0..100 {
                ThreadInitialize::serve((offset, AddrRange::default(), 64)).expect("written");
            }
        });
    }

    #[test]
    fn ranges_outside_of_the_reserve_are_refused() {
        let reserve = get().expect("a test is a program of its own");
        let size = reserve.bytes;
        let outside =
            [(reserve.offset - 1, 1), (reserve.offset, size + 1), (reserve.offset + 8, u64::MAX)];
        for (offset, bytes) in outside {
            let error = ThreadInitialize::serve((offset, AddrRange::default(), bytes));
            assert!(error.expect_err("refused").kind() == ErrorKind::InvalidArgument);
        }
        let long = AddrRange::sized(ExecutorAddr::new(4096), 9).expect("short");
        assert!(ThreadInitialize::serve((reserve.offset, long, 8)).is_err());
    }
}
