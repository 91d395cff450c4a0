//! Object files for the examples, from the C compiler.

use std::error::Error;
use std::io::Write as _;
use std::process::{Command, Stdio};

use farcall::link::ObjectFile;

/// Compiles C; `name` appears in errors.
pub(crate) fn compile(name: &str, source: &str) -> Result<ObjectFile, Box<dyn Error>> {
    let path = std::env::temp_dir().join(format!("farcall-{}-{name}", std::process::id()));
    let mut command = Command::new("cc");
    command.args(["-O1", "-x", "c", "-c", "-", "-o"]).arg(&path).stdin(Stdio::piped());
    let mut compiler = command.spawn()?;
    compiler.stdin.take().ok_or("no pipe")?.write_all(source.as_bytes())?;
    let status = compiler.wait()?;
    if !status.success() {
        return Err(format!("cc {name}: {status}").into());
    }
    let object = std::fs::read(&path);
    std::fs::remove_file(&path)?;
    Ok(ObjectFile::parse(name, object?)?)
}
