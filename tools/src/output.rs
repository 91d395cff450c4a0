//! Standard output, whose failures are the command's.

use std::io::{self, Write};

use crate::status::{Failure, TOOL};

/// Prints a whole text at once.
///
/// # Errors
///
/// If standard output cannot be written.
pub(crate) fn print(text: impl AsRef<[u8]>) -> Result<(), Failure> {
    let mut out = io::stdout();
    let written = out.write_all(text.as_ref()).and_then(|()| out.flush());
    written.map_err(|error| Failure::new(TOOL, format_args!("standard output: {error}")))
}
