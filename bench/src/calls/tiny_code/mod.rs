//! Machine code for [`TinyObject::function`](crate::TinyObject::function), which does the same on every processor.

#[cfg_attr(target_arch = "aarch64", path = "aarch64.rs")]
#[cfg_attr(target_arch = "x86_64", path = "x86_64.rs")]
mod native;

pub use native::*;
