//! `SPSWrapperFunctionTest` and `SPSWrapperFunctionBufferTest` of LLVM's runtime; and answers that come late, twice
//! or never.
#![allow(unsafe_code, reason = "calls and provides wrapper functions")]

use std::sync::mpsc;
use std::sync::{Mutex, PoisonError};
use std::thread;

use super::*;
use crate::error::{Error, ErrorKind};
use crate::executor::OnResult;
use crate::executor::Proxy;
use crate::executor::entry::raw_session::WrapperFunction;
use crate::sps::{Bytes, Expected, Status};

/// The session of these tests.
fn session() -> RawSession {
    RawSession::new(ExecutorAddr::new(0x5e55_1000))
}

/// The receivers of results by call number.
static PENDING: Mutex<Vec<(u64, OnResult)>> = Mutex::new(Vec::new());

fn pending() -> std::sync::MutexGuard<'static, Vec<(u64, OnResult)>> {
    PENDING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Passes a result to its receiver. A second answer finds none.
unsafe extern "C" fn answer(from: RawSession, result: WrapperFunctionBuffer, call_id: u64) {
    assert_eq!(from, session(), "it is handed back as it was");
    let mut pending = pending();
    let at = pending.iter().position(|(other, _)| *other == call_id).expect("one answer");
    let (_, on_result) = pending.swap_remove(at);
    drop(pending);
    on_result(result);
}

/// Calls a function of this process as a session does, through the frame without unwind information.
fn proxy<A: Encode, R: for<'a> Decode<'a> + 'static>(function: WrapperFunction) -> Proxy<A, R> {
    static NEXT: Mutex<u64> = Mutex::new(0);
    Proxy::new(move |args, on_result| {
        let call_id = {
            let mut next = NEXT.lock().expect("no panic");
            *next += 1;
            u64::MAX - *next
        };
        pending().push((call_id, on_result));
        let function = ExecutorAddr::new(function as usize as u64);
        // SAFETY: these are wrapper functions, and the answer function accepts this session and number.
        unsafe { Convention::WithSession.call(function, session(), args, answer, call_id) };
    })
}

/// A wrapper function that runs this code.
macro_rules! wrapper_function {
    ($name:ident = $call:ident => $body:expr) => {
        unsafe extern "C" fn $name(
            session: RawSession,
            args: WrapperFunctionBuffer,
            answer: WrapperFunctionReturn,
            call_id: u64,
        ) {
            // SAFETY: these are the arguments of a wrapper function.
            let $call = unsafe { WrapperCall::new(session, args, answer, call_id) };
            $body
        }
    };
}

fn add((a, b): (i32, i32)) -> i32 {
    a + b
}

#[test]
fn void_noop() {
    wrapper_function!(noop = call => call.handle_sync(|()| ()));
    proxy::<(), ()>(noop).call_and_wait(&()).expect("nothing");
    // Void is empty, and no argument is.
    assert!(sps::to_bytes(&()).is_empty());
}

#[test]
fn binary_op_via_lambda() {
    wrapper_function!(lambda = call => call.handle_sync(|(a, b): (i32, i32)| a + b));
    assert_eq!(proxy::<_, i32>(lambda).call_and_wait(&(41, 1)).expect("a sum"), 42);
}

#[test]
fn binary_op_via_function() {
    wrapper_function!(function = call => call.handle_sync(add));
    assert_eq!(proxy::<_, i32>(function).call_and_wait(&(-1, -2)).expect("a sum"), -3);
}

#[test]
fn binary_op_via_function_pointer() {
    wrapper_function!(by_pointer = call => call.handle_sync(add as fn((i32, i32)) -> i32));
    assert_eq!(proxy::<_, i32>(by_pointer).call_and_wait(&(2, 3)).expect("a sum"), 5);
}

#[test]
fn round_trip_string_via_span() {
    wrapper_function!(reversed = call => call.handle_view(|reply: WrapperReply<String>, bytes| {
        let (text,) = sps::from_bytes::<(&str,)>(bytes).expect("decodes");
        let place = bytes.as_ptr_range();
        assert!((place.start..=place.end).contains(&text.as_ptr()), "it lies in the arguments");
        reply.send(text.chars().rev().collect::<String>());
    }));
    for (text, back) in [("", ""), ("hello, world", "dlrow ,olleh"), ("ß", "ß")] {
        let result = proxy::<_, String>(reversed).call_and_wait(&(text,));
        assert_eq!(result.expect("text"), back);
    }
}

wrapper_function!(check = call => call.handle(|reply: WrapperReply<Status>, (fail,): (bool,)| {
    reply.send(if fail { Err(Error::remote("no")) } else { Ok(()) });
}));

#[test]
fn transparent_conversion_error_success_case() {
    let outcome = proxy::<_, Status>(check).call_and_wait(&(false,));
    assert_eq!(outcome.expect("the call"), Status(Ok(())));
}

#[test]
fn transparent_conversion_error_failure_case() {
    let outcome = proxy::<_, Status>(check).call_and_wait(&(true,));
    // The call succeeds, and its function fails.
    assert_eq!(outcome.expect("the call"), Status(Err("no".to_owned())));
    let merged = proxy(check).call_and_wait(&(true,)).and_then(Status::into_result);
    assert!(merged.expect_err("no").kind() == ErrorKind::Remote);
}

wrapper_function!(halve = call => call.handle(|reply: WrapperReply<Expected<u32>>, (n,): (u32,)| {
    let odd = || Error::remote(format!("{n} is odd"));
    reply.send(if n % 2 == 0 { Ok(n / 2) } else { Err(odd()) });
}));

#[test]
fn transparent_conversion_expected_success_case() {
    let outcome = proxy::<_, Expected<u32>>(halve).call_and_wait(&(8_u32,));
    assert_eq!(outcome.expect("the call"), Expected(Ok(4)));
    let merged = proxy(halve).call_and_wait(&(8_u32,)).and_then(Expected::<u32>::into_result);
    assert_eq!(merged.expect("half"), 4);
}

#[test]
fn transparent_conversion_expected_failure_case() {
    let outcome = proxy::<_, Expected<u32>>(halve).call_and_wait(&(7_u32,));
    assert_eq!(outcome.expect("the call"), Expected(Err("7 is odd".to_owned())));
}

#[test]
fn handler_with_references() {
    wrapper_function!(lengths = call => call.handle_view(|reply: WrapperReply<(u64, u64)>, bytes| {
        let (text, raw) = sps::from_bytes::<(&str, &[u8])>(bytes).expect("decodes");
        reply.send((text.len() as u64, raw.len() as u64));
    }));
    let result = proxy::<_, (u64, u64)>(lengths).call_and_wait(&("four", vec![1_u8, 2]));
    assert_eq!(result.expect("lengths"), (4, 2));
}

/// An object in this process.
struct Counter {
    count: Mutex<i64>,
}

impl Counter {
    fn add(&self, more: i64) -> i64 {
        let mut count = self.count.lock().expect("no panic");
        *count += more;
        *count
    }
}

fn address(counter: &Counter) -> ExecutorAddr {
    ExecutorAddr::new(std::ptr::from_ref(counter).expose_provenance() as u64)
}

#[test]
fn handle_with_async_method() {
    wrapper_function!(add_later = call => {
        let add = |reply: WrapperReply<i64>, counter: &Counter, (more,): (i64,)| {
            let sum = counter.add(more);
            thread::spawn(move || reply.send(sum));
        };
        // SAFETY: the test passes addresses of counters, and null or misaligned ones.
        unsafe { call.handle_method(add) }
    });
    let counter = Counter { count: Mutex::new(40) };
    let add = proxy::<(ExecutorAddr, i64), i64>(add_later);
    assert_eq!(add.call_and_wait(&(address(&counter), 2)).expect("a sum"), 42);
    for nothing in [0, address(&counter).get() + 1] {
        let error = add.call_and_wait(&(ExecutorAddr::new(nothing), 2)).expect_err("no object");
        assert!(error.to_string().contains(&format!("at {nothing:#x}")), "{error}");
    }
    assert_eq!(counter.add(0), 42);
}

#[test]
fn handle_with_sync_method() {
    wrapper_function!(add_now = call => {
        let add = |counter: &Counter, (more,): (i64,)| counter.add(more);
        // SAFETY: the test calls it with the address of a counter.
        unsafe { call.handle_method_sync(add) }
    });
    let counter = Counter { count: Mutex::new(1) };
    let result = proxy::<_, i64>(add_now).call_and_wait(&(address(&counter), 2_i64));
    assert_eq!(result.expect("a sum"), 3);
}

#[test]
fn answers_come_later_in_any_order_and_once() {
    static REPLIES: Mutex<Vec<(u32, WrapperReply<u32>)>> = Mutex::new(Vec::new());
    wrapper_function!(keep = call => call.handle(|reply, (number,): (u32,)| {
        REPLIES.lock().expect("no panic").push((number, reply));
    }));
    let (done, is_done) = mpsc::channel();
    for number in 0..100 {
        let done = done.clone();
        proxy::<_, u32>(keep)
            .call(&(number,), move |result| done.send((number, result)).expect("a receiver"));
    }
    assert!(is_done.try_recv().is_err());
    let replies = std::mem::take(&mut *REPLIES.lock().expect("no panic"));
    let (even, odd): (Vec<_>, Vec<_>) = replies.into_iter().partition(|(n, _)| n % 2 == 0);
    let send = |replies: Vec<(u32, WrapperReply<u32>)>| {
        move || replies.into_iter().rev().for_each(|(number, reply)| reply.send(number * 2))
    };
    let threads = [thread::spawn(send(even)), thread::spawn(send(odd))];
    threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
    let mut results: Vec<_> = is_done.try_iter().collect();
    results.sort_by_key(|(number, _)| *number);
    assert_eq!(results.len(), 100);
    for (number, result) in results {
        assert_eq!(result.expect("a result"), number * 2);
    }
}

#[test]
fn a_function_that_gives_no_answer_gives_an_error() {
    wrapper_function!(forgets = call => drop(call));
    wrapper_function!(drops = call => call.handle(|_: WrapperReply<()>, ()| ()));
    wrapper_function!(panics = call => call.handle_sync(|()| -> () {
        panic!("as the test wants it")
    }));
    wrapper_function!(says_so = call => call.handle(|reply: WrapperReply<()>, ()| {
        reply.send_out_of_band("out of order");
    }));
    for (function, message) in [
        (forgets as WrapperFunction, "gave no answer"),
        (drops, "gave no answer"),
        (panics, "panicked"),
        (says_so, "out of order"),
    ] {
        let error = proxy::<(), ()>(function).call_and_wait(&()).expect_err("an error");
        assert!(
            error.kind() == ErrorKind::Remote && error.to_string().contains(message),
            "{error}"
        );
    }
}

/// A panic payload that panics when it is dropped.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("dropped");
    }
}

#[test]
fn the_payload_of_a_handlers_panic_may_panic_too() {
    wrapper_function!(panics = call => call.handle_sync(|()| -> () {
        std::panic::panic_any(Bomb)
    }));
    let error = proxy::<(), ()>(panics).call_and_wait(&()).expect_err("an error");
    assert!(error.kind() == ErrorKind::Remote && error.to_string().contains("panicked"), "{error}");
}

#[test]
fn arguments_that_cannot_be_decoded_reach_no_function() {
    wrapper_function!(never = call => call.handle_sync(|_: (u64, String)| -> u32 {
        panic!("there are no arguments")
    }));
    let error = proxy::<_, u32>(never).call_and_wait(&(1_u8,)).expect_err("undecodable");
    assert!(error.to_string().contains("could not deserialize argument data"), "{error}");
    // An error as the argument is returned as the result.
    let (done, is_done) = mpsc::channel();
    let on_result = move |result: WrapperFunctionBuffer| _ = done.send(result.into_result());
    pending().push((7, Box::new(on_result)));
    let args = WrapperFunctionBuffer::out_of_band("from before");
    // SAFETY: this is how a wrapper function is called.
    unsafe { never(session(), args, answer, 7) };
    let result = is_done.recv().expect("an answer");
    assert_eq!(result.expect_err("an error"), "from before");
}

#[test]
fn results_that_cannot_be_decoded_are_an_error_of_the_call() {
    wrapper_function!(short = call => call.handle_sync(|()| 7_u8));
    let error = proxy::<(), u64>(short).call_and_wait(&()).expect_err("undecodable");
    assert!(error.to_string().contains("could not deserialize result data"), "{error}");
}

#[test]
fn a_call_that_is_dropped_completes() {
    let lost = Proxy::<(), ()>::new(|_, on_result| drop(on_result));
    let error = lost.call_and_wait(&()).expect_err("lost");
    assert!(error.is_disconnected(), "{error}");
}

#[test]
fn arguments_that_no_call_may_have_are_not_sent() {
    /// Claims to have many bytes.
    struct Huge;
    impl Encode for Huge {
        fn encoded_bytes(&self) -> usize {
            usize::MAX
        }
        fn encode(&self, _: &mut Vec<u8>) {
            panic!("not sent")
        }
    }
    let proxy = Proxy::<Huge, ()>::new(|_, _| panic!("not sent"));
    assert!(proxy.call_and_wait(&Huge).expect_err("too long").kind() == ErrorKind::Exhausted);
}

#[test]
fn both_conventions_are_called_alike() {
    unsafe extern "C" fn sum(data: *const std::ffi::c_char, size: usize) -> WrapperFunctionBuffer {
        // SAFETY: this many bytes are there.
        let bytes = unsafe { std::slice::from_raw_parts(data.cast::<u8>(), size) };
        match bytes.iter().copied().reduce(|sum, byte| sum.wrapping_add(byte)) {
            Some(sum) => WrapperFunctionBuffer::from_bytes(&[sum]),
            None => WrapperFunctionBuffer::out_of_band("nothing to add"),
        }
    }
    wrapper_function!(other = call => call.handle_view(|reply: WrapperReply<u8>, bytes| {
        match bytes.iter().copied().reduce(|sum, byte| sum.wrapping_add(byte)) {
            Some(sum) => reply.send(sum),
            None => reply.send_out_of_band("nothing to add"),
        }
    }));
    let (plain, with_session) = (sum as *const (), other as *const ());
    for (convention, function) in
        [(Convention::Llvm22, plain), (Convention::WithSession, with_session)]
    {
        let function = ExecutorAddr::new(function.expose_provenance() as u64);
        let call = |function, args, call_id| {
            let (done, is_done) = mpsc::channel();
            let on_result = move |result: WrapperFunctionBuffer| _ = done.send(result);
            pending().push((call_id, Box::new(on_result)));
            // SAFETY: the addresses belong to such functions, or are null.
            unsafe { convention.call(function, session(), args, answer, call_id) };
            is_done.recv().expect("an answer").into_result()
        };
        let id = 1000 * (1 + convention as u64);
        let bytes = |bytes: &[u8]| WrapperFunctionBuffer::from_bytes(bytes);
        assert_eq!(call(function, bytes(&[1, 2, 39]), id).expect("a sum").as_bytes(), [42]);
        assert_eq!(call(function, bytes(&[1; 100]), id + 1).expect("a sum").as_bytes(), [100]);
        let empty = call(function, bytes(&[]), id + 2);
        assert_eq!(empty.expect_err("an error"), "nothing to add");
        let null = call(ExecutorAddr::NULL, bytes(&[1]), id + 3);
        assert_eq!(null.expect_err("an error"), "call of address 0");
        let error = call(function, WrapperFunctionBuffer::out_of_band("from before"), id + 4);
        assert_eq!(error.expect_err("an error"), "from before");
    }
}

/// Buffers are encoded in arguments and results as sequences of bytes.
fn round_trip_buffer(content: &[u8]) {
    wrapper_function!(echo = call => call.handle_sync(|(bytes,): (Bytes,)| bytes));
    let echo = proxy::<_, Bytes>(echo);
    let buffer = WrapperFunctionBuffer::from_bytes(content);
    let result = echo.call_and_wait(&(Bytes(buffer.as_bytes().to_vec()),)).expect("bytes");
    assert_eq!(result.0, content);
}

#[test]
fn empty_buffer() {
    round_trip_buffer(&[]);
}

#[test]
fn small_buffer() {
    round_trip_buffer(&[1, 2, 3]);
}

#[test]
fn big_buffer() {
    round_trip_buffer(&[7; 10_000]);
}
