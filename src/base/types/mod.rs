//! C types at run time: what a function takes and returns, as values instead of Rust types.
//!
//! | part | what it is |
//! |---|---|
//! | `layout` | [`Type`] and [`Struct`]: sizes, alignments and offsets, as C lays them out |
//! | `value` | [`Value`]: an argument or a result |
//! | `signature` | [`Signature`]: the parameters and the result of a function |
//! | `parameter` | [`Parameter`]: what a signature leaves out: a name, and what a pointer leads to |
//! | `declarations` | [`Declarations`]: reads prototypes as C writes them; `tokens` cuts them into words |
//! | `abi` | which register or stack slot holds which part of an argument; a file for each processor |
//!
//! Invariant: no text and no type makes this room panic, hang, or take memory beyond the text's size.
#![forbid(unsafe_code)]

#[doc(hidden)]
pub mod abi;
mod declarations;
mod layout;
mod parameter;
mod signature;
mod tokens;
mod value;

pub use declarations::Declarations;
pub use layout::{Field, Struct, Type};
pub use parameter::{Parameter, Pointee, Target};
pub use signature::Signature;
pub use value::Value;
