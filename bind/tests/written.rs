//! The bindings in the tree are those that the headers give. `BIND_REWRITE=1` writes them anew.

use std::fs;
use std::path::{Path, PathBuf};

use farcall_bind::{Binding, HeaderFile, Hints, Library};

/// A binding of the tree: header, library, name, folder, and the constant that tells versions of the header apart.
const BINDINGS: [(&str, Option<&str>, &str, &str, &str); 4] = [
    ("tests/library/shapes.h", None, "Shapes", "tests/bindings", "SHAPES_VERSION"),
    ("/usr/include/zlib.h", Some("z"), "Zlib", "examples/bindings", "ZLIB_VERSION"),
    ("/usr/include/png.h", Some("png"), "Png", "examples/bindings", "PNG_LIBPNG_VER_STRING"),
    ("/usr/include/sqlite3.h", Some("sqlite3"), "Sqlite3", "examples/bindings", "SQLITE_VERSION"),
];

/// The binding that a header gives; none where libclang, the header or the library is missing.
fn written(
    header: &Path,
    library: Option<&str>,
    name: &str,
    hints: &Path,
) -> Result<String, farcall_bind::Error> {
    let libraries = library.map(|library| Library::find(library, &[])).transpose()?;
    let libraries: Vec<_> = libraries.into_iter().collect();
    let file = HeaderFile::new(header);
    let file = match libraries.first() {
        Some(library) => file.symbols(library.symbols()?),
        None => file,
    };
    let hints = Hints::parse(&fs::read_to_string(hints).expect("hints"))?;
    let stem = header.file_stem().unwrap_or_default().to_string_lossy();
    let of = library.map(|library| format!(" -l {library}")).unwrap_or_default();
    Binding::new(name, &file.read()?, &hints, libraries)?
        .rust(&format!("farcall bind {stem}.h{of} --hints {stem}.toml"))
}

/// The line with the version of the header.
fn version<'a>(binding: &'a str, constant: &str) -> Option<&'a str> {
    let start = format!("pub const {constant}:");
    let at = binding.find(&start)?;
    binding[at..].split(';').next()
}

#[test]
fn the_bindings_of_the_tree_are_of_the_headers() {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let is_rewrite = std::env::var_os("BIND_REWRITE").is_some();
    let mut cases = 0;
    for (header, library, name, folder, constant) in BINDINGS {
        let header = root.join(header);
        let stem = header.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let hints = if library.is_some() { root.join(folder) } else { root.join("tests/library") };
        let text = match written(&header, library, name, &hints.join(format!("{stem}.toml"))) {
            Ok(text) => text,
            Err(error) if is_rewrite => panic!("{error}"),
            Err(error) => {
                let why = error.to_string();
                let is_missing = why.contains("libclang cannot be loaded")
                    || (library.is_some()
                        && (why.contains("No such file") || why.starts_with("there is no lib")));
                assert!(is_missing, "{why}");
                println!("skipped: the_bindings_of_the_tree_are_of_the_headers: {stem}: {error}");
                continue;
            }
        };
        let path = root.join(folder).join(format!("{stem}.rs"));
        if is_rewrite {
            fs::write(&path, &text).expect("written");
        }
        let ours = fs::read_to_string(&path).expect("a binding");
        if version(&ours, constant) != version(&text, constant) {
            println!(
                "skipped: the_bindings_of_the_tree_are_of_the_headers: {stem}: another version of the header"
            );
            continue;
        }
        assert!(
            ours == text,
            "{} is of another header: BIND_REWRITE=1 writes it anew",
            path.display()
        );
        cases += 1;
    }
    println!("bindings: {cases} cases");
}
