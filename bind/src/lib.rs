//! Bindings that run the functions of a C library in a process of their own, written from its header.
//!
//! ```no_run
//! use farcall_bind::{Binding, HeaderFile, Hints, Library};
//!
//! let library = Library::find("z", &[])?;
//! let header = HeaderFile::new("/usr/include/zlib.h").symbols(library.symbols()?).read()?;
//! let binding = Binding::new("Zlib", &header, &Hints::default(), vec![library])?;
//! for guess in binding.guesses() {
//!     eprintln!("{guess}");
//! }
//! println!("{}", binding.rust("farcall bind")?);
//! # Ok::<(), farcall_bind::Error>(())
//! ```
//!
//! The command `farcall bind` is the front of this package. `farcall::bind` is the run time of what it writes.
//!
//! | module | content |
//! |---|---|
//! | `library` | the library's file and its names |
//! | `header` | the declarations of a header |
//! | `types`, `constants`, `reader` | the header, read by libclang |
//! | `hints` | hints about lengths, owners and lives |
//! | `plan` | the binding without a language |
//! | `records` | its structures |
//! | `guess` | the roles of parameters |
//! | `rust` | the binding in Rust |

mod constants;
mod error;
mod guess;
mod header;
mod hints;
mod library;
mod plan;
mod reader;
mod records;
mod rust;
mod types;

pub use error::Error;
pub use header::{
    Constant, Field, Function, Header, Number, Parameter, Prototype, Record, Type, Value,
};
pub use hints::{FunctionHints, Hints, ParameterHint, ResultHint, RoleHint, StructureHint};
pub use library::Library;
use plan::Plan;
pub use reader::HeaderFile;

/// A binding that is about to be written.
///
/// # Examples
///
/// ```
/// use farcall_bind::{Binding, Header, Hints, Library};
///
/// let libraries = vec![Library::Shared("libempty.so.1".to_owned())];
/// let binding = Binding::new("Empty", &Header::default(), &Hints::default(), libraries)?;
/// assert!(binding.rust("farcall bind empty.h")?.contains("pub struct Empty"));
/// # Ok::<(), farcall_bind::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Binding {
    name: String,
    plan: Plan,
    libraries: Vec<Library>,
}

impl Binding {
    /// Plans the binding of a header, under a name for the library's type.
    ///
    /// # Errors
    ///
    /// When a hint names something that the header does not have.
    pub fn new(
        name: impl Into<String>,
        header: &Header,
        hints: &Hints,
        libraries: Vec<Library>,
    ) -> Result<Self, Error> {
        let plan = guess::plan(header, hints)?;
        Ok(Self { name: name.into(), plan, libraries })
    }

    /// The guesses, a line each, with the place in the header.
    #[must_use]
    pub fn guesses(&self) -> &[String] {
        &self.plan.guesses
    }

    /// The number of functions that are bound.
    #[must_use]
    pub fn functions(&self) -> usize {
        self.plan.functions.len()
    }

    /// The functions that are not bound, each with the reason.
    #[must_use]
    pub fn left_out(&self) -> &[(String, String)] {
        &self.plan.left_out
    }

    /// The binding in Rust; `command` is named in it.
    ///
    /// # Errors
    ///
    /// When names of the header collide in Rust.
    pub fn rust(&self, command: &str) -> Result<String, Error> {
        rust::write(&self.name, command, &self.plan, &self.libraries)
    }
}
