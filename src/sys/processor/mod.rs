//! The thread pointer of this processor, the way in which new code becomes visible, and functions that compilers call.

#[cfg_attr(target_arch = "aarch64", path = "aarch64.rs")]
#[cfg_attr(target_arch = "x86_64", path = "x86_64.rs")]
mod native;

pub(crate) use native::{helpers, is_thread_pointer, publish_code, publishes_code, thread_pointer};
