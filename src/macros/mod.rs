//! The attributes of farcall. The package `farcall` has them under its feature `isolate`, with the code that they call.
//!
//! | file | content |
//! |---|---|
//! | `options` | what stands behind the attribute's name |
//! | `form` | the form in which a type crosses: numbers, text, or the form of serde |
//! | `function` | a function that can be isolated, taken apart; what cannot cross is refused here |
//! | `expand` | the code for the caller and for the executor |
#![forbid(unsafe_code)]

mod expand;
mod form;
mod function;
mod options;

use proc_macro::TokenStream;
use syn::{ItemFn, parse_macro_input};

use function::Function;
use options::Options;

/// Runs a function in another process, which is this program, started again.
///
/// The function keeps its name and signature. Its executor starts at the first call, before `main` of that process, and stays. A crash of
/// it costs the calls that are under way; the next call starts another one. Functions of a crate with the same options share an
/// executor, and so its statics; they share none with the caller. In the executor itself, an isolated function is called directly. It fails
/// there if its options say less rights or memory than that executor has. Its timeout does not count then.
///
/// | of the signature | what crosses |
/// |---|---|
/// | numbers, arrays of numbers | their bytes, in one cache line where they fit |
/// | `&[u8]`, `&str`, slices of numbers | their bytes, which the function reads where they arrive |
/// | `String`, `Vec` of numbers | their bytes |
/// | other types, references to sized ones | by value, in the form of serde (MessagePack, at most 16 MiB) |
/// | result `Result<T, E>` | the value, or the error: by value if serde knows `E`, else its text |
///
/// Where the function returns a `Result`, its error is `From<farcall::Error>`, and a failed call is `Err`. Calls fail by a crash, a
/// timeout, a panic, whose message the error has, or an executor that cannot be started. A function with any other result panics in the
/// caller then, with that text.
///
/// | option | effect |
/// |---|---|
/// | `confine = "isolated"`, `"strict"` | takes rights from the executor |
/// | `memory = "512 MiB"` | the most memory of the executor |
/// | `timeout = "250ms"` | a call that takes longer has failed; its process is killed, and with it all calls that it runs |
/// | `processes = 4` | that many processes, of which each runs one call at a time; otherwise one runs the calls of all threads |
/// | `restart = 10` | at most that many starts after deaths within a minute; when one more is needed, all calls fail from then on |
/// | `executor = "/path"` | a copy of this program |
///
/// An `async fn` blocks the caller's thread only while an executor starts. Its calls run one after the other in each process, on a thread
/// without a runtime such as tokio's. A future that is dropped ends its executor.
///
/// The executor runs the program's constructors, but not `main`. It ends when the host does, by a signal, and so without exit handlers.
/// Its build id, which linkers make, is the same as in the host. This needs glibc, and a program without rights of its own (set-user-ID).
/// References to memory of the executor, `&mut`, closures, pointers, generic functions, methods with `self` and `unsafe` functions are
/// refused when the program is compiled.
///
/// # Examples
///
/// ```
/// #[farcall::isolate]
/// fn checksum(data: &[u8]) -> u32 {
///     data.iter().fold(1, |sum, byte| sum.rotate_left(5) ^ u32::from(*byte))
/// }
///
/// #[farcall::isolate(confine = "strict", timeout = "1s")]
/// fn parse(text: &str) -> farcall::Result<Vec<f64>> {
///     text.split(',').map(|word| word.trim().parse().map_err(farcall::Error::other)).collect()
/// }
///
/// assert_eq!(checksum(b"abc"), checksum(&[97, 98, 99]));
/// assert_eq!(parse("1, 2.5")?, [1.0, 2.5]);
/// assert!(parse("1, x").is_err());
/// # Ok::<(), farcall::Error>(())
/// ```
#[proc_macro_attribute]
pub fn isolate(options: TokenStream, function: TokenStream) -> TokenStream {
    let options = parse_macro_input!(options as Options);
    let function = parse_macro_input!(function as ItemFn);
    match Function::new(function) {
        Ok(function) => expand::function(&function, &options).into(),
        Err(error) => error.into_compile_error().into(),
    }
}
