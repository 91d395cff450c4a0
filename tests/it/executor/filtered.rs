//! Programs under a policy that refuses system calls, as containers have them.

use farcall::controller::ExecutorBuilder;
use nix::libc;

use crate::alone;
use crate::commands::native::{program, same_as_native};
use crate::testkit::corpus::PLAIN;
use crate::testkit::launch;

const PROCESS_VM_READV: i64 = 310;
const PROCESS_VM_WRITEV: i64 = 311;

/// Runs programs whose unwinding and thread-locals need memory by address, where neither call is there.
fn run_without(name: &str, errno: i32) {
    alone::run(name, || {
        alone::refuse(PROCESS_VM_READV, &[], errno);
        alone::refuse(PROCESS_VM_WRITEV, &[], errno);
        let exceptions = ["exceptions_a.cpp", "exceptions_b.cpp"];
        same_as_native(&program(&exceptions, &["stdc++"]), &[PLAIN]);
        same_as_native(&program(&["tls.c"], &[]), &[PLAIN]);
    });
}

#[test]
fn exceptions_where_memory_by_address_is_not_permitted() {
    run_without("executor::filtered::exceptions_where_memory_by_address_is_not_permitted", 1);
}

#[test]
fn exceptions_where_memory_by_address_is_not_known() {
    run_without("executor::filtered::exceptions_where_memory_by_address_is_not_known", 38);
}

/// Starts an executor where one call is refused. Returns the error, if there is one.
fn start_without(call: i64, errno: i32, builder: ExecutorBuilder) -> Option<String> {
    // A filter is its thread's own, and of the threads and processes that it starts.
    let start = move || {
        alone::refuse(call, &[], errno);
        let started = builder.start();
        started
            .and_then(|executor| executor.process()?.process_info())
            .err()
            .map(|error| error.to_string())
    };
    std::thread::spawn(start).join().expect("no panic")
}

#[test]
fn a_system_call_that_an_old_filter_refuses_is_named() {
    // N18
    let name = "executor::filtered::a_system_call_that_an_old_filter_refuses_is_named";
    alone::run(name, || {
        let mut refused = 0;
        for (call, word) in [
            (libc::SYS_clone3, "clone3"),
            (libc::SYS_pidfd_open, "pidfd_open"),
            (libc::SYS_prlimit64, "prlimit64"),
            (libc::SYS_fallocate, "fallocate"),
            (libc::SYS_memfd_create, "memfd_create"),
        ] {
            for errno in [libc::EPERM, libc::ENOSYS] {
                let Some(error) = start_without(call, errno, launch::builder()) else { continue };
                refused += 1;
                assert!(error.contains(&format!("refuses {word}")), "{word}, {errno}: {error}");
            }
        }
        assert!(refused >= 7, "of ten: {refused}");
    });
}
