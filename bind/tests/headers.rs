//! Headers of the system, and damaged ones: a binding, or one clear line.

use std::fs;
use std::path::{Path, PathBuf};

use farcall_bind::{Binding, HeaderFile, Hints};

/// A header is read in a process of its own, as the command does it.
#[farcall::isolate(timeout = "60s")]
fn bind(path: PathBuf) -> Result<(usize, String), Box<dyn std::error::Error + Send + Sync>> {
    let header = HeaderFile::new(path).read()?;
    let binding = Binding::new("Library", &header, &Hints::default(), Vec::new())?;
    Ok((binding.functions(), binding.rust("farcall bind")?))
}

/// True where libclang is; else the test says that it is skipped.
fn has_libclang(test: &str) -> bool {
    let found = bind(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/library/shapes.h"));
    let is_missing =
        found.as_ref().is_err_and(|error| error.to_string().contains("libclang cannot be loaded"));
    if is_missing {
        println!("skipped: {test}: libclang: not installed (libclang1 of Debian)");
    }
    !is_missing
}

/// The headers of a folder, by name.
fn headers(folder: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut headers: Vec<_> =
        entries.filter(|path| path.extension().is_some_and(|ending| ending == "h")).collect();
    headers.sort();
    headers
}

#[test]
fn system_headers_are_bound_or_refused_by_one_line() {
    if !has_libclang("system_headers_are_bound_or_refused_by_one_line") {
        return;
    }
    let all = ["/usr/include", "/usr/include/linux", "/usr/include/x86_64-linux-gnu/sys"]
        .map(headers)
        .concat();
    let (mut bound, mut functions, mut refused) = (0, 0, 0);
    for path in all.iter().take(240) {
        match bind(path.clone()) {
            Ok((count, text)) => {
                assert!(text.contains("pub struct Library"), "{}", path.display());
                (bound, functions) = (bound + 1, functions + count);
            }
            Err(error) => {
                let line = error.to_string();
                let is_clear = line.lines().count() == 1
                    && line.contains(": ")
                    && !line.contains("panicked")
                    && !line.contains("died");
                assert!(is_clear, "{}: {line}", path.display());
                refused += 1;
            }
        }
    }
    println!(
        "headers of the system: {} cases: {bound} bound with {functions} functions, {refused} refused",
        bound + refused
    );
    assert!(bound >= 150 && functions >= 1000, "{bound} bound with {functions} functions");
}

#[test]
fn damaged_headers_are_bound_or_refused_by_one_line() {
    if !has_libclang("damaged_headers_are_bound_or_refused_by_one_line") {
        return;
    }
    let source = fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/library/shapes.h"))
        .expect("a header");
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("damaged.h");
    let mut state = 88_172_645_463_325_252_u64;
    let mut next = |bound: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state % bound as u64).expect("a small number")
    };
    let (mut bound, mut refused) = (0, 0);
    for _ in 0..250 {
        let mut bytes = source.clone();
        for _ in 0..=next(2) {
            let at = next(bytes.len());
            match next(4) {
                0 => bytes[at] = u8::try_from(next(256)).expect("a byte"),
                1 => bytes.truncate(at.max(1)),
                2 => drop(bytes.drain(at..(at + next(40)).min(bytes.len()))),
                _ => {
                    let from = next(bytes.len());
                    let part = bytes[from..(from + next(40)).min(bytes.len())].to_vec();
                    bytes.splice(at..at, part);
                }
            }
            if bytes.is_empty() {
                bytes.push(b'\n');
            }
        }
        fs::write(&path, &bytes).expect("written");
        match bind(path.clone()) {
            Ok((_, text)) => {
                assert!(text.contains("pub struct Library"));
                bound += 1;
            }
            Err(error) => {
                let line = error.to_string();
                assert!(
                    line.lines().count() == 1 && !line.contains("panicked"),
                    "{line}\n{}",
                    String::from_utf8_lossy(&bytes)
                );
                refused += 1;
            }
        }
    }
    println!("damaged headers: {} cases: {bound} bound, {refused} refused", bound + refused);
    assert!(bound > 5 && refused > 5, "{bound} bound, {refused} refused");
}
