//! A message of the control socket, decoded and given to a controller.
#![no_main]

mod bounded;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    // A text several times, and the controller's end of a session.
    bounded::bounded(bytes, 4, 32 << 10, || farcall::internals::readers::control(bytes));
});
