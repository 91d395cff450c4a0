//! A tiny language of functions and expressions, compiled with Cranelift and run in another process.
//!
//! ```text
//! cargo run -p farcall-cranelift --example expressions -- 'square(x) = x * x' 'norm(x, y) = sqrt(square(x) + square(y))' 'norm(3, 4) / 2'
//! ```
//!
//! Functions may be defined in any order. A name that the program does not define, such as `sqrt`, is one of the executor's
//! libraries.

mod code;
mod syntax;

use std::error::Error;

use cranelift_module::default_libcall_names;
use farcall::controller::ExecutorBuilder;
use farcall_cranelift::{FarcallBuilder, FarcallModule};

use syntax::parse;

/// The program that runs without arguments.
const PROGRAM: [&str; 3] =
    ["norm(x, y) = sqrt(square(x) + square(y))", "square(x) = x * x", "norm(3, 4) / 2"];

type Failure = Box<dyn Error + Send + Sync>;

fn main() -> Result<(), Failure> {
    farcall::executor::run_if_spawned(); // this program is its own executor
    let mut lines: Vec<String> = std::env::args().skip(1).collect();
    if lines.is_empty() {
        lines.extend(PROGRAM.map(str::to_owned));
    }
    let executor = ExecutorBuilder::new().this_program().start()?;
    let process = executor.process()?;
    let mut builder = FarcallBuilder::new(&executor, default_libcall_names())?;
    builder.name("expressions");
    let mut module = FarcallModule::new(builder);

    let definitions = lines.iter().map(|line| parse(line)).collect::<Result<Vec<_>, _>>()?;
    let mut expressions = Vec::new();
    for (line, definition) in lines.iter().zip(&definitions) {
        let id = code::declare(&mut module, definition)?;
        code::define(&mut module, id, definition)?;
        if definition.name.is_none() {
            expressions.push((line, id));
        }
    }
    module.finalize_definitions()?;
    for (line, id) in expressions {
        let address = module.get_finalized_function(id)?;
        let value = process.function::<extern "C" fn() -> f64>(address).call(())?;
        println!("{line} = {value}");
    }
    Ok(())
}
