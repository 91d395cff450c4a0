//! Closures of the host that the library calls while a call of the host runs.
//!
//! The library gets a number for its `void *`. It hands that number back with each call of the closure.
#![allow(unsafe_code, reason = "lends a closure to the handler for the time of a call")]

use std::cell::RefCell;
use std::ptr::NonNull;

use super::number::Number;
use crate::ExecutorAddr;
use crate::controller::Process;
use crate::error::{Error, Result};
use crate::sync::{AtomicU64, Ordering};

/// The words of the arguments of a callback.
#[doc(hidden)]
pub type Words<'a> = &'a [u64];

/// A closure by words.
#[doc(hidden)]
pub type Callback<'a> = dyn FnMut(Words<'_>) -> Result<u64> + 'a;

/// A closure that is lent.
struct Lent {
    number: u64,
    /// The sandbox whose library may call it.
    sandbox: u64,
    /// None while the closure runs.
    closure: Option<NonNull<Callback<'static>>>,
}

thread_local! {
    /// The closures that this thread has lent, the last one last.
    static LENT: RefCell<Vec<Lent>> = const { RefCell::new(Vec::new()) };
    /// The calls that run on this thread: sandbox and process, the last one last.
    static RUNNING: RefCell<Vec<(u64, Process)>> = const { RefCell::new(Vec::new()) };
}

/// A number that this process has not used: a library may keep what it got once.
pub(super) fn next_number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    // Relaxed: the number stands for nothing else.
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// The process of the innermost call of a sandbox that runs on this thread.
pub(super) fn running(sandbox: u64) -> Option<Process> {
    let find = |calls: &Vec<(u64, Process)>| {
        let call = calls.iter().rev().find(|(other, _)| *other == sandbox);
        call.map(|(_, process)| process.clone())
    };
    RUNNING.with_borrow(find)
}

/// Notes a call of a sandbox while it runs.
pub(super) fn run<R>(sandbox: u64, process: &Process, call: impl FnOnce() -> R) -> R {
    struct Ended;
    impl Drop for Ended {
        fn drop(&mut self) {
            // The process is dropped without the borrow: its last handle runs code of the host.
            drop(RUNNING.with_borrow_mut(Vec::pop));
        }
    }
    RUNNING.with_borrow_mut(|calls| calls.push((sandbox, process.clone())));
    let _ended = Ended;
    call()
}

/// Ends the loan.
struct Loan(u64);

impl Drop for Loan {
    fn drop(&mut self) {
        LENT.with_borrow_mut(|lent| lent.retain(|one| one.number != self.0));
    }
}

/// Lends `closure` to the library of `sandbox` while `call` runs. `call` gets the number for the library, which is null for no closure.
#[doc(hidden)]
pub fn lend<R>(
    sandbox: &super::Sandbox,
    closure: Option<&mut Callback<'_>>,
    call: impl FnOnce(ExecutorAddr) -> Result<R>,
) -> Result<R> {
    let Some(closure) = closure else {
        return call(ExecutorAddr::NULL);
    };
    let number = next_number();
    let closure = NonNull::from(closure);
    // SAFETY: both are pointers to the same closure. The loan ends before this function returns, and with it each use of the pointer.
    let closure = unsafe {
        std::mem::transmute::<NonNull<Callback<'_>>, NonNull<Callback<'static>>>(closure)
    };
    let lent = Lent { number, sandbox: sandbox.identity(), closure: Some(closure) };
    LENT.with_borrow_mut(|all| all.push(lent));
    let _loan = Loan(number);
    call(ExecutorAddr::new(number))
}

/// Calls the closure of this number, which the library has said.
///
/// # Errors
///
/// When this thread has lent no such closure to that sandbox, or it runs already.
#[doc(hidden)]
pub fn call_back(sandbox: u64, number: ExecutorAddr, words: Words<'_>) -> Result<u64> {
    let is_it = |one: &&mut Lent| one.number == number.get() && one.sandbox == sandbox;
    let taken =
        LENT.with_borrow_mut(|all| all.iter_mut().find(is_it).and_then(|one| one.closure.take()));
    let mut closure = taken.ok_or_else(|| {
        Error::violation(format!(
            "the library called a closure by the number {number}, which the calling thread has not lent, or which runs already"
        ))
    })?;
    let _running = Running { number: number.get(), closure };
    // SAFETY: the loan has not ended, since `lend` is further up on this thread's stack. The closure was taken, so this is its only use.
    let closure = unsafe { closure.as_mut() };
    closure(words)
}

/// An argument of a callback.
#[doc(hidden)]
#[must_use]
pub fn argument<T: Number>(words: Words<'_>, at: usize) -> T {
    T::from_word(words.get(at).copied().unwrap_or_default())
}

/// Gives the closure back when it has run, or panicked.
struct Running {
    number: u64,
    closure: NonNull<Callback<'static>>,
}

impl Drop for Running {
    fn drop(&mut self) {
        LENT.with_borrow_mut(|all| {
            if let Some(one) = all.iter_mut().find(|one| one.number == self.number) {
                one.closure = Some(self.closure);
            }
        });
    }
}
