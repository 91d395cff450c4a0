//! Dynamic thread-locals: TLS blocks that a thread gets on first use.
//!
//! Thread-locals that do not fit the static reserve (`static_reserve`) lie in blocks of their own. Terms, as in the
//! ELF ABI:
//!
//! | term | meaning |
//! |---|---|
//! | TLS module | the thread-locals of one link, known by a number |
//! | TLS block | one thread's copy of a module: zeroes, with the initial values at its start |
//! | DTV | a thread's vector of the addresses of its blocks, by module number |
//!
//! Linked code asks for an address by module number and offset (`tls_get_addr`). A thread that has no block of the
//! module gets one then, and its DTV with its first block.
//!
//! All DTVs are in one list. So a link that is removed takes its blocks from all threads at once. No code of the link
//! may run any more; so no thread reads the module's DTV entries, and the number can be used again.
//!
//! A thread's blocks are unmapped in the last round of its key destructors. The destructors of thread-locals, and of the
//! program's own keys, which may use thread-locals, have run before.
//!
//! Code may ask in a signal handler, even if that has interrupted the allocator, and in a child after `fork`. Therefore a
//! thread that asks:
//!
//! - blocks signals,
//! - takes memory from the kernel only,
//! - holds the list lock for a few steps that never wait.
//!
//! Each step leaves the list whole. So a forked child, in which the thread that holds the lock does not exist, resets the lock.
//! (A lock that is held across `fork` would deadlock. The C library takes its allocator's locks then, and a handler that asks
//! may have interrupted the thread that holds such a lock.)
//!
//! Invariant: a DTV entry is 0 or the address of a block that no other entry has.
#![allow(unsafe_code, reason = "hands out memory to linked code, by address")]

use std::cell::Cell;
use std::ffi::c_void;
use std::mem::offset_of;
use std::process::abort;
use std::sync::{Once, OnceLock};

use crate::call::contract::{ThreadBlockDeregister, ThreadBlockRegister};
use crate::deadline::Deadline;
use crate::error::{Error, Result};
use crate::executor::entry::abi;
use crate::executor::entry::address::pointer;
use crate::executor::entry::wrapper::Serve;
use crate::executor::log::{self, Level};
use crate::executor::tls::static_reserve;
use crate::limits::THREAD_MODULES_MAX;
use crate::sync::{AtomicU64, Ordering};
use crate::sys::futex;
use crate::sys::futex::Seen;
use crate::sys::memory::pages;
use crate::sys::process::thread;
use crate::sys::process::thread::Undisturbed;
use crate::{AddrRange, ExecutorAddr};

/// The registration of a link's TLS module.
struct TlsModule {
    /// The address of the initial values, and their size in bytes.
    initial_start: AtomicU64,
    initial_bytes: AtomicU64,
    /// The size of a block in bytes; 0 for an unused number.
    bytes: AtomicU64,
}

/// A thread's dynamic thread vector.
#[repr(C)]
struct Dtv {
    /// The address of the next DTV in the list, or 0.
    next: AtomicU64,
    /// How many rounds of key destructors the thread has run.
    rounds: AtomicU64,
    /// The addresses of the thread's blocks, or 0.
    entries: [AtomicU64; THREAD_MODULES_MAX],
}

/// The offset of the entries in a DTV.
pub(crate) const ENTRIES_OFFSET: usize = offset_of!(Dtv, entries);

static TLS_MODULES: [TlsModule; THREAD_MODULES_MAX] = [const {
    TlsModule {
        initial_start: AtomicU64::new(0),
        initial_bytes: AtomicU64::new(0),
        bytes: AtomicU64::new(0),
    }
}; THREAD_MODULES_MAX];
/// All numbers ever used are less than this.
static TLS_MODULES_END: AtomicU64 = AtomicU64::new(0);
/// The address of the list's first DTV, or 0.
static FIRST: AtomicU64 = AtomicU64::new(0);
/// The lock of the list and of the modules: free, taken, or taken and awaited by other threads.
static LOCK: AtomicU64 = AtomicU64::new(FREE);
const FREE: u64 = 0;
const TAKEN: u64 = 1;
const AWAITED: u64 = 2;

/// Holds the list lock, with signals blocked.
struct ListLock(#[expect(dead_code, reason = "its end matters")] Undisturbed);

/// The DTV of threads that have none: all entries are 0.
static EMPTY_DTV: Dtv = Dtv {
    next: AtomicU64::new(0),
    rounds: AtomicU64::new(0),
    entries: [const { AtomicU64::new(0) }; THREAD_MODULES_MAX],
};

thread_local! {
    /// The thread's DTV. It needs no initializer and no destructor, so it is a plain word. If this library is linked
    /// into the program, the word has the same distance from the thread pointer in all threads.
    static OWN_DTV: Cell<*const Dtv> = const { Cell::new(&raw const EMPTY_DTV) };
}

/// The key whose destructor unmaps a thread's blocks.
static AT_END: OnceLock<libc::pthread_key_t> = OnceLock::new();

/// How many rounds of key destructors the C library runs while destructors set keys again.
const DESTRUCTOR_ROUNDS: u64 = 4;

impl Serve for ThreadBlockRegister {
    fn serve((number, initial, bytes): (u32, AddrRange, u64)) -> Result<()> {
        prepare()?;
        if (number as usize) < THREAD_MODULES_MAX && (1..=bytes).contains(&initial.bytes().max(1)) {
            let _lock = ListLock::new();
            let module = &TLS_MODULES[number as usize];
            if module.bytes.load(Ordering::Relaxed) == 0 {
                module.initial_start.store(initial.start.get(), Ordering::Relaxed);
                module.initial_bytes.store(initial.bytes(), Ordering::Relaxed);
                TLS_MODULES_END.fetch_max(u64::from(number) + 1, Ordering::Relaxed);
                // [BLOCK] Release: pairs with the Acquire in `own_block`; a thread that reads the size reads the
                // values' address too.
                module.bytes.store(bytes, Ordering::Release);
                return Ok(());
            }
        }
        Err(Error::invalid(format!(
            "TLS module {number}, {bytes} bytes, {} of them with values: the number is taken, or not \
             below {THREAD_MODULES_MAX}, or the values are too many",
            initial.bytes()
        )))
    }
}

impl Serve for ThreadBlockDeregister {
    fn serve((number,): (u32,)) -> Result<()> {
        let Some(module) = TLS_MODULES.get(number as usize) else { return Ok(()) };
        let _lock = ListLock::new();
        let bytes = module.bytes.swap(0, Ordering::Relaxed);
        for dtv in dtvs() {
            dtv.remove(number as usize, bytes);
        }
        Ok(())
    }
}

/// Returns the address of a thread-local for the calling thread. `words` are the module number and the offset in the
/// block. Maps the thread's block if it has none, and aborts the process if there is no memory for it.
///
/// # Safety
///
/// `words` must be readable.
pub(crate) unsafe extern "C" fn find(words: *const [u64; 2]) -> u64 {
    // SAFETY: the caller vouches for the words.
    let [number, distance] = unsafe { *words };
    let undisturbed = Undisturbed::new();
    let block = own_block(number);
    drop(undisturbed);
    match block {
        Ok(block) => block.wrapping_add(distance),
        Err(error) => {
            log::write(Level::Error, format_args!("thread-locals of TLS module {number}: {error}"));
            abort()
        }
    }
}

/// The address of the calling thread's block of a module.
fn own_block(number: u64) -> Result<u64> {
    let number = usize::try_from(number).unwrap_or(usize::MAX);
    let module = TLS_MODULES.get(number);
    // [BLOCK] Acquire: pairs with the Release in `ThreadBlockRegister`.
    let size = module.map(|module| (module, module.bytes.load(Ordering::Acquire)));
    let Some((module, bytes @ 1..)) = size else {
        return Err(Error::invalid("the code of the module was removed"));
    };
    let dtv = own_dtv()?;
    // A signal handler may have mapped the block since the assembler read the entry.
    let block = dtv.entries[number].load(Ordering::Relaxed);
    if block != 0 {
        return Ok(block);
    }
    let block = pages::zeroes(bytes)?;
    let initial = usize::try_from(module.initial_bytes.load(Ordering::Relaxed)).unwrap_or(0);
    if initial > 0 {
        let from = at::<u8>(module.initial_start.load(Ordering::Relaxed));
        // SAFETY: the values are constants of a live link, and registration checked that they fit the block.
        unsafe { std::ptr::copy_nonoverlapping(from, at::<u8>(block).cast_mut(), initial) };
    }
    dtv.entries[number].store(block, Ordering::Relaxed);
    Ok(block)
}

/// The calling thread's DTV; maps it if the thread has none.
fn own_dtv() -> Result<&'static Dtv> {
    let own = OWN_DTV.get();
    if !std::ptr::eq(own, &raw const EMPTY_DTV) {
        // SAFETY: a thread's DTV is mapped while `OWN_DTV` names it.
        return Ok(unsafe { &*own });
    }
    let address = pages::zeroes(size_of::<Dtv>() as u64)?;
    // SAFETY: zeroes are a valid DTV, and no other thread knows its address.
    let dtv: &Dtv = unsafe { &*at(address) };
    let key = AT_END.get().copied().unwrap_or(libc::pthread_key_t::MAX);
    // SAFETY: the DTV is mapped until the key's destructor unmaps it.
    let status = unsafe { libc::pthread_setspecific(key, at::<c_void>(address)) };
    if status != 0 {
        return Err(Error::exhausted(format!("no room for a thread's key: error {status}")));
    }
    OWN_DTV.set(dtv);
    let _lock = ListLock::new();
    dtv.next.store(FIRST.load(Ordering::Relaxed), Ordering::Relaxed);
    // [DTV] Release: pairs with the Acquire in `dtvs`; a forked child that finds this DTV finds the rest of the list.
    FIRST.store(address, Ordering::Release);
    Ok(dtv)
}

/// All DTVs. The caller holds the list lock.
fn dtvs() -> impl Iterator<Item = &'static Dtv> {
    let first = Dtv::at(FIRST.load(Ordering::Acquire));
    std::iter::successors(first, |dtv| Dtv::at(dtv.next.load(Ordering::Relaxed)))
}

/// Unlinks the DTV at an address and unmaps it with its blocks. Its thread does not use it any more.
fn remove(address: u64) {
    let _lock = ListLock::new();
    let Some(dtv) = Dtv::at(address) else { return };
    let next = dtv.next.load(Ordering::Relaxed);
    let before = dtvs().find(|other| other.next.load(Ordering::Relaxed) == address);
    before.map_or(&FIRST, |before| &before.next).store(next, Ordering::Relaxed);
    let end = usize::try_from(TLS_MODULES_END.load(Ordering::Relaxed)).unwrap_or(0);
    for (number, module) in TLS_MODULES[..end].iter().enumerate() {
        dtv.remove(number, module.bytes.load(Ordering::Relaxed));
    }
    // SAFETY: the DTV is not in the list any more, and its thread does not use it.
    unsafe { pages::unmap(address, size_of::<Dtv>() as u64) };
}

impl Dtv {
    /// The DTV at an address from the list; `None` for 0. Valid while the lock is held.
    fn at<'a>(address: u64) -> Option<&'a Self> {
        // SAFETY: a DTV is unlinked before it is unmapped.
        (address != 0).then(|| unsafe { &*at(address) })
    }

    /// Unmaps the block of a module, if there is one of this size in bytes.
    fn remove(&self, number: usize, bytes: u64) {
        let block = self.entries[number].load(Ordering::Relaxed);
        if block != 0 {
            self.entries[number].store(0, Ordering::Relaxed);
            // SAFETY: the block was mapped with this size, and neither its thread nor code of the module uses it
            // again.
            unsafe { pages::unmap(block, bytes) };
        }
    }
}

impl ListLock {
    fn new() -> Self {
        let undisturbed = Undisturbed::new();
        // [LIST] Acquire: pairs with the Release of the previous holder.
        if LOCK.compare_exchange(FREE, TAKEN, Ordering::Acquire, Ordering::Relaxed).is_err() {
            while LOCK.swap(AWAITED, Ordering::Acquire) != FREE {
                // The holder waits for nothing, so the wait is short.
                let seen = Seen { word: &LOCK, value: AWAITED, is_private: true };
                futex::wait(&[seen], Deadline::SESSION_END);
            }
        }
        Self(undisturbed)
    }
}

impl Drop for ListLock {
    fn drop(&mut self) {
        // [LIST] Release: pairs with the Acquire of the next holder.
        if LOCK.swap(FREE, Ordering::Release) == AWAITED {
            futex::wake_own(&LOCK);
        }
    }
}

/// The key's destructor. It sets the key again until the last round, then unmaps the thread's DTV and blocks.
extern "C" fn at_thread_end(dtv: *mut c_void) {
    let address = dtv.expose_provenance() as u64;
    let rounds = Dtv::at(address).map_or(0, |own| own.rounds.fetch_add(1, Ordering::Relaxed) + 1);
    if let (Some(key), true) = (AT_END.get(), rounds < DESTRUCTOR_ROUNDS) {
        // SAFETY: the DTV is still mapped.
        unsafe { libc::pthread_setspecific(*key, dtv) };
        return;
    }
    let _undisturbed = Undisturbed::new();
    OWN_DTV.set(&raw const EMPTY_DTV);
    remove(address);
}

/// Runs in a forked child. Its only thread, the forking one, does not hold the lock.
extern "C" fn after_fork() {
    LOCK.store(FREE, Ordering::Relaxed);
}

/// The distance of `OWN_DTV` from the thread pointer.
pub(crate) static DTV_DISTANCE: AtomicU64 = AtomicU64::new(0);

/// Prepares the process for its first TLS module.
fn prepare() -> Result<()> {
    static PREPARED: Once = Once::new();
    if static_reserve::get().is_none() {
        return Err(Error::invalid(
            "dynamic thread-locals, but this library was loaded by dlopen: run the executor as a program of its own",
        ));
    }
    let mut status = 0;
    PREPARED.call_once(|| {
        let word = OWN_DTV.with(|dtv| &raw const *dtv) as u64;
        abi::prepare();
        DTV_DISTANCE.store(word.wrapping_sub(thread::pointer()), Ordering::Release);
        let mut key = 0;
        // SAFETY: the key is written, and the destructor is a function of the expected form.
        status = unsafe { libc::pthread_key_create(&raw mut key, Some(at_thread_end)) };
        if status == 0 {
            AT_END.get_or_init(|| key);
        }
        // SAFETY: the function may run at any fork.
        unsafe { libc::pthread_atfork(None, None, Some(after_fork)) };
    });
    match AT_END.get() {
        Some(_) => Ok(()),
        None => Err(Error::exhausted(format!("the process has no key left: error {status}"))),
    }
}

/// An address as a pointer.
fn at<T>(address: u64) -> *const T {
    pointer(ExecutorAddr::new(address))
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    /// The block of the calling thread, in which something is written to the first word.
    fn touch(number: u64) -> (u64, [u64; 2]) {
        // SAFETY: there are two words.
        let block = unsafe { find(&[number, 0]) };
        // SAFETY: the test's blocks have at least two words.
        let words = unsafe { at::<[u64; 2]>(block).read() };
        // SAFETY: as above, and this thread's own.
        unsafe { at::<u64>(block).cast_mut().write(words[0] + 1) };
        (block, words)
    }

    fn register(number: u32, initial: &[u64], bytes: u64) -> Result<()> {
        let start = ExecutorAddr::new(initial.as_ptr() as u64);
        let initial = AddrRange::sized(start, size_of_val(initial) as u64).expect("short");
        ThreadBlockRegister::serve((number, initial, bytes))
    }

    #[test]
    fn threads_have_blocks_of_their_own_until_one_of_the_two_goes() {
        register(100, &[40], 8192).expect("free");
        register(101, &[], 100).expect("free");
        let error = register(101, &[], 8).expect_err("taken").to_string();
        assert!(error.contains("101") && error.contains("8 bytes"), "{error}");
        let (own, words) = touch(100);
        assert_eq!((own % 4096, words), (0, [40, 0]));
        let (go, wait) = mpsc::channel::<()>();
        let (say, said) = mpsc::channel();
        let other = std::thread::spawn(move || {
            let first = touch(100);
            say.send((first, touch(101).1)).expect("the test listens");
            wait.recv().expect("told to go on");
            (touch(100).1, touch(101).1)
        });
        let ((block, words), zeroes) = said.recv().expect("it says so");
        assert_ne!(block, own);
        assert_eq!((words, zeroes, touch(100).1), ([40, 0], [0, 0], [41, 0]));
        // The number is used again while the other thread has a block of the old one.
        ThreadBlockDeregister::serve((100,)).expect("forgotten");
        register(100, &[70, 71], 16).expect("free again");
        go.send(()).expect("it waits");
        assert_eq!(other.join().expect("no panic"), ([70, 71], [1, 0]));
        assert_eq!(touch(100).1, [70, 71]);
        for number in [100, 101] {
            ThreadBlockDeregister::serve((number,)).expect("forgotten");
            ThreadBlockDeregister::serve((number,)).expect("nothing to forget");
        }
    }

    #[test]
    fn impossible_blocks_are_refused() {
        let too_many = u32::try_from(THREAD_MODULES_MAX).expect("few");
        for (number, initial, bytes) in [(too_many, 0, 8), (200, 0, 0), (200, 2, 8)] {
            assert!(register(number, &[0, 0][..initial], bytes).is_err());
        }
        assert_eq!(TLS_MODULES[200].bytes.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn threads_that_come_and_go_leave_nothing() {
        register(102, &[5], 1 << 20).expect("free");
        let mut addresses = std::collections::HashSet::new();
        for _ in 0..200 {
            let thread = std::thread::spawn(|| touch(102));
            let (block, words) = thread.join().expect("no panic");
            assert_eq!(words, [5, 0]);
            addresses.insert(block);
        }
        assert!(addresses.len() < 150, "{} places in a row", addresses.len());
        ThreadBlockDeregister::serve((102,)).expect("forgotten");
    }
}
