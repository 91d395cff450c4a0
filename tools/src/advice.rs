//! Hints for common mistakes with files, arguments and libraries. They follow the error on its line.

use std::fs::File;
use std::io::Read;
use std::path::Path;

/// The first bytes of files that the linker reads, or refuses with a reason of its own: ELF files, archives, bitcode.
const MAGIC: [&[u8]; 5] =
    [b"\x7fELF", b"!<arch>\n", b"!<thin>\n", b"BC\xc0\xde", b"\xde\xc0\x17\x0b"];
const MAGIC_BYTES: u64 = 8;

/// Endings of source files, and the command that compiles such a file.
const COMPILERS: [(&[&str], &str); 5] = [
    (&["c", "s", "S"], "cc -O2 -c"),
    (&["cc", "cpp", "cxx", "C"], "c++ -O2 -c"),
    (&["ll"], "clang -O2 -c"),
    (&["f", "f90"], "gfortran -O2 -c"),
    (&["rs"], "rustc -O --crate-type staticlib"),
];

/// Endings of objects and libraries.
const INPUTS: [&str; 3] = ["o", "a", "so"];

/// For symbols that no object and no library defines.
pub(crate) const IF_UNDEFINED: &str =
    "add the object or the archive that defines them, or -l NAME for a library";

/// For a source file that was given as an object: the command that compiles it.
pub(crate) fn if_a_source(path: &Path, bytes: &[u8]) -> Option<String> {
    if has_magic(bytes) {
        return None;
    }
    let ending = path.extension()?.to_str()?;
    let (_, compiler) = COMPILERS.iter().find(|(endings, _)| endings.contains(&ending))?;
    Some(format!("a source file; compile it first: {compiler} {}", path.display()))
}

/// For a file without the ending of an object, a library or a source: how to give an argument to the program.
pub(crate) fn if_an_argument(path: &Path) -> Option<String> {
    let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
    let mut known = COMPILERS.iter().flat_map(|(endings, _)| endings.iter()).chain(&INPUTS);
    if known.any(|known| *known == ending) {
        return None;
    }
    let path = path.display();
    Some(format!("arguments of the program follow --: farcall run FILE... -- {path}"))
}

/// For `-l` with the name of a file, `-l./libz.so.1`: the same library as `-l` expects it.
pub(crate) fn if_a_library_file(given: &str) -> Option<String> {
    let (folder, file) = given.rsplit_once('/').unwrap_or(("", given));
    let stem = file.strip_prefix("lib")?;
    let name = stem.split_once(".so").or_else(|| stem.split_once(".a"))?.0;
    let folder = if folder.is_empty() { String::new() } else { format!("-L{folder} ") };
    Some(format!("-l takes the name alone: {folder}-l{name}"))
}

/// True if the file begins as an object, an executable, a library or bitcode does. False if it cannot be read.
pub(crate) fn is_linkable(path: &Path) -> bool {
    let mut bytes = Vec::new();
    // Opening a pipe with a name would wait for a writer.
    let mut read = || File::open(path)?.take(MAGIC_BYTES).read_to_end(&mut bytes);
    path.is_file() && read().is_ok() && has_magic(&bytes)
}

fn has_magic(bytes: &[u8]) -> bool {
    MAGIC.iter().any(|magic| bytes.starts_with(magic))
}
