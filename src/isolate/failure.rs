//! The result of a failed call: an error, if the type of the function's results has room for one.
//!
//! The attribute sees names, and not types. So it leaves these choices to the compiler. It calls a method through two references, which
//! two traits have. The compiler takes the trait that is implemented for a reference to the form, where the type allows that.

use std::marker::PhantomData;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::message::{Read, Reader, Writer};
use crate::error::Error;

/// The form of values of a type, as far as its traits say.
#[doc(hidden)]
#[derive(Debug)]
pub struct Form<T>(PhantomData<fn() -> T>);

impl<T> Form<T> {
    /// The form of a type.
    #[expect(clippy::new_without_default, reason = "the attribute names the type")]
    #[must_use]
    pub const fn new() -> Self {
        Self(PhantomData)
    }

    /// The form of this value's type.
    #[must_use]
    pub fn of(_: &T) -> Self {
        Self::new()
    }
}

/// Results that can say that the call has failed.
#[doc(hidden)]
pub trait Returned<R> {
    /// The result of a call that has failed.
    fn failed(&self, name: &str, error: Error) -> R;
}

impl<T, E: From<Error>> Returned<Result<T, E>> for &Form<Result<T, E>> {
    fn failed(&self, _: &str, error: Error) -> Result<T, E> {
        Err(E::from(error))
    }
}

/// All other results.
#[doc(hidden)]
pub trait Failed<R> {
    /// Ends the call.
    fn failed(&self, name: &str, error: Error) -> R;
}

impl<R> Failed<R> for Form<R> {
    /// # Panics
    ///
    /// Always, with the error.
    #[track_caller]
    fn failed(&self, name: &str, error: Error) -> R {
        panic!("the isolated function {name} has failed: {error}")
    }
}

/// An error that can say that a call has failed.
#[diagnostic::on_unimplemented(
    message = "an error of type `{Self}` cannot say that the call of an isolated function has failed",
    label = "not made from a `farcall::Error`",
    note = "implement `From<farcall::Error>` for it"
)]
#[doc(hidden)]
pub trait Fails: From<Error> {}

impl<E: From<Error>> Fails for E {}

/// The types of a `Result`, which may be called otherwise.
#[doc(hidden)]
pub trait IsResult {
    /// The type of the error.
    type Error;
}

impl<T, E: Fails> IsResult for Result<T, E> {
    type Error = E;
}

/// Errors that cross as serde has them.
#[doc(hidden)]
pub trait ErrorByValue<E> {
    /// Writes an error.
    fn write(&self, error: &E, writer: &mut Writer);

    /// Reads an error.
    fn read(&self, reader: &mut Reader<'_>) -> Read<E>;
}

impl<E: Serialize + DeserializeOwned> ErrorByValue<E> for &Form<E> {
    fn write(&self, error: &E, writer: &mut Writer) {
        writer.value(error);
    }

    fn read(&self, reader: &mut Reader<'_>) -> Read<E> {
        reader.value()
    }
}

/// All other errors, whose text crosses.
#[doc(hidden)]
pub trait ErrorByText<E> {
    /// Writes an error.
    fn write(&self, error: &E, writer: &mut Writer);

    /// Reads an error.
    fn read(&self, reader: &mut Reader<'_>) -> Read<E>;
}

impl<E: std::fmt::Display + From<Error>> ErrorByText<E> for Form<E> {
    fn write(&self, error: &E, writer: &mut Writer) {
        // The alternate form of an error that has others behind it names all.
        writer.text(&format!("{error:#}"));
    }

    fn read(&self, reader: &mut Reader<'_>) -> Read<E> {
        Ok(E::from(Error::remote(reader.text()?)))
    }
}
