//! The languages of functions, by the functions with which they ask for cleanups: their personalities.
//!
//! C++ lets an interruption pass its handlers for every exception, which throw it again or end it. Rust, and perhaps others, end the
//! process there.
#![allow(unsafe_code, reason = "reads unwind information, and finds functions by name")]

use std::ffi::c_void;

use super::cursor::Cursor;
use crate::sync::{AtomicU64, Ordering};

/// The personalities of C++ and of C.
static KNOWN: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];

/// Finds the personalities, for the signal's handler.
pub(in crate::executor::interrupt) fn prepare() {
    for (word, name) in KNOWN.iter().zip([c"__gxx_personality_v0", c"__gcc_personality_v0"]) {
        // SAFETY: the name is a C string.
        let function = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
        word.store(function.expose_provenance() as u64, Ordering::Relaxed);
    }
}

/// True if the function with this instruction is of C++ or of C.
pub(in crate::executor::interrupt) fn are_known(address: u64) -> bool {
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
    let common = link.checked_sub(cursor.little_endian(4))?;
    // Its length and its identifier go ahead.
    cursor = Cursor(common + 8);
    let version = cursor.byte();
    let mut letters = [0_u8; 8];
    for letter in &mut letters {
        *letter = cursor.byte();
        if *letter == 0 {
            break;
        }
    }
    cursor.uleb128();
    cursor.uleb128();
    if version == 1 {
        cursor.byte();
    } else {
        cursor.uleb128();
    }
    if letters[0] != b'z' {
        return None;
    }
    cursor.uleb128();
    for letter in letters.into_iter().skip(1) {
        match letter {
            b'P' => {
                let encoding = cursor.byte();
                return encoded(&mut cursor, encoding);
            }
            b'L' | b'R' => _ = cursor.byte(),
            b'S' | b'B' => {}
            _ => return None,
        }
    }
    None
}

/// An address with this encoding: absolute or relative to itself, perhaps of a word that holds it.
fn encoded(cursor: &mut Cursor, encoding: u8) -> Option<u64> {
    let here = cursor.0;
    let value = match encoding & 0x0f {
        0x00 | 0x04 | 0x0c => cursor.little_endian(8),
        0x03 => cursor.little_endian(4),
        0x0b => sign_extended(cursor.little_endian(4)),
        _ => return None,
    };
    let value = match encoding & 0x70 {
        0x00 => value,
        0x10 => here.wrapping_add(value),
        _ => return None,
    };
    Some(if encoding & 0x80 != 0 { Cursor(value).little_endian(8) } else { value })
}

/// A number of 32 bits with its sign.
fn sign_extended(word: u64) -> u64 {
    (word << 32).cast_signed().wrapping_shr(32).cast_unsigned()
}

unsafe extern "C" {
    fn _Unwind_Find_FDE(pc: *const c_void, bases: *mut [*const c_void; 3]) -> *const c_void;
}
