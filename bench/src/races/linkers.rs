//! The linkers that `farcall run` is compared with, and how each is started.
//!
//! A linker is started directly, as a compiler's driver would start it, so no figure includes the driver's time. It writes a
//! dynamically linked executable.
//!
//! Invariant: all linkers keep all sections, as `farcall run` does.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::Result;
use crate::races::link_programs::LinkProgram;

/// A linker by the name of its command.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Linker {
    pub(crate) name: &'static str,
    /// Flags that the others do not need.
    flags: &'static [&'static str],
}

/// The linkers to compare with where they are installed.
const LINKERS: [Linker; 3] = [
    // It drops what nothing refers to, unless told otherwise.
    Linker { name: "wild", flags: &["--no-gc-sections"] },
    Linker { name: "mold", flags: &[] },
    Linker { name: "ld.lld", flags: &[] },
];

/// The linker of every machine with a compiler. It is slow, so it runs where none of the others is.
const LAST_RESORT: Linker = Linker { name: "ld", flags: &[] };

/// The linkers of this machine, and the names of those that are absent.
///
/// # Errors
/// When there is none.
pub(crate) fn find() -> Result<(Vec<Linker>, Vec<&'static str>)> {
    let is_there = |linker: &Linker| quiet(linker.name).arg("--version").status().is_ok();
    let (mut here, absent): (Vec<_>, Vec<_>) = LINKERS.into_iter().partition(is_there);
    if here.is_empty() {
        if !is_there(&LAST_RESORT) {
            return Err("none of wild, mold, ld.lld and ld is installed".into());
        }
        here.push(LAST_RESORT);
    }
    Ok((here, absent.iter().map(|linker| linker.name).collect()))
}

impl Linker {
    /// The command that links a program into the executable `output`.
    ///
    /// # Errors
    /// When there is no C compiler, which knows the paths of the start files.
    pub(crate) fn command(self, program: &LinkProgram, output: &Path) -> Result<Command> {
        let mut link = quiet(self.name);
        // Its errors go to the user.
        link.stderr(Stdio::inherit()).current_dir(&program.folder);
        link.args(self.flags).args(["-pie", "--eh-frame-hdr", "--hash-style=gnu"]);
        link.args(["-dynamic-linker", "/lib64/ld-linux-x86-64.so.2", "-o"]).arg(output);
        link.args([file_of_compiler("Scrt1.o")?, file_of_compiler("crti.o")?]);
        link.arg(file_of_compiler("crtbeginS.o")?);
        for name in ["libgcc.a", "libc.so"] {
            let path = file_of_compiler(name)?;
            link.arg("-L").arg(path.parent().unwrap_or(Path::new("/")));
        }
        link.args(["-L/lib/x86_64-linux-gnu", "-L/usr/lib/x86_64-linux-gnu"]);
        link.args(&program.files).args(program.library_flags());
        link.args(["-lgcc", "--as-needed", "-lgcc_s", "--no-as-needed", "-lc"]);
        link.args([file_of_compiler("crtendS.o")?, file_of_compiler("crtn.o")?]);
        Ok(link)
    }
}

/// A command that neither reads nor prints.
pub(crate) fn quiet(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// The path of one of the compiler's files.
fn file_of_compiler(name: &str) -> Result<PathBuf> {
    let output = Command::new("cc").arg(format!("-print-file-name={name}")).output()?;
    let path = PathBuf::from(String::from_utf8(output.stdout)?.trim_end());
    // An unknown name comes back as it was given.
    if path.is_absolute() { Ok(path) } else { Err(format!("cc has no {name}").into()) }
}
