//! The life of executors of isolated functions: where they run, crashes, panics, time-outs, rights, threads.
#![allow(unsafe_code, reason = "a test wants a crash")]

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::Poll;
use std::time::{Duration, Instant};

use farcall::{Error, ErrorKind, isolate};
use serde::{Deserialize, Serialize};

#[isolate]
fn pid() -> u32 {
    std::process::id()
}

#[isolate(restart = 1000)]
fn pid_of_another() -> u32 {
    std::process::id()
}

#[test]
fn functions_with_the_same_options_share_one_executor() {
    let own = std::process::id();
    assert_ne!(pid(), own);
    assert_eq!([pid(), pid()], [pid(), crashing_pid()]);
    assert_ne!(pid(), pid_of_another());
}

#[isolate]
fn crashing_pid() -> u32 {
    pid()
}

#[isolate(restart = 1000, confine = "isolated")]
fn read_at(address: usize) -> Result<u8, Error> {
    // SAFETY: none; the test wants a crash.
    Ok(unsafe { *(address as *const u8) })
}

#[test]
fn a_crash_is_an_error_and_the_next_call_is_right() {
    let byte = 7_u8;
    for _ in 0..3 {
        let error = read_at(8).expect_err("nothing is there");
        assert!(error.death().is_some(), "{error}");
        // The address is one of the host's, or nothing: either way an answer.
        let _ = read_at((&raw const byte).addr());
    }
}

#[isolate(restart = 0)]
fn end() {
    std::process::abort();
}

#[test]
fn a_function_without_a_result_panics_in_the_caller() {
    let panic = std::panic::catch_unwind(end).expect_err("it ended its process");
    let text = panic.downcast_ref::<String>().expect("text");
    assert!(
        text.starts_with("the isolated function end has failed: executor died by SIGABRT"),
        "{text}"
    );
}

#[isolate]
fn checked(number: i32) -> Result<i32, Error> {
    assert!(number >= 0, "{number} is below 0");
    Ok(number)
}

#[test]
fn a_panic_is_an_error_with_its_message_and_costs_no_process() {
    let process = pid();
    let error = checked(-5).expect_err("it panics");
    assert_eq!(
        (error.kind(), &*error.to_string()),
        (ErrorKind::Remote, "checked panicked: -5 is below 0")
    );
    assert_eq!((checked(5).expect("no panic"), pid()), (5, process));
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
enum Trouble {
    Small { number: i32 },
    Other(String),
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Self {
        Self::Other(error.to_string())
    }
}

type Outcome<T> = Result<T, Trouble>;

#[isolate]
fn large(number: i32) -> Outcome<String> {
    match number {
        ..0 => panic!("below 0"),
        0..100 => Err(Trouble::Small { number }),
        _ => Ok(number.to_string()),
    }
}

#[isolate]
fn boxed(number: i32) -> Result<i32, Box<dyn std::error::Error + Send + Sync>> {
    Ok(number.to_string().repeat(3).parse()?)
}

#[test]
fn errors_cross_by_value_where_serde_knows_them_else_as_text() {
    assert_eq!(large(100), Ok("100".to_owned()));
    assert_eq!(large(5), Err(Trouble::Small { number: 5 }));
    assert_eq!(large(-1), Err(Trouble::Other("large panicked: below 0".to_owned())));
    assert_eq!(boxed(7).expect("a number"), 777);
    let error = boxed(i32::MAX).expect_err("too large");
    assert_eq!(error.to_string(), "number too large to fit in target type");
}

#[isolate(timeout = "50ms")]
fn sleep_ms(milliseconds: u64) -> Result<u64, Error> {
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_millis(milliseconds) {
        std::hint::spin_loop();
    }
    Ok(milliseconds)
}

#[test]
fn a_call_over_its_time_ends_and_the_next_is_right() {
    let error = sleep_ms(1 << 40).expect_err("it takes years");
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
    assert_eq!(sleep_ms(0).expect("in time"), 0);
}

#[isolate(confine = "strict")]
fn open(path: &str) -> Result<bool, Error> {
    Ok(std::fs::read(path).is_ok())
}

#[test]
fn a_strict_function_reads_no_files_of_the_user() {
    let path = std::env::current_exe().expect("a path").with_file_name("secret of isolate");
    std::fs::write(&path, "secret").expect("a folder");
    let path_text = path.to_str().expect("UTF-8");
    assert!(std::fs::read(path_text).is_ok());
    assert!(!open(path_text).expect("the function returns"));
    std::fs::remove_file(&path).expect("it is there");
}

#[isolate(memory = "256 MiB")]
fn allocate(bytes: usize) -> Result<bool, Error> {
    Ok(Vec::<u8>::new().try_reserve_exact(bytes).is_ok())
}

#[test]
fn the_memory_of_an_executor_has_a_bound() {
    assert!(allocate(1 << 20).expect("it returns"));
    assert!(!allocate(2 << 30).expect("it returns"));
}

static CALLS: AtomicU32 = AtomicU32::new(0);

#[isolate]
fn count_calls() -> u32 {
    CALLS.fetch_add(1, Ordering::Relaxed) + 1
}

#[test]
fn statics_of_the_executor_are_its_own_and_stay() {
    let first = count_calls();
    assert!(count_calls() > first);
    assert_eq!(CALLS.load(Ordering::Relaxed), 0);
}

#[isolate(processes = 3)]
fn slow_pid() -> u32 {
    std::thread::sleep(Duration::from_millis(20));
    std::process::id()
}

#[test]
fn several_processes_serve_threads_side_by_side() {
    let pids = std::thread::scope(|scope| {
        let calls: Vec<_> = (0..6).map(|_| scope.spawn(slow_pid)).collect();
        calls.into_iter().map(|call| call.join().expect("no panic")).collect::<BTreeSet<_>>()
    });
    assert!((2..=3).contains(&pids.len()), "{pids:?}");
}

#[test]
fn threads_call_one_executor_at_the_same_time() {
    std::thread::scope(|scope| {
        for thread in 0..8_i32 {
            scope.spawn(move || {
                for number in 0..2000 {
                    assert_eq!(checked(number + thread).expect("no panic"), number + thread);
                }
            });
        }
    });
}

#[isolate]
async fn later(number: u32, text: &str) -> Result<String, Error> {
    let mut is_second = false;
    std::future::poll_fn(|context| {
        if std::mem::replace(&mut is_second, true) {
            return Poll::Ready(());
        }
        let waker = context.waker().clone();
        std::thread::spawn(move || waker.wake());
        Poll::Pending
    })
    .await;
    Ok(format!("{text}{number} in {}", std::process::id()))
}

#[test]
fn an_asynchronous_function_is_awaited() {
    let text = farcall::isolate::block_on(async { (later(1, "a").await, later(2, "b").await) });
    let process = pid();
    assert_eq!(text.0.expect("it returns"), format!("a1 in {process}"));
    assert_eq!(text.1.expect("it returns"), format!("b2 in {process}"));
}

#[derive(Debug, Clone, Serialize, Deserialize)]
enum List {
    End,
    More(Box<List>),
}

#[isolate]
fn list(depth: u32) -> Result<List, Error> {
    Ok((0..depth).fold(List::End, |list, _| List::More(Box::new(list))))
}

#[test]
fn a_value_that_is_nested_too_deep_is_an_error() {
    assert!(list(20).is_ok());
    let error = list(100_000).expect_err("deeper than the decoder goes");
    assert!(error.to_string().contains("over 64 deep"), "{error}");
}

#[test]
fn an_executor_of_another_program_is_refused() {
    let error = of_another_program().expect_err("it is no executor");
    assert!(error.to_string().contains("/bin/true"), "{error}");
}

#[isolate(executor = "/bin/true")]
fn of_another_program() -> Result<u32, Error> {
    Ok(1)
}

#[isolate(confine = "strict", memory = "512 MiB")]
fn strict_pid() -> Result<u32, Error> {
    Ok(std::process::id())
}

#[isolate]
fn call_strict() -> Result<u32, Error> {
    strict_pid()
}

#[isolate(confine = "strict", memory = "256 MiB")]
fn call_from_stricter() -> Result<bool, Error> {
    Ok(strict_pid()? == std::process::id())
}

#[test]
fn a_confined_function_does_not_run_with_more_rights() {
    assert!(call_from_stricter().expect("it has fewer rights"));
    let error = call_strict().expect_err("it has more rights");
    assert!(error.to_string().contains("more rights or memory"), "{error}");
    assert_ne!(strict_pid().expect("it runs"), pid());
}

fn farcall_twice(number: u32) -> u32 {
    number * 2
}

fn isolated(number: u32) -> u32 {
    farcall_twice(number)
}

fn read(number: u32) -> u32 {
    number + 1
}

/// Names that the attribute's own code has, or had.
#[isolate]
fn names_of_others(
    entry: u32,
    reader: &[u32],
    writer: u32,
    value: u32,
    result: u32,
    error: u32,
) -> u32 {
    isolated(entry) + read(writer) + reader.iter().sum::<u32>() + value + result + error
}

#[test]
fn the_code_of_the_attribute_takes_no_names_of_the_program() {
    assert_eq!(names_of_others(1, &[2, 3], 4, 5, 6, 7), 2 + 5 + 5 + 5 + 6 + 7);
}

#[isolate]
fn value_of_bytes(count: usize) -> Result<(Vec<u8>, String), Error> {
    Ok((vec![0; count], String::new()))
}

#[test]
fn a_value_that_is_too_large_is_an_error() {
    assert_eq!(value_of_bytes(1 << 20).expect("it is small").0.len(), 1 << 20);
    let error = value_of_bytes(64 << 20).expect_err("it is large");
    assert!(error.to_string().contains("at most 16777216 cross"), "{error}");
    assert!(value_of_bytes(1).is_ok());
}

#[test]
fn a_destructor_of_a_thread_local_calls_as_any_code() {
    struct Calls;

    impl Drop for Calls {
        fn drop(&mut self) {
            assert_eq!(checked(3).expect("no panic"), 3);
            assert!(slow_pid() > 0);
        }
    }

    thread_local!(static CALLS_AT_END: Calls = const { Calls });
    let thread = std::thread::spawn(|| {
        CALLS_AT_END.with(|_| {});
        // Made later, and so gone earlier.
        assert_eq!(large(100), Ok("100".to_owned()));
        slow_pid()
    });
    assert!(thread.join().expect("no panic") > 0);
}

#[isolate]
fn shown_name() -> Result<String, Error> {
    std::fs::read_to_string("/proc/self/comm").map_err(Error::other)
}

#[test]
fn the_executor_is_shown_by_the_name_of_the_program() {
    let program = std::env::current_exe().expect("a path");
    let due: String =
        program.file_name().expect("a name").to_string_lossy().chars().take(15).collect();
    assert_eq!(shown_name().expect("it runs").trim_end(), due);
}
