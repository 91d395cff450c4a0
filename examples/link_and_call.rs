//! Link and call: C functions of another process, called by their types like local functions.

mod compile;

use std::error::Error;

use farcall::ExecutorAddr;
use farcall::controller::ExecutorBuilder;

const SOURCE: &str = "
    struct point { double x, y; };
    double scale(long count, double unit) { return (double)count * unit; }
    void turn(struct point *point) { double x = point->x; point->x = -point->y; point->y = x; }
";

fn main() -> Result<(), Box<dyn Error>> {
    farcall::executor::run_if_spawned(); // this program is its own executor
    let executor = ExecutorBuilder::new().this_program().start()?;
    let process = executor.process()?;
    let dylib = executor.library("main");
    dylib.add_object(&compile::compile("shapes.o", SOURCE)?)?;

    let scale = dylib.function::<extern "C" fn(i64, f64) -> f64>("scale").bind()?;
    println!("3 times 0.25 is {}", scale.call((3, 0.25))?);

    // A structure lies in memory that both processes reach.
    let mut point = process.buffer(16)?;
    point.write(0, &[1.0_f64.to_ne_bytes(), 2.0_f64.to_ne_bytes()].concat());
    let turn = dylib.function::<extern "C" fn(ExecutorAddr)>("turn").bind()?;
    turn.call((point.address(),))?;
    let at = |offset| {
        Ok::<_, Box<dyn Error>>(f64::from_ne_bytes(
            point.read(offset..offset + 8).try_into().map_err(|_| "8 bytes")?,
        ))
    };
    println!("(1, 2) turned is ({}, {})", at(0)?, at(8)?);
    Ok(())
}
