//! The gifts to a program at its start: its arguments, its environment, and the kernel's words to programs.
//!
//! They lie behind each other as on the stack of a new process, because some programs find one from the other. The order is the
//! number of arguments, `argv`, a null, `envp`, a null, and the auxiliary vector.
//!
//! Invariant: every list ends with a null, and every pointer in one is to a string that lives as long.
#![allow(
    unsafe_code,
    reason = "reads and sets the environment of the C library, and calls a program"
)]

use std::ffi::{CStr, CString, c_char, c_int};
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::sync::OnceLock;

use crate::ExecutorAddr;
use crate::error::{Error, Result};
use crate::executor::entry::enter;
use crate::sps::Bytes;
use crate::sync::Mutex;

use super::{set_name, start};

/// The arguments of a program, and what lies behind them.
pub(super) struct Arguments {
    /// Count, arguments, environment and auxiliary vector. Programs may reorder the arguments.
    words: Vec<*const c_char>,
    count: usize,
    /// The strings of the arguments, which programs may change.
    strings: Vec<Vec<u8>>,
}

/// Arguments that are never freed. No other program gets them before this value is dropped.
pub(super) struct ForGood(ManuallyDrop<Arguments>);

/// Arguments whose program has returned.
struct Returned(ManuallyDrop<Arguments>);

// SAFETY: the strings that they point to are their own, or the environment's, which all threads of a process share.
unsafe impl Send for Returned {}

static RETURNED: Mutex<Vec<Returned>> = Mutex::new(Vec::new());

/// The most arguments that are kept for the same program's next run.
const RETURNED_MAX: usize = 16;

/// Words for which a list has room at first; more than most programs get.
const WORDS: usize = 256;

impl Arguments {
    /// Arguments for a program that ends before they are dropped.
    pub(super) fn new(args: &[Bytes]) -> Result<Self> {
        let mut strings = Vec::with_capacity(args.len());
        for Bytes(arg) in args {
            let arg = CString::new(arg.as_slice())
                .map_err(|_| Error::invalid("a program argument with a NUL byte"))?;
            strings.push(arg.into_bytes_with_nul());
        }
        let mut list = Vec::with_capacity(WORDS);
        // Takes half the time of `extend`, which asks each of the joined iterators for each word.
        words(&strings).for_each(|word| list.push(word));
        let arguments = Self { words: list, count: strings.len(), strings };
        arguments.name_process();
        Ok(arguments)
    }

    /// Arguments that are never freed: programs keep pointers into theirs. Their environment becomes the C library's.
    pub(super) fn for_good(args: &[Bytes]) -> Result<ForGood> {
        let mut returned = RETURNED.lock();
        let same = returned.iter().position(|Returned(one)| one.is_as_new(args));
        let arguments = match same {
            // A program that runs again and again takes memory once.
            Some(at) => {
                let kept = returned.swap_remove(at).0;
                kept.name_process();
                kept
            }
            None => ManuallyDrop::new(Self::new(args)?),
        };
        drop(returned);
        let environment = arguments.words[arguments.count + 2..].as_ptr();
        // SAFETY: the list is never freed and ends with a null, and no program runs yet.
        unsafe { environ = environment };
        Ok(ForGood(arguments))
    }

    /// Whether a program that gets these cannot tell them from new ones. A program may have changed its own.
    fn is_as_new(&self, args: &[Bytes]) -> bool {
        let has = |(text, Bytes(arg)): (&Vec<u8>, &Bytes)| text.strip_suffix(&[0]) == Some(arg);
        self.strings.len() == args.len()
            && self.strings.iter().zip(args).all(has)
            && self.words.iter().copied().eq(words(&self.strings))
    }

    /// Names the process after the program.
    fn name_process(&self) {
        let name = self.strings.first().and_then(|name| CStr::from_bytes_until_nul(name).ok());
        name.into_iter().for_each(set_name);
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        reason = "argc is an int"
    )]
    /// Calls `main` or an initializer with these arguments.
    ///
    /// # Safety
    ///
    /// `function` must be the address of one.
    pub(super) unsafe fn pass_to(&self, function: ExecutorAddr) -> Result<c_int> {
        // SAFETY: reads a pointer that the C library owns.
        let environment = unsafe { environ };
        // SAFETY: the caller vouches for the function.
        unsafe { enter::main(function, self.count as c_int, self.words[1..].as_ptr(), environment) }
    }

    /// Starts a program with these arguments on its stack.
    ///
    /// # Safety
    ///
    /// As for [`start::start`].
    pub(super) unsafe fn start(&self, function: ExecutorAddr) -> ! {
        // SAFETY: the caller vouches for the function.
        unsafe { start::start(function, &self.words) }
    }
}

impl Deref for ForGood {
    type Target = Arguments;

    fn deref(&self) -> &Arguments {
        &self.0
    }
}

impl Drop for ForGood {
    fn drop(&mut self) {
        let mut returned = RETURNED.lock();
        if returned.len() == RETURNED_MAX {
            // The oldest one stays where it is until the process ends.
            returned.remove(0);
        }
        // SAFETY: this is the last use of the field.
        returned.push(Returned(ManuallyDrop::new(unsafe { ManuallyDrop::take(&mut self.0) })));
    }
}

unsafe extern "C" {
    static mut environ: *const *const c_char;
}

/// A service manager names the process that it has started in variables. If they name the process `parent`, whose program this
/// process runs, they name this process from now on. No thread of the process may use the environment meanwhile.
pub(crate) fn take_over_service(parent: i32) {
    let parent = parent.to_string();
    for name in ["LISTEN_PID", "WATCHDOG_PID"] {
        if std::env::var(name).is_ok_and(|number| number == parent) {
            // SAFETY: the caller vouches for the other threads.
            unsafe { std::env::set_var(name, std::process::id().to_string()) };
        }
    }
}

/// The kernel's words to this process at its start; empty without `/proc`. The file is read once: that takes longer than a run.
fn auxiliary_vector() -> &'static [usize] {
    static VECTOR: OnceLock<Vec<usize>> = OnceLock::new();
    VECTOR.get_or_init(|| {
        let bytes = std::fs::read("/proc/self/auxv").unwrap_or_default();
        let (words, _) = bytes.as_chunks();
        words.iter().map(|word| usize::from_ne_bytes(*word)).collect()
    })
}

/// The words of a program with these arguments, in the environment that the C library has.
fn words(strings: &[Vec<u8>]) -> impl Iterator<Item = *const c_char> {
    let number = std::ptr::without_provenance::<c_char>;
    let null = || std::iter::once(std::ptr::null());
    let arguments = strings.iter().map(|text| text.as_ptr().cast());
    let auxiliary = auxiliary_vector().iter().map(move |word| number(*word));
    std::iter::once(number(strings.len()))
        .chain(arguments)
        .chain(null())
        .chain(environment())
        .chain(null())
        .chain(auxiliary)
        .chain(null())
        .chain(null())
}

/// The strings of the environment that the C library has.
fn environment() -> impl Iterator<Item = *const c_char> {
    // SAFETY: reads a pointer that the C library owns.
    let mut variable = unsafe { environ };
    std::iter::from_fn(move || {
        if variable.is_null() {
            return None;
        }
        // SAFETY: the environment is a list of strings, and this entry is not behind its null.
        let text = unsafe { *variable };
        variable = variable.wrapping_add(1);
        (!text.is_null()).then_some(text)
    })
    .fuse()
}
