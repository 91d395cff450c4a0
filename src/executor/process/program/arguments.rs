//! What a program gets when it starts: its arguments, its environment, and what the kernel tells programs.
//!
//! They lie behind each other as on the stack of a new process, because some programs find one from the other. The order is the
//! number of arguments, `argv`, a null, `envp`, a null, and the auxiliary vector.
//!
//! Invariant: every list ends with a null, and every pointer in one is to a string that lives as long.
#![allow(
    unsafe_code,
    reason = "reads and sets the environment of the C library, and calls a program"
)]

use std::ffi::{CString, c_char, c_int};
use std::mem::ManuallyDrop;
use std::ops::Deref;

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

impl Arguments {
    /// Arguments for a program that ends before they are dropped.
    pub(super) fn new(args: &[Bytes]) -> Result<Self> {
        let mut strings = Vec::with_capacity(args.len());
        for Bytes(arg) in args {
            let arg = CString::new(arg.as_slice())
                .map_err(|_| Error::invalid("a program argument with a NUL byte"))?;
            if strings.is_empty() {
                set_name(&arg);
            }
            strings.push(arg.into_bytes_with_nul());
        }
        let number = |number: usize| std::ptr::without_provenance::<c_char>(number);
        let mut words = vec![number(strings.len())];
        words.extend(strings.iter_mut().map(|text| text.as_mut_ptr().cast_const().cast()));
        words.push(std::ptr::null());
        // SAFETY: reads a pointer that the C library owns.
        let mut variable = unsafe { environ };
        loop {
            let text = match variable.is_null() {
                true => std::ptr::null(),
                // SAFETY: the environment is a list of strings, and this entry is not behind its null.
                false => unsafe { *variable },
            };
            words.push(text);
            if text.is_null() {
                break;
            }
            variable = variable.wrapping_add(1);
        }
        // Without /proc the vector is empty.
        let auxiliary = std::fs::read("/proc/self/auxv").unwrap_or_default();
        let auxiliary = auxiliary.chunks_exact(size_of::<usize>());
        words.extend(
            auxiliary.filter_map(|word| Some(number(usize::from_ne_bytes(word.try_into().ok()?)))),
        );
        words.extend([std::ptr::null(); 2]);
        Ok(Self { words, count: strings.len(), strings })
    }

    /// Arguments that are never freed: programs keep pointers into theirs. Their environment becomes that of the C library.
    pub(super) fn for_good(args: &[Bytes]) -> Result<ForGood> {
        let new = Self::new(args)?;
        let mut returned = RETURNED.lock();
        let same = returned.iter().position(|Returned(one)| one.is_same(&new));
        let arguments = match same {
            // A program that runs again and again takes memory once.
            Some(at) => returned.swap_remove(at).0,
            None => ManuallyDrop::new(new),
        };
        drop(returned);
        let environment = arguments.words[arguments.count + 2..].as_ptr();
        // SAFETY: the list lives for good and ends with a null, and no program runs yet.
        unsafe { environ = environment };
        Ok(ForGood(arguments))
    }

    /// Whether a program that gets these cannot tell them from the others. A program may have changed its own.
    fn is_same(&self, other: &Self) -> bool {
        let behind = |arguments: &Self| arguments.count + 1;
        let are_own = || {
            let own = self.strings.iter().map(|text| text.as_ptr().cast());
            self.words[1..].iter().copied().zip(own).all(|(word, own)| word == own)
        };
        self.strings == other.strings
            && are_own()
            && self.words[behind(self)..] == other.words[behind(other)..]
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
            // The oldest one stays where it is, for good.
            returned.remove(0);
        }
        // SAFETY: this is the last use of the field.
        returned.push(Returned(ManuallyDrop::new(unsafe { ManuallyDrop::take(&mut self.0) })));
    }
}

unsafe extern "C" {
    static mut environ: *const *const c_char;
}
