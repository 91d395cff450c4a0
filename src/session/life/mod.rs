//! A session's life: its state, its stages, its end, and what that end waits for.
//!
//! | file | content |
//! |---|---|
//! | `stage` | the stages as a pure state machine |
//! | `core` | what a session's handles share: the state under one lock, and the calls that pass through it |
//! | `teardown` | what each change of stage does |
//! | `service` | what a session owns for linked code, and how the end reaches it |
//! | `task_group` | the spans of managed code, for which the shutdown waits |

pub(in crate::session) mod core;
pub(in crate::session) mod service;
pub(in crate::session) mod stage;
pub(in crate::session) mod task_group;
mod teardown;
