//! Starts of executors by level of confinement and by fork, and what a sweeper takes.

use std::fs;
use std::time::Instant;

use farcall::controller::{Confinement, ExecutorBuilder};
use farcall_bench::Result;

use crate::Times;
use crate::restarts::READY;

pub(crate) fn run(rounds: usize) -> Result<()> {
    let levels = [Confinement::new(), Confinement::isolated(), Confinement::strict()];
    let mut times: [[Times; 2]; 3] = Default::default();
    let [mut first, mut second, mut ends_of_second]: [Times; 3] = Default::default();
    let [mut forks, mut ends_of_forks]: [Times; 2] = Default::default();
    for round in 0..rounds {
        for (level, times) in levels.iter().zip(&mut times) {
            let builder = ExecutorBuilder::new().this_program().confine(level.allow_missing());
            let [start, end] = times;
            let since = Instant::now();
            let process = builder.start()?.process()?;
            process.process_info()?;
            start.add(since);
            if round == 0 {
                report(&process.confinement().to_string(), process.pid())?;
            }
            let since = Instant::now();
            drop(process);
            end.add(since);
        }
        let builder = ExecutorBuilder::new().this_program().shared_layout();
        for (number, start) in [&mut first, &mut second].into_iter().enumerate() {
            let since = Instant::now();
            let process = builder.start()?.process()?;
            process.process_info()?;
            start.add(since);
            let since = Instant::now();
            drop(process);
            if number > 0 {
                ends_of_second.add(since);
            }
            // The zygote has been ready for long when the next executor is wanted.
            std::thread::sleep(READY);
        }
        drop(builder);
        // The library's threads have ended with the last executor.
        let since = Instant::now();
        let process =
            ExecutorBuilder::new().adopt(farcall::executor::fork()?)?.connect()?.process()?;
        process.process_info()?;
        forks.add(since);
        let since = Instant::now();
        drop(process);
        ends_of_forks.add(since);
    }
    for (level, [start, end]) in levels.iter().zip(&mut times) {
        start.print(&format!("{}: start, to the first answer", level.level()));
        end.print(&format!("{}: end", level.level()));
    }
    first.print("shared layout: first start, to the first answer");
    second.print("shared layout: second start");
    ends_of_second.print("shared layout: end of the second");
    forks.print("forked: start, to the first answer");
    ends_of_forks.print("forked: end");
    Ok(())
}

/// The memory of an executor, and of its sweeper if there is one.
fn report(name: &str, executor: i32) -> Result<()> {
    println!("{name}");
    println!("  executor: {}", memory(executor)?);
    for process in fs::read_dir("/proc")?.flatten() {
        let Some(pid) = process.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        let comm = fs::read_to_string(process.path().join("comm")).unwrap_or_default();
        let stat = fs::read_to_string(process.path().join("stat")).unwrap_or_default();
        let own = format!(") S {} ", std::process::id());
        if comm.trim() == "farcall-sweeper" && stat.contains(&own) {
            println!("  sweeper: {}", memory(pid)?);
        }
    }
    Ok(())
}

fn memory(pid: i32) -> Result<String> {
    let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup"))?;
    let kilobytes = |name: &str| -> u64 {
        let line = rollup.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok()).unwrap_or(0)
    };
    let private = kilobytes("Private_Clean:") + kilobytes("Private_Dirty:");
    Ok(format!("{private} kB private, {} kB resident", kilobytes("Rss:")))
}
