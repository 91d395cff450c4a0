//! The linker: ELF objects in, a relocated image out.
//!
//! Invariant: a pure island. No IO, no system calls, no other process; bytes in, plain data out.
#![forbid(unsafe_code)]
