//! `farcall bind`: it writes bindings that run the functions of a C library in a process of their own.
//!
//! libclang reads the header in an isolated function: a header that makes it crash or hang is an error of the command.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use farcall_bind::{Binding, Header, HeaderFile, Hints, Library};

use crate::output;
use crate::status::{Failure, NOT_FOUND, TOOL};

#[derive(clap::Args)]
pub(crate) struct Options {
    /// The header.
    #[arg(value_name = "HEADER")]
    header: PathBuf,
    /// A library of the header: its name as for a linker, or the path of a shared library or archive.
    #[arg(short = 'l', long = "library", value_name = "LIB")]
    libraries: Vec<String>,
    /// A folder with libraries, before the system's.
    #[arg(short = 'L', long = "library-path", value_name = "DIR")]
    folders: Vec<PathBuf>,
    /// Write the binding in Rust, to standard output unless a file is named.
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    rust: Option<PathBuf>,
    /// A file of hints in TOML: the lengths, owners and lives that the header does not say.
    #[arg(long, value_name = "FILE")]
    hints: Option<PathBuf>,
    /// The name of the library's type; without it the header's name.
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Arguments for the compiler, such as -I and -D.
    #[arg(last = true, value_name = "FLAGS")]
    flags: Vec<String>,
}

/// Writes the bindings.
///
/// # Errors
///
/// When the header, the library or the hints cannot be read, or libclang is missing.
pub(crate) fn bind(options: &Options) -> Result<i32, Failure> {
    if !options.header.is_file() {
        return Err(Failure::new(
            NOT_FOUND,
            format_args!("{}: no such file", options.header.display()),
        ));
    }
    let hints = match &options.hints {
        Some(path) => hints(path)?,
        None => Hints::default(),
    };
    let found = options.libraries.iter().map(|name| Library::find(name, &options.folders));
    let libraries = found.collect::<Result<Vec<_>, _>>().map_err(failed)?;
    let mut symbols = BTreeSet::new();
    for library in &libraries {
        symbols.extend(library.symbols().map_err(failed)?);
    }
    let symbols = (!libraries.is_empty()).then_some(symbols);
    let header = read(options.header.clone(), options.flags.clone(), symbols);
    let header = header.map_err(|error| Failure::new(TOOL, error))?;
    let name = options.name.clone().unwrap_or_else(|| type_name(&options.header));
    let binding = Binding::new(name, &header, &hints, libraries).map_err(failed)?;
    for guess in binding.guesses() {
        eprintln!("guess: {guess}");
    }
    for (name, reason) in binding.left_out() {
        eprintln!("left out: {name}: {reason}");
    }
    let (functions, guesses) = (binding.functions(), binding.guesses().len());
    eprintln!(
        "{}: {functions} functions, {guesses} guesses, {} left out",
        options.header.display(),
        binding.left_out().len()
    );
    if let Some(path) = &options.rust {
        write(path, &binding.rust(&command(options)).map_err(failed)?)?;
    }
    Ok(0)
}

/// Reads the header, where libclang may crash or hang.
#[farcall::isolate(timeout = "120s")]
fn read(
    path: PathBuf,
    flags: Vec<String>,
    symbols: Option<BTreeSet<String>>,
) -> Result<Header, IsolatedError> {
    let file = HeaderFile::new(path).arguments(flags);
    let file = match symbols {
        Some(symbols) => file.symbols(symbols),
        None => file,
    };
    Ok(file.read()?)
}

/// Why the header could not be read.
#[derive(Debug, serde::Serialize, serde::Deserialize)]
struct IsolatedError(String);

impl std::fmt::Display for IsolatedError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for IsolatedError {}

impl From<farcall_bind::Error> for IsolatedError {
    fn from(error: farcall_bind::Error) -> Self {
        Self(error.to_string())
    }
}

impl From<farcall::Error> for IsolatedError {
    fn from(error: farcall::Error) -> Self {
        Self(format!("libclang did not read the header: {error}"))
    }
}

fn hints(path: &Path) -> Result<Hints, Failure> {
    let named = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let text = fs::read_to_string(path).map_err(|error| Failure::new(NOT_FOUND, named(&error)))?;
    Hints::parse(&text).map_err(|error| Failure::new(TOOL, named(&error)))
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    match path.as_os_str() == "-" {
        true => output::print(text),
        false => fs::write(path, text)
            .map_err(|error| Failure::new(TOOL, format_args!("{}: {error}", path.display()))),
    }
}

fn failed(error: farcall_bind::Error) -> Failure {
    Failure::new(TOOL, error)
}

/// The name of the header in letters that begin each word: `GifLib` of `gif_lib.h`.
fn type_name(header: &Path) -> String {
    let stem = header.file_stem().unwrap_or_default().to_string_lossy();
    let words = stem.split(|letter: char| !letter.is_ascii_alphanumeric());
    let mut name = String::new();
    for word in words {
        let mut letters = word.chars();
        name.extend(letters.next().map(|first| first.to_ascii_uppercase()));
        name.extend(letters);
    }
    match name.chars().next() {
        Some(first) if first.is_ascii_alphabetic() => name,
        _ => format!("Lib{name}"),
    }
}

/// The command line, with the names of files alone.
fn command(options: &Options) -> String {
    let file = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut words = vec!["farcall bind".to_owned(), file(&options.header)];
    words.extend(options.libraries.iter().map(|name| format!("-l {}", file(Path::new(name)))));
    words.extend(options.hints.iter().map(|path| format!("--hints {}", file(path))));
    words.extend(options.name.iter().map(|name| format!("--name {name}")));
    words.extend((!options.flags.is_empty()).then(|| format!("-- {}", options.flags.join(" "))));
    words.join(" ")
}
