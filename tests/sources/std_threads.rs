//! A program with the standard library: threads with small stacks, thread-locals with destructors, hash maps, panics,
//! and, without arguments, a backtrace.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::fmt::Write;
use std::panic::{catch_unwind, resume_unwind, set_hook};
use std::sync::{Arc, Barrier, Mutex, OnceLock, mpsc};
use std::thread::{Builder, scope};

struct Noisy(String, Arc<Mutex<Vec<String>>>);

impl Drop for Noisy {
    fn drop(&mut self) {
        let text = format!("dropped {} with {}", self.0, COUNT.get());
        self.1.lock().unwrap().push(text);
    }
}

struct Last;

impl Drop for Last {
    fn drop(&mut self) {
        println!("the last thing of the first thread, {}", COUNT.get());
    }
}

thread_local! {
    static COUNT: Cell<u32> = const { Cell::new(3) };
    static NOISY: RefCell<Option<Noisy>> = const { RefCell::new(None) };
    static LAZY: RefCell<String> = RefCell::new(format!("made in a thread with {}", COUNT.get()));
    static LAST: Last = const { Last };
    static LARGE: RefCell<[u64; 600]> = const { RefCell::new([7; 600]) };
}

fn words() {
    let mut counts = HashMap::new();
    for word in "the quick brown fox jumps over the lazy dog and the end".split(' ') {
        *counts.entry(word).or_insert(0) += 1;
    }
    let mut counts: Vec<_> = counts.into_iter().collect();
    counts.sort();
    println!("{counts:?}");
}

fn threads() {
    let log = Arc::new(Mutex::new(Vec::new()));
    let barrier = Arc::new(Barrier::new(4));
    let spawn = |number: u32| {
        let (log, barrier) = (Arc::clone(&log), Arc::clone(&barrier));
        let builder =
            Builder::new().name(format!("worker {number}")).stack_size(1 << (13 + number));
        let body = move || {
            COUNT.set(COUNT.get() + number);
            let name = std::thread::current().name().unwrap().to_owned();
            NOISY.set(Some(Noisy(name, log)));
            LARGE.with_borrow_mut(|large| large[599] += u64::from(number));
            LAZY.with_borrow_mut(|text| write!(text, "!").unwrap());
            barrier.wait();
            assert!(number != 2, "number {number} fails");
            LAZY.take() + &LARGE.with_borrow(|large| large.iter().sum::<u64>().to_string())
        };
        builder.spawn(body).unwrap()
    };
    let workers: Vec<_> = (0..4).map(spawn).collect();
    for worker in workers {
        match worker.join() {
            Ok(text) => println!("joined: {text}"),
            Err(panic) => println!("panicked: {:?}", panic.downcast_ref::<String>()),
        }
    }
    let mut log = log.lock().unwrap();
    log.sort();
    println!("{log:#?}");
}

fn channels() -> i32 {
    let (sender, receiver) = mpsc::channel();
    scope(|scope| {
        for part in 0..3 {
            let sender = sender.clone();
            scope.spawn(move || (0..100).for_each(|i| sender.send(part * 100 + i).unwrap()));
        }
        drop(sender);
        receiver.iter().sum()
    })
}

fn panics() {
    let caught = catch_unwind(|| [1, 2, 3][std::env::args().count() + 10]);
    println!("{}", caught.is_err());
    let caught = catch_unwind(|| resume_unwind(Box::new(17_u8)));
    println!("{:?}", caught.unwrap_err().downcast_ref::<u8>());
}

#[unsafe(no_mangle)]
pub extern "C" fn main() -> i32 {
    static ONCE: OnceLock<String> = OnceLock::new();
    static PANICS: Mutex<Vec<String>> = Mutex::new(Vec::new());
    set_hook(Box::new(|info| {
        let thread = std::thread::current();
        PANICS.lock().unwrap().push(format!("{:?}: {info}", thread.name()));
    }));
    LAST.with(|_| println!("{}", ONCE.get_or_init(|| "once".to_owned())));
    words();
    threads();
    println!("{}", channels());
    panics();
    println!("{:#?}", PANICS.lock().unwrap());
    // The standard library never gives back what it reads of the debug information.
    if std::env::args().count() == 1 {
        println!("{}", std::backtrace::Backtrace::force_capture().to_string().is_empty());
    }
    COUNT.set(99);
    11
}
