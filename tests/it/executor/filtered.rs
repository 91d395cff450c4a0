//! Programs under a policy that refuses system calls, as containers have them.

use crate::alone;
use crate::commands::native::{program, same_as_native};
use crate::testkit::corpus::PLAIN;

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
