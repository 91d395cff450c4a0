//! Restarts, from the death to the first right answer of the next executor.

use std::process::Command;
use std::time::{Duration, Instant};

use farcall::controller::{Executor, ExecutorBuilder, Function, RestartPolicy};
use farcall_bench::Result;

use crate::{Times, functions};

/// The argument with which this program ends at once.
pub(crate) const NOTHING: &str = "nothing";
const FUNCTIONS: u32 = 1000;
/// How long an executor lies dead before a call needs the next one.
pub(crate) const READY: Duration = Duration::from_millis(5);

type Number = Function<extern "C" fn() -> i32>;

/// A supervised session with a thousand functions.
struct Filled {
    supervised: Executor,
    function: Number,
}

/// Fills a session with these numbers of objects in a dylib, one function in each part.
fn filled(policy: RestartPolicy, objects: u32, dylibs: u32) -> Result<Filled> {
    let supervised = ExecutorBuilder::new().this_program().restart(policy).start()?;
    let each = FUNCTIONS / objects / dylibs;
    let mut function = None;
    for dylib in 0..dylibs {
        let first = dylib * objects * each;
        let dylib = supervised.library(format!("dylib {dylib}"));
        for object in 0..objects {
            let from = first + object * each;
            dylib.add_object(&functions("functions.o", from..from + each)?)?;
        }
        function = Some(dylib.function(format!("function_{first}")));
    }
    Ok(Filled { supervised, function: function.ok_or("no dylib")? })
}

impl Filled {
    fn restart(&self, number: i32, times: &mut Times) -> Result<()> {
        kill(&self.supervised)?;
        std::thread::sleep(READY);
        let since = Instant::now();
        if self.function.call(())? != number {
            return Err("a wrong answer".into());
        }
        times.add(since);
        Ok(())
    }
}

/// Kills the present executor, and waits until the host knows.
fn kill(supervised: &Executor) -> Result<()> {
    let process = supervised.process()?;
    process.kill();
    while !process.has_ended() {
        std::thread::yield_now();
    }
    Ok(())
}

pub(crate) fn run(rounds: usize) -> Result<()> {
    let own = std::env::current_exe()?;
    let builder = ExecutorBuilder::new().this_program();
    let empty = builder.clone().restart(RestartPolicy::new()).start()?;
    let one_object = filled(RestartPolicy::new(), 1, 1)?;
    let many_objects = filled(RestartPolicy::new(), FUNCTIONS, 1)?;
    let many_dylibs = filled(RestartPolicy::new(), 1, FUNCTIONS)?;
    let with_standby = RestartPolicy::new().standby();
    let empty_ready = builder.clone().restart(with_standby).start()?;
    let shared = builder.shared_layout().restart(RestartPolicy::new()).start()?;
    let ready = filled(with_standby, FUNCTIONS, 1)?;
    let mut times: [Times; 9] = Default::default();
    for _ in 0..rounds {
        let [process, start, none, shared_none, object, objects, dylibs, ready_none, ready_objects] =
            &mut times;
        let since = Instant::now();
        Command::new(&own).arg(NOTHING).status()?;
        process.add(since);

        let since = Instant::now();
        let process = ExecutorBuilder::new().this_program().start()?.process()?;
        process.process_info()?;
        start.add(since);
        drop(process);

        let empties = [(&empty, none), (&shared, shared_none), (&empty_ready, ready_none)];
        for (empty, times) in empties {
            kill(empty)?;
            // The standby process has started long ago.
            std::thread::sleep(READY);
            let since = Instant::now();
            empty.process()?.process_info()?;
            times.add(since);
        }

        one_object.restart(0, object)?;
        many_objects.restart(0, objects)?;
        many_dylibs.restart(FUNCTIONS as i32 - 1, dylibs)?;
        ready.restart(0, ready_objects)?;
    }
    let names = [
        "this program, started and ended, for comparison",
        "start, to the first answer",
        "restart with nothing, to the first answer",
        "the same with a shared layout",
        "restart with 1000 functions in 1 object",
        "restart with 1000 objects in 1 dylib",
        "restart with 1000 dylibs",
        "with a standby: restart with nothing",
        "with a standby: restart with 1000 objects",
    ];
    names.iter().zip(&mut times).for_each(|(name, times)| times.print(name));
    Ok(())
}
