//! A million calls, each with one back, from eight threads at once.
//!
//! Invariant: what comes back is compared with what arithmetic says.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use crate::call::lanes::{Session, bytes, number};

const THREADS: u64 = 8;
const CALLS: u64 = 1_000_000;

/// How many times as much as usual.
fn factor() -> u64 {
    std::env::var("FARCALL_SOAK").map_or(1, |factor| factor.parse().expect("a number"))
}

#[test]
#[ignore = "up to a minute: .ci/run runs it"]
fn soak_calls_in_both_directions() {
    let session = Session::start();
    let served = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&served);
    let tag = session.process.register_handler(move |args, result| {
        counted.fetch_add(1, Ordering::Relaxed);
        result.extend_from_slice(&(number(args) * 3).to_le_bytes());
        Ok(())
    });
    let (tag, back) = (tag.get(), session.function("back"));
    let each = CALLS * factor() / THREADS;
    let start = Instant::now();
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let process = &session.process;
            scope.spawn(move || {
                let mut result = Vec::new();
                for call in 0..each {
                    let value = thread * each + call;
                    result.clear();
                    let args = bytes(&[tag, value]);
                    process.call_into(back, &args, &mut result).expect("a product");
                    assert_eq!(number(&result), 3 * value);
                }
            });
        }
    });
    let took = start.elapsed();
    let calls = each * THREADS;
    assert_eq!(served.load(Ordering::Relaxed), calls);
    println!("soak: {calls} calls, each with one back, from {THREADS} threads in {took:.1?}");

    // The other way: threads of the program call, eight at a time, a hundred times each.
    let start = Instant::now();
    for _ in 0..each / 2_000 {
        let sum = session.call("on_threads", &[tag, THREADS]).expect("a sum");
        assert_eq!(sum, THREADS * 3 * (0..100).sum::<u64>());
    }
    let more = served.load(Ordering::Relaxed) - calls;
    println!("soak: {more} calls from threads of the program in {:.1?}", start.elapsed());
    assert!(more >= each / 2_000 * THREADS * 100);
}
