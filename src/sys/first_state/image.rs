//! The image: a child that never runs, and so has the memory of the first state.

use super::book::Book;
use super::ranges::Range;
use super::refusal::{Refusal, Why};
use super::system::call;

/// The ranges that one system call copies.
pub(super) const RANGES_AT_ONCE: usize = 256;

/// Forks the image. It ends with the main thread of this process. No `wait` of the program finds it, as it sends no signal at its end.
pub(super) fn fork(book: &mut Book) -> Result<(), Refusal> {
    // SAFETY: it has no requirements.
    let parent = unsafe { libc::getpid() };
    // SAFETY: the child goes on in a copy of this stack. It has this thread alone, and takes no lock.
    let child = unsafe { call(libc::SYS_clone, [0; 5]) }?;
    if child == 0 {
        stay(parent)
    }
    book.image = i32::try_from(child).map_err(|_| Refusal::new(Why::Image, 0))?;
    check(book)
}

/// Stays in the child until its parent ends.
fn stay(parent: i32) -> ! {
    let kill = libc::SIGKILL.cast_unsigned() as usize;
    // SAFETY: it has no requirements.
    let _ = unsafe { call(libc::SYS_prctl, [1, kill, 0, 0, 0]) };
    // SAFETY: no value of this process is used any more, as it only waits.
    let _ = unsafe { call(libc::SYS_close_range, [0, u32::MAX as usize, 0, 0, 0]) };
    // SAFETY: it has no requirements.
    while unsafe { libc::getppid() } == parent {
        // SAFETY: it has no requirements. All signals are blocked, so it returns never, or once for a debugger.
        let _ = unsafe { call(libc::SYS_ppoll, [0; 5]) };
    }
    // SAFETY: the process has no state to lose.
    unsafe { libc::_exit(0) }
}

/// Ends the image, and collects it.
pub(super) fn end(image: i32) {
    // SAFETY: the image is a child of this process that was not collected.
    unsafe { libc::kill(image, libc::SIGKILL) };
    // SAFETY: no status is asked for.
    unsafe { libc::waitpid(image, std::ptr::null_mut(), libc::__WALL) };
}

/// Looks whether the image is there, and may be read.
pub(super) fn check(book: &Book) -> Result<(), Refusal> {
    let mut word = 0_u64;
    let (local, remote) = ((&raw mut word).addr() as u64, (&raw const *book).addr() as u64);
    match copy(book.image, &[(local, remote, 8)]) {
        Ok(8) => Ok(()),
        Ok(_) => Err(Refusal::new(Why::Image, 0)),
        Err(refusal) if refusal.is_kernel(libc::ESRCH) => Err(Refusal::new(Why::Image, 0)),
        Err(refusal) => Err(refusal),
    }
}

/// Copies memory of the image to where it was at first.
pub(super) fn copy_back(image: i32, range: Range) -> Result<(), Refusal> {
    let copied = copy(image, &[(range.start, range.start, range.bytes())])?;
    if copied as u64 == range.bytes() { Ok(()) } else { Err(Refusal::new(Why::Image, 0)) }
}

/// Copies memory of a process: address here, address there, bytes. At most [`RANGES_AT_ONCE`]. The bytes that were copied.
pub(super) fn copy(process: i32, places: &[(u64, u64, u64)]) -> Result<usize, Refusal> {
    let none = [0_u64; 2];
    let (mut local, mut remote) = ([none; RANGES_AT_ONCE], [none; RANGES_AT_ONCE]);
    for (place, (here, there)) in places.iter().zip(local.iter_mut().zip(&mut remote)) {
        (*here, *there) = ([place.0, place.2], [place.1, place.2]);
    }
    let process = process.cast_unsigned() as usize;
    let (count, remote) = (places.len(), remote.as_ptr().addr());
    // SAFETY: it writes memory that the caller puts back or has for that, and reads these lists.
    unsafe {
        libc::syscall(
            libc::SYS_process_vm_readv,
            process,
            local.as_ptr().addr(),
            count,
            remote,
            count,
            0_usize,
        )
    }
    .try_into()
    .map_err(|_| Refusal::kernel(nix::errno::Errno::last_raw()))
}
