//! Debug information of an object that is right in everything else, as profilers and debuggers are given it.
#![no_main]

mod bounded;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    bounded::bounded(bytes, 256, 512 << 10, || farcall_fuzz::debug_information(bytes));
});
