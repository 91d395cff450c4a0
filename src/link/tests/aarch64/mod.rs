//! AArch64, on whatever processor the tests run.

use std::path::Path;
use std::process::Command;

use crate::External;
use crate::tests::*;

mod bare;
mod bits;
mod built;
mod checker;
mod islands;
mod links;
mod program;

const GCC: &str = "aarch64-linux-gnu-gcc";
const QEMU: &str = "qemu-aarch64";

/// True where a tool is. Where it is not, the test says so, and is skipped.
fn is_here(tool: &str) -> bool {
    let version = Command::new(tool).arg("--version").output();
    let is_here = version.is_ok_and(|output| output.status.success());
    if !is_here {
        let thread = std::thread::current();
        println!("skipped: {}: {tool}: not installed", thread.name().unwrap_or_default());
    }
    is_here
}

/// Runs a command that must succeed, and returns what it printed.
fn succeed(tool: &str, arguments: &[&str], folder: &Path) -> String {
    let output = Command::new(tool).args(arguments).current_dir(folder).output().unwrap();
    let complaints = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{tool} {arguments:?}: {complaints}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Compiles as [`compile`] does, with this compiler.
fn cross_compile(compiler: &str, name: &str, flags: &str, source: &str) -> ObjectFile {
    let scratch = Scratch::new();
    std::fs::write(scratch.0.join("in"), source).unwrap();
    let language = if flags.contains("-x") { "" } else { "-xc" };
    let mut arguments: Vec<&str> = language.split_whitespace().collect();
    arguments.extend(flags.split_whitespace());
    arguments.extend(["-w", "-c", "-o", "out.o", "in"]);
    succeed(compiler, &arguments, &scratch.0);
    ObjectFile::parse(name, std::fs::read(scratch.0.join("out.o")).unwrap()).unwrap()
}

fn arm(name: &str, flags: &str, source: &str) -> ObjectFile {
    cross_compile(GCC, name, flags, source)
}

fn arm_graph(objects: &[&ObjectFile]) -> Result<LinkGraph> {
    let mut graph = LinkGraph::for_processor(Processor::Aarch64);
    objects.iter().try_for_each(|object| graph.add_object(object))?;
    Ok(graph)
}

/// Links at [`BASES`], with thread-locals behind the 16 bytes at the thread pointer.
fn arm_link(objects: &[&ObjectFile], externals: &[(&str, External)]) -> Result<Image> {
    let mut graph = arm_graph(objects)?;
    for (name, external) in externals {
        graph.define_external(name, *external);
    }
    graph.layout()?.fixup(BASES.map(ExecutorAddr::new), 16)
}

fn function(address: u64) -> External {
    External { callable: true, ..ExecutorAddr::new(address).into() }
}
