//! A descriptor that is used by its number long after it was opened.
//!
//! The host may have closed the number meanwhile, as daemons close every descriptor that they find. It may have opened a file of its
//! own on the number. So each use and the close compare the file behind the number with the file that was opened.

use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use nix::errno::Errno;
use nix::sys::stat::fstat;

use crate::error::{Error, Result};

/// A descriptor and the file that it was opened for. Dropping it closes the number if that still is the file's.
#[derive(Debug)]
pub(crate) struct Identified {
    descriptor: ManuallyDrop<OwnedFd>,
    /// `None` when the system does not tell; then no file is taken for another.
    identity: Option<Identity>,
}

/// The device and the number of a file. Files of memory and sockets have numbers of their own. Kernels before 6.9 number all process
/// descriptors alike, and any kernel the descriptors of `epoll` and `eventfd`.
type Identity = (u64, u64);

impl Identified {
    pub(crate) fn new(descriptor: OwnedFd) -> Self {
        let identity = identity(descriptor.as_fd());
        Self { descriptor: ManuallyDrop::new(descriptor), identity }
    }

    /// True while the number names the file.
    pub(crate) fn is_open(&self) -> bool {
        let now = identity(self.descriptor.as_fd());
        now.is_some() && (self.identity.is_none() || now == self.identity)
    }

    /// The descriptor, for one use.
    ///
    /// # Errors
    ///
    /// When other code has closed the number. The cause is [`Errno::EBADF`].
    pub(crate) fn file(&self) -> Result<BorrowedFd<'_>> {
        if self.is_open() {
            return Ok(self.descriptor.as_fd());
        }
        let number = self.descriptor.as_raw_fd();
        let what = format!(
            "descriptor {number} belongs to this library, and this process has closed it: leave descriptors alone that it has not \
             opened, or drop what uses them first"
        );
        Err(Error::os(what, Errno::EBADF))
    }

    /// The number, whatever file it is of now. For code that only asks about the file.
    pub(crate) fn unchecked(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }

    /// The descriptor itself.
    ///
    /// # Errors
    ///
    /// As [`Identified::file`].
    pub(crate) fn into_owned(mut self) -> Result<OwnedFd> {
        self.file()?;
        // SAFETY: the value is forgotten, so this is the last use of the field.
        let descriptor = unsafe { ManuallyDrop::take(&mut self.descriptor) };
        std::mem::forget(self);
        Ok(descriptor)
    }
}

impl Drop for Identified {
    fn drop(&mut self) {
        if self.is_open() {
            // SAFETY: this is the last use of the field.
            unsafe { ManuallyDrop::drop(&mut self.descriptor) };
        }
    }
}

fn identity(descriptor: BorrowedFd<'_>) -> Option<Identity> {
    let status = fstat(descriptor).ok()?;
    Some((status.st_dev, status.st_ino))
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::{Read, Seek, Write};
    use std::os::fd::{FromRawFd, IntoRawFd};

    use super::*;

    /// H2.
    #[test]
    fn a_number_of_another_file_is_neither_used_nor_closed() {
        let ours = Identified::new(tempfile::tempfile().expect("a file").into());
        assert!(ours.file().is_ok());
        let number = ours.unchecked().as_raw_fd();
        let mut users = tempfile::tempfile().expect("a file");
        users.write_all(b"text").expect("written");
        // SAFETY: the number names `ours`, which sees that it is another file's.
        let moved = unsafe { libc::dup2(users.as_raw_fd(), number) };
        assert_eq!(moved, number);
        let error = ours.file().expect_err("another file");
        assert_eq!(error.raw_os_error(), Some(libc::EBADF), "{error}");
        assert!(error.to_string().contains(&format!("descriptor {number} ")), "{error}");
        drop(ours);
        // SAFETY: the number is the duplicate's, which has no other owner now.
        let mut duplicate = unsafe { File::from_raw_fd(number) };
        duplicate.rewind().expect("open");
        let mut text = String::new();
        duplicate.read_to_string(&mut text).expect("open");
        assert_eq!(text, "text");
        let own = Identified::new(duplicate.into());
        assert_eq!(own.into_owned().expect("open").into_raw_fd(), number);
        // SAFETY: the number was just taken out of its owner.
        drop(unsafe { OwnedFd::from_raw_fd(number) });
    }
}
