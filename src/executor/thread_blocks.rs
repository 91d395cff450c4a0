//! Dynamic thread-locals: blocks that threads get when they ask first.
//!
//! Thread-locals for which the arena has no room (see `thread_locals`) lie in blocks of their own. Linked code asks for
//! the address of one (see `thread_entry`), by the number of a *module*, which is the block of one link, and a distance
//! in it. A thread's *record* holds the addresses of its blocks by these numbers. A thread without a block of a module
//! gets one when it asks: memory of zeroes, to the start of which the initial values are copied. With its first block
//! it gets its record.
//!
//! All records are in a list, so that a link that is removed takes its blocks from all threads at once, whatever
//! they do: nothing of the link may be running any more, so nobody looks at the words of its number, and the number can
//! be used again. A thread's blocks go at its very end, in the last round of the destructors of its keys: after the
//! destructors of thread-locals, and after those of the program's own keys, which may use thread-locals as well.
//!
//! Code may ask in a signal handler, and in a child after `fork`. So signals are blocked under the lock, nothing is
//! allocated under it but by mapping memory, and `fork` waits for it.
//!
//! Invariant: a record's word for a module is 0 or the address of a block that nobody else has; it is written under
//! the lock.
#![allow(unsafe_code, reason = "hands out memory to linked code, by address")]

use std::cell::Cell;
use std::ffi::c_void;
use std::mem::{ManuallyDrop, offset_of};
use std::process::abort;
use std::sync::{Mutex, MutexGuard, Once, OnceLock, PoisonError};

use super::wrapper::{Serve, pointer};
use super::{thread_entry, thread_locals};
use crate::call::contract::{ThreadBlockDeregister, ThreadBlockRegister};
use crate::error::{Error, Result};
use crate::limits::THREAD_MODULES_MAX;
use crate::sync::{AtomicU64, Ordering};
use crate::sys::thread::Undisturbed;
use crate::sys::{map, thread};
use crate::{AddrRange, ExecutorAddr};

/// What a link has said of its block; of no bytes for a number that no link has.
#[derive(Debug, Clone, Copy)]
struct Module {
    initial: AddrRange,
    bytes: u64,
}

/// What a thread has.
#[repr(C)]
struct Record {
    /// The address of the next one in the list, or 0.
    next: AtomicU64,
    /// How many rounds of destructors the thread has had.
    rounds: AtomicU64,
    /// The addresses of its blocks, or 0.
    blocks: [AtomicU64; THREAD_MODULES_MAX],
}

/// Where in a record the blocks are.
pub(super) const BLOCKS_OFFSET: usize = offset_of!(Record, blocks);

#[derive(Debug)]
struct Registry {
    modules: [Module; THREAD_MODULES_MAX],
    /// No module ever had this number, or a greater one.
    end: usize,
    /// The address of the first record, or 0.
    first: u64,
}

/// The lock, and what it guards.
struct Turn {
    // In this order: unlocked first.
    registry: MutexGuard<'static, Registry>,
    _undisturbed: Undisturbed,
}

static REGISTRY: Mutex<Registry> = Mutex::new(Registry {
    modules: [Module {
        initial: AddrRange { start: ExecutorAddr::NULL, end: ExecutorAddr::NULL },
        bytes: 0,
    }; THREAD_MODULES_MAX],
    end: 0,
    first: 0,
});

/// The record of threads that have none.
static NO_RECORD: Record = Record {
    next: AtomicU64::new(0),
    rounds: AtomicU64::new(0),
    blocks: [const { AtomicU64::new(0) }; THREAD_MODULES_MAX],
};

thread_local! {
    /// The thread's record. As it needs no code to start and none to end, it is a plain word at the same distance from
    /// the thread pointer in all threads, if this library is a part of the program.
    static RECORD: Cell<*const Record> = const { Cell::new(&raw const NO_RECORD) };
    /// The lock, while the thread forks.
    static FORKING: Cell<Option<ManuallyDrop<Turn>>> = const { Cell::new(None) };
}

/// The key whose destructor ends a thread.
static AT_END: OnceLock<libc::pthread_key_t> = OnceLock::new();

/// How often the C library runs the destructors of a thread's keys while they set them again.
const DESTRUCTOR_ROUNDS: u64 = 4;

impl Serve for ThreadBlockRegister {
    fn serve((number, initial, bytes): (u32, AddrRange, u64)) -> Result<()> {
        prepare()?;
        let mut turn = Turn::new();
        let module = turn.registry.modules.get_mut(number as usize);
        let free = module.filter(|module| module.bytes == 0 && initial.bytes() <= bytes);
        let Some(module) = free.filter(|_| bytes > 0) else {
            drop(turn);
            return Err(Error::invalid(format!(
                "block {number} of {bytes} bytes of thread-locals, {} of them with values: the number is taken, or not \
                 below {THREAD_MODULES_MAX}, or the values are too many",
                initial.bytes()
            )));
        };
        *module = Module { initial, bytes };
        turn.registry.end = turn.registry.end.max(number as usize + 1);
        Ok(())
    }
}

impl Serve for ThreadBlockDeregister {
    fn serve((number,): (u32,)) -> Result<()> {
        let mut turn = Turn::new();
        let module = turn.registry.modules.get_mut(number as usize);
        let bytes = module.map_or(0, |module| std::mem::take(&mut module.bytes));
        let mut next = turn.registry.first;
        while let Some(record) = Record::at(next) {
            if bytes > 0 {
                record.remove(number as usize, bytes);
            }
            next = record.next.load(Ordering::Relaxed);
        }
        Ok(())
    }
}

/// Finds the address of a thread-local for the calling thread, which gets its block if it has none: of the one in the
/// module whose number is the first of two words, as far from the start of the block as the second one says. Ends the
/// process when there is no memory for the block.
///
/// # Safety
///
/// There must be two words at `words`.
pub(super) unsafe extern "C" fn find(words: *const [u64; 2]) -> u64 {
    // SAFETY: the caller vouches for the words.
    let [number, distance] = unsafe { *words };
    let mut turn = Turn::new();
    let block = turn.registry.own_block(number);
    drop(turn);
    match block {
        Ok(block) => block.wrapping_add(distance),
        Err(error) => {
            eprintln!("farcall executor: thread-locals of block {number}: {error}");
            abort()
        }
    }
}

impl Registry {
    /// The calling thread's block of a module.
    fn own_block(&mut self, number: u64) -> Result<u64> {
        let number = usize::try_from(number).unwrap_or(usize::MAX);
        let module = self.modules.get(number).copied().filter(|module| module.bytes > 0);
        let module = module.ok_or_else(|| Error::invalid("their code was removed"))?;
        let record = self.own_record()?;
        // Since the thread has looked, a signal handler may have made it.
        let block = record.blocks[number].load(Ordering::Relaxed);
        if block != 0 {
            return Ok(block);
        }
        let block = map::zeroes(module.bytes)?;
        let bytes = usize::try_from(module.initial.bytes()).unwrap_or(0);
        if bytes > 0 {
            let (from, to) = (pointer::<u8>(module.initial.start), at::<u8>(block));
            // SAFETY: the values are constants of a link that was not removed, and are not more than fit the block.
            unsafe { std::ptr::copy_nonoverlapping(from, to.cast_mut(), bytes) };
        }
        record.blocks[number].store(block, Ordering::Relaxed);
        Ok(block)
    }

    /// The calling thread's record.
    fn own_record(&mut self) -> Result<&'static Record> {
        let own = RECORD.get();
        if !std::ptr::eq(own, &raw const NO_RECORD) {
            // SAFETY: a thread's record is there as long as the thread says so itself.
            return Ok(unsafe { &*own });
        }
        let address = map::zeroes(size_of::<Record>() as u64)?;
        // SAFETY: zeroes are a record, and nobody else knows it.
        let record: &Record = unsafe { &*at(address) };
        let key = AT_END.get().copied().unwrap_or(libc::pthread_key_t::MAX);
        // SAFETY: the record is there until the key's destructor takes it away.
        let status = unsafe { libc::pthread_setspecific(key, at::<c_void>(address)) };
        if status != 0 {
            return Err(Error::exhausted(format!("no room for a thread's key: error {status}")));
        }
        record.next.store(self.first, Ordering::Relaxed);
        self.first = address;
        RECORD.set(record);
        Ok(record)
    }

    /// Takes a record out of the list and gives back its memory, and that of its blocks.
    fn remove(&mut self, address: u64) {
        let Some(record) = Record::at(address) else { return };
        for (number, module) in self.modules[..self.end].iter().enumerate() {
            record.remove(number, module.bytes);
        }
        let next = record.next.load(Ordering::Relaxed);
        if self.first == address {
            self.first = next;
        }
        let mut other = self.first;
        while let Some(before) = Record::at(other) {
            other = before.next.load(Ordering::Relaxed);
            if other == address {
                before.next.store(next, Ordering::Relaxed);
            }
        }
        // SAFETY: the record is in no list any more, and its thread does not know it either.
        unsafe { map::unmap(address, size_of::<Record>() as u64) };
    }
}

impl Record {
    /// The record at an address from the list; `None` at its end. Good while the lock is held.
    fn at<'a>(address: u64) -> Option<&'a Self> {
        // SAFETY: records are taken out of the list before they go.
        (address != 0).then(|| unsafe { &*at(address) })
    }

    /// Gives back a block of so many bytes, if there is one.
    fn remove(&self, number: usize, bytes: u64) {
        let block = self.blocks[number].swap(0, Ordering::Relaxed);
        if block != 0 {
            // SAFETY: the block was made with this size, and neither its thread nor code of the module uses it again.
            unsafe { map::unmap(block, bytes) };
        }
    }
}

impl Turn {
    fn new() -> Self {
        let undisturbed = Undisturbed::new();
        let registry = REGISTRY.lock().unwrap_or_else(PoisonError::into_inner);
        Self { registry, _undisturbed: undisturbed }
    }
}

/// Runs when a thread ends that has a record, and as often as it says.
extern "C" fn at_thread_end(record: *mut c_void) {
    let address = record.expose_provenance() as u64;
    let rounds = {
        let _turn = Turn::new();
        Record::at(address).map_or(0, |record| record.rounds.fetch_add(1, Ordering::Relaxed) + 1)
    };
    if let (Some(key), true) = (AT_END.get(), rounds < DESTRUCTOR_ROUNDS) {
        // SAFETY: the record is still there.
        unsafe { libc::pthread_setspecific(*key, record) };
        return;
    }
    let mut turn = Turn::new();
    RECORD.set(&raw const NO_RECORD);
    turn.registry.remove(address);
}

extern "C" fn before_fork() {
    FORKING.set(Some(ManuallyDrop::new(Turn::new())));
}

/// In the parent and in the child.
extern "C" fn after_fork() {
    drop(FORKING.take().map(ManuallyDrop::into_inner));
}

/// Makes ready for the first block of the process.
fn prepare() -> Result<()> {
    static PREPARED: Once = Once::new();
    if thread_locals::arena().is_none() {
        return Err(Error::invalid(
            "dynamic thread-locals, in a library that was loaded by dlopen: start it as a program of its own",
        ));
    }
    let mut status = 0;
    PREPARED.call_once(|| {
        let word = RECORD.with(|record| &raw const *record) as u64;
        thread_entry::prepare(word.wrapping_sub(thread::pointer()).cast_signed());
        let mut key = 0;
        // SAFETY: the key is written, and the destructor is a function of the expected form.
        status = unsafe { libc::pthread_key_create(&raw mut key, Some(at_thread_end)) };
        if status == 0 {
            AT_END.get_or_init(|| key);
        }
        // SAFETY: the functions may run at any fork.
        unsafe { libc::pthread_atfork(Some(before_fork), Some(after_fork), Some(after_fork)) };
    });
    match AT_END.get() {
        Some(_) => Ok(()),
        None => Err(Error::exhausted(format!("the process has no key left: error {status}"))),
    }
}

/// The pointer that an address is.
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

    fn records() -> usize {
        let turn = Turn::new();
        let next = |record: &&Record| Record::at(record.next.load(Ordering::Relaxed));
        std::iter::successors(Record::at(turn.registry.first), next).count()
    }

    #[test]
    fn threads_have_blocks_of_their_own_until_one_of_the_two_goes() {
        register(100, &[40], 8192).expect("free");
        register(101, &[], 100).expect("free");
        let error = register(101, &[], 8).expect_err("taken").to_string();
        assert!(error.contains("101") && error.contains("8 bytes"), "{error}");
        let before = records();
        let (own, words) = touch(100);
        assert_eq!((own % 4096, words), (0, [40, 0]));
        let (go, wait) = mpsc::channel::<()>();
        let (say, said) = mpsc::channel();
        let other = std::thread::spawn(move || {
            let first = touch(100);
            say.send((first, touch(101).1)).expect("somebody listens");
            wait.recv().expect("told to go on");
            (touch(100).1, touch(101).1)
        });
        let ((block, words), zeroes) = said.recv().expect("it says so");
        assert_ne!(block, own);
        assert_eq!((words, zeroes, touch(100).1), ([40, 0], [0, 0], [41, 0]));
        assert!((before..=before + 2).contains(&records()), "tests run side by side");
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
        let turn = Turn::new();
        assert!(turn.registry.modules[200].bytes == 0);
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
