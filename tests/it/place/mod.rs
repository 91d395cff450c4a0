//! Executors in this process: the same results as in another, and what only another one has.

mod calls;
mod life;
mod refused;
mod same;
mod threads;

use std::fs;

use farcall::controller::{Executor, ExecutorBuilder, Library};
use farcall::link::ObjectFile;

use crate::testkit::corpus::{self, PLAIN};

type Number = extern "C" fn() -> i64;
type Passed = extern "C" fn(i64) -> i64;

fn executor() -> Executor {
    ExecutorBuilder::new().in_process().start().expect("an executor")
}

fn object() -> ObjectFile {
    let bytes = fs::read(corpus::object("place.c", PLAIN)).expect("just compiled");
    ObjectFile::parse("place.o", bytes).expect("an object")
}

/// A library with `place.c`, whose handlers return what they get, with `tag` added, and an error.
fn library(executor: &Executor, tag: i64) -> Library {
    let library = executor.library("place");
    library.define_handler("thread_of_handler", move |n: i64| n + tag).expect("defined");
    let refuses = |n: i64| Err::<i64, _>(std::io::Error::other(format!("no {n}")));
    library.define_handler("refuses", refuses).expect("defined");
    library.add_object(&object()).expect("added");
    library.initialize().expect("initialized");
    library
}

/// The lines of the map of this process.
fn maps() -> Vec<String> {
    let maps = fs::read_to_string("/proc/self/maps").expect("the map");
    maps.lines().map(str::to_owned).collect()
}
