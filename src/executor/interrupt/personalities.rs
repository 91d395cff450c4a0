//! The languages of functions, by the functions with which they ask for cleanups: their personalities.
//!
//! C++ lets an interruption pass its handlers for every exception, which throw it again or end it. Rust, and perhaps others, end the
//! process there.
#![allow(unsafe_code, reason = "reads unwind information, and finds functions by name")]

use std::ffi::c_void;

use crate::executor::process::loaded::pointer;
use crate::sync::{AtomicU64, Ordering};

/// The personalities of C++ and of C.
static KNOWN: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];

/// Finds the personalities, for the signal's handler.
pub(super) fn prepare() {
    for (word, name) in KNOWN.iter().zip([c"__gxx_personality_v0", c"__gcc_personality_v0"]) {
        // SAFETY: the name is a C string.
        let function = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
        word.store(function.expose_provenance() as u64, Ordering::Relaxed);
    }
}

/// True if the function with this instruction is of C++ or of C.
pub(super) fn are_known(address: u64) -> bool {
    of(address).is_some_and(|personality| {
        KNOWN.iter().any(|known| known.load(Ordering::Relaxed) == personality)
    })
}

/// The personality of the function with this instruction, by the "Linux Standard Base", chapter "Exception Frames".
fn of(address: u64) -> Option<u64> {
    let mut bases = [std::ptr::null(); 3];
    let function = std::ptr::with_exposed_provenance(usize::try_from(address).ok()?);
    // SAFETY: the search takes any address, and there is room for the three words of a result.
    let found = unsafe { _Unwind_Find_FDE(function, &raw mut bases) };
    if found.is_null() {
        return None;
    }
    let link = found.expose_provenance() as u64 + 4;
    let mut cursor = Cursor(link);
    let common = link.checked_sub(cursor.number(4))?;
    // Its length and its identifier go ahead.
    cursor = Cursor(common + 8);
    let version = cursor.number(1);
    let mut letters = [0_u64; 8];
    for letter in &mut letters {
        *letter = cursor.number(1);
        if *letter == 0 {
            break;
        }
    }
    cursor.skip_leb128();
    cursor.skip_leb128();
    if version == 1 {
        cursor.number(1);
    } else {
        cursor.skip_leb128()
    }
    if letters[0] != u64::from(b'z') {
        return None;
    }
    cursor.skip_leb128();
    for letter in letters.into_iter().skip(1) {
        match u8::try_from(letter).ok()? {
            b'P' => {
                let encoding = cursor.number(1);
                return cursor.address(encoding);
            }
            b'L' | b'R' => _ = cursor.number(1),
            b'S' | b'B' => {}
            _ => return None,
        }
    }
    None
}

/// The address of the next byte to read.
struct Cursor(u64);

impl Cursor {
    fn number(&mut self, bytes: u32) -> u64 {
        let mut value = 0;
        for at in 0..bytes {
            // SAFETY: the unwinder has found the record, which is mapped with its code.
            value |= u64::from(unsafe { *pointer::<u8>(self.0) }) << (8 * at);
            self.0 += 1;
        }
        value
    }

    fn skip_leb128(&mut self) {
        while self.number(1) & 0x80 != 0 {}
    }

    /// An address with this encoding: absolute or relative to itself, perhaps of a word that holds it.
    fn address(&mut self, encoding: u64) -> Option<u64> {
        let here = self.0;
        let value = match encoding & 0x0f {
            0x00 | 0x04 | 0x0c => self.number(8),
            0x03 => self.number(4),
            0x0b => sign_extended(self.number(4)),
            _ => return None,
        };
        let value = match encoding & 0x70 {
            0x00 => value,
            0x10 => here.wrapping_add(value),
            _ => return None,
        };
        Some(if encoding & 0x80 != 0 { Cursor(value).number(8) } else { value })
    }
}

/// A number of 32 bits with its sign.
fn sign_extended(word: u64) -> u64 {
    (word << 32).cast_signed().wrapping_shr(32).cast_unsigned()
}

unsafe extern "C" {
    fn _Unwind_Find_FDE(pc: *const c_void, bases: *mut [*const c_void; 3]) -> *const c_void;
}
