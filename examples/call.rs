//! A blocking call: links a function into another process and calls it there.

mod twice;

use std::error::Error;

use farcall::controller::ExecutorBuilder;

fn main() -> Result<(), Box<dyn Error>> {
    farcall::executor::run_if_spawned(); // this program is its own executor
    let executor = ExecutorBuilder::new().this_program().start()?;
    let process = executor.process()?;

    let dylib = executor.library("main");
    dylib.add_object(&twice::compile()?)?;
    let twice = dylib.lookup("twice")?;
    for number in [1, 21, 1 << 40] {
        let result = process.call(twice, &u64::to_le_bytes(number))?;
        println!("twice {number} is {}", u64::from_le_bytes(result.as_slice().try_into()?));
    }
    dylib.clear()?; // the code is gone, the memory free
    Ok(())
}
