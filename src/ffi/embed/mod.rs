//! The executor's side: a host embeds a session, or polls an executor.

use super::{buffer, error, host, text};

mod call;
mod handle;
mod options;
mod polled;
mod service;
mod session;

pub use call::*;
pub use handle::*;
pub use options::*;
pub use polled::*;
pub use service::*;
pub use session::*;
