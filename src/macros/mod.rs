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
/// executor, and so its statics; they share none with the caller. In the executor itself, isolated functions are called as they are.
///
/// | of the signature | what crosses |
/// |---|---|
/// | numbers, arrays of numbers | their bytes, in registers or one cache line where they fit |
/// | `&[u8]`, `&str`, slices of numbers | their bytes, which the function reads where they arrive |
/// | `String`, `Vec` of numbers | their bytes |
/// | other types, references to them | by value, as serde has them (MessagePack) |
/// | result `Result<T, E>` | the value, or the error: by value if serde knows `E`, else its text |
///
/// Where the function returns a `Result` whose error is `From<farcall::Error>`, a failed call is `Err`. Calls fail by a crash, a timeout, a
/// panic, whose message the error has, or an executor that cannot be started. Any other function panics in the caller then, with that text.
///
/// | option | effect |
/// |---|---|
/// | `confine = "isolated"`, `"strict"` | takes rights from the executor |
/// | `memory = "512 MiB"` | the most memory of the executor |
/// | `timeout = "250ms"` | interrupts a call that takes longer, or else kills the executor |
/// | `processes = 4` | that many processes, of which each runs one call at a time; otherwise one runs the calls of all threads |
/// | `restart = 10` | starts at most that many executors again within a minute; `restart = 0` none |
/// | `executor = "/path"` | a copy of this program |
///
/// An `async fn` does not block the caller's thread. Its calls run one after the other in each process, on a thread without a
/// runtime such as tokio's.
///
/// The executor runs the program's constructors, but not `main`. It is told from other programs by the build id that linkers make.
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
