//! The deadlock of a finalize handler that waits for another reply. A dispatcher that runs calls on the receiving thread hangs
//! in it; the library's pool does not.
#![allow(unsafe_code, reason = "provides an allocation action")]

use std::ffi::c_char;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::Mutex;
use std::time::Duration;

use farcall::controller::Client;
use farcall::executor::{SimpleRemote, WrapperFunctionBuffer};
use farcall::session::{Session, SessionBuilder, SessionHandle};
use farcall::sps::{self, AllocGroup, Bytes, Expected};
use farcall::task::{Inline, TaskDispatcher, ThreadPool};
use farcall::{Connection, Error, ErrorKind, ExecutorAddr, Prot};

/// A thread that waits longer than this is stuck.
const STUCK: Duration = Duration::from_millis(500);
/// A thread that is not stuck may take this long on a busy machine.
const PATIENT: Duration = Duration::from_secs(20);

/// The tag of the controller's handler that gives debug objects memory.
const MEMORY_PLEASE: u64 = 3;

/// The session whose actions run; one at a time here.
static SESSION: Mutex<Option<SessionHandle>> = Mutex::new(None);

/// A finalize action that asks the controller for something and waits for it, as LLVM's debug-object plugin does.
unsafe extern "C" fn wait_for_another_reply(_: *const c_char, _: usize) -> WrapperFunctionBuffer {
    let session = SESSION.lock().expect("no panic").clone().expect("a session");
    match session.call(MEMORY_PLEASE, b"a page".to_vec()) {
        Ok(answer) if answer == b"granted" => WrapperFunctionBuffer::new(),
        Ok(answer) => WrapperFunctionBuffer::out_of_band(&format!("{} bytes", answer.len())),
        Err(error) => WrapperFunctionBuffer::out_of_band(&error.to_string()),
    }
}

/// Embeds a session that runs its tasks with `dispatcher`, and initializes memory whose finalize action waits. Returns the
/// session too, because a stuck session never ends.
fn initialize(
    dispatcher: Arc<dyn TaskDispatcher>,
    deadline: Duration,
) -> (Session, Result<Vec<u8>, Error>) {
    let (ours, theirs) = UnixStream::pair().expect("a pair of sockets");
    let options = SessionBuilder::new(move |task| dispatcher.dispatch(task));
    let session = options.build().expect("a session");
    *SESSION.lock().expect("no panic") = Some(SessionHandle::clone(&session));
    session.attach(SimpleRemote::socket(theirs).expect("a socket")).expect("the first");
    let client = Client::connect(Connection::socket(ours).expect("a socket")).expect("a setup");
    client.register_handler(MEMORY_PLEASE, |_, args, result| {
        result.extend_from_slice(if args == b"a page" { b"granted" } else { b"no" });
        Ok(())
    });
    let memory = |name| client.symbol(&format!("orc_rt_ci_{name}")).expect("offered");
    let instance = memory("SimpleNativeMemoryMap_Instance");
    let args = sps::to_bytes(&(instance, 65536_u64));
    // No action runs here, so this works with any dispatcher.
    let slab = client.call(memory("sps_SimpleNativeMemoryMap_reserve"), &args, PATIENT);
    let slab = sps::from_bytes::<Expected<ExecutorAddr>>(&slab.expect("an answer"));
    let slab = slab.and_then(Expected::into_result).expect("a slab");
    let action = wait_for_another_reply as *const ();
    let action = ExecutorAddr::new(action.expose_provenance() as u64);
    let segment = (AllocGroup::standard(Prot::Data), slab, 4096_u64, Bytes(b"code".to_vec()));
    let none = (ExecutorAddr::NULL, Bytes(Vec::new()));
    let pairs = vec![((action, Bytes(Vec::new())), none)];
    let args = sps::to_bytes(&(instance, vec![segment], pairs));
    let initialize = memory("sps_SimpleNativeMemoryMap_initialize");
    let outcome = client.call(initialize, &args, deadline);
    (session, outcome)
}

#[test]
fn a_finalize_handler_that_waits_for_another_reply() {
    let (session, outcome) = initialize(Arc::new(ThreadPool::new(1)), PATIENT);
    let base = sps::from_bytes::<Expected<ExecutorAddr>>(&outcome.expect("it gets its reply"));
    assert!(base.expect("decodes").0.is_ok(), "the action was granted its memory");
    drop(session);

    let (session, outcome) = initialize(Arc::new(Inline::new()), STUCK);
    let error = outcome.expect_err("the thread that would receive the reply waits for it");
    assert!(error.kind() == ErrorKind::Timeout, "{error}");
    // It hangs forever, and so would its end.
    std::mem::forget(session);
}
