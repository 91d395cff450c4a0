//! System calls that need no heap.

use std::ffi::{CStr, c_long};

use super::book::COMPARED_BYTES;
use super::refusal::{Refusal, Why};

/// Makes a system call.
///
/// # Safety
///
/// Its arguments do not harm memory that is used otherwise.
pub(super) unsafe fn call(number: c_long, args: [usize; 5]) -> std::result::Result<usize, Refusal> {
    let [first, second, third, fourth, fifth] = args;
    // SAFETY: the caller vouches for the arguments.
    let result = unsafe { libc::syscall(number, first, second, third, fourth, fifth) };
    usize::try_from(result).map_err(|_| Refusal::kernel(nix::errno::Errno::last_raw()))
}

/// A number of bytes, or an address.
pub(super) fn size(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// The end of the heap, which is set before if `wanted` is not 0.
pub(super) fn end_of_heap(wanted: u64) -> u64 {
    // SAFETY: the caller gives back memory that is to be unmapped, or asks.
    let end = unsafe { libc::syscall(libc::SYS_brk, wanted) };
    end.cast_unsigned()
}

/// Opens a file of `/proc`. It is closed by [`close`].
pub(super) fn open(path: &CStr, flags: i32) -> std::result::Result<i32, Refusal> {
    let flags = (flags | libc::O_CLOEXEC).cast_unsigned() as usize;
    let args = [libc::AT_FDCWD as usize, path.as_ptr().addr(), flags, 0, 0];
    // SAFETY: the path is a string.
    let file = unsafe { call(libc::SYS_openat, args) }?;
    i32::try_from(file).map_err(|_| Refusal::kernel(libc::EMFILE))
}

/// The links of a folder: 2, and one for each folder in it.
pub(super) fn links(path: &CStr) -> std::result::Result<u64, Refusal> {
    let mut found = std::mem::MaybeUninit::<libc::statx>::zeroed();
    let (at, place) = (libc::AT_FDCWD, found.as_mut_ptr());
    // SAFETY: the path is a string, and the kernel writes a `statx`.
    if unsafe { libc::statx(at, path.as_ptr(), 0, libc::STATX_NLINK, place) } != 0 {
        return Err(Refusal::kernel(nix::errno::Errno::last_raw()));
    }
    // SAFETY: it was zero, which is a value, and the kernel has written one.
    Ok(u64::from(unsafe { found.assume_init() }.stx_nlink))
}

/// Closes a file that [`open`] has opened.
pub(super) fn close(file: i32) {
    // SAFETY: the caller has opened it, and uses it no more.
    unsafe { libc::close(file) };
}

/// Moves a descriptor out of the program's way, whose descriptors begin where they would without it.
pub(super) fn moved(file: i32) -> i32 {
    const NUMBER_MIN: usize = 800;
    let command = libc::F_DUPFD_CLOEXEC.cast_unsigned() as usize;
    // SAFETY: the command takes a number.
    let higher = unsafe {
        call(libc::SYS_fcntl, [file.cast_unsigned() as usize, command, NUMBER_MIN, 0, 0])
    };
    match higher.ok().and_then(|higher| i32::try_from(higher).ok()) {
        Some(higher) => {
            close(file);
            higher
        }
        None => file,
    }
}

/// Reads a file from its start the next time.
pub(super) fn rewind(file: i32) {
    // SAFETY: it has no requirements.
    unsafe { libc::lseek(file, 0, libc::SEEK_SET) };
}

/// Reads to the end of a file; the bytes read.
pub(super) fn read_all(file: i32, text: &mut [u8]) -> std::result::Result<usize, Refusal> {
    let mut bytes = 0;
    while bytes < text.len() {
        match read(file, &mut text[bytes..])? {
            0 => return Ok(bytes),
            more => bytes += more,
        }
    }
    Err(Refusal::new(Why::Full, bytes as u64))
}

/// Reads into `text`; the bytes read.
pub(super) fn read(file: i32, text: &mut [u8]) -> std::result::Result<usize, Refusal> {
    let args = [file.cast_unsigned() as usize, text.as_mut_ptr().addr(), text.len(), 0, 0];
    // SAFETY: the text has this many bytes.
    unsafe { call(libc::SYS_read, args) }
}

/// Runs `each` for the numbers that the names in a folder of `/proc` are, in order, and for the descriptor of the folder.
pub(super) fn numbers_in(
    path: &CStr,
    text: &mut [u8; COMPARED_BYTES],
    mut each: impl FnMut(u64, i32) -> std::result::Result<(), Refusal>,
) -> std::result::Result<(), Refusal> {
    let folder = open(path, libc::O_RDONLY | libc::O_DIRECTORY)?;
    let mut outcome = Ok(());
    while outcome.is_ok() {
        let args = [folder.cast_unsigned() as usize, text.as_mut_ptr().addr(), text.len(), 0, 0];
        // SAFETY: the text has this many bytes.
        let bytes = match unsafe { call(libc::SYS_getdents64, args) } {
            Ok(0) => break,
            Ok(bytes) => bytes,
            Err(refusal) => {
                outcome = Err(refusal);
                break;
            }
        };
        let mut at = 0;
        while at < bytes && outcome.is_ok() {
            // An entry: inode, offset, its bytes, its kind, its name.
            let length = usize::from(u16::from_ne_bytes([text[at + 16], text[at + 17]]));
            let name = &text[at + 19..at + length];
            if let Some(number) = decimal(name) {
                outcome = each(number, folder);
            }
            at += length;
        }
    }
    close(folder);
    outcome
}

/// The number that a name of digits is.
fn decimal(name: &[u8]) -> Option<u64> {
    let digits = name.iter().take_while(|byte| byte.is_ascii_digit()).count();
    if digits == 0 {
        return None;
    }
    Some(name[..digits].iter().fold(0, |number, digit| 10 * number + u64::from(digit - b'0')))
}

/// Takes a number of this radix from the front of a text.
pub(super) fn number(text: &mut &[u8], radix: u32) -> u64 {
    let mut number = 0;
    while let Some((first, rest)) = text.split_first() {
        let Some(digit) = char::from(*first).to_digit(radix) else { break };
        number = number * u64::from(radix) + u64::from(digit);
        *text = rest;
    }
    number
}

/// Leaves out the bytes at the front of a text for which this is true.
pub(super) fn skip(text: &mut &[u8], mut is_left_out: impl FnMut(u8) -> bool) {
    while let Some((first, rest)) = text.split_first()
        && is_left_out(*first)
    {
        *text = rest;
    }
}
