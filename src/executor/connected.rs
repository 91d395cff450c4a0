//! A session over a connection: one thread, calls one after the other, nested ones inside of each other.
#![allow(unsafe_code, reason = "provides a C function")]

use std::cell::RefCell;
use std::ffi::{c_char, c_void};
use std::rc::Rc;

use super::buffer::WrapperFunctionBuffer;
use super::controller_access;
use super::served::{Calls, Served};
use super::wrapper::offer;
use crate::ExecutorAddr;
use crate::call::Endpoint;
use crate::call::contract::{
    CallVoidVoid, DylibOpen, DylibResolve, LlvmFramesDeregister, LlvmFramesRegister, NativeLoad,
    NativeLookup, RunAsInt, RunAsMain, RunAsVoid,
};
use crate::error::Result;
use crate::transport::{Connection, Side};

/// One end of a connection.
pub(super) type ConnectionEnd = Endpoint<Connection>;

thread_local! {
    /// The connection that this thread serves.
    static SERVED: RefCell<Option<Rc<ConnectionEnd>>> = const { RefCell::new(None) };
}

/// Offers this process's services over a connection and runs what is called there, until the other side ends it. Then runs
/// what dealloc actions are left.
///
/// The calling thread runs the calls, one after the other; those that come while it waits for a call of its own are run
/// inside of that. Code reaches this process with its content in messages ([`crate::controller::Client`], or an LLVM
/// controller).
///
/// # Errors
///
/// Why the connection ended, when the other side did not end it in order, or which dealloc actions failed.
pub fn serve(connection: Connection) -> Result<()> {
    connection.expect(Side::Executor)?;
    Served::run_over(connection)
}

/// Sends `setup` and serves calls until the other side ends the connection.
pub(super) fn serve_calls(connection: Connection, setup: &[u8]) -> Result<()> {
    let end = Rc::new(Endpoint::new(connection));
    end.send_setup(setup)?;
    while_serving(&end, || end.serve(&Calls))
}

/// Runs `work`, in which linked code reaches the controller over this connection.
pub(super) fn while_serving<R>(end: &Rc<ConnectionEnd>, work: impl FnOnce() -> R) -> R {
    let outer = SERVED.replace(Some(Rc::clone(end)));
    let outcome = work();
    SERVED.set(outer);
    outcome
}

/// The connection that this thread serves, when it is called from a handler.
pub(super) fn served() -> Option<Rc<ConnectionEnd>> {
    SERVED.try_with(|served| served.borrow().clone()).ok().flatten().filter(|end| end.is_busy())
}

/// What LLVM's controllers look for beside what every session offers.
pub(super) fn functions() -> [(String, ExecutorAddr); 14] {
    let dispatch = dispatch as *const c_void;
    [
        // No object belongs to it, but null would be one that is missing.
        ("__llvm_orc_SimpleRemoteEPC_dispatch_ctx".to_owned(), ExecutorAddr::new(1)),
        ("__llvm_orc_SimpleRemoteEPC_dispatch_fn".to_owned(), ExecutorAddr::new(dispatch as u64)),
        // One for all, as well.
        ("__llvm_orc_SimpleExecutorDylibManager_Instance".to_owned(), ExecutorAddr::new(1)),
        offer::<DylibOpen>(),
        offer::<DylibResolve>(),
        offer::<RunAsMain>(),
        offer::<RunAsVoid>(),
        offer::<RunAsInt>(),
        ("orc_rt_ci_sps_call_main".to_owned(), offer::<RunAsMain>().1),
        offer::<CallVoidVoid>(),
        offer::<NativeLoad>(),
        offer::<NativeLookup>(),
        offer::<LlvmFramesRegister>(),
        offer::<LlvmFramesDeregister>(),
    ]
}

/// `farcall_call_controller` as LLVM's code calls it: the tag is a pointer, and a context comes first.
///
/// # Safety
///
/// `size` bytes at `data` must be readable.
unsafe extern "C" fn dispatch(
    _context: *mut c_void,
    tag: *const c_void,
    data: *const c_char,
    size: usize,
) -> WrapperFunctionBuffer {
    // SAFETY: the caller vouches for the bytes.
    unsafe { controller_access::call_controller(tag.expose_provenance() as u64, data, size) }
}
