//! An object file for the examples, from the C compiler.

use std::error::Error;
use std::process::Command;

use farcall::link::ObjectFile;

/// Compiles `twice.c`.
pub(crate) fn compile() -> Result<ObjectFile, Box<dyn Error>> {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/twice/twice.c");
    let path = std::env::temp_dir().join(format!("twice-{}.o", std::process::id()));
    let status = Command::new("cc").args(["-O2", "-c", source, "-o"]).arg(&path).status()?;
    if !status.success() {
        return Err(format!("cc {source}: {status}").into());
    }
    let object = std::fs::read(&path);
    std::fs::remove_file(&path)?;
    Ok(ObjectFile::parse("twice.o", object?)?)
}
