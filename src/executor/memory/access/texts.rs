//! Strings of a library, read as the library itself reads them.
//!
//! The reads need no system call, as [`access`](super) does. An address that cannot be read ends the process, as in a function of the
//! library. The controller gets a death for an answer.
#![allow(unsafe_code, reason = "reads by address")]

use std::ffi::{CStr, c_char};

use crate::ExecutorAddr;
use crate::call::contract::ReadTextArrays;
use crate::error::{Error, Result};
use crate::executor::entry::wrapper::{Serve, offer};
use crate::limits::{LIBRARY_TEXT_BYTES_MAX, LIBRARY_TEXTS_MAX};
use crate::sps::Bytes;

/// The name and address of the function in this file.
pub(crate) fn functions() -> [(String, ExecutorAddr); 1] {
    [offer::<ReadTextArrays>()]
}

impl Serve for ReadTextArrays {
    fn serve((arrays, count): (Vec<ExecutorAddr>, u64)) -> Result<Vec<Option<Bytes>>> {
        if count > LIBRARY_TEXTS_MAX {
            return Err(Error::exhausted(format!(
                "an array of {count} strings, which are more than {LIBRARY_TEXTS_MAX}"
            )));
        }
        let mut bytes = 0;
        let mut texts = Vec::new();
        for array in arrays.into_iter().filter(|array| !array.is_null()) {
            for at in 0..count {
                let place = array.get().wrapping_add(at * 8);
                let place = usize::try_from(place).unwrap_or(0) as *const *const c_char;
                // SAFETY: the library has said that an array of pointers is here. If not, this process ends, which is the library's.
                let text = unsafe { place.read_unaligned() };
                let text = text_at(text);
                bytes += text.as_ref().map_or(0, |text| text.0.len());
                if bytes > LIBRARY_TEXT_BYTES_MAX {
                    return Err(Error::exhausted(format!(
                        "strings of more than {LIBRARY_TEXT_BYTES_MAX} bytes"
                    )));
                }
                texts.push(text);
            }
        }
        Ok(texts)
    }
}

/// A copy of the string at an address, unless that is null.
fn text_at(text: *const c_char) -> Option<Bytes> {
    if text.is_null() {
        return None;
    }
    // SAFETY: the library has said that a string is here. If not, this process ends, which is the library's.
    let text = unsafe { CStr::from_ptr(text) };
    Some(Bytes(text.to_bytes().to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_of_strings_are_read_by_one_message() {
        let values = [c"one".as_ptr(), std::ptr::null(), c"".as_ptr()];
        let names = [c"a".as_ptr(), c"b".as_ptr(), c"c".as_ptr()];
        let arrays =
            [values.as_ptr().addr() as u64, 0, names.as_ptr().addr() as u64].map(ExecutorAddr::new);
        let texts = ReadTextArrays::serve((arrays.to_vec(), 3)).expect("strings");
        let texts: Vec<_> = texts.iter().map(|text| text.as_ref().map(|text| &*text.0)).collect();
        let due: [Option<&[u8]>; 6] =
            [Some(b"one"), None, Some(b""), Some(b"a"), Some(b"b"), Some(b"c")];
        assert_eq!(texts, due);
    }

    #[test]
    fn too_many_strings_are_refused() {
        let refused = ReadTextArrays::serve((vec![ExecutorAddr::new(8)], LIBRARY_TEXTS_MAX + 1));
        assert!(refused.is_err_and(|error| error.to_string().contains("65537")));
    }
}
