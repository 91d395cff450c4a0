//! A controller or an executor at one end of a byte stream. The first byte says how many calls wait for answers.
#![no_main]

mod bounded;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Some((calls, bytes)) = bytes.split_first() {
        let read = || farcall::internals::readers::stream(bytes, calls % 8);
        // A read takes 64 KiB at once.
        bounded::bounded(bytes, 4, 80 << 10, read);
    }
});
