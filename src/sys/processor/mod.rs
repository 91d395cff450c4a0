//! The thread pointer of this processor, and the way in which new code becomes visible.

#[cfg_attr(target_arch = "aarch64", path = "aarch64.rs")]
#[cfg_attr(target_arch = "x86_64", path = "x86_64.rs")]
mod native;

pub(crate) use native::{is_thread_pointer, publish_code, publishes_code, thread_pointer};
