//! The view of a subscriber of `tracing`: a session's start, links, look-ups and death, and nothing of calls.

use std::fmt::{Debug, Write as _};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use farcall_bench::{TinyObject, tiny_code};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::Interest;
use tracing::{Event, Metadata, Subscriber};

use crate::testkit::{launch, process};

/// The names and fields of all spans and events, of all threads and tests of this process.
static SEEN: Mutex<Vec<String>> = Mutex::new(Vec::new());
static IS_ON: AtomicBool = AtomicBool::new(true);

struct Collector(AtomicU64);

struct Fields(String);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, " {}={value:?}", field.name()).expect("written");
    }
}

impl Subscriber for Collector {
    fn register_callsite(&self, _: &'static Metadata<'static>) -> Interest {
        Interest::sometimes()
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "farcall" && IS_ON.load(Ordering::Relaxed)
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut fields = Fields(span.metadata().name().to_owned());
        span.record(&mut fields);
        SEEN.lock().expect("no test panicked").push(fields.0);
        Id::from_u64(self.0.fetch_add(1, Ordering::Relaxed))
    }

    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields("event".to_owned());
        event.record(&mut fields);
        SEEN.lock().expect("no test panicked").push(fields.0);
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

/// How many spans and events have this text.
fn seen(text: &str) -> usize {
    SEEN.lock().expect("no test panicked").iter().filter(|one| one.contains(text)).count()
}

#[test]
fn spans_tell_of_start_link_look_up_and_death_not_of_calls() {
    let collector = Collector(AtomicU64::new(1));
    tracing::subscriber::set_global_default(collector).expect("the only one");
    let executor = launch::executor();
    let process = executor.process().expect("a process");
    let pid = process.pid();
    assert_eq!(seen(&format!("start pid={pid}")), 1, "{:?}", SEEN.lock());

    let dylib = executor.library("observed");
    let object = TinyObject::new().function("answer", &tiny_code::constant(42));
    dylib.add_object(&launch::tiny_object(&object)).expect("added");
    let answer = dylib.lookup("answer").expect("linked");
    assert_eq!(seen("link dylib=\"observed\""), 1, "{:?}", SEEN.lock());

    // 77 names, so that no other test has as many.
    let names: Vec<String> = (0..77).map(|number| format!("no_such_name_{number}")).collect();
    let mut object = TinyObject::new().function("caller", &[0x90; 400]);
    for (at, name) in (0..).zip(&names) {
        object = object.call_at(at * 5 + 1, name);
    }
    let lacking = executor.library("lacking");
    lacking.add_object(&launch::tiny_object(&object)).expect("added");
    lacking.link().expect_err("the names are nowhere");
    assert_eq!(seen("look_up names=77"), 1, "{:?}", SEEN.lock());

    let own =
        || seen("observed") + seen("lacking") + seen("names=77") + seen(&format!("pid={pid}"));
    let before = own();
    for _ in 0..1_000 {
        process.call(answer, &[]).expect("a result");
    }
    assert_eq!(own(), before, "calls leave no trace");

    process.kill();
    let death = format!("pid={pid} end=Killed(9)");
    process::until("the event of the death", || seen(&death) == 1);
    IS_ON.store(false, Ordering::Relaxed);
}
