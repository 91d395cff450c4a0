//! A session over a connection: one thread runs the calls one after the other, nested ones inside.

use std::ffi::c_void;
use std::rc::Rc;
use std::sync::Arc;

use crate::ExecutorAddr;
use crate::call::Endpoint;
use crate::call::contract::{
    CallVoidVoid, ConnectionSetup, DylibOpen, DylibResolve, LlvmFramesDeregister,
    LlvmFramesRegister, NativeLoad, NativeLookup, RunAsInt, RunAsMain, RunAsVoid, ThreadRoomClaim,
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

/// Serves a connection until the other side ends it: offers this process's functions and runs the calls. Then runs
/// the remaining dealloc actions.
///
/// The calling thread runs the calls one after the other. While it waits for a call of its own, it runs nested calls.
/// Code reaches this process in messages ([`crate::controller::Client`], or a controller of LLVM).
///
/// # Errors
///
/// The reason for the connection's end, unless the other side ended it in order, or the failed dealloc actions.
///
/// # Examples
///
/// ```
/// use farcall::{Connection, controller::Client, executor};
///
/// let (ours, theirs) = std::os::unix::net::UnixStream::pair()?;
/// let thread = std::thread::spawn(|| executor::serve(Connection::socket(theirs)?));
/// let client = Client::connect(Connection::socket(ours)?)?;
/// assert!(client.triple().ends_with("linux-gnu"));
/// drop(client);
/// thread.join().unwrap()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn serve(connection: Connection) -> Result<()> {
    connection.expect(Side::Executor)?;
    let (session, setup) = begin(&SimpleSymbolTable::new())?;
    let ended = serve_calls(connection, &setup);
    let failures = session.end();
    ended.and(failures)
}

/// Makes an instance for a connection, which the caller must [end](Instance::end), and the encoded setup. `others`
/// are the host's own symbols.
///
/// # Errors
///
/// If every executor offers one of the names in `others`.
pub(crate) fn begin(others: &SimpleSymbolTable) -> Result<(Arc<Instance>, Vec<u8>)> {
    let session = Instance::begin(None);
    let mut symbols = names_offered::symbols(&session);
    symbols.extend(functions());
    symbols.push(offer::<ThreadRoomClaim>());
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
    while_serving(&end, || end.serve(&WrapperCalls::UNINTERRUPTED))
}

/// The functions that LLVM's controllers need beside the functions of every session.
pub(crate) fn functions() -> [(String, ExecutorAddr); 14] {
    let dispatch = controller_call::dispatch::<CurrentSession> as *const c_void;
    [
        // There is no object, but a null would count as missing.
        ("__llvm_orc_SimpleRemoteEPC_dispatch_ctx".to_owned(), ExecutorAddr::new(1)),
        ("__llvm_orc_SimpleRemoteEPC_dispatch_fn".to_owned(), ExecutorAddr::new(dispatch as u64)),
        // The same.
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
