//! Functions that are replaced, or compiled at their first call, while the program runs.

pub(crate) mod lazy;
pub(crate) mod old_code;
pub(crate) mod redirectable;
