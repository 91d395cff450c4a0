//! An object or an archive: read, linked, and given to profilers and debuggers.
#![no_main]

mod bounded;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    // The image may have a MiB, whatever the file says of its zero fill; a dump has its code once more.
    bounded::bounded(bytes, 256, 4 << 20, || farcall_fuzz::linked(bytes));
});
