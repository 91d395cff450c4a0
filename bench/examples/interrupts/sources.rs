//! The programs of `tests/sources/interrupt`, compiled when they are needed.

use std::path::{Path, PathBuf};
use std::process::Command;

use farcall::link::{Archive, ObjectFile};
use farcall_bench::Result;

/// The object of a source in C or C++, compiled with this option.
pub(crate) fn object(name: &str, option: &str) -> Result<ObjectFile> {
    let compiler = if name.ends_with(".c") { "cc" } else { "c++" };
    let bytes = made(Command::new(compiler).args(["-O2", "-c", option]), name, "o")?;
    Ok(ObjectFile::parse(Path::new(name).with_extension("o").display().to_string(), bytes)?)
}

/// The archive of a source in Rust, with all of the standard library.
pub(crate) fn archive(name: &str) -> Result<Archive> {
    let flags = ["--edition=2024", "--crate-type=staticlib", "-Cpanic=unwind", "-Copt-level=2"];
    let bytes = made(Command::new("rustc").args(flags), name, "a")?;
    Ok(Archive::parse(format!("{name}.a"), bytes)?)
}

/// The bytes that the compiler makes of the source.
fn made(command: &mut Command, name: &str, extension: &str) -> Result<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/sources/interrupt");
    let file = format!("farcall-interrupts-{}-{name}.{extension}", std::process::id());
    let product: PathBuf = std::env::temp_dir().join(file);
    let status = command.arg(folder.join(name)).arg("-o").arg(&product).status()?;
    if !status.success() {
        return Err(format!("{command:?}: {status}").into());
    }
    let bytes = std::fs::read(&product)?;
    std::fs::remove_file(&product)?;
    Ok(bytes)
}
