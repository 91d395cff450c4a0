//! Compares ways to start an executor: `starts [ROUNDS]`, in turns.
//!
//! | row | from | to |
//! |---|---|---|
//! | bare fork | a request over a socket pair to a process that forks | the child's answer over the same pair |
//! | bare process | before this program is started to answer at once | its answer, by its standard output |
//! | exec | `ExecutorBuilder::start`, with a layout of its own | its first answer |
//! | ahead | the same with a shared layout, [`PAUSE`] after the start before | the same |
//! | fork | the same at once behind that start, when no child is ready | the same |
//! | restart | the first call behind a death, [`PAUSE`] after it | the same |
//!
//! Behind a pause this thread has slept. A second pass keeps it awake for the last part of each pause, as in a host that works.
//!
//! At last it says what an idle child that was forked ahead takes.
#![allow(unsafe_code, reason = "forks")]

use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use farcall::controller::{Executor, ExecutorBuilder, RestartPolicy};
use farcall_bench::Result;
use nix::sys::wait::waitpid;
use nix::unistd::{ForkResult, fork};

/// The argument with which this program answers, and ends.
const ANSWER: &str = "answer";
/// The time without starts ahead of a measured start.
const PAUSE: Duration = Duration::from_millis(25);
/// How long this thread has been awake then, in the second pass.
const AWAKE: Duration = Duration::from_millis(2);

/// A process that forks when it is asked. The child answers.
struct Bare(UnixStream);

impl Bare {
    /// Call it before this process has other threads.
    fn start() -> Result<Self> {
        let (ours, mut theirs) = UnixStream::pair()?;
        // SAFETY: this process has one thread.
        if let ForkResult::Child = unsafe { fork() }? {
            drop(ours);
            while theirs.read_exact(&mut [0]).is_ok() {
                // SAFETY: as above.
                match unsafe { fork() }? {
                    ForkResult::Child => {
                        theirs.write_all(&[1])?;
                        // SAFETY: no code of the process runs behind this.
                        unsafe { libc::_exit(0) }
                    }
                    ForkResult::Parent { child } => drop(waitpid(child, None)?),
                }
            }
            std::process::exit(0);
        }
        Ok(Self(ours))
    }

    fn round(&mut self) -> Result<Duration> {
        let begun = Instant::now();
        self.0.write_all(&[0])?;
        self.0.read_exact(&mut [0])?;
        Ok(begun.elapsed())
    }
}

/// This program, from before its start to its answer.
fn process() -> Result<Duration> {
    let begun = Instant::now();
    let mut command = Command::new(std::env::current_exe()?);
    let mut child = command.arg(ANSWER).stdout(Stdio::piped()).spawn()?;
    let mut output = child.stdout.take().ok_or("no output")?;
    output.read_exact(&mut [0])?;
    let taken = begun.elapsed();
    child.wait()?;
    Ok(taken)
}

fn start(builder: &ExecutorBuilder) -> Result<(Executor, Duration)> {
    let begun = Instant::now();
    let executor = builder.start()?;
    executor.process()?.process_info()?;
    Ok((executor, begun.elapsed()))
}

/// Sleeps for [`PAUSE`], the last [`AWAKE`] of it awake if so asked.
fn pause(is_awake: bool) {
    let begun = Instant::now();
    std::thread::sleep(if is_awake { PAUSE - AWAKE } else { PAUSE });
    while begun.elapsed() < PAUSE {
        std::hint::spin_loop();
    }
}

/// A death, and the restart.
fn restart(executor: &Executor, is_awake: bool) -> Result<Duration> {
    let process = executor.process()?;
    process.kill();
    while !process.has_ended() {
        std::thread::yield_now();
    }
    drop(process);
    pause(is_awake);
    let begun = Instant::now();
    executor.process()?.process_info()?;
    Ok(begun.elapsed())
}

/// The median, the 90th and the 99th percentile, in microseconds.
fn percentiles(times: &mut [Duration]) -> [f64; 3] {
    times.sort_unstable();
    [50, 90, 99].map(|percent| times[(times.len() - 1) * percent / 100].as_secs_f64() * 1e6)
}

/// The name, the private memory in KiB, and the clock ticks so far of each child of this process. Source: proc(5).
fn children() -> Result<Vec<(i32, String, u64, u64)>> {
    let mut children = Vec::new();
    for task in fs::read_dir("/proc/self/task")? {
        let list = fs::read_to_string(task?.path().join("children"))?;
        for pid in list.split_whitespace().map(str::parse::<i32>) {
            let folder = format!("/proc/{}", pid.clone()?);
            let name = fs::read_to_string(format!("{folder}/comm"))?.trim().to_owned();
            let rollup = fs::read_to_string(format!("{folder}/smaps_rollup"))?;
            let private = rollup.lines().filter(|line| line.starts_with("Private_"));
            let private =
                private.filter_map(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok());
            let stat = fs::read_to_string(format!("{folder}/stat"))?;
            let fields = stat.rsplit(") ").next().unwrap_or_default().split_whitespace();
            let ticks = fields.skip(11).take(2).filter_map(|field| field.parse::<u64>().ok());
            children.push((pid?, name, private.sum(), ticks.sum()));
        }
    }
    Ok(children)
}

fn main() -> Result<()> {
    if std::env::args().nth(1).as_deref() == Some(ANSWER) {
        return Ok(std::io::stdout().write_all(b"1")?);
    }
    farcall::executor::run_if_spawned();
    let rounds: usize = std::env::args().nth(1).map_or(Ok(300), |text| text.parse())?;
    let mut bare = Bare::start()?;
    let own = ExecutorBuilder::new().this_program().fresh_layout();
    let shared = own.clone().shared_layout();
    let supervised = shared.clone().restart(RestartPolicy::new()).start()?;
    let names = ["bare fork", "bare process", "exec", "ahead", "fork", "restart"];
    for is_awake in [false, true] {
        let mut times: [Vec<Duration>; 6] = Default::default();
        for _ in 0..rounds {
            let [forks, processes, execs, aheads, next, restarts] = &mut times;
            pause(is_awake);
            forks.push(bare.round()?);
            pause(is_awake);
            processes.push(process()?);
            pause(is_awake);
            execs.push(start(&own)?.1);
            pause(is_awake);
            let (first, taken) = start(&shared)?;
            aheads.push(taken);
            let (second, taken) = start(&shared)?;
            next.push(taken);
            drop((first, second));
            restarts.push(restart(&supervised, is_awake)?);
        }
        let state = if is_awake { "awake" } else { "asleep" };
        println!("{rounds} rounds, the host {state} before, us: p50, p90, p99");
        for (name, times) in names.iter().zip(&mut times) {
            let [p50, p90, p99] = percentiles(times);
            println!("{name:12} {p50:7.0} {p90:7.0} {p99:7.0}");
        }
    }
    std::thread::sleep(Duration::from_secs(1));
    let before = children()?;
    std::thread::sleep(Duration::from_secs(5));
    for ((pid, name, private, ticks), (_, _, _, earlier)) in children()?.iter().zip(&before) {
        println!("process {pid} {name}: {private} KiB private, {} ticks in 5 s", ticks - earlier);
    }
    Ok(())
}
