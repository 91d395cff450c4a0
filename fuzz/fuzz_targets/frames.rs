//! Frames of a session that is embedded, out of bytes that come in pieces. The first byte says of what size.
#![no_main]

mod bounded;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Some((size, bytes)) = bytes.split_first() {
        let read = || farcall::internals::readers::frames(bytes, usize::from(*size));
        // The buffer of 64 KiB, which a reader has before its first byte; the bytes, twice while their memory grows, and a payload.
        bounded::bounded(bytes, 4, (64 << 10) + (4 << 10), read);
    }
});
