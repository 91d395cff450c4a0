//! Adds, calls and removes objects in one executor, and draws what the executor holds meanwhile:
//! `come_and_go OBJECTS FILE.svg`.
//!
//! Invariant: all figures are the kernel's, of the executor's own process.

use std::fs;
use std::path::Path;

use farcall::controller::ExecutorBuilder;
use farcall::link::ObjectFile;
use farcall::orc::ExecutionSession;
use farcall::orc::ObjectLayer;
use farcall_bench::{Machine, Result, TinyObject, tiny_code};
use plotters::prelude::*;

/// The number of samples of the executor, evenly spread.
const LOOKS: u32 = 200;
const PANELS: [&str; 3] = ["resident memory, KiB", "mappings", "descriptors"];

fn main() -> Result<()> {
    farcall::executor::run_if_spawned();
    let mut args = std::env::args().skip(1);
    let usage = "usage: come_and_go OBJECTS FILE.svg";
    let objects: u32 = args.next().ok_or(usage)?.parse()?;
    let file = args.next().ok_or(usage)?;

    let process = ExecutorBuilder::new().this_program().start()?.process()?;
    let session = ExecutionSession::new();
    let layer = ObjectLayer::new(&session, &process);
    let dylib = session.create_dylib("main")?;
    let object = TinyObject::new().function("echo", tiny_code::NULL_CALL).variable("data", &[1; 8]);
    let object = ObjectFile::parse("echo.o", object.unwound().bytes())?;
    let mut looks = Vec::new();
    for number in 0..=objects {
        if number.is_multiple_of((objects / LOOKS).max(1)) {
            looks.push((number, held(process.pid())?));
        }
        let tracker = dylib.create_tracker()?;
        layer.add(&tracker, &object)?;
        process.call(dylib.lookup("echo")?.address, &[0; 8])?;
        tracker.remove()?;
    }
    session.end_session()?;
    draw(&looks, Path::new(&file))?;
    let (first, last) = (looks.first().ok_or("no looks")?, looks.last().ok_or("no looks")?);
    println!("{PANELS:?}: {:?} after {}, {:?} after {}", first.1, first.0, last.1, last.0);
    Ok(())
}

/// The things that a process holds, in the order of [`PANELS`].
fn held(pid: i32) -> Result<[u64; 3]> {
    let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup"))?;
    let resident = rollup.lines().find_map(|line| line.strip_prefix("Rss:"));
    let resident = resident.and_then(|rest| rest.split_whitespace().next());
    let mappings = fs::read_to_string(format!("/proc/{pid}/maps"))?.lines().count();
    let descriptors = fs::read_dir(format!("/proc/{pid}/fd"))?.count();
    Ok([resident.ok_or("no resident size")?.parse()?, mappings as u64, descriptors as u64])
}

fn draw(looks: &[(u32, [u64; 3])], file: &Path) -> Result<()> {
    let area = SVGBackend::new(file, (900, 660)).into_drawing_area();
    area.fill(&WHITE)?;
    let objects = looks.last().map_or(1, |(number, _)| *number);
    let title =
        format!("{objects} objects added, called and removed in one executor; {}", Machine::read());
    let (heading, panels) = area.split_vertically(40);
    heading.draw_text(&title, &("sans-serif", 14).into_font().color(&BLACK), (12, 14))?;
    for (at, panel) in panels.split_evenly((PANELS.len(), 1)).iter().enumerate() {
        let most = looks.iter().map(|(_, held)| held[at]).max().unwrap_or(1);
        let mut chart = ChartBuilder::on(panel)
            .caption(PANELS[at], ("sans-serif", 13))
            .margin(8)
            .x_label_area_size(24)
            .y_label_area_size(64)
            .build_cartesian_2d(0..objects, 0..most + most / 4 + 1)?;
        chart.configure_mesh().draw()?;
        let points = looks.iter().map(|(number, held)| (*number, held[at]));
        chart.draw_series(LineSeries::new(points, BLUE.stroke_width(2)))?;
    }
    area.present()?;
    Ok(())
}
