//! Compares the reset of a copy with a new copy: `resets [ROUNDS]`, in turns. It needs `cc`.
//!
//! | row | from | to |
//! |---|---|---|
//! | new copy | [`Snapshot::spawn`] | the answer to the first call in the copy |
//! | reset | [`Snapshot::reset`] of a copy that has written 64 pages | its return |
//! | reset and call | the same | the answer to the next call, which writes 64 pages again |
//! | call | before a call that writes these pages in a copy that was not reset | its answer |

use std::time::{Duration, Instant};

use farcall::controller::{ExecutorBuilder, Snapshot};
use farcall::link::ObjectFile;
use farcall_bench::Result;

/// Writes 64 pages.
const SOURCE: &str = "static long pages[64 * 512] __attribute__((aligned(4096)));
long touch(void) { for (long i = 0; i < 64; i++) pages[i * 512]++; return pages[0]; }";
type Touch = extern "C" fn() -> i64;

fn main() -> Result<()> {
    farcall::executor::run_if_spawned();
    let rounds = std::env::args().nth(1).map_or(Ok(1000), |rounds| rounds.parse())?;
    let executor = ExecutorBuilder::new().this_program().start()?;
    let library = executor.library("main");
    library.add_object(&ObjectFile::parse("touch.c", compiled()?)?)?;
    library.function::<Touch>("touch").call(())?;
    let snapshot = Snapshot::take(executor)?;
    let kept = snapshot.spawn_resettable()?;
    let touch = library.in_copy(&kept)?.function::<Touch>("touch").bind()?;
    let (mut new, mut reset, mut both, mut call) = (vec![], vec![], vec![], vec![]);
    touch.call(())?;
    for _ in 0..rounds {
        let start = Instant::now();
        let copy = snapshot.spawn()?;
        let first = library.in_copy(&copy)?.function::<Touch>("touch").call(())?;
        new.push(start.elapsed());
        drop(copy);
        // Until here the copy was idle.
        touch.call(())?;
        let start = Instant::now();
        snapshot.reset(&kept)?;
        reset.push(start.elapsed());
        let again = touch.call(())?;
        both.push(start.elapsed());
        let start = Instant::now();
        let more = touch.call(())?;
        call.push(start.elapsed());
        assert_eq!((first, again, more), (2, 2, 3), "the state of before");
    }
    for (name, mut times) in
        [("new copy", new), ("reset", reset), ("reset and call", both), ("call", call)]
    {
        times.sort_unstable();
        let at = |percent: usize| us(times[times.len() * percent / 100]);
        println!("{name:15} p50 {:8.1} us   p90 {:8.1}   p99 {:8.1}", at(50), at(90), at(99));
    }
    Ok(())
}

fn us(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

/// The object of [`SOURCE`].
fn compiled() -> Result<Vec<u8>> {
    let folder = std::env::temp_dir().join(format!("farcall-resets-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let (source, object) = (folder.join("touch.c"), folder.join("touch.o"));
    std::fs::write(&source, SOURCE)?;
    let mut compiler = std::process::Command::new("cc");
    let status = compiler.args(["-O1", "-c", "-o"]).args([&object, &source]).status()?;
    assert!(status.success(), "cc: {status}");
    let bytes = std::fs::read(&object)?;
    std::fs::remove_dir_all(&folder)?;
    Ok(bytes)
}
