//! Descriptors: those that were opened are closed, and the others get their offsets and flags back.

use std::mem::MaybeUninit;

use super::book::{Book, Descriptor};
use super::refusal::{Refusal, Why};
use super::system;

/// Lists the open descriptors.
pub(super) fn keep(book: &mut Book) -> Result<(), Refusal> {
    let Book { descriptors, text, folder, .. } = book;
    descriptors.clear();
    system::numbers_in(c"/proc/self/fd", text, |number, own| {
        let number = i32::try_from(number).unwrap_or(-1);
        match file(number) {
            Some((device, inode)) if number != own => {
                let new = Descriptor { number, device, inode, flags: 0, status: 0, offset: 0 };
                descriptors.push(state(new))
            }
            _ => Ok(()),
        }
    })?;
    let (at, bytes) = (folder.as_mut_ptr().addr(), folder.len());
    // SAFETY: the buffer has this many bytes.
    unsafe { system::call(libc::SYS_getcwd, [at, bytes, 0, 0, 0]) }?;
    // SAFETY: it has no requirements.
    let umask = unsafe { libc::umask(0o77) };
    // SAFETY: it has no requirements.
    unsafe { libc::umask(umask) };
    book.umask = umask;
    Ok(())
}

/// Looks whether the descriptors of the first state are still open.
pub(super) fn check(book: &mut Book) -> Result<(), Refusal> {
    let Book { descriptors, now_descriptors, .. } = book;
    now_descriptors.clear();
    for first in descriptors.all() {
        let is_own = [book.notes, book.pagemap, book.maps].contains(&first.number);
        if file(first.number) != Some((first.device, first.inode)) {
            let why = if is_own { Why::OwnDescriptor } else { Why::Descriptor };
            return Err(Refusal::new(why, u64::from(first.number.unsigned_abs())));
        }
        now_descriptors.push(if is_own { *first } else { state(*first) })?;
    }
    Ok(())
}

pub(super) fn put_back(book: &Book) {
    let mut next = 0;
    for (first, now) in book.descriptors.all().iter().zip(book.now_descriptors.all()) {
        close_between(next, first.number);
        next = first.number + 1;
        if now.offset != first.offset && first.offset >= 0 {
            // SAFETY: it has no requirements.
            unsafe { libc::lseek(first.number, first.offset, libc::SEEK_SET) };
        }
        if now.flags != first.flags {
            // SAFETY: the command takes flags.
            unsafe { libc::fcntl(first.number, libc::F_SETFD, first.flags) };
        }
        if now.status != first.status {
            // SAFETY: the command takes flags.
            unsafe { libc::fcntl(first.number, libc::F_SETFL, first.status) };
        }
    }
    close_between(next, i32::MAX);
    let (at, bytes) = (book.text.as_ptr().addr(), book.folder.len());
    // SAFETY: the buffer has this many bytes.
    let now = unsafe { system::call(libc::SYS_getcwd, [at, bytes, 0, 0, 0]) };
    if now.is_ok_and(|bytes| book.text[..bytes] != book.folder[..bytes]) {
        // SAFETY: the path is a string that the kernel has written.
        let _ = unsafe { system::call(libc::SYS_chdir, [book.folder.as_ptr().addr(), 0, 0, 0, 0]) };
    }
    // SAFETY: it has no requirements.
    unsafe { libc::umask(book.umask) };
}

/// Closes the descriptors from `first` on below `end`.
fn close_between(first: i32, end: i32) {
    if first < end {
        let (first, last) = (first.cast_unsigned() as usize, (end - 1).cast_unsigned() as usize);
        // SAFETY: no value of the first state has a descriptor that is not in its list.
        let _ = unsafe { system::call(libc::SYS_close_range, [first, last, 0, 0, 0]) };
    }
}

/// The device and inode of a descriptor's file; `None` if it is not open.
fn file(number: i32) -> Option<(u64, u64)> {
    let mut found = MaybeUninit::<libc::stat>::zeroed();
    // SAFETY: the kernel writes a `stat`.
    if unsafe { libc::fstat(number, found.as_mut_ptr()) } != 0 {
        return None;
    }
    // SAFETY: it was zero, which is a value, and the kernel has written one.
    let found = unsafe { found.assume_init() };
    Some((found.st_dev, found.st_ino))
}

/// The present state of an open descriptor of this file.
fn state(of: Descriptor) -> Descriptor {
    // SAFETY: the command takes nothing.
    let flags = unsafe { libc::fcntl(of.number, libc::F_GETFD) };
    // SAFETY: the command takes nothing.
    let status = unsafe { libc::fcntl(of.number, libc::F_GETFL) };
    // SAFETY: it has no requirements.
    let offset = unsafe { libc::lseek(of.number, 0, libc::SEEK_CUR) };
    Descriptor { flags, status, offset, ..of }
}
