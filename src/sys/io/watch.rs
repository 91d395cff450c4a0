//! Many descriptors that one thread waits for.
//!
//! The host may close the descriptors of this, as daemons do. The watch is lost then: it uses and closes none of the numbers.

use std::mem::ManuallyDrop;
use std::os::fd::BorrowedFd;
use std::os::unix::net::UnixDatagram;

use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};

use super::identified::Identified;
use crate::deadline::Deadline;
use crate::error::{Error, Result};

/// Descriptors by number, for one thread that waits until some are ready to be read. Other threads add and remove them meanwhile.
#[derive(Debug)]
pub(crate) struct Watch {
    all: ManuallyDrop<Epoll>,
    /// A socket, whose number among files is its own: an `eventfd` could not be told from one of the host's.
    flag: Identified,
}

/// The number of the flag, which no descriptor has.
const FLAG: u64 = u64::MAX;
/// Descriptors that one wait returns at most.
const READY_MAX: usize = 64;

impl Watch {
    /// Watches nothing yet. Takes two descriptors.
    ///
    /// # Errors
    ///
    /// When descriptors run out, or the system refuses.
    pub(crate) fn new() -> Result<Self> {
        let failed = |errno| Error::os("making a descriptor to wait for others", errno);
        let all = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).map_err(failed)?;
        // It is ready to be written from the beginning, and not waited for before the end.
        let flag = UnixDatagram::unbound()
            .map_err(|error| Error::os("making a descriptor to wait for others", error))?;
        all.add(&flag, EpollEvent::new(EpollFlags::empty(), FLAG)).map_err(failed)?;
        // A filter of system calls that refuses to wait shows itself here, not in `wait`.
        all.wait(&mut [EpollEvent::empty()], EpollTimeout::ZERO).map_err(failed)?;
        Ok(Self { all: ManuallyDrop::new(all), flag: Identified::new(flag.into()) })
    }

    /// True when other code has closed the descriptors of the watch. Nothing becomes ready then.
    pub(crate) fn is_lost(&self) -> bool {
        !self.flag.is_open()
    }

    /// Watches a descriptor until it is removed or closed.
    ///
    /// # Errors
    ///
    /// When the system refuses, or the watch is lost.
    pub(crate) fn add(&self, watched: BorrowedFd<'_>, number: u64) -> Result<()> {
        self.flag.file()?;
        let added = self.all.add(watched, EpollEvent::new(EpollFlags::EPOLLIN, number));
        added.map_err(|errno| Error::os("waiting for one more descriptor", errno))
    }

    pub(crate) fn remove(&self, watched: BorrowedFd<'_>) {
        if !self.is_lost() {
            // It may have been removed before.
            let _ = self.all.delete(watched);
        }
    }

    /// Makes the present wait and all later ones return at once.
    pub(crate) fn end(&self) {
        let mut event = EpollEvent::new(EpollFlags::EPOLLOUT, FLAG);
        if let Ok(flag) = self.flag.file() {
            // The same system call has added the flag.
            let _ = self.all.modify(flag, &mut event);
        }
    }

    /// Waits until a descriptor is ready, another thread [ends](Self::end) the waits, or the deadline passes. Returns the numbers of
    /// some that are ready; the others come next. None when the watch is lost.
    pub(crate) fn wait(&self, deadline: Deadline) -> Vec<u64> {
        let timeout = deadline.left().map_or(EpollTimeout::NONE, |left| {
            // Rounded up: not before the deadline.
            let milliseconds = left.as_micros().div_ceil(1000);
            EpollTimeout::try_from(milliseconds).unwrap_or(EpollTimeout::MAX)
        });
        let mut events = [EpollEvent::empty(); READY_MAX];
        let count = match self.all.wait(&mut events, timeout) {
            Ok(count) => count,
            Err(Errno::EINTR) => 0,
            Err(_) if self.is_lost() => 0,
            // No other error is possible for an open descriptor and this buffer.
            Err(errno) => unreachable!("waiting for descriptors: {errno}"),
        };
        let ready = events[..count].iter().map(EpollEvent::data);
        ready.filter(|number| *number != FLAG).collect()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if !self.is_lost() {
            // SAFETY: this is the last use of the field.
            unsafe { ManuallyDrop::drop(&mut self.all) };
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::fd::AsFd;
    use std::thread;
    use std::time::{Duration, Instant};

    use super::*;

    const SHORT: Duration = Duration::from_millis(20);

    #[test]
    fn each_ready_descriptor_is_named_until_it_is_removed() {
        let watch = Watch::new().expect("descriptors");
        let pipes: Vec<_> = (0..200).map(|_| std::io::pipe().expect("a pipe")).collect();
        for (number, (reader, _)) in (0..).zip(&pipes) {
            watch.add(reader.as_fd(), number).expect("added");
        }
        assert!(watch.wait(Deadline::after(SHORT)).is_empty());
        for number in [7, 150] {
            let mut writer = &pipes[number].1;
            writer.write_all(b"x").expect("written");
        }
        for _ in 0..2 {
            let mut ready = watch.wait(Deadline::SESSION_END);
            ready.sort_unstable();
            assert_eq!(ready, [7, 150]);
        }
        watch.remove(pipes[7].0.as_fd());
        assert_eq!(watch.wait(Deadline::SESSION_END), [150]);
    }

    #[test]
    fn another_thread_ends_all_waits() {
        let watch = Watch::new().expect("descriptors");
        let begun = Instant::now();
        assert!(watch.wait(Deadline::after(SHORT)).is_empty());
        assert!(begun.elapsed() >= SHORT, "nothing is ready");
        thread::scope(|scope| {
            scope.spawn(|| {
                thread::sleep(SHORT);
                watch.end();
            });
            assert!(watch.wait(Deadline::SESSION_END).is_empty());
        });
        assert!(watch.wait(Deadline::SESSION_END).is_empty(), "also later");
    }
}
