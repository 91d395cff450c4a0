//! `NativeDylibManagerTest` of LLVM's runtime, through the functions that are called by message.

use std::sync::Arc;

use std::ffi::CStr;

use super::*;
use crate::executor::session::connected;
use crate::sps;

/// A library that every system has and that this program does not use by itself.
const LIBRARY: &str = "libm.so.6";

/// A session, to be ended by hand.
fn session() -> Arc<Instance> {
    Instance::begin(None)
}

/// Calls the function with encoded arguments, and returns its own result.
fn load_in(session: &Instance, path: &str) -> std::result::Result<ExecutorAddr, String> {
    let args = sps::to_bytes(&(session.instance(), path));
    NativeLoad::serve(sps::from_bytes(&args).expect("decodes")).expect("an answer").0
}

/// The same, in a session that never ends.
fn open_library(path: &str) -> std::result::Result<ExecutorAddr, String> {
    load_in(&session(), path)
}

fn lookup(handle: ExecutorAddr, wanted: &[(&str, bool)]) -> Vec<Option<ExecutorAddr>> {
    let args = sps::to_bytes(&(PROCESS, handle, wanted));
    let found = NativeLookup::serve(sps::from_bytes(&args).expect("decodes"));
    found.expect("an answer").0.expect("a list")
}

/// The address that the dynamic linker of this process reports.
fn known(name: &CStr) -> Option<ExecutorAddr> {
    Some(find(name).expect("this process has it"))
}

#[test]
fn create() {
    let offered = crate::executor::services::names_offered::symbols(&session())
        .into_iter()
        .chain(connected::functions());
    let offered: Vec<_> = offered.collect();
    for name in ["ci_NativeDylibManager_Instance", "ci_sps_NativeDylibManager_load"] {
        let (_, address) = offered.iter().find(|(other, _)| other.ends_with(name)).expect(name);
        assert!(!address.is_null(), "{name}");
    }
}

#[test]
fn load() {
    let handle = open_library(LIBRARY).expect("a library");
    assert!(!handle.is_null() && handle != PROCESS);
    assert_eq!(open_library(LIBRARY).expect("the same"), handle);
}

/// Libraries that no test uses otherwise: small ones of the C library.
const UNUSED: [&str; 2] = ["libBrokenLocale.so.1", "libthread_db.so.1"];

fn is_mapped(library: &str) -> bool {
    std::fs::read_to_string("/proc/self/maps").expect("Linux").contains(library)
}

#[test]
fn libraries_are_closed_with_their_last_session() {
    let [one, other] = UNUSED;
    let (first, second) = (session(), session());
    for (session, library) in [(&first, one), (&first, other), (&first, one), (&second, one)] {
        load_in(session, library).expect("a library");
    }
    assert!(is_mapped(one) && is_mapped(other));
    first.end().expect("no actions");
    assert!(is_mapped(one) && !is_mapped(other), "each as often as it was opened");
    let args = sps::to_bytes(&(first.instance(), other));
    assert!(NativeLoad::serve(sps::from_bytes(&args).expect("decodes")).is_err(), "it is over");
    second.end().expect("no actions");
    assert!(!is_mapped(one));
}

#[test]
fn load_non_existent() {
    let error = open_library("/no/such/library.so").expect_err("there is none");
    assert!(error.contains("cannot open /no/such/library.so"), "{error}");
    assert!(open_library("nul\0inside").expect_err("no name").contains("NUL"));
}

#[test]
fn load_empty_path_returns_global_handle() {
    assert_eq!(open_library(""), Ok(PROCESS));
    assert_eq!(lookup(PROCESS, &[("malloc", true)]), [known(c"malloc")]);
}

#[test]
fn lookup_single_symbol() {
    let handle = open_library(LIBRARY).expect("a library");
    let found = lookup(handle, &[("cos", true)]);
    assert!(found[0].is_some_and(|address| !address.is_null()));
}

#[test]
fn lookup_multiple_symbols() {
    let found = lookup(PROCESS, &[("malloc", true), ("free", true), ("malloc", false)]);
    assert_eq!(found, [known(c"malloc"), known(c"free"), known(c"malloc")], "in this order");
}

#[test]
fn lookup_weak_missing() {
    let handle = open_library(LIBRARY).expect("a library");
    for handle in [PROCESS, handle] {
        assert_eq!(lookup(handle, &[("no_such_symbol", false)]), [Some(ExecutorAddr::NULL)]);
    }
}

#[test]
fn lookup_required_missing() {
    let handle = open_library(LIBRARY).expect("a library");
    for handle in [PROCESS, handle] {
        assert_eq!(lookup(handle, &[("no_such_symbol", true)]), [None]);
    }
}

#[test]
fn lookup_mixed() {
    let wanted = [("malloc", true), ("no_such", true), ("free", false), ("no_such", false)];
    let found = lookup(PROCESS, &wanted);
    assert_eq!(found, [known(c"malloc"), None, known(c"free"), Some(ExecutorAddr::NULL)]);
}
