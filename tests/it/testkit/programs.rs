//! The real programs: Lua, SQLite, zlib, zstd and mimalloc from the C sources that crates carry, and a Rust program
//! with its standard library.
//!
//! Invariant: nothing of their sources lies here, but for the drivers in `tests/sources`.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::testkit::corpus::{self, LOW, PLAIN, gcc};
use crate::testkit::crates;

/// A program, compiled: objects and archives, and the libraries that it names as for `-l`.
#[derive(Debug, Clone)]
pub(crate) struct Compiled {
    /// Objects, and archives behind them.
    pub(crate) files: Vec<PathBuf>,
    /// Names of libraries.
    pub(crate) libraries: &'static [&'static str],
    /// True when they hold addresses in 32 bits.
    pub(crate) is_low: bool,
}

impl Compiled {
    /// The files that `farcall run` links.
    pub(crate) fn inputs(&self) -> Vec<PathBuf> {
        let libraries = self.libraries.iter().map(|name| format!("-l{name}").into());
        self.files.iter().cloned().chain(libraries).collect()
    }

    /// The native program.
    pub(crate) fn executable(&self) -> PathBuf {
        let build = if self.is_low { LOW } else { PLAIN };
        corpus::executable(&self.files, self.libraries, build)
    }
}

/// Lua 5.4 declares its inner functions with internal visibility and is 33 objects.
pub(crate) fn lua(flags: &[&str]) -> Compiled {
    let (folder, objects) = lua_objects(flags);
    let driver = driver("lua_driver.c", &folder, flags);
    Compiled {
        files: [objects, vec![driver]].concat(),
        libraries: &["m"],
        is_low: gcc(flags).is_low(),
    }
}

/// The same from an archive.
pub(crate) fn lua_archive(flags: &[&str]) -> Compiled {
    let (folder, objects) = lua_objects(flags);
    let driver = driver("lua_driver.c", &folder, flags);
    Compiled {
        files: vec![driver, corpus::archive("lua", &objects)],
        libraries: &["m"],
        is_low: gcc(flags).is_low(),
    }
}

fn lua_objects(flags: &[&str]) -> (PathBuf, Vec<PathBuf>) {
    let versions = std::fs::read_dir(crates::folder("lua-src")).expect("a folder for each version");
    let mut folders = versions.flatten().map(|entry| entry.path());
    let is_5_4 = |path: &PathBuf| {
        path.file_name().is_some_and(|n| n.as_encoded_bytes().starts_with(b"lua-5.4"))
    };
    let folder = folders.find(is_5_4).expect("lua-src carries Lua 5.4");
    let flags = [&["-O2", "-DLUA_USE_LINUX"], flags].concat();
    let objects = corpus::compile_all(&crates::c_files(&folder), gcc(&flags));
    (folder, objects)
}

/// SQLite, which is one object.
pub(crate) fn sqlite(flags: &[&str]) -> Compiled {
    let folder = crates::folder("libsqlite3-sys").join("sqlite3");
    let defines = ["-DSQLITE_THREADSAFE=1", "-DSQLITE_ENABLE_MATH_FUNCTIONS"];
    let library = folder.join("sqlite3.c");
    let library = corpus::compile(&library, gcc(&[&["-O1"], &defines[..], flags].concat()));
    let files = vec![driver("sqlite_driver.c", &folder, flags), library];
    Compiled { files, libraries: &["m"], is_low: gcc(flags).is_low() }
}

/// zlib from an archive.
pub(crate) fn zlib(flags: &[&str]) -> Compiled {
    let folder = crates::folder("libz-sys").join("src/zlib");
    let defines = ["-DHAVE_UNISTD_H", "-DHAVE_STDARG_H", "-D_LARGEFILE64_SOURCE=1"];
    let flags_of_library = [&["-O2"], &defines[..], flags].concat();
    let objects = corpus::compile_all(&crates::c_files(&folder), gcc(&flags_of_library));
    let files = vec![driver("zlib_driver.c", &folder, flags), corpus::archive("z", &objects)];
    Compiled { files, libraries: &[], is_low: gcc(flags).is_low() }
}

/// zstd with its threads and its Huffman decoder in assembler.
pub(crate) fn zstd(flags: &[&str]) -> Compiled {
    let folder = crates::folder("zstd-sys").join("zstd/lib");
    let parts = ["common", "compress", "decompress"].map(|part| folder.join(part));
    let mut sources: Vec<_> = parts.iter().flat_map(|part| crates::c_files(part)).collect();
    sources.push(folder.join("decompress/huf_decompress_amd64.S"));
    let flags_of_library = [&["-O1", "-DZSTD_MULTITHREAD=1"], flags].concat();
    let mut files = vec![driver("zstd_driver.c", &folder, flags)];
    files.extend(corpus::compile_all(&sources, gcc(&flags_of_library)));
    Compiled { files, libraries: &[], is_low: gcc(flags).is_low() }
}

/// mimalloc, which is one object, with a driver of four threads.
pub(crate) fn mimalloc(flags: &[&str]) -> Compiled {
    let folder = crates::folder("libmimalloc-sys").join("c_src/mimalloc/v3");
    let include = folder.join("include");
    let option = format!("-I{}", plain(&include));
    let flags_of_library = [&["-O2", "-DNDEBUG", "-DMI_BUILD_RELEASE", &option], flags].concat();
    let library = corpus::compile(&folder.join("src/static.c"), gcc(&flags_of_library));
    let files = vec![driver("mimalloc_driver.c", &include, flags), library];
    Compiled { files, libraries: &["pthread"], is_low: gcc(flags).is_low() }
}

/// OpenSSL's libcrypto from the archive that the system has; `None` if it has none.
pub(crate) fn crypto() -> Option<Compiled> {
    let asked = Command::new("gcc").arg("-print-file-name=libcrypto.a").output().expect("gcc");
    // gcc repeats the name of a file that it does not find.
    let archive = PathBuf::from(String::from_utf8_lossy(&asked.stdout).trim_end());
    archive.is_absolute().then(|| Compiled {
        files: vec![corpus::object("crypto_driver.c", gcc(&["-O2"])), archive],
        libraries: &[],
        is_low: false,
    })
}

/// A Rust program, in the archive that rustc makes of it and its standard library.
pub(crate) fn rust(flags: &[&str]) -> Compiled {
    Compiled {
        files: vec![corpus::rust_archive("std_threads.rs", flags)],
        libraries: &[],
        is_low: gcc(flags).is_low(),
    }
}

/// The object of a driver in `tests/sources` that includes the headers of `folder`.
fn driver(name: &str, folder: &Path, flags: &[&str]) -> PathBuf {
    corpus::object(name, gcc(&[&["-O2", "-I", plain(folder)], flags].concat()))
}

fn plain(path: &Path) -> &str {
    path.to_str().expect("the registry has a plain path")
}
