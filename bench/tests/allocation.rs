//! Memory without the linker: in flight, finalized, called, deallocated, used again.
//!
//! Invariant: every answer checked comes from code that this test wrote.

use farcall::controller::{ExecutorBuilder, Process};
use farcall::{ErrorKind, PerProt, Prot};
use farcall_bench::tiny_code;

fn start() -> Process {
    ExecutorBuilder::new()
        .program(env!("CARGO_BIN_EXE_farcall-bench"))
        .start()
        .and_then(|executor| executor.process())
        .expect("an executor")
}

#[test]
fn code_is_written_called_and_replaced_without_a_message() {
    let process = start();
    let before = process.stats();
    let mut addresses = Vec::new();
    for number in 1..=1_000_u64 {
        let code = tiny_code::constant(number);
        let mut memory =
            process.allocate(PerProt { code: code.len() as u64, ..PerProt::default() }).unwrap();
        memory.write(Prot::Code, &code);
        let memory = memory.finalize();
        addresses.push(memory.address());
        let answer = process.call(memory.address(), &[]).unwrap();
        assert_eq!(answer, number.to_le_bytes());
        process.deallocate([memory]).unwrap();
    }
    let after = process.stats();
    assert_eq!(
        (after.calls - before.calls, after.round_trips - before.round_trips),
        (1_000, 1_000)
    );
    addresses.dedup();
    assert_eq!(addresses.len(), 1, "the same pages are used again");
}

#[test]
fn memory_that_is_live_is_not_handed_out_again() {
    let process = start();
    let memory = [1, 2, 3].map(|number| {
        let code = tiny_code::constant(number);
        let mut memory =
            process.allocate(PerProt { code: code.len() as u64, constants: 8, data: 8 }).unwrap();
        memory.write(Prot::Code, &code);
        memory.finalize()
    });
    for (one, number) in memory.iter().zip(1_u64..) {
        assert_eq!(process.call(one.address(), &[]).unwrap(), number.to_le_bytes());
    }
    process.deallocate(memory).unwrap();
}

#[test]
fn memory_in_flight_comes_back_when_it_is_dropped() {
    let process = start();
    let first = process.allocate(PerProt { code: 1, data: 4097, ..PerProt::default() }).unwrap();
    let (code, data) = (first.range(Prot::Code), first.range(Prot::Data));
    assert_eq!((code.bytes(), data.bytes()), (4096, 8192));
    assert_eq!(first.range(Prot::Constants).bytes(), 0);
    drop(first);
    let second = process.allocate(PerProt { code: 1, data: 1, ..PerProt::default() }).unwrap();
    assert_eq!((second.range(Prot::Code), second.range(Prot::Data).start), (code, data.start));
}

#[test]
fn nothing_is_an_allocation_too() {
    let process = start();
    let memory = process.allocate(PerProt::default()).unwrap().finalize();
    assert!(memory.address().is_null());
    process.deallocate([memory]).unwrap();
}

#[test]
fn memory_of_another_session_is_refused() {
    let (ours, theirs) = (start(), start());
    // Not at an address that is live in both.
    let distance = theirs.allocate(PerProt { code: 1 << 20, ..PerProt::default() }).unwrap();
    let memory = theirs.allocate(PerProt { code: 1, ..PerProt::default() }).unwrap().finalize();
    let error = ours.deallocate([memory]).unwrap_err();
    assert!(error.kind() == ErrorKind::InvalidArgument, "{error}");
    drop(distance);
}

#[test]
fn more_than_there_is_is_an_error_and_takes_nothing() {
    let process = start();
    let code =
        process.allocate(PerProt { code: 1, ..PerProt::default() }).unwrap().range(Prot::Code);
    let error = process.allocate(PerProt { code: 1, constants: 1, data: u64::MAX }).unwrap_err();
    assert!(error.kind() == ErrorKind::Exhausted, "{error}");
    assert_eq!(
        process.allocate(PerProt { code: 1, ..PerProt::default() }).unwrap().range(Prot::Code),
        code
    );
}

#[test]
#[cfg(debug_assertions)]
#[should_panic(expected = "was never deallocated")]
fn forgetting_finalized_memory_is_caught() {
    let process = start();
    drop(process.allocate(PerProt { code: 1, ..PerProt::default() }).unwrap().finalize());
}
