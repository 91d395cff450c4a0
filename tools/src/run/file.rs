//! Files that a program is linked from, as bytes.

use std::fs::File;
use std::io::{self, Error, ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use super::mapped;
use farcall::link::FileBytes;

/// The largest file that is read, in bytes. The largest archives have a tenth of that.
const INPUT_BYTES_MAX: u64 = 4 << 30;

/// The smallest file that is mapped, in bytes. Reading a smaller one takes less time than the faults on its pages.
const MAPPED_BYTES_MIN: u64 = 256 << 10;

/// Reads a regular file, or maps it if it is large. A file of another kind may have no end, or reading it may wait for a writer.
pub(super) fn read(path: &Path) -> io::Result<FileBytes> {
    // Without O_NONBLOCK, opening a pipe with a name waits for its other end.
    let file = File::options().read(true).custom_flags(nix::libc::O_NONBLOCK).open(path)?;
    let about = file.metadata()?;
    let refused = |why: String| Error::new(ErrorKind::InvalidInput, why);
    if !about.is_file() {
        return Err(refused("not a regular file, as objects and archives are".to_owned()));
    }
    let too_large = || refused(format!("a file of more than {INPUT_BYTES_MAX} bytes"));
    if about.len() > INPUT_BYTES_MAX {
        return Err(too_large());
    }
    if about.len() >= MAPPED_BYTES_MIN {
        return mapped::map(&file);
    }
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(usize::try_from(about.len()).map_err(Error::other)?)?;
    // The file may grow while it is read.
    file.take(INPUT_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > INPUT_BYTES_MAX { Err(too_large()) } else { Ok(bytes.into()) }
}
