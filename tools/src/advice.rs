//! What to do about files that cannot be linked and were given by a common mistake.

use std::path::Path;

/// The beginnings of what the linker reads, or names in its own error: ELF files, archives, bitcode.
const MAGIC: [&[u8]; 5] =
    [b"\x7fELF", b"!<arch>\n", b"!<thin>\n", b"BC\xc0\xde", b"\xde\xc0\x17\x0b"];

/// Endings of source files, and what makes an object of one.
const COMPILERS: [(&[&str], &str); 5] = [
    (&["c", "s", "S"], "cc -O2 -c"),
    (&["cc", "cpp", "cxx", "C"], "c++ -O2 -c"),
    (&["ll"], "clang -O2 -c"),
    (&["f", "f90"], "gfortran -O2 -c"),
    (&["rs"], "rustc -O --crate-type staticlib"),
];

/// The command that compiles the file, if it is a source file.
pub(crate) fn if_a_source(path: &Path, bytes: &[u8]) -> Option<String> {
    if MAGIC.iter().any(|magic| bytes.starts_with(magic)) {
        return None;
    }
    let ending = path.extension()?.to_str()?;
    let (_, compiler) = COMPILERS.iter().find(|(endings, _)| endings.contains(&ending))?;
    Some(format!("a source file; compile it first: {compiler} {}", path.display()))
}

/// Endings of files that are no arguments of the program.
const INPUTS: [&str; 3] = ["o", "a", "so"];

/// How arguments are given, if the file's ending is none of an object, a library or a source: the file may be an argument of
/// the program.
pub(crate) fn if_an_argument(path: &Path) -> Option<String> {
    let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
    let mut known = COMPILERS.iter().flat_map(|(endings, _)| endings.iter()).chain(&INPUTS);
    if known.any(|known| *known == ending) {
        return None;
    }
    let path = path.display();
    Some(format!("arguments of the program follow --: farcall run FILE... -- {path}"))
}
