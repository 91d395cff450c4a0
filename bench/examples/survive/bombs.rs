//! The calls of one executor while another one, strictly confined, runs a bomb.
//!
//! A call is due every 20 us. Its time counts from the moment when it was due. So a pause that the scheduler makes counts for all
//! calls that were due meanwhile. The time from its own start is printed as well.

use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use farcall::controller::{
    CallOptions, Confinement, ExecutorBuilder, Function, Library, RestartPolicy,
};
use farcall::link::ObjectFile;
use farcall_bench::{CpuPair, Result};

use crate::{Times, functions};

const BOMBS: &str = "
    #include <fcntl.h>
    #include <stdlib.h>
    #include <string.h>
    #include <unistd.h>
    void memory(void) { for (;;) memset(malloc(1 << 20), 1, 1 << 20); }
    void forks(void) { for (;;) fork(); }
    void busy(void) { for (volatile long turns = 0;; turns++); }
    void descriptors(void) { for (;;) open(\"/usr/lib/os-release\", O_RDONLY); }
    static int deeper(volatile char *above) {
        volatile char page[4096];
        page[0] = above[0];
        return deeper(page) + page[0];
    }
    void stack(void) { char zero = 0; deeper(&zero); }
";
const NAMES: [&str; 5] = ["memory", "forks", "busy", "descriptors", "stack"];
/// How long a bomb may run before the host kills its executor.
const FUSE: Duration = Duration::from_millis(100);
/// How long the host waits before it starts the next executor. A hundred starts a second, of 1.5 ms each, are a bomb, too.
const PAUSE: Duration = Duration::from_millis(20);
/// How long calls are timed without a bomb and with it, in turns.
const TURN: Duration = Duration::from_millis(500);
/// The time between two calls.
const INTERVAL: Duration = Duration::from_micros(20);

fn compiled() -> Result<ObjectFile> {
    let folder = std::env::temp_dir().join(format!("farcall-bombs-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let (source, object) = (folder.join("bombs.c"), folder.join("bombs.o"));
    std::fs::write(&source, BOMBS)?;
    let status =
        Command::new("cc").args(["-O1", "-w", "-c", "-o"]).args([&object, &source]).status()?;
    let bytes = std::fs::read(&object);
    std::fs::remove_dir_all(&folder)?;
    if !status.success() {
        return Err("cc failed".into());
    }
    Ok(ObjectFile::parse("bombs.o", bytes?)?)
}

pub(crate) fn run(rounds: usize, cpus: CpuPair) -> Result<()> {
    let builder = ExecutorBuilder::new().this_program();
    let other = builder.start()?;
    let dylib = other.library("other");
    dylib.add_object(&functions("functions.o", 7..8)?)?;
    let seven = dylib.function::<extern "C" fn() -> i32>("function_7").bind()?;
    cpus.pin_server(other.process()?.pid().cast_unsigned())?;

    let limits = Confinement::strict().memory_bytes_max(64 << 20).descriptors_max(64);
    let limits = limits.cpu_seconds_max(10).allow_missing();
    let object = compiled()?;
    let bombs = |limits, policy| -> Result<Library> {
        let bombed = builder.clone().confine(limits).restart(policy).start()?;
        let bombs = bombed.library("bombs");
        bombs.add_object(&object)?;
        Ok(bombs)
    };
    let at_once = RestartPolicy::new().kill_on_timeout();
    let kinds = [
        ("strict", limits, at_once),
        ("strict, a pause before each restart", limits, at_once.back_off(PAUSE, PAUSE)),
        ("strict, background", limits.background(), at_once),
    ];
    for name in NAMES {
        for (kind, limits, policy) in kinds {
            println!("{name}, {kind}");
            let bomb = bombs(limits, policy)?.function(name);
            against(&seven, bomb, rounds, cpus)?;
        }
    }
    Ok(())
}

/// Times calls of `seven` without a bomb and with it, in turns.
fn against(
    seven: &Function<extern "C" fn() -> i32>,
    bomb: Function<extern "C" fn()>,
    rounds: usize,
    cpus: CpuPair,
) -> Result<()> {
    let [mut quiet, mut loud, mut quiet_alone, mut loud_alone]: [Times; 4] = Default::default();
    let (is_lit, ends, explosions) =
        (AtomicBool::new(false), AtomicBool::new(false), AtomicU64::new(0));
    let mut last = String::new();
    thread::scope(|scope| -> Result<()> {
        let (is_lit, ends, explosions) = (&is_lit, &ends, &explosions);
        let lighter = scope.spawn(move || {
            let mut last = String::new();
            while !ends.load(Relaxed) {
                if !is_lit.load(Relaxed) {
                    thread::sleep(Duration::from_millis(1));
                    continue;
                }
                if let Err(error) = bomb.call_with(&CallOptions::new().timeout(FUSE), ()) {
                    last = error.to_string();
                }
                explosions.fetch_add(1, Relaxed);
            }
            last
        });
        // The lighter and the bombs are not pinned: their threads are there already, or come from theirs.
        let mut turns = || -> Result<()> {
            let _pinned = cpus.pin_caller()?;
            for _ in 0..rounds {
                for (lit, times, alone) in
                    [(false, &mut quiet, &mut quiet_alone), (true, &mut loud, &mut loud_alone)]
                {
                    is_lit.store(lit, Relaxed);
                    if !lit {
                        // The last bomb ends.
                        thread::sleep(2 * FUSE);
                    }
                    let turn = Instant::now();
                    let mut due = turn;
                    while due < turn + TURN {
                        while Instant::now() < due {
                            std::hint::spin_loop();
                        }
                        let since = Instant::now();
                        if seven.call(())? != 7 {
                            return Err("a wrong answer".into());
                        }
                        alone.add(since);
                        times.add(due);
                        due += INTERVAL;
                    }
                }
            }
            Ok(())
        };
        let timed = turns();
        ends.store(true, Relaxed);
        last = lighter.join().map_err(|_| "a panic")?;
        timed
    })?;
    quiet.print("quiet, from when the call was due");
    loud.print("with the bomb");
    quiet_alone.print("quiet, from the start of the call");
    loud_alone.print("with the bomb");
    let ratio = |loud: &mut Times, quiet: &mut Times| {
        loud.quantile(990).as_secs_f64() / quiet.quantile(990).as_secs_f64()
    };
    println!(
        "p99 {:.2} times, from the start {:.2} times; {} bombs; {last}",
        ratio(&mut loud, &mut quiet),
        ratio(&mut loud_alone, &mut quiet_alone),
        explosions.load(Relaxed)
    );
    Ok(())
}
