//! Memory of this process by address, whatever lies there: what cannot be read or written is an error, not a fault.
//!
//! The kernel copies, so that it finds out, as one process may read another.

use std::io::{IoSlice, IoSliceMut};

use nix::errno::Errno;
use nix::sys::uio::{RemoteIoVec, process_vm_readv, process_vm_writev};
use nix::unistd::Pid;

use crate::error::{Error, Result};

/// Parts that the kernel takes at once (`UIO_MAXIOV`).
const PARTS_MAX: usize = 1024;

/// Reads parts of this process's memory, each an address and its bytes, one after the other into `out`, which is as long as
/// all of them.
///
/// # Errors
///
/// When a part cannot be read: the message has its number and address. When the kernel does not let processes read
/// themselves.
pub(crate) fn read(parts: &[(u64, usize)], out: &mut [u8]) -> Result<()> {
    let pid = Pid::this();
    walk("reading", parts, |done, remote| {
        process_vm_readv(pid, &mut [IoSliceMut::new(&mut out[done..])], remote)
    })
}

/// Writes `bytes` into parts of this process's memory, each an address and its bytes, one after the other, in order.
///
/// # Errors
///
/// When a part cannot be written: the message has its number and address; those before it have been written. When the
/// kernel does not let processes write themselves.
///
/// # Safety
///
/// Nobody may rely on the memory to stay as it is.
pub(crate) unsafe fn write(parts: &[(u64, usize)], bytes: &[u8]) -> Result<()> {
    let pid = Pid::this();
    walk("writing", parts, |done, remote| {
        process_vm_writev(pid, &[IoSlice::new(&bytes[done..])], remote)
    })
}

/// Hands parts to `transfer` until all are done. It is told the bytes done so far, and says how many more there are now.
fn walk(
    what: &str,
    parts: &[(u64, usize)],
    mut transfer: impl FnMut(usize, &[RemoteIoVec]) -> nix::Result<usize>,
) -> Result<()> {
    let mut done = 0;
    // The first part that is not done, and how much of it is.
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
}
