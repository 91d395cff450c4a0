//! A controller calls functions that receive the session, by name and by address, and they call back.
#![allow(unsafe_code, reason = "provides wrapper functions")]

use std::sync::mpsc;

use std::ffi::c_void;

use super::*;
use crate::executor::WrapperCall;
use crate::executor::WrapperFunctionReturn;
use crate::executor::context::controller_access::CurrentSession;
use crate::executor::entry::controller_call::call_controller_async;
use crate::session::InProcess;
use crate::session::InProcessController;
use crate::session::Session;
use crate::sps;
use crate::task::{TaskDispatcher, ThreadPool};

/// A session of this builder, and its controller, which answers in capitals.
fn attached(
    options: impl FnOnce(SessionBuilder) -> SessionBuilder,
) -> (Session, InProcessController) {
    let pool = ThreadPool::new(2);
    let session = options(SessionBuilder::new(move |task| pool.dispatch(task))).build();
    let session = session.expect("a session");
    let (access, controller) = InProcess::new(|tag, args, reply| {
        reply.send(match tag {
            7 => Ok(args.to_ascii_uppercase()),
            _ => Err(format!("no handler has tag {tag}")),
        });
    });
    session.attach(access).expect("the first");
    (session, controller)
}

fn call_by(
    controller: &InProcessController,
    function: ExecutorAddr,
    args: &[u8],
) -> crate::Result<Vec<u8>> {
    let (done, is_done) = mpsc::channel();
    controller.call(function, args.to_vec(), move |result| _ = done.send(result));
    is_done.recv().expect("an answer")
}

/// Answers with the controller's answer to the same arguments.
unsafe extern "C" fn shout(
    session: RawSession,
    args: WrapperFunctionBuffer,
    answer: WrapperFunctionReturn,
    call_id: u64,
) {
    /// The call that waits.
    struct Waiting(WrapperFunctionReturn, u64);
    unsafe extern "C" fn finish(
        session: RawSession,
        result: WrapperFunctionBuffer,
        context: *mut c_void,
    ) {
        // SAFETY: the box was made for this call, which comes once.
        let Waiting(answer, call_id) = *unsafe { Box::from_raw(context.cast::<Waiting>()) };
        // SAFETY: the one answer to the call.
        unsafe { answer(session, result, call_id) };
    }
    let context = Box::into_raw(Box::new(Waiting(answer, call_id))).cast();
    let tag = std::ptr::without_provenance(7);
    // SAFETY: the arguments are this function's, and the context is used once.
    unsafe { call_controller_async::<CurrentSession>(session, tag, args, finish, context) };
}

unsafe extern "C" fn double(
    session: RawSession,
    args: WrapperFunctionBuffer,
    answer: WrapperFunctionReturn,
    call_id: u64,
) {
    // SAFETY: these are the arguments of a wrapper function.
    let call = unsafe { WrapperCall::new(session, args, answer, call_id) };
    call.handle_sync(|(number,): (u32,)| number * 2);
}

/// Answers twice.
unsafe extern "C" fn chatter(
    session: RawSession,
    args: WrapperFunctionBuffer,
    answer: WrapperFunctionReturn,
    call_id: u64,
) {
    // SAFETY: the one answer to the call.
    unsafe { answer(session, args, call_id) };
    // SAFETY: a second answer is wrong, but it has a number of no call.
    unsafe { answer(session, WrapperFunctionBuffer::new(), call_id) };
}

fn address(function: WrapperFunction) -> ExecutorAddr {
    ExecutorAddr::new((function as *const ()).expose_provenance() as u64)
}

#[test]
fn a_function_that_is_offered_by_name_gets_the_session() {
    let (session, controller) = attached(|options| {
        // SAFETY: they are such functions.
        let options = unsafe { options.wrapper_function("double", double) };
        // SAFETY: as above.
        unsafe { options.expect("free").wrapper_function("shout", shout) }.expect("free")
    });
    let symbol = |name: &str| {
        let mut symbols = session.bootstrap_info().symbols().iter();
        symbols.find(|(other, _)| *other == name).expect("offered").1
    };
    let result = call_by(&controller, symbol("double"), &sps::to_bytes(&21_u32));
    assert_eq!(result.expect("a result"), sps::to_bytes(&42_u32));
    assert_eq!(call_by(&controller, symbol("shout"), b"quiet").expect("a result"), b"QUIET");
}

#[test]
fn linked_code_is_called_in_the_form_that_the_host_says() {
    let (session, controller) = attached(|options| options.linked_code(Convention::WithSession));
    let result = call_by(&controller, address(double), &sps::to_bytes(&4_u32));
    assert_eq!(result.expect("a result"), sps::to_bytes(&8_u32));
    let long = [b'a'; 100];
    let result = call_by(&controller, address(shout), &long);
    assert_eq!(result.expect("a result"), [b'A'; 100]);
    // The executor's own functions have the other convention, and are called by it.
    let mut symbols = session.bootstrap_info().symbols().iter();
    let (_, read) =
        symbols.find(|(name, _)| *name == "orc_rt_ci_sps_mem_read_uint32s").expect("offered");
    let word = 77_u32;
    let at = ExecutorAddr::new((&raw const word).expose_provenance() as u64);
    let words = call_by(&controller, read, &sps::to_bytes(&(vec![at],))).expect("words");
    assert_eq!(sps::from_bytes::<Vec<u32>>(&words).expect("words"), [77]);
}

#[test]
fn a_second_answer_goes_nowhere_and_is_reported() {
    let (report, reports) = mpsc::channel();
    let (session, controller) = attached(|options| {
        let options = options.linked_code(Convention::WithSession);
        options.on_error(move |_, error| _ = report.send(error.to_string()))
    });
    assert_eq!(call_by(&controller, address(chatter), b"once").expect("a result"), b"once");
    let reported = reports.recv().expect("a report");
    assert!(reported.contains("an answer to call"), "{reported}");
    drop(session);
}

#[test]
fn a_session_that_is_over_completes_calls_of_the_controller() {
    unsafe extern "C" fn note(_: RawSession, result: WrapperFunctionBuffer, told: *mut c_void) {
        // SAFETY: the variable of this test.
        unsafe { *told.cast::<Option<String>>() = result.into_result().err() };
    }
    let mut told = None::<String>;
    let nobody = RawSession::new(ExecutorAddr::new(8));
    let tag = std::ptr::without_provenance(7);
    let args = WrapperFunctionBuffer::new();
    // SAFETY: the arguments are this test's, and the context outlives the call.
    unsafe {
        call_controller_async::<CurrentSession>(nobody, tag, args, note, (&raw mut told).cast())
    };
    assert_eq!(told.as_deref(), Some("no controller attached"));
}
