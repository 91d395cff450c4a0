//! C functions of the executor, called by their types like functions of this process.
//!
//! Arguments and results are numbers: integers, floating-point numbers, `bool`, and addresses of the executor, which are its
//! pointers. Structures are passed by their address (see [`Buffer`](super::Buffer)).
//!
//! Invariant: no function can harm this process by what it returns. Any answer of the executor becomes a number of the result's
//! type, or an error.

use std::any::type_name;
use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use super::session::{Controller, Session};
use crate::ExecutorAddr;
use crate::call::typed::{Shape, TYPED_CALL, TypedCall};
use crate::error::{Error, Result};

/// A C function of the executor, of the type `F`, for example `extern "C" fn(i64, f64) -> f64`. Up to 16 arguments.
///
/// The host states the type. If the function has another type, the executor may crash; the call then returns an error, or a number
/// without meaning.
///
/// Each call is one round trip, on any thread, as [`Controller::call`].
///
/// # Examples
///
/// ```standalone_crate
/// # farcall::executor::run_if_spawned();
/// # let controller = farcall::controller::ExecutorBuilder::new().this_program().start()?;
/// use farcall::{PerProt, Prot};
/// // long add(long, long): lea rax, [rdi + rsi]; ret
/// # let mut memory = controller.allocate(PerProt { code: 5, ..PerProt::default() })?;
/// # memory.write(Prot::Code, &[0x48, 0x8d, 0x04, 0x37, 0xc3]);
/// # let code = memory.finalize();
/// let add = controller.function::<extern "C" fn(i64, i64) -> i64>(code.address());
/// assert_eq!(add.call(3, 4)?, 7);
/// # controller.deallocate([code])?;
/// # Ok::<(), farcall::Error>(())
/// ```
pub struct Function<F> {
    session: Arc<Session>,
    address: ExecutorAddr,
    /// The executor's function that makes the call; null when the executor offers none.
    caller: ExecutorAddr,
    signature: PhantomData<fn() -> F>,
}

/// A number that a C function takes or returns: an integer, a floating-point number, `bool`, or a pointer of the executor, which is
/// an [`ExecutorAddr`].
///
/// # Examples
///
/// ```
/// use farcall::controller::{Function, Scalar};
///
/// fn pass<T: Scalar>(function: &Function<extern "C" fn(T)>, value: T) -> farcall::Result<()> {
///     function.call(value)
/// }
/// # fn is_scalar<T: Scalar>() {}
/// # is_scalar::<f64>();
/// ```
#[expect(private_bounds, reason = "the form of a number as a word is private")]
pub trait Scalar: Word {}

/// The result of a C function: a [`Scalar`], or `()` for none.
///
/// # Examples
///
/// ```
/// use farcall::controller::{Function, Return};
///
/// fn run<R: Return>(function: &Function<extern "C" fn() -> R>) -> farcall::Result<R> {
///     function.call()
/// }
/// # fn is_return<R: Return>() {}
/// # is_return::<()>();
/// ```
#[expect(private_bounds, reason = "the form of a number as a word is private")]
pub trait Return: FromWord {}

/// The type of a C function that can be called: `extern "C" fn` with up to 16 [`Scalar`]s and a [`Return`].
///
/// # Examples
///
/// ```
/// use farcall::ExecutorAddr;
/// use farcall::controller::{Controller, Function, Signature};
///
/// fn functions<F: Signature>(controller: &Controller, at: &[ExecutorAddr]) -> Vec<Function<F>> {
///     at.iter().map(|address| controller.function(*address)).collect()
/// }
/// # fn is_signature<F: Signature>() {}
/// # is_signature::<extern "C" fn(i64, f64) -> f64>();
/// ```
#[expect(private_bounds, reason = "the types are those listed here")]
pub trait Signature: Callable {}

pub(super) trait Word: FromWord {
    /// The value in 64 bits, sign-extended if its type is signed.
    fn to_word(self) -> u64;
}

pub(super) trait FromWord: Sized {
    const IS_FLOAT: bool = false;

    /// The value in the low bytes of any word.
    fn from_word(word: u64) -> Self;
}

trait Callable {}

impl Controller {
    /// The C function at this address. Sends no message.
    #[must_use]
    pub fn function<F: Signature>(&self, address: ExecutorAddr) -> Function<F> {
        let caller = self.session.remote().named(TYPED_CALL).unwrap_or_default();
        Function { session: Arc::clone(&self.session), address, caller, signature: PhantomData }
    }
}

impl<F> Function<F> {
    /// The function's address in the executor.
    #[must_use]
    pub fn address(&self) -> ExecutorAddr {
        self.address
    }

    #[inline]
    fn call_with<const N: usize>(
        &self,
        floats: u32,
        returns_float: bool,
        arguments: [u64; N],
    ) -> Result<u64> {
        thread_local! {
            static RESULT: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
        }
        let call =
            TypedCall::new(Shape { function: self.address, floats, returns_float }, arguments);
        let mut result = RESULT.try_with(Cell::take).unwrap_or_default();
        result.clear();
        let outcome = self.session.call_into(self.caller, call.bytes(), &mut result);
        let word = outcome.and_then(|()| match result.as_slice().try_into() {
            Ok(word) => Ok(u64::from_le_bytes(word)),
            Err(_) => Err(Error::violation(format!("{} bytes for a number", result.len()))),
        });
        // A thread that ends has no thread-local any more; then the buffer is dropped.
        let _ = RESULT.try_with(|kept| kept.set(result));
        word
    }
}

macro_rules! callable {
    ($($name:ident: $argument:ident),*) => {
        impl<R: Return, $($argument: Scalar),*> Callable for extern "C" fn($($argument),*) -> R {}
        impl<R: Return, $($argument: Scalar),*> Signature for extern "C" fn($($argument),*) -> R {}

        impl<R: Return, $($argument: Scalar),*> Function<extern "C" fn($($argument),*) -> R> {
            /// Calls the function and returns its result.
            ///
            /// # Errors
            ///
            /// As [`Controller::call`].
            #[inline]
            #[allow(clippy::too_many_arguments, reason = "a parameter for each argument of the function")]
            pub fn call(&self $(, $name: $argument)*) -> Result<R> {
                let kinds: &[bool] = &[$($argument::IS_FLOAT),*];
                let floats = kinds.iter().rev().fold(0, |bits, kind| bits << 1 | u32::from(*kind));
                let word = self.call_with(floats, R::IS_FLOAT, [$($name.to_word()),*])?;
                Ok(R::from_word(word))
            }
        }
    };
}

callable!();
callable!(a: A);
callable!(a: A, b: B);
callable!(a: A, b: B, c: C);
callable!(a: A, b: B, c: C, d: D);
callable!(a: A, b: B, c: C, d: D, e: E);
callable!(a: A, b: B, c: C, d: D, e: E, f: F);
callable!(a: A, b: B, c: C, d: D, e: E, f: F, g: G);
callable!(a: A, b: B, c: C, d: D, e: E, f: F, g: G, h: H);
callable!(a: A, b: B, c: C, d: D, e: E, f: F, g: G, h: H, i: I);
callable!(a: A, b: B, c: C, d: D, e: E, f: F, g: G, h: H, i: I, j: J);
callable!(a: A, b: B, c: C, d: D, e: E, f: F, g: G, h: H, i: I, j: J, k: K);
callable!(a: A, b: B, c: C, d: D, e: E, f: F, g: G, h: H, i: I, j: J, k: K, l: L);
callable!(a: A, b: B, c: C, d: D, e: E, f: F, g: G, h: H, i: I, j: J, k: K, l: L, m: M);
callable!(a: A, b: B, c: C, d: D, e: E, f: F, g: G, h: H, i: I, j: J, k: K, l: L, m: M, n: N);
callable!(
    a: A, b: B, c: C, d: D, e: E, f: F, g: G, h: H, i: I, j: J, k: K, l: L, m: M, n: N, o: O
);
callable!(
    a: A, b: B, c: C, d: D, e: E, f: F, g: G, h: H, i: I, j: J, k: K, l: L, m: M, n: N, o: O, p: P
);

macro_rules! integers {
    ($($kind:ty),*) => {$(
        impl Scalar for $kind {}
        impl Return for $kind {}

        impl Word for $kind {
            #[inline]
            #[allow(clippy::cast_lossless, reason = "the cast extends the sign")]
            fn to_word(self) -> u64 {
                self as u64
            }
        }

        impl FromWord for $kind {
            #[inline]
            #[allow(clippy::cast_possible_truncation, reason = "the other bits mean nothing")]
            #[allow(clippy::cast_possible_wrap, reason = "two's complement")]
            fn from_word(word: u64) -> Self {
                word as Self
            }
        }
    )*};
}

integers!(i8, i16, i32, i64, u8, u16, u32, u64);

macro_rules! floats {
    ($($kind:ty: $bits:ty),*) => {$(
        impl Scalar for $kind {}
        impl Return for $kind {}

        impl Word for $kind {
            #[inline]
            fn to_word(self) -> u64 {
                self.to_bits().into()
            }
        }

        impl FromWord for $kind {
            const IS_FLOAT: bool = true;

            #[inline]
            #[allow(clippy::cast_possible_truncation, reason = "the other bits mean nothing")]
            fn from_word(word: u64) -> Self {
                Self::from_bits(word as $bits)
            }
        }
    )*};
}

floats!(f32: u32, f64: u64);

impl Scalar for bool {}
impl Return for bool {}

impl Word for bool {
    #[inline]
    fn to_word(self) -> u64 {
        self.into()
    }
}

impl FromWord for bool {
    #[inline]
    fn from_word(word: u64) -> Self {
        u8::from_word(word) != 0
    }
}

impl Scalar for ExecutorAddr {}
impl Return for ExecutorAddr {}

impl Word for ExecutorAddr {
    #[inline]
    fn to_word(self) -> u64 {
        self.get()
    }
}

impl FromWord for ExecutorAddr {
    #[inline]
    fn from_word(word: u64) -> Self {
        Self::new(word)
    }
}

impl Return for () {}

impl FromWord for () {
    fn from_word(_word: u64) -> Self {}
}

impl<F> Clone for Function<F> {
    fn clone(&self) -> Self {
        let session = Arc::clone(&self.session);
        Self { session, address: self.address, caller: self.caller, signature: PhantomData }
    }
}

impl<F> fmt::Debug for Function<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}", type_name::<F>(), self.address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round<T: Scalar + PartialEq + fmt::Debug + Copy>(values: &[(T, u64)]) {
        for (value, word) in values {
            assert_eq!(value.to_word(), *word, "{value:?}");
            assert_eq!(T::from_word(*word), *value);
        }
    }

    #[test]
    fn numbers_become_words_and_words_numbers() {
        round(&[(0_i8, 0), (-1, u64::MAX), (i8::MIN, 0xffff_ffff_ffff_ff80)]);
        round(&[(u8::MAX, 0xff), (0x80, 0x80)]);
        round(&[(i16::MIN, 0xffff_ffff_ffff_8000), (1, 1)]);
        round(&[(i32::MIN, 0xffff_ffff_8000_0000), (i32::MAX, 0x7fff_ffff)]);
        round(&[(u32::MAX, 0xffff_ffff)]);
        round(&[(i64::MIN, 1 << 63), (u64::MAX.cast_signed(), u64::MAX)]);
        round(&[(u64::MAX, u64::MAX)]);
        round(&[(1.5_f32, 0x3fc0_0000), (-0.0, 0x8000_0000)]);
        round(&[(1.5_f64, 0x3ff8_0000_0000_0000), (f64::NEG_INFINITY, 0xfff0_0000_0000_0000)]);
        round(&[(true, 1), (false, 0)]);
    }

    #[test]
    fn any_word_is_a_number_of_any_type() {
        let word = 0xffff_ffff_0000_8000;
        assert_eq!((i8::from_word(word), u16::from_word(word)), (0, 0x8000));
        assert_eq!((i16::from_word(word), i32::from_word(word)), (i16::MIN, 0x8000));
        assert!(!bool::from_word(word), "its low byte is zero");
        assert!(bool::from_word(word + 2));
        assert!(f32::from_word(0x7fc0_1234).is_nan());
    }
}
