//! Files that are mapped, not read: of a large archive a link takes a part.
//!
//! A process that cuts a mapped file short makes reading it end in SIGBUS. Then this command ends, and says why. A library must
//! not end its process, so `farcall::link` maps no file itself.
#![allow(unsafe_code, reason = "mapping a file, and handling what follows if it is cut short")]

use std::ffi::c_int;
use std::fs::File;
use std::io;
use std::sync::Once;

use farcall::link::FileBytes;
use memmap2::Mmap;
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};

use crate::status::LINK;

/// The bytes of a file. From here on a SIGBUS ends the process with an error message and [`LINK`].
///
/// # Errors
///
/// When the system refuses the mapping.
pub(crate) fn map(file: &File) -> io::Result<FileBytes> {
    static HANDLER: Once = Once::new();
    HANDLER.call_once(|| {
        let action = SigHandler::Handler(cut_short);
        let action = SigAction::new(action, SaFlags::empty(), SigSet::empty());
        // SAFETY: the handler calls only functions that are safe in signal handlers.
        let set = unsafe { sigaction(Signal::SIGBUS, &action) };
        // If the system refuses, a SIGBUS ends this process without a message.
        let _ = set;
    });
    // SAFETY: the mapping is private and read-only, so only another process can change its bytes. The linker checks every
    // offset when it uses it, so bytes that change make a wrong image or an error.
    let map = unsafe { Mmap::map(file) }?;
    Ok(FileBytes::from_owner(map))
}

extern "C" fn cut_short(_: c_int) {
    const TEXT: &[u8] =
        b"farcall: an input file was cut short while it was linked, or memory ran out; \
        link again when the file is complete\n";
    let _ = nix::unistd::write(io::stderr(), TEXT);
    // SAFETY: it runs no destructors and no exit handlers, so it may be called at any point.
    unsafe { nix::libc::_exit(LINK) }
}
