//! The unwind boundary of wrapper functions on x86-64, and its frame.

pub(crate) mod call_frame;
pub(crate) mod frame;
mod wrapper_boundary;

pub(crate) use wrapper_boundary::enter as enter_wrapper;
