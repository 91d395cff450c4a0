//! What farcall cannot link yet, and says so: the object, the symbol and the relocation are named.
//!
//! A test moves to `run` (as `same_as_native` with the same builds) when its feature arrives.
//!
//! Invariant: nothing here is accepted and then behaves otherwise than the native program.

use crate::corpus::{self, gcc};
use crate::refuse::refused;

#[test]
fn thread_locals_of_shared_libraries() {
    for (flags, relocation) in [(&["-O2"][..], "GOTTPOFF"), (&["-O2", "-fPIC"], "TLSGD")] {
        let object = corpus::object("tls_later.c", gcc(flags));
        refused(&[object], 126, &["tls_later.o", "value", relocation, "shared library"]);
    }
}
