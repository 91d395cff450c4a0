//! By a worker that was forked, and may read and write its socket only.
#![allow(unsafe_code, reason = "forks, and ends the fork")]

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use crate::zlib_here;

const BYTES_MAX: usize = 1 << 20;

pub(crate) struct Worker {
    socket: File,
}

impl Worker {
    pub(crate) fn start() -> Result<Self, Box<dyn std::error::Error>> {
        let (ours, theirs) = UnixStream::pair()?;
        // SAFETY: the process has one thread.
        match unsafe { libc::fork() } {
            -1 => Err(std::io::Error::last_os_error().into()),
            0 => {
                drop(ours);
                serve(File::from(OwnedFd::from(theirs)))
            }
            _ => Ok(Self { socket: File::from(OwnedFd::from(ours)) }),
        }
    }

    pub(crate) fn inflate(
        &mut self,
        from: &[u8],
        to: &mut [u8],
    ) -> Result<usize, Box<dyn std::error::Error>> {
        self.socket.write_all(&u32::try_from(from.len())?.to_le_bytes())?;
        self.socket.write_all(from)?;
        let mut length = [0; 4];
        self.socket.read_exact(&mut length)?;
        let length = u32::from_le_bytes(length) as usize;
        self.socket.read_exact(to.get_mut(..length).ok_or("the worker says too much")?)?;
        Ok(length)
    }
}

fn serve(mut socket: File) -> ! {
    let (mut from, mut to) = (vec![0; BYTES_MAX], vec![0; BYTES_MAX]);
    let _ = zlib_here::inflate(&[], &mut to);
    // SAFETY: the mode takes no pointer.
    let confined = unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_STRICT) };
    let mut turn = || {
        let mut length = [0; 4];
        socket.read_exact(&mut length).ok()?;
        let from = from.get_mut(..u32::from_le_bytes(length) as usize)?;
        socket.read_exact(from).ok()?;
        let length = zlib_here::inflate(from, &mut to).ok()?;
        socket.write_all(&u32::try_from(length).ok()?.to_le_bytes()).ok()?;
        socket.write_all(&to[..length]).ok()
    };
    while confined == 0 && turn().is_some() {}
    // SAFETY: the call does not return. Strict seccomp allows `exit`, and not `exit_group`.
    unsafe { libc::syscall(libc::SYS_exit, 0) };
    unreachable!("the process has ended")
}
