//! The library of the tests, built by the C compiler.

use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

/// A folder with the library as a shared library and as an archive.
pub(crate) struct Built {
    folder: TempDir,
}

impl Built {
    /// Builds the library from one of the sources in this folder.
    pub(crate) fn new(source: &str) -> Self {
        let folder = TempDir::new().expect("a folder");
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/library");
        let built = Self { folder };
        let object = built.path("library.o");
        run(Command::new("cc")
            .args(["-O1", "-fPIC", "-c"])
            .arg(sources.join(source))
            .arg("-o")
            .arg(&object));
        run(Command::new("cc")
            .arg("-shared")
            .arg(&object)
            .arg("-o")
            .arg(built.path("libshapes.so"))
            .arg("-lm"));
        run(Command::new("ar").arg("rcs").arg(built.path("libshapes.a")).arg(&object));
        built
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

fn run(command: &mut Command) {
    let status = command.status().expect("a compiler");
    assert!(status.success(), "{command:?}");
}
