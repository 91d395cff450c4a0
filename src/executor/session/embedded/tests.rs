//! A host's session: what it offers of this process, and linked code that calls back.
#![allow(unsafe_code, reason = "provides a wrapper function")]

use std::ffi::c_char;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use super::*;
use crate::call::contract::{NativeReserve, SESSION_INSTANCE};
use crate::error::ErrorKind;
use crate::executor::context::controller_access::CurrentSession;
use crate::executor::entry::buffer::WrapperFunctionBuffer;
use crate::executor::entry::controller_call::call_controller;
use crate::executor::entry::wrapper::offer;
use crate::session::{InProcess, SESSION_SYMBOL};

fn options() -> SessionBuilder {
    SessionBuilder::new(|task| drop(thread::spawn(|| task.run())))
        .on_error(|_, error| panic!("{error}"))
}

#[test]
fn a_session_that_is_over_is_not_found() {
    let session = options().build().expect("a session");
    let instance = session.bootstrap_info().symbols().get(SESSION_INSTANCE).expect("offered");
    assert!(Instance::at(instance).is_ok());
    session.shutdown(|| {});
    session.wait().expect("it is over");
    assert!(Instance::at(instance).is_err(), "it is not found any more");
}

// BootstrapInfoTest

#[test]
fn create_default_succeeds() {
    let session = options().build().expect("a session");
    let info = session.bootstrap_info();
    assert!(info.symbols().len() > 60 && info.symbols().iter().all(|(_, at)| !at.is_null()));
}

#[test]
fn process_info_delegates() {
    let session = options().build().expect("a session");
    let info = session.bootstrap_info();
    assert_eq!((info.triple(), info.page_bytes()), (&*process_info::triple(), PAGE_BYTES));
}

#[test]
fn create_default_contains_session_symbol() {
    let session = options().build().expect("a session");
    let symbols = session.bootstrap_info().symbols();
    assert_eq!(symbols.get(SESSION_SYMBOL), Some(session.address()));
}

#[test]
fn create_default_contains_sps_ci_symbols() {
    let session = options().build().expect("a session");
    let symbols = session.bootstrap_info().symbols();
    let (name, address) = offer::<NativeReserve>();
    assert_eq!(name, "orc_rt_ci_sps_SimpleNativeMemoryMap_reserve");
    assert_eq!(symbols.get(&name), Some(address));
}

#[test]
fn create_default_with_custom_values_builder() {
    let options = options().value("test_key", *b"test_value").expect("a value");
    let session = options.build().expect("a session");
    let info = session.bootstrap_info();
    assert_eq!(info.value("test_key"), Some(&b"test_value"[..]));
    assert_eq!(info.values().count(), 2, "beside that which is always there");
}

#[test]
fn create_default_contains_subtarget_features() {
    let session = options().build().expect("a session");
    let features = session.bootstrap_info().value(SUBTARGET_FEATURES);
    assert_eq!(features, Some(process_info::features().as_bytes()));
}

#[test]
fn options_of_which_no_session_is_made_leave_nothing() {
    let memory = Memory(Instance::begin(None));
    let instance = memory.0.instance();
    assert!(Instance::at(instance).is_ok());
    drop(options().service(memory));
    assert!(Instance::at(instance).is_err());
}

/// Linked code: calls handler 5 with its arguments, and returns the handler's result.
unsafe extern "C" fn calls_back(data: *const c_char, size: usize) -> WrapperFunctionBuffer {
    // SAFETY: the arguments of a wrapper function are readable.
    unsafe { call_controller::<CurrentSession>(5, data, size) }
}

#[test]
fn linked_code_calls_the_controller_of_its_own_session() {
    let address = ExecutorAddr::new(calls_back as *const () as u64);
    // Two sessions, so that the only one is not a fallback.
    let sessions = [1_u8, 2].map(|number| {
        let (access, controller) = InProcess::new(move |tag, mut args, reply| {
            assert_eq!(tag, 5);
            args.push(number);
            reply.send(if args[0] == 0 { Err("a zero".to_owned()) } else { Ok(args) });
        });
        let session = options().build().expect("a session");
        session.attach(access).expect("attached");
        (session, controller, number)
    });
    for (_session, controller, number) in &sessions {
        let call = |args: Vec<u8>| {
            let (sender, receiver) = mpsc::channel();
            controller.call(address, args, move |outcome| drop(sender.send(outcome)));
            receiver.recv_timeout(Duration::from_secs(30)).expect("completed")
        };
        assert_eq!(call(vec![9; 20]).expect("a result"), [&[9; 20][..], &[*number]].concat());
        let error = call(vec![0]).expect_err("out of band");
        assert!(error.kind() == ErrorKind::Remote && error.to_string() == "a zero", "{error:?}");
    }
}

// SessionSPSCITest

/// The answer for these names of a session that offers `foo` and `bar`, as LLVM's controller asks for it.
fn look_up(names: &[(&str, bool)]) -> Vec<Option<u64>> {
    let symbols = [("foo", ExecutorAddr::new(0xf)), ("bar", ExecutorAddr::new(0xb))];
    let session = options().symbols(symbols).expect("free").build().expect("a session");
    let (access, controller) = InProcess::new(|_, _, reply| reply.send(Err("no handler".into())));
    session.attach(access).expect("the first");
    let function = session.bootstrap_info().symbols().get(SessionLookup::NAME).expect("offered");
    let (done, is_done) = mpsc::channel();
    let names: Vec<_> = names.iter().map(|(name, is_required)| (*name, *is_required)).collect();
    controller.call(function, sps::to_bytes(&(names,)), move |found| _ = done.send(found));
    let found = is_done.recv().expect("an answer").expect("a result");
    let found = sps::from_bytes::<Vec<Option<ExecutorAddr>>>(&found).expect("addresses");
    found.into_iter().map(|entry| entry.map(ExecutorAddr::get)).collect()
}

#[test]
fn registration() {
    let session = options().build().expect("a session");
    let name = "orc_rt_ci_sps_Session_lookupInstanceSymbols";
    assert!(session.bootstrap_info().symbols().get(name).is_some());
}

#[test]
fn lookup_registered_symbol() {
    assert_eq!(look_up(&[("foo", true)]), [Some(0xf)]);
}

#[test]
fn lookup_missing_required_symbol() {
    assert_eq!(look_up(&[("missing", true)]), [None]);
}

#[test]
fn lookup_missing_weak_symbol() {
    assert_eq!(look_up(&[("missing", false)]), [Some(0)]);
}

#[test]
fn lookup_mixed_set_preserves_order() {
    let names = [("bar", true), ("missing", true), ("foo", false), ("missing", false)];
    assert_eq!(look_up(&names), [Some(0xb), None, Some(0xf), Some(0)]);
}

#[test]
fn lookup_empty_set() {
    assert_eq!(look_up(&[]), []);
}
