//! Call frame information of linked code, made known to the unwinder and taken back, as allocation actions.

#![allow(unsafe_code, reason = "calls the unwinder's registration functions")]

use std::ffi::c_void;

use super::wrapper::{Serve, pointer};
use crate::AddrRange;
use crate::call::contract::{
    FramesDeregister, FramesRegister, LlvmFramesDeregister, LlvmFramesRegister,
};
use crate::error::Result;
use crate::sps::Status;

impl Serve for FramesRegister {
    fn serve((section,): (AddrRange,)) -> Result<()> {
        // SAFETY: the controller names a section in its slab that ends with a zero word, and keeps it until the
        // matching dealloc action.
        unsafe { __register_frame(pointer(section.start)) };
        Ok(())
    }
}

impl Serve for FramesDeregister {
    fn serve((section,): (AddrRange,)) -> Result<()> {
        // SAFETY: runs as the dealloc action of a registration of the same section.
        unsafe { __deregister_frame(pointer(section.start)) };
        Ok(())
    }
}

impl Serve for LlvmFramesRegister {
    fn serve(section: (AddrRange,)) -> Result<Status> {
        Ok(FramesRegister::serve(section).into())
    }
}

impl Serve for LlvmFramesDeregister {
    fn serve(section: (AddrRange,)) -> Result<Status> {
        Ok(FramesDeregister::serve(section).into())
    }
}

unsafe extern "C" {
    fn __register_frame(begin: *const c_void);
    fn __deregister_frame(begin: *const c_void);
}
