//! A session over a connection: one thread, calls one after the other, nested ones inside of each other.

use std::ffi::c_void;
use std::rc::Rc;
use std::sync::Arc;

use crate::ExecutorAddr;
use crate::call::Endpoint;
use crate::call::contract::{
    CallVoidVoid, ConnectionSetup, DylibOpen, DylibResolve, LlvmFramesDeregister,
    LlvmFramesRegister, NativeLoad, NativeLookup, RunAsInt, RunAsMain, RunAsVoid,
};
use crate::error::{Error, Result};
use crate::executor::context::calls::WrapperCalls;
use crate::executor::context::controller_access::CurrentSession;
use crate::executor::context::current::while_serving;
use crate::executor::context::instance::Instance;
use crate::executor::entry::controller_call;
use crate::executor::entry::wrapper::offer;
use crate::executor::services::{names_offered, process_info};
use crate::limits::PAGE_BYTES;
use crate::session::SimpleSymbolTable;
use crate::sps;
use crate::transport::{Connection, Side};

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
    let (session, setup) = begin(&SimpleSymbolTable::new())?;
    let ended = serve_calls(connection, &setup);
    let failures = session.end();
    ended.and(failures)
}

/// A session over a connection, to be [ended](Instance::end), and what is sent first: `others` are the host's own symbols.
///
/// # Errors
///
/// When one of those has the name of another.
pub(crate) fn begin(others: &SimpleSymbolTable) -> Result<(Arc<Instance>, Vec<u8>)> {
    let session = Instance::begin(None);
    let mut symbols = names_offered::symbols(&session);
    symbols.extend(functions());
    if let Some((taken, _)) = symbols.iter().find(|(name, _)| others.get(name).is_some()) {
        let error = Error::invalid(format!("{taken} is a name that every executor offers"));
        return session.end().and(Err(error));
    }
    symbols.extend(others.iter().map(|(name, address)| (name.to_owned(), address)));
    let setup: ConnectionSetup = (process_info::triple(), PAGE_BYTES, Vec::new(), symbols);
    Ok((session, sps::to_bytes(&setup)))
}

/// Sends `setup` and serves calls until the other side ends the connection.
fn serve_calls(connection: Connection, setup: &[u8]) -> Result<()> {
    let end = Rc::new(Endpoint::new(connection));
    end.send_setup(setup)?;
    while_serving(&end, || end.serve(&WrapperCalls))
}

/// What LLVM's controllers look for beside what every session offers.
pub(crate) fn functions() -> [(String, ExecutorAddr); 14] {
    let dispatch = controller_call::dispatch::<CurrentSession> as *const c_void;
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
