//! LLVM's own linker of code for another process, `llvm-jitlink`, where it is installed.
//!
//! Invariant: a command that is found has been started once and has printed its version.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The version that the project is compared with.
const VERSION: u32 = 22;
/// The line if LLVM is not installed.
pub(crate) const ABSENT: &str = "LLVM 22: not installed here, no comparison";

/// The newest `llvm-jitlink` of this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Jitlink {
    program: PathBuf,
    /// The executor that it starts.
    executor: PathBuf,
    /// As it prints it.
    version: String,
}

impl Jitlink {
    /// Searches PATH and Debian's folders of LLVM; the highest version wins.
    pub(crate) fn find() -> Option<Self> {
        let folders = std::env::var_os("PATH").unwrap_or_default();
        let mut found: Vec<(u32, PathBuf)> = Vec::new();
        for folder in std::env::split_paths(&folders) {
            found.extend(numbered(&folder, "llvm-jitlink-"));
        }
        let debian = numbered(Path::new("/usr/lib"), "llvm-");
        found.extend(debian.map(|(number, folder)| (number, folder.join("bin/llvm-jitlink"))));
        found.sort_by_key(|(number, _)| std::cmp::Reverse(*number));
        found.into_iter().find_map(|(_, program)| Self::at(&program))
    }

    fn at(program: &Path) -> Option<Self> {
        // A command may be a link to the folder of its neighbours.
        let program = program.canonicalize().ok()?;
        let executor = program.with_file_name("llvm-jitlink-executor");
        let said = Command::new(&program).arg("--version").stdin(Stdio::null()).output().ok()?;
        let version = version_in(&String::from_utf8_lossy(&said.stdout))?;
        executor.is_file().then_some(Self { program, executor, version })
    }

    /// The command that runs a program in a process of its own, without its objects.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        let mut executor = std::ffi::OsString::from("-oop-executor=");
        executor.push(&self.executor);
        command.arg(executor);
        command
    }

    /// Its name in reports.
    pub(crate) fn name(&self) -> String {
        let major = self.version.split('.').next().and_then(|word| word.parse().ok());
        let note = if major == Some(VERSION) { "" } else { ", as LLVM 22 is not installed" };
        format!("llvm-jitlink of LLVM {}{note}", self.version)
    }
}

/// The files of a folder with this name and a number behind it.
fn numbered(folder: &Path, name: &'static str) -> impl Iterator<Item = (u32, PathBuf)> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(move |entry| {
        let number = entry.file_name().to_str()?.strip_prefix(name)?.parse().ok()?;
        Some((number, entry.path()))
    })
}

/// The word behind "LLVM version".
fn version_in(text: &str) -> Option<String> {
    let (_, rest) = text.split_once("LLVM version ")?;
    rest.split_whitespace().next().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_as_debian_and_others_write_them() {
        let debian = "Debian LLVM version 22.1.8\n  Optimized build.\n";
        assert_eq!(version_in(debian).as_deref(), Some("22.1.8"));
        let own = "LLVM (http://llvm.org/):\n  LLVM version 14.0.6\n  \n";
        assert_eq!(version_in(own).as_deref(), Some("14.0.6"));
        assert_eq!(version_in("GNU ld 2.40"), None);
    }

    #[test]
    fn the_name_says_when_it_is_another_version() {
        let of = |version: &str| {
            let (program, executor) = (PathBuf::new(), PathBuf::new());
            Jitlink { program, executor, version: version.to_owned() }.name()
        };
        assert_eq!(of("22.1.8"), "llvm-jitlink of LLVM 22.1.8");
        assert_eq!(of("14.0.6"), "llvm-jitlink of LLVM 14.0.6, as LLVM 22 is not installed");
    }
}
