//! Memory of this process by address, mapped or not: an address that cannot be read or written is an error, not a fault.
//!
//! The kernel copies and checks, as when one process reads another. Where a policy refuses that, bytes go through a pipe, page
//! by page.

use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsRawFd, OwnedFd};

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sys::uio::{RemoteIoVec, process_vm_readv, process_vm_writev};
use nix::unistd::{Pid, pipe2};

use crate::error::{Error, Result};
use crate::limits::PAGE_BYTES;

/// `UIO_MAXIOV`: parts that the kernel takes in one call.
const PARTS_MAX: usize = 1024;

/// Reads parts of this process's memory, each an address and a size, one after the other into `out`. That has the length of all
/// parts together.
///
/// # Errors
///
/// When a part cannot be read; the message has its number and address. When descriptors run out and a pipe is needed.
pub(crate) fn read(parts: &[(u64, usize)], out: &mut [u8]) -> Result<()> {
    let mut pipe = None;
    walk("reading", parts, |done, remote| {
        let out = &mut out[done..];
        if pipe.is_none() {
            let copied = process_vm_readv(Pid::this(), &mut [IoSliceMut::new(out)], remote);
            if !is_refused(copied) {
                return copied;
            }
        }
        let pipe = match &mut pipe {
            Some(pipe) => pipe,
            none => none.insert(Pipe::new()?),
        };
        let (address, bytes) = first_of(remote);
        pipe.read(address, &mut out[..bytes])
    })
}

/// Writes `bytes` into parts of this process's memory, each an address and a size, in order.
///
/// # Errors
///
/// When a part cannot be written; the message has its number and address, and the parts before it are written. When descriptors
/// run out and a pipe is needed.
///
/// # Safety
///
/// No code may rely on the memory to stay unchanged.
pub(crate) unsafe fn write(parts: &[(u64, usize)], bytes: &[u8]) -> Result<()> {
    let mut pipe = None;
    walk("writing", parts, |done, remote| {
        let bytes = &bytes[done..];
        if pipe.is_none() {
            let copied = process_vm_writev(Pid::this(), &[IoSlice::new(bytes)], remote);
            if !is_refused(copied) {
                return copied;
            }
        }
        let pipe = match &mut pipe {
            Some(pipe) => pipe,
            none => none.insert(Pipe::new()?),
        };
        let (address, count) = first_of(remote);
        // SAFETY: the caller vouches for the memory there.
        unsafe { pipe.write(address, &bytes[..count]) }
    })
}

/// True when a policy keeps processes from reading or writing each other's memory, their own included.
fn is_refused(copied: nix::Result<usize>) -> bool {
    matches!(copied, Err(Errno::EPERM | Errno::ENOSYS))
}

/// The next part to transfer, up to the end of its page.
#[expect(clippy::cast_possible_truncation, reason = "a page is smaller than memory")]
fn first_of(remote: &[RemoteIoVec]) -> (usize, usize) {
    let page = PAGE_BYTES as usize;
    remote.first().map_or((0, 0), |part| (part.base, part.len.min(page - part.base % page)))
}

/// A pipe of this process, empty between two uses. The kernel copies into it and out of it, and reports an address that it cannot
/// use.
struct Pipe {
    reader: OwnedFd,
    writer: OwnedFd,
}

impl Pipe {
    fn new() -> nix::Result<Self> {
        // Not blocking: after a copy that failed in the middle no read may wait.
        let (reader, writer) = pipe2(OFlag::O_CLOEXEC | OFlag::O_NONBLOCK)?;
        Ok(Self { reader, writer })
    }

    /// Reads at most a page, all of it or nothing.
    fn read(&self, address: usize, out: &mut [u8]) -> nix::Result<usize> {
        let from = std::ptr::with_exposed_provenance(address);
        // SAFETY: the kernel only reads there, and checks the address.
        let put = unsafe { libc::write(self.writer.as_raw_fd(), from, out.len()) };
        let put = Errno::result(put)?.unsigned_abs();
        nix::unistd::read(&self.reader, &mut out[..put])
    }

    /// Writes at most a page, all of it or nothing.
    ///
    /// # Safety
    ///
    /// No code may rely on the memory to stay unchanged.
    unsafe fn write(&self, address: usize, bytes: &[u8]) -> nix::Result<usize> {
        let put = nix::unistd::write(&self.writer, bytes)?;
        let to = std::ptr::with_exposed_provenance_mut(address);
        // SAFETY: the kernel checks the address; the caller vouches for the memory there.
        let taken = unsafe { libc::read(self.reader.as_raw_fd(), to, put) };
        Errno::result(taken).map(isize::unsigned_abs)
    }
}

/// Calls `transfer` with the bytes done so far and the rest of the parts, until all are done. It returns how many more bytes it
/// has done.
fn walk(
    what: &str,
    parts: &[(u64, usize)],
    mut transfer: impl FnMut(usize, &[RemoteIoVec]) -> nix::Result<usize>,
) -> Result<()> {
    let mut done = 0;
    // The first part that is not done, and the bytes of it that are.
    let (mut part, mut inside) = (0, 0);
    loop {
        while parts.get(part).is_some_and(|(_, bytes)| *bytes == inside) {
            (part, inside) = (part + 1, 0);
        }
        let Some(&(address, bytes)) = parts.get(part) else { return Ok(()) };
        let first = (address.wrapping_add(inside as u64), bytes - inside);
        let rest = parts[part + 1..].iter().copied().take(PARTS_MAX - 1);
        let remote = std::iter::once(first).chain(rest).map(|(address, len)| RemoteIoVec {
            base: usize::try_from(address).unwrap_or(usize::MAX),
            len,
        });
        let remote: Vec<_> = remote.collect();
        match transfer(done, &remote) {
            Ok(0) | Err(Errno::EFAULT) => {
                let at = first.0;
                return Err(Error::os(format!("{what} at {at:#x}, part {part}"), Errno::EFAULT));
            }
            Err(errno) => return Err(Error::os(format!("{what} memory by address"), errno)),
            Ok(mut more) => {
                done += more;
                while more > 0 {
                    let step = more.min(parts[part].1 - inside);
                    (more, inside) = (more - step, inside + step);
                    if inside == parts[part].1 {
                        (part, inside) = (part + 1, 0);
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::alone;

    fn address<T>(of: &T) -> u64 {
        std::ptr::from_ref(of).expose_provenance() as u64
    }

    #[test]
    fn many_parts_are_read_in_order() {
        let numbers: Vec<u16> = (0..5000).collect();
        let mut parts: Vec<_> = numbers.iter().map(|number| (address(number), 2)).collect();
        parts.insert(7, (0, 0));
        let mut out = vec![0; 10_000];
        read(&parts, &mut out).expect("readable");
        let expected: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        assert_eq!(out, expected);
    }

    #[test]
    fn a_bad_part_is_named_and_those_before_it_are_written() {
        let mut number = 0_u64;
        let at = std::ptr::from_mut(&mut number).expose_provenance() as u64;
        for bad in [0, 16, u64::MAX - 7, 1 << 63] {
            let parts = [(at, 2), (at + 2, 2), (bad, 4)];
            // SAFETY: the number is written through a pointer to it.
            let error = unsafe { write(&parts, &[1, 2, 3, 4, 5, 6, 7, 8]) }.expect_err("bad");
            assert!(error.to_string().contains(&format!("{bad:#x}, part 2")), "{error}");
            let mut found = [0; 4];
            read(&[(at, 4)], &mut found).expect("readable");
            assert_eq!(found, [1, 2, 3, 4]);
            let error = read(&parts, &mut [0; 8]).expect_err("bad");
            assert!(error.to_string().contains(&format!("{bad:#x}, part 2")), "{error}");
        }
    }

    #[test]
    fn where_a_policy_refuses_it_goes_through_a_pipe() {
        alone::run(
            "sys::memory::access::tests::where_a_policy_refuses_it_goes_through_a_pipe",
            || {
                alone::refuse(libc::SYS_process_vm_readv, &[], libc::EPERM);
                alone::refuse(libc::SYS_process_vm_writev, &[], libc::ENOSYS);
                many_parts_are_read_in_order();
                a_bad_part_is_named_and_those_before_it_are_written();
                let numbers: Vec<u32> = (0..50_000).collect();
                let mut out = vec![0; 200_000];
                read(&[(address(&numbers[0]), 200_000)], &mut out).expect("readable");
                let expected: Vec<u8> =
                    numbers.iter().flat_map(|number| number.to_ne_bytes()).collect();
                assert_eq!(out, expected);
                let mut copy = vec![0_u32; 50_000];
                let at = copy.as_mut_ptr().expose_provenance() as u64;
                // SAFETY: the numbers are written through a pointer to them.
                unsafe { write(&[(at, 7), (at + 7, 199_993)], &expected) }.expect("writable");
                assert_eq!(copy, numbers);
                // Constants can be read, and not written.
                static CONSTANT: [u64; 4] = [1, 2, 3, 4];
                let at = address(&CONSTANT);
                let mut found = [0; 32];
                read(&[(at, 32)], &mut found).expect("readable");
                assert_eq!(found[8], 2);
                // SAFETY: the kernel refuses, so nothing is written.
                unsafe { write(&[(at, 8)], &[0; 8]) }.expect_err("a constant");
                assert_eq!(CONSTANT[0], 1);
            },
        );
    }

    #[test]
    fn readable_pages_are_read_up_to_a_protected_page() {
        use nix::sys::mman::{MapFlags, ProtFlags, mmap_anonymous, mprotect, munmap};

        let bytes = std::num::NonZeroUsize::new(8192).expect("two pages");
        let readable = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: it replaces no mapping.
        let start = unsafe { mmap_anonymous(None, bytes, readable, MapFlags::MAP_PRIVATE) };
        let start = start.expect("memory");
        // SAFETY: two pages are mapped there.
        let second = unsafe { start.byte_add(4096) };
        // Not unmapped: another test would map its own memory there.
        // SAFETY: the page was just mapped, and nothing refers to it.
        unsafe { mprotect(second, 4096, ProtFlags::PROT_NONE) }.expect("protected");
        let at = start.as_ptr().expose_provenance() as u64;
        let pipe = Pipe::new().expect("a pipe");
        let mut page = [1; 4096];
        assert_eq!(pipe.read(start.as_ptr().addr(), &mut page), Ok(4096));
        assert_eq!(page, [0; 4096]);
        assert_eq!(pipe.read(start.as_ptr().addr() + 4096, &mut page), Err(Errno::EFAULT));
        let error =
            read(&[(at + 4000, 96), (at + 4096, 8)], &mut [0; 104]).expect_err("unreadable");
        assert!(error.to_string().contains("part 1"), "{error}");
        // SAFETY: the pages were mapped here, and nothing refers to them.
        unsafe { munmap(start, 8192) }.expect("unmapped");
    }
}
