//! A tiny language of functions and expressions, compiled with Cranelift and run in another process, each function when it
//! is called first.
//!
//! ```text
//! cargo run -p farcall-cranelift -- 'square(x) = x * x' 'norm(x, y) = sqrt(square(x) + square(y))' 'norm(3, 4) / 2'
//! ```

mod code;
mod syntax;

use std::collections::HashMap;
use std::error::Error;
use std::sync::{Arc, OnceLock};

use farcall::ExecutorAddr;
use farcall::controller::{Controller, ExecutorBuilder};
use farcall::link::{External, ObjectFile};

use syntax::{Definition, parse};

/// What runs without arguments.
const PROGRAM: [&str; 4] = [
    "square(x) = x * x",
    "norm(x, y) = sqrt(square(x) + square(y))",
    "unused(x) = nobody(x)",
    "norm(3, 4) / 2",
];

type Failure = Box<dyn Error + Send + Sync>;
/// Where each function is, or will be.
type Functions = HashMap<String, ExecutorAddr>;

fn main() -> Result<(), Failure> {
    farcall::executor::run_if_spawned(); // this program is its own executor
    let mut lines: Vec<String> = std::env::args().skip(1).collect();
    if lines.is_empty() {
        lines.extend(PROGRAM.map(str::to_owned));
    }
    let controller = ExecutorBuilder::new().this_program().start()?;
    let known = Arc::new(OnceLock::<Functions>::new());
    let mut functions = Functions::new();
    let mut expressions = Vec::new();
    for line in &lines {
        let definition = parse(line)?;
        let name = definition.name.clone().unwrap_or_else(|| line.clone());
        let is_expression = definition.name.is_none();
        let known = Arc::clone(&known);
        let lazy = controller.create_lazy(&name, move |controller| {
            compile(controller, &definition, known.get().ok_or("too early")?)
        })?;
        if is_expression {
            expressions.push((line, lazy.address()));
        } else {
            functions.insert(name, lazy.address());
        }
    }
    known.get_or_init(|| functions);
    for (line, address) in expressions {
        let value = controller.function::<extern "C" fn() -> f64>(address).call()?;
        println!("{line} = {value}");
    }
    Ok(())
}

/// Compiles and links a function. What the program does not define, such as `sqrt`, is looked for in the executor's libraries.
fn compile(
    controller: &Controller,
    definition: &Definition,
    functions: &Functions,
) -> Result<ExecutorAddr, Failure> {
    let name = definition.name.as_deref().unwrap_or("the expression");
    eprintln!("compiling {name}");
    let object = ObjectFile::parse(name, code::object(definition)?)?;
    let dylib = controller.create_dylib(name);
    for (name, address) in functions {
        dylib.define(name, External { callable: true, ..External::from(*address) })?;
    }
    dylib.add_object(&object)?;
    Ok(dylib.lookup(code::ENTRY)?)
}
