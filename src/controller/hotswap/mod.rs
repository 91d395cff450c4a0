//! Hot swap: functions that are redirected to new code, or compiled at their first call, while the program runs.

pub(crate) mod lazy;
pub(crate) mod old_code;
pub(crate) mod redirectable;

pub use lazy::Compiled;
pub use old_code::OldCode;
pub use redirectable::{GracePeriod, Redirectable};
