//! Why a state is not kept, or not put back, in a form that needs no heap.

use crate::error::Error;

/// A reason, and the address or number that it is about.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct Refusal {
    why: u64,
    about: u64,
}

/// The reasons.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Why {
    NotMainThread = 1,
    Threads,
    BusyThread,
    NoThreads,
    Children,
    Unmapped,
    Remapped,
    Protected,
    Unwritable,
    NotNoted,
    NotInherited,
    Asynchronous,
    Descriptor,
    OwnDescriptor,
    Image,
    Kernel,
    Full,
}

const ALL: [Why; 17] = [
    Why::NotMainThread,
    Why::Threads,
    Why::BusyThread,
    Why::NoThreads,
    Why::Children,
    Why::Unmapped,
    Why::Remapped,
    Why::Protected,
    Why::Unwritable,
    Why::NotNoted,
    Why::NotInherited,
    Why::Asynchronous,
    Why::Descriptor,
    Why::OwnDescriptor,
    Why::Image,
    Why::Kernel,
    Why::Full,
];

impl Refusal {
    pub(super) fn new(why: Why, about: u64) -> Self {
        Self { why: why as u64, about }
    }

    /// A system call that has failed with this number.
    pub(super) fn kernel(errno: i32) -> Self {
        Self::new(Why::Kernel, u64::from(errno.unsigned_abs()))
    }

    /// True for a system call that has failed with this number.
    pub(super) fn is_kernel(self, errno: i32) -> bool {
        self.why == Why::Kernel as u64 && self.about == u64::from(errno.unsigned_abs())
    }

    /// The error that says so, during this.
    pub(super) fn into_error(self, during: &str) -> Error {
        let about = self.about;
        let why = match ALL.into_iter().find(|why| *why as u64 == self.why) {
            Some(Why::NotMainThread) => {
                "the call came over another lane than the first one".to_owned()
            }
            Some(Why::Threads) => {
                format!("it has other threads than at first, {about} in all")
            }
            Some(Why::BusyThread) => {
                format!("thread {about} is not in the wait of the first state")
            }
            Some(Why::NoThreads) => "/proc does not say what the threads do".to_owned(),
            Some(Why::Children) => "it has child processes".to_owned(),
            Some(Why::Unmapped) => format!("memory at {about:#x} was unmapped"),
            Some(Why::Remapped) => format!("other memory was mapped at {about:#x}"),
            Some(Why::Protected) => format!("the protection of memory at {about:#x} was changed"),
            Some(Why::Unwritable) => {
                format!("memory at {about:#x} was written, and cannot be made writable again")
            }
            Some(Why::NotNoted) => {
                format!("the kernel does not note what is written at {about:#x}")
            }
            Some(Why::NotInherited) => {
                format!("memory at {about:#x} is not for children (MADV_DONTFORK)")
            }
            Some(Why::Asynchronous) => {
                format!("asynchronous I/O was set up (io_setup, at {about:#x})")
            }
            Some(Why::Descriptor) => {
                format!("descriptor {about} was closed, or names another file")
            }
            Some(Why::OwnDescriptor) => {
                format!("descriptor {about} was closed, by which the kernel says what was written")
            }
            Some(Why::Image) => "the process with the first state has ended".to_owned(),
            Some(Why::Kernel) => {
                let errno = i32::try_from(about).unwrap_or_default();
                format!("the kernel refuses: {}", std::io::Error::from_raw_os_error(errno))
            }
            Some(Why::Full) => {
                format!(
                    "there is room for {about} mappings, bytes of their list, written ranges, threads or descriptors"
                )
            }
            None => "no reason is known".to_owned(),
        };
        Error::invalid(format!("{during}: {why}"))
    }
}
