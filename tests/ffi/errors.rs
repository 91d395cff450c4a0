//! `ErrorCAPITest` and `CCallback` of LLVM's runtime, in Rust, by the functions that C calls; and handles that are no session.
#![allow(unsafe_code, reason = "calls functions for C")]

use std::ffi::{CStr, CString, c_void};
use std::os::fd::IntoRawFd;
use std::os::unix::net::UnixStream;
use std::ptr::null_mut;

use farcall::controller::Client;
use farcall::{Connection, ExecutorAddr};
use farcall_ffi::*;

/// The message of an error, which this takes.
fn message(error: *mut Error) -> String {
    // SAFETY: the error is the caller's, and not used again.
    let text = unsafe { farcall_error_to_string(error) };
    // SAFETY: it is a text.
    let copy = unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned();
    // SAFETY: it is not used any more.
    unsafe { farcall_text_free(text) };
    copy
}

fn create(text: &CStr) -> *mut Error {
    // SAFETY: it is a text.
    unsafe { farcall_error_create(text.as_ptr()) }
}

#[test]
fn string_error_create() {
    let error = create(c"a host's own");
    // SAFETY: the error is ours.
    assert_eq!(unsafe { farcall_error_code_of(error) }, ErrorCode::Host);
    assert_eq!(message(error), "a host's own");
}

#[test]
fn to_string() {
    let copied = CString::new("gone soon").expect("no NUL");
    let error = create(&copied);
    drop(copied);
    assert_eq!(message(error), "gone soon", "the message is a copy");
    assert_eq!(message(null_mut()), "success");
}

#[test]
fn consume() {
    // SAFETY: the error is ours, and not used again.
    unsafe { farcall_error_consume(create(c"nobody looks")) };
    // SAFETY: NULL is fine.
    unsafe { farcall_error_consume(null_mut()) };
}

#[test]
fn multiple_errors() {
    let errors = [c"error 1", c"error 2", c"error 3"].map(create);
    assert!(errors[0] != errors[1] && errors[1] != errors[2]);
    assert_eq!(errors.map(message), ["error 1", "error 2", "error 3"]);
}

#[test]
fn unwrap_success() {
    // SAFETY: NULL is no error of any kind.
    assert!(!unsafe { farcall_error_is_disconnected(null_mut()) });
    // SAFETY: as above.
    assert_eq!(unsafe { farcall_error_code_of(null_mut()) }, ErrorCode::Ok);
}

#[test]
fn cant_fail_success() {
    // SAFETY: NULL is fine.
    unsafe { farcall_error_cant_fail(null_mut()) };
}

#[test]
fn cant_fail_failure() {
    const VARIABLE: &str = "FARCALL_TEST_CANT_FAIL";
    if std::env::var_os(VARIABLE).is_some() {
        // SAFETY: the error is ours, and not used again.
        unsafe { farcall_error_cant_fail(create(c"it can")) };
        return;
    }
    let mut again = std::process::Command::new(std::env::current_exe().expect("a path"));
    again.args(["--exact", "errors::cant_fail_failure", "--nocapture"]);
    let output = again.env(VARIABLE, "1").output().expect("a process");
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && complaint.contains("farcall: it can"), "{complaint}");
}

#[test]
fn a_number_of_no_session_costs_an_error() {
    for number in [0_usize, 1 << 40] {
        let nobody = std::ptr::without_provenance_mut::<Session>(number);
        assert!(message(farcall_session_wait(nobody)).contains(&format!("no session {number:#x}")));
        let error = farcall_session_attach_socket(nobody, 0);
        assert!(message(error).contains("no session"), "the descriptor stays open");
        let result = farcall_buffer_empty();
        // SAFETY: the buffer is ours, and not used again.
        let mut result = unsafe { farcall_session_call_controller_and_wait(nobody, 1, result) };
        // SAFETY: the buffer is ours.
        assert!(!unsafe { farcall_buffer_out_of_band_error(&raw const result) }.is_null());
        // SAFETY: as above.
        unsafe { farcall_buffer_dispose(&raw mut result) };
        // SAFETY: it is a text.
        assert!(unsafe { farcall_session_keepalive(nobody, c"nobody".as_ptr()) }.is_null());
    }
    assert!(farcall_session_dispose(null_mut()).is_null());
}

/// A session of these options.
fn session(options: *mut Options) -> *mut Session {
    let mut session = null_mut();
    // SAFETY: the options are ours, and not used again.
    let error = unsafe { farcall_session_create(options, &raw mut session) };
    assert!(error.is_null(), "{}", message(error));
    session
}

unsafe extern "C" fn dropped(task: *mut Task, count: *mut c_void) {
    // SAFETY: the context of this test.
    unsafe { *count.cast::<u32>() += 1 };
    // SAFETY: each task comes once.
    unsafe { farcall_task_drop(task) };
}

unsafe extern "C" fn counted(_: *mut Session, error: *mut Error, count: *mut c_void) {
    // SAFETY: the context of this test.
    unsafe { *count.cast::<u32>() += 1 };
    // SAFETY: the error is ours now.
    unsafe { farcall_error_consume(error) };
}

#[test]
fn a_session_without_a_controller_lives_and_ends() {
    let (mut tasks, mut errors, mut ends) = (0_u32, 0_u32, 0_u32);
    let options = farcall_options_create();
    // SAFETY: the options are ours, and what the contexts point to lives longer than the session.
    unsafe { farcall_options_dispatch(options, Some(dropped), (&raw mut tasks).cast()) };
    // SAFETY: as above.
    unsafe { farcall_options_on_error(options, Some(counted), (&raw mut errors).cast()) };
    // SAFETY: as above.
    unsafe { farcall_options_on_disconnect(options, Some(counted), (&raw mut ends).cast()) };
    let session = session(options);
    // SAFETY: the error is ours, and not used again.
    unsafe { farcall_session_report_error(session, create(c"nobody's answer")) };
    let error = farcall_session_attach_socket(session, -1);
    assert_eq!(message(error), "-1 is no open descriptor");
    // SAFETY: it is a text.
    let error = unsafe { farcall_session_attach_name(session, c"/no/such/socket".as_ptr()) };
    assert!(message(error).starts_with("attaching to /no/such/socket: "));
    // SAFETY: the buffer is ours, and not used again.
    let mut result =
        unsafe { farcall_session_call_controller_and_wait(session, 1, farcall_buffer_empty()) };
    // SAFETY: the buffer is ours.
    let text = unsafe { farcall_buffer_out_of_band_error(&raw const result) };
    // SAFETY: it is an error, with a text.
    let text = unsafe { CStr::from_ptr(text) };
    assert_eq!(text, c"no controller attached");
    // SAFETY: as above.
    unsafe { farcall_buffer_dispose(&raw mut result) };
    assert!(farcall_session_detach(session, None, null_mut()).is_null());
    assert!(farcall_session_dispose(session).is_null());
    assert!(message(farcall_session_dispose(session)).contains("no session"), "it is over");
    assert_eq!((tasks, errors, ends), (0, 1, 1));
}

#[test]
fn a_name_that_is_taken_makes_no_session() {
    let options = farcall_options_create();
    for at in [&raw const options, std::ptr::null()] {
        // SAFETY: the options are ours, and it is a text.
        unsafe { farcall_options_symbol(options, c"twice".as_ptr(), at.cast()) };
    }
    let mut session = null_mut();
    // SAFETY: the options are ours, and not used again.
    let error = unsafe { farcall_session_create(options, &raw mut session) };
    assert!(session.is_null());
    assert!(message(error).contains("twice"));
    // SAFETY: options of which no session is made are freed as well.
    unsafe { farcall_options_dispose(farcall_options_create()) };
}

#[test]
fn a_keepalive_that_is_kept_is_named_when_the_grace_is_over() {
    let options = farcall_options_create();
    // SAFETY: the options are ours.
    unsafe { farcall_options_grace_ms(options, 20) };
    let session = session(options);
    // SAFETY: it is a text.
    let keepalive = unsafe { farcall_session_keepalive(session, c"an endless loop".as_ptr()) };
    assert!(!keepalive.is_null());
    let error = farcall_session_dispose(session);
    // SAFETY: the error is ours.
    assert_eq!(unsafe { farcall_error_code_of(error) }, ErrorCode::Timeout);
    let text = message(error);
    assert!(text.contains("an endless loop"), "{text}");
    // SAFETY: it is released once.
    unsafe { farcall_keepalive_release(keepalive) };
}

/// Linked code, as far as the session knows: asks the controller, and answers with its answer.
unsafe extern "C" fn ask(session: *mut Session, args: Buffer, answer: Return, call_id: u64) {
    // SAFETY: the arguments are given.
    let result = unsafe { farcall_session_call_controller_and_wait(session, 7, args) };
    // SAFETY: the one answer to the call.
    unsafe { answer.expect("a function")(session, result, call_id) };
}

#[test]
fn linked_code_is_called_with_the_session() {
    let options = farcall_options_create();
    // SAFETY: the options are ours.
    unsafe { farcall_options_linked_code(options, true) };
    let session = session(options);
    let (ours, theirs) = UnixStream::pair().expect("a pair of sockets");
    let error = farcall_session_attach_socket(session, theirs.into_raw_fd());
    assert!(error.is_null(), "{}", message(error));
    let client = Client::connect(Connection::socket(ours).expect("a socket")).expect("a setup");
    client.register_handler(7, |_, args, result| {
        result.extend(args.iter().rev());
        Ok(())
    });
    let ask = ExecutorAddr::new((ask as *const ()).expose_provenance() as u64);
    for args in [&b""[..], b"abc", b"abcdefghijkl"] {
        let answer = client.call(ask, args, None).expect("an answer");
        assert!(answer.iter().eq(args.iter().rev()), "{args:?}");
    }
    drop(client);
    let error = farcall_session_dispose(session);
    assert!(error.is_null(), "{}", message(error));
}

#[test]
fn buffers_have_four_states() {
    let bytes = [7_u8; 20];
    for size in [0, 1, 8, 9, 20] {
        // SAFETY: the buffer has this many bytes.
        let mut buffer = unsafe { farcall_buffer_from_range(bytes.as_ptr().cast(), size) };
        // SAFETY: the buffer is ours.
        let data = unsafe { farcall_buffer_data(&raw mut buffer) }.cast::<u8>();
        // SAFETY: as above.
        assert_eq!(unsafe { farcall_buffer_size(&raw const buffer) }, size);
        // SAFETY: the buffer has this many bytes.
        assert_eq!(unsafe { std::slice::from_raw_parts(data, size) }, &bytes[..size]);
        // SAFETY: the buffer is ours.
        assert_eq!(unsafe { farcall_buffer_is_empty(&raw const buffer) }, size == 0);
        // SAFETY: as above, twice: it is empty then.
        unsafe { farcall_buffer_dispose(&raw mut buffer) };
        // SAFETY: as above.
        unsafe { farcall_buffer_dispose(&raw mut buffer) };
        // SAFETY: as above.
        assert!(unsafe { farcall_buffer_is_empty(&raw const buffer) });
        let mut zeros = farcall_buffer_allocate(size);
        // SAFETY: as above.
        let data = unsafe { farcall_buffer_data(&raw mut zeros) }.cast::<u8>();
        // SAFETY: the buffer has this many bytes.
        assert!(unsafe { std::slice::from_raw_parts(data, size) }.iter().all(|byte| *byte == 0));
        // SAFETY: as above.
        unsafe { farcall_buffer_dispose(&raw mut zeros) };
    }
    // SAFETY: it is a text.
    let mut text = unsafe { farcall_buffer_from_string(c"four".as_ptr()) };
    // SAFETY: the buffer is ours.
    assert_eq!(unsafe { farcall_buffer_size(&raw const text) }, 5, "the NUL counts");
    // SAFETY: as above.
    unsafe { farcall_buffer_dispose(&raw mut text) };
}
