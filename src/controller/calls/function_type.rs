//! What a function is called with, and how that becomes bytes: C functions by Rust types or by a signature, and functions of bytes.
//!
//! Invariant: any answer of the executor becomes a result of the function's type, or an error.

use std::any::type_name;
use std::fmt::Debug;
use std::sync::Arc;

use super::scalar::{Return, Scalar};
use crate::call::typed::{self, HEAD_BYTES, HEAD_WORDS, TYPED_CALL};
use crate::error::{Error, Result};
use crate::types::abi::{Piece, Plan, Shape, WORD_BYTES, place, scalars};
use crate::types::{Signature, Type, Value};

/// The type of a [`Function`](crate::controller::Function). There are three kinds:
///
/// | type | function | arguments | result |
/// |---|---|---|---|
/// | `extern "C" fn(A, B) -> R` | a C function, up to 16 [`Scalar`]s and a [`Return`] | `(A, B)` | `R` |
/// | [`Signature`] | a C function whose types are known at run time | `&[Value]` | [`Value`] |
/// | [`Bytes`] | a wrapper function, as of [`Process::call`](crate::controller::Process::call) | `&[u8]` | `Vec<u8>` |
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use farcall::controller::calls::FunctionType;
/// use farcall::controller::{CallOptions, Function};
///
/// fn within_a_second<F: FunctionType>(function: &Function<F>, arguments: F::Arguments<'_>) -> farcall::Result<F::Result> {
///     function.call_with(&CallOptions::new().timeout(Duration::from_secs(1)), arguments)
/// }
/// # fn is_type<F: FunctionType>() {}
/// # is_type::<extern "C" fn(i64, f64) -> f64>();
/// # is_type::<farcall::types::Signature>();
/// # is_type::<farcall::controller::calls::Bytes>();
/// ```
pub trait FunctionType: Form {
    /// The arguments of a call.
    type Arguments<'a>;
    /// The result of a call.
    type Result;

    /// Passes the bytes of a call to `send`: `head`, unless it is a function of bytes, and the arguments.
    #[doc(hidden)]
    fn with_message<T>(
        form: &Self::Form,
        head: &[u8; HEAD_BYTES],
        arguments: Self::Arguments<'_>,
        send: impl FnOnce(&[u8]) -> Result<T>,
    ) -> Result<T>;

    /// Reads a result.
    #[doc(hidden)]
    fn decode(form: &Self::Form, bytes: &[u8]) -> Result<Self::Result>;

    /// As [`decode`](FunctionType::decode), with the memory of the bytes.
    #[doc(hidden)]
    fn decode_owned(form: &Self::Form, bytes: Vec<u8>) -> Result<Self::Result> {
        Self::decode(form, &bytes)
    }
}

/// A type of this library alone.
pub trait Form {
    /// The executor's wrapper function that makes its calls, unless it is a function of bytes.
    const CALLED_BY: &str = TYPED_CALL;

    /// What is known of the function at run time.
    type Form: Clone + Debug + Send + Sync + Unpin;

    /// The shape of its calls; `None` for a function of bytes.
    fn shape(form: &Self::Form) -> Option<Shape>;

    /// The type, for messages.
    fn name(_form: &Self::Form) -> String {
        type_name::<Self>().to_owned()
    }

    /// The type, to be compared with that of the object; `None` for a function of bytes.
    fn prototype(form: &Self::Form) -> Option<Signature>;
}

/// A C function type in Rust.
///
/// # Examples
///
/// ```
/// use farcall::ExecutorAddr;
/// use farcall::controller::{Function, Process};
/// use farcall::controller::calls::StaticType;
///
/// fn functions<F: StaticType>(process: &Process, at: &[ExecutorAddr]) -> Vec<Function<F>> {
///     at.iter().map(|address| process.function(*address)).collect()
/// }
/// # fn is_static<F: StaticType>() {}
/// # is_static::<extern "C" fn(i64, f64) -> f64>();
/// ```
pub trait StaticType: FunctionType + Form<Form = ()> {
    /// The same type, for comparisons at run time.
    fn signature() -> Option<Signature>;
}

/// The type of a C function, in Rust or at run time.
///
/// # Examples
///
/// ```
/// use farcall::controller::Function;
/// use farcall::controller::calls::CFunctionType;
///
/// fn for_rows<'a, F: CFunctionType>(function: &Function<F>, first: F::Arguments<'a>, steps: &'a [i64]) -> farcall::Result<()> {
///     function.rows().call((first, steps, 1000))
/// }
/// # fn is_of_c<F: CFunctionType>() {}
/// # is_of_c::<farcall::types::Signature>();
/// # is_of_c::<extern "C" fn(i64)>();
/// ```
#[expect(private_bounds, reason = "the form of a call is private")]
pub trait CFunctionType: FunctionType + Parameters {}

pub(in crate::controller) trait Parameters: Form {
    /// The word of each parameter that is an integer or a pointer; `None` for other parameters.
    fn integer_words(form: &Self::Form) -> Vec<Option<u16>>;
}

/// The type of a wrapper function: bytes in, bytes out.
///
/// # Examples
///
/// ```standalone_crate
/// # farcall::executor::run_if_spawned();
/// # let process = farcall::controller::ExecutorBuilder::new().this_program().start()?.process()?;
/// # let mut memory = process.allocate(farcall::PerProt { code: 10, ..Default::default() })?;
/// # memory.write(farcall::Prot::Code, &[0x48, 0x8b, 0x07, 0xba, 8, 0, 0, 0, 0xc3]);
/// # let code = memory.finalize();
/// use farcall::controller::calls::Bytes;
/// // `echo` is a wrapper function that returns the first 8 bytes of its argument.
/// let echo = process.function::<Bytes>(code.address());
/// let pending = echo.submit(b"a second")?;
/// assert_eq!(echo.call(b"thefirst")?, b"thefirst");
/// assert_eq!(pending.wait()?, b"a second");
/// # process.deallocate([code])?;
/// # Ok::<(), farcall::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Bytes {}

impl Form for Bytes {
    type Form = ();

    fn prototype((): &()) -> Option<Signature> {
        None
    }

    fn shape((): &()) -> Option<Shape> {
        None
    }
}

impl FunctionType for Bytes {
    type Arguments<'a> = &'a [u8];
    type Result = Vec<u8>;

    fn with_message<T>(
        (): &(),
        _head: &[u8; HEAD_BYTES],
        arguments: &[u8],
        send: impl FnOnce(&[u8]) -> Result<T>,
    ) -> Result<T> {
        send(arguments)
    }

    fn decode((): &(), bytes: &[u8]) -> Result<Vec<u8>> {
        Ok(bytes.to_vec())
    }

    fn decode_owned((): &(), bytes: Vec<u8>) -> Result<Vec<u8>> {
        Ok(bytes)
    }
}

impl StaticType for Bytes {
    fn signature() -> Option<Signature> {
        None
    }
}

/// A signature whose calls are placed.
#[derive(Debug)]
pub struct Placed {
    signature: Signature,
    plan: Plan,
}

impl Placed {
    /// Places the calls of a function.
    ///
    /// # Errors
    ///
    /// As [`place`].
    pub(crate) fn new(signature: &Signature) -> Result<Arc<Placed>> {
        Ok(Arc::new(Placed { signature: signature.clone(), plan: place(signature)? }))
    }

    pub(crate) fn signature(&self) -> &Signature {
        &self.signature
    }
}

impl Form for Signature {
    type Form = Arc<Placed>;

    fn shape(form: &Arc<Placed>) -> Option<Shape> {
        Some(form.plan.shape)
    }

    fn name(form: &Arc<Placed>) -> String {
        form.signature.to_string()
    }

    fn prototype(form: &Arc<Placed>) -> Option<Signature> {
        Some(form.signature.clone())
    }
}

impl CFunctionType for Signature {}

impl Parameters for Signature {
    fn integer_words(form: &Arc<Placed>) -> Vec<Option<u16>> {
        let words = form.signature.parameters().iter().zip(&form.plan.arguments);
        let word = |pieces: &Vec<Piece>| pieces.first().map(|piece| piece.word);
        words.map(|(kind, pieces)| word(pieces).filter(|_| kind.is_integer_or_pointer())).collect()
    }
}

impl FunctionType for Signature {
    type Arguments<'a> = &'a [Value];
    type Result = Value;

    fn with_message<T>(
        form: &Arc<Placed>,
        head: &[u8; HEAD_BYTES],
        arguments: &[Value],
        send: impl FnOnce(&[u8]) -> Result<T>,
    ) -> Result<T> {
        let Placed { signature, plan } = &**form;
        signature.check(arguments)?;
        with_zeros(HEAD_BYTES + plan.words * WORD_BYTES, |message| {
            let (to, words) = message.split_at_mut(HEAD_BYTES);
            to.copy_from_slice(head);
            let mut value = [0; 16];
            let mut large = Vec::new();
            for ((argument, kind), pieces) in
                arguments.iter().zip(signature.parameters()).zip(&plan.arguments)
            {
                let of_value = if kind.bytes() > value.len() {
                    large.clear();
                    large.resize(kind.bytes(), 0);
                    &mut large[..]
                } else {
                    value.fill(if argument.is_negative() { 0xff } else { 0 });
                    &mut value[..]
                };
                argument.store(kind, of_value);
                // A number fills its word, extended by its sign.
                let is_number = !matches!(kind, Type::Struct(_));
                for piece in pieces {
                    let from = usize::from(piece.offset);
                    let size = if is_number { WORD_BYTES } else { piece.bytes.into() };
                    let to = usize::from(piece.word) * WORD_BYTES;
                    words[to..to + size].copy_from_slice(&of_value[from..from + size]);
                }
            }
            send(message)
        })
    }

    fn decode(form: &Arc<Placed>, bytes: &[u8]) -> Result<Value> {
        let Placed { signature, plan } = &**form;
        let Some(kind) = signature.result() else { return Ok(Value::Void) };
        if plan.result.is_empty() {
            let wrong = |error: Error| Error::violation(error.to_string());
            return Value::from_bytes(kind, bytes).map_err(wrong);
        }
        with_zeros(kind.bytes(), |value| {
            for piece in &plan.result {
                let (from, to) = (usize::from(piece.word) * WORD_BYTES, usize::from(piece.offset));
                let size = usize::from(piece.bytes);
                let part = bytes.get(from..from + size);
                let part = part.ok_or_else(|| unreadable(bytes, &kind.to_string()))?;
                value[to..to + size].copy_from_slice(part);
            }
            Value::from_bytes(kind, value)
        })
    }
}

/// Runs `work` with this number of zeros. A few lie on the stack: allocating them takes as long as half a call.
#[inline]
fn with_zeros<T>(bytes: usize, work: impl FnOnce(&mut [u8]) -> T) -> T {
    const FEW: usize = 128;
    match bytes {
        0..=FEW => work(&mut [0; FEW][..bytes]),
        _ => work(&mut vec![0; bytes]),
    }
}

/// The error for a result of another size than its type has.
#[cold]
fn unreadable(bytes: &[u8], kind: &str) -> Error {
    Error::violation(format!("{} bytes for a result of type {kind}", bytes.len()))
}

/// The shape of calls of a function type in Rust, and the word of each argument.
struct Numbers<const N: usize> {
    shape: Shape,
    places: [u16; N],
}

impl<const N: usize> Numbers<N> {
    const fn new(floats: [bool; N], returns_float: bool) -> Self {
        let (shape, places) = scalars(floats, returns_float);
        Self { shape, places }
    }
}

macro_rules! function_types {
    ($($count:literal: $($argument:ident $name:ident),*;)*) => {$(
        impl<R: Return, $($argument: Scalar),*> Form for extern "C" fn($($argument),*) -> R {
            type Form = ();

            fn prototype((): &()) -> Option<Signature> {
                <Self as StaticType>::signature()
            }

            fn shape((): &()) -> Option<Shape> {
                Some(const { Numbers::<$count>::new([$($argument::IS_FLOAT),*], R::IS_FLOAT).shape })
            }
        }

        impl<R: Return, $($argument: Scalar),*> FunctionType for extern "C" fn($($argument),*) -> R {
            type Arguments<'a> = ($($argument,)*);
            type Result = R;

            #[inline]
            fn with_message<T>(
                (): &(),
                head: &[u8; HEAD_BYTES],
                ($($name,)*): ($($argument,)*),
                send: impl FnOnce(&[u8]) -> Result<T>,
            ) -> Result<T> {
                let places: &[u16; $count] =
                    const { &Numbers::<$count>::new([$($argument::IS_FLOAT),*], R::IS_FLOAT).places };
                let mut words = [[0; WORD_BYTES]; HEAD_WORDS + $count];
                typed::write(&mut words, head, [$($name.to_word()),*], places);
                send(words.as_flattened())
            }

            #[inline]
            fn decode((): &(), bytes: &[u8]) -> Result<R> {
                match bytes.try_into() {
                    Ok(word) => Ok(R::from_word(u64::from_le_bytes(word))),
                    Err(_) => Err(unreadable(bytes, std::any::type_name::<R>())),
                }
            }
        }

        impl<R: Return, $($argument: Scalar),*> CFunctionType for extern "C" fn($($argument),*) -> R {}

        impl<R: Return, $($argument: Scalar),*> Parameters for extern "C" fn($($argument),*) -> R {
            fn integer_words((): &()) -> Vec<Option<u16>> {
                let kinds: [Type; $count] = [$($argument::kind()),*];
                let numbers = const { &Numbers::<$count>::new([$($argument::IS_FLOAT),*], R::IS_FLOAT) };
                let words = kinds.iter().zip(numbers.places);
                words.map(|(kind, word)| kind.is_integer_or_pointer().then_some(word)).collect()
            }
        }

        impl<R: Return, $($argument: Scalar),*> StaticType for extern "C" fn($($argument),*) -> R {
            fn signature() -> Option<Signature> {
                let signature = Signature::new()$(.parameter($argument::kind()))*;
                Some(match R::result_kind() {
                    Some(kind) => signature.returns(kind),
                    None => signature,
                })
            }
        }
    )*};
}

function_types! {
    0: ;
    1: A a;
    2: A a, B b;
    3: A a, B b, C c;
    4: A a, B b, C c, D d;
    5: A a, B b, C c, D d, E e;
    6: A a, B b, C c, D d, E e, F f;
    7: A a, B b, C c, D d, E e, F f, G g;
    8: A a, B b, C c, D d, E e, F f, G g, H h;
    9: A a, B b, C c, D d, E e, F f, G g, H h, I i;
    10: A a, B b, C c, D d, E e, F f, G g, H h, I i, J j;
    11: A a, B b, C c, D d, E e, F f, G g, H h, I i, J j, K k;
    12: A a, B b, C c, D d, E e, F f, G g, H h, I i, J j, K k, L l;
    13: A a, B b, C c, D d, E e, F f, G g, H h, I i, J j, K k, L l, M m;
    14: A a, B b, C c, D d, E e, F f, G g, H h, I i, J j, K k, L l, M m, N n;
    15: A a, B b, C c, D d, E e, F f, G g, H h, I i, J j, K k, L l, M m, N n, O o;
    16: A a, B b, C c, D d, E e, F f, G g, H h, I i, J j, K k, L l, M m, N n, O o, P p;
}
