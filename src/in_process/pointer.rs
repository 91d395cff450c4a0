//! Pointers to linked functions in this process.
#![allow(unsafe_code, reason = "makes pointers to functions of addresses")]

use crate::ExecutorAddr;
use crate::controller::Function;
use crate::controller::calls::{CFunctionType, Return, Scalar};
use crate::error::Result;
use crate::types::Signature;

/// The type of a C function that a pointer can be had of: `extern "C" fn` of up to 16 numbers, or a [`Signature`].
///
/// # Examples
///
/// ```
/// use farcall::controller::Function;
/// use farcall::in_process::CallPointer;
///
/// fn pointer<F: CallPointer>(function: &Function<F>) -> farcall::Result<F::Pointer> {
///     function.pointer()
/// }
/// # let _ = pointer::<extern "C" fn(i64) -> i64>;
/// ```
pub trait CallPointer: CFunctionType {
    /// The pointer: `unsafe extern "C" fn` of the same numbers. A [`Signature`] has the pointer `unsafe extern "C" fn()`: the host casts
    /// it to the function's type, as C does with a `void (*)(void)`.
    type Pointer: Copy + Send + Sync + 'static;

    #[doc(hidden)]
    fn at(address: ExecutorAddr) -> Self::Pointer;
}

impl<F: CallPointer> Function<F> {
    /// A pointer to the function, if it is in this process ([`in_process`](crate::controller::ExecutorBuilder::in_process)). A call by it
    /// is a call of native code: farcall takes no part, and any thread may make it.
    ///
    /// Calling it is unsafe. The function must be of this type, and must not throw. It must still be there: its library was not cleared,
    /// no redirection has removed it, and a handle keeps the executor. No grace period waits for such calls. An error of a handler
    /// that is not a status cannot be returned, and ends the host.
    ///
    /// All that was linked so far is ready. Code that is linked later may be reached through a redirected or
    /// [lazy](crate::controller::Library::create_lazy) function. Its initial values and unwind information are there at the next
    /// [`call`](Function::call) or `pointer`.
    ///
    /// # Errors
    ///
    /// As [`bind`](Function::bind). When the executor has a process of its own, where addresses mean something else
    /// ([`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument)). When the kernel cannot tell all threads of new code (before
    /// Linux 4.16).
    ///
    /// # Examples
    ///
    /// ```
    #[doc = include_str!("../docs/compile.txt")]
    /// use farcall::controller::ExecutorBuilder;
    ///
    /// let executor = ExecutorBuilder::new().in_process().start()?;
    /// let library = executor.library("main");
    /// library.add_object(&compile("double half(double x) { return x / 2; }")?)?;
    /// let half = library.function::<extern "C" fn(f64) -> f64>("half").pointer()?;
    /// // SAFETY: the object has a function of this type, and the executor lives.
    /// assert_eq!(unsafe { half(5.0) }, 2.5);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn pointer(&self) -> Result<F::Pointer> {
        Ok(F::at(self.address_here()?))
    }
}

/// The pointer of any type to the function at an address.
fn pointer_to<P: Copy>(address: ExecutorAddr) -> P {
    const { assert!(size_of::<P>() == size_of::<*const ()>()) };
    let address = usize::try_from(address.get()).unwrap_or(0);
    let address = std::ptr::with_exposed_provenance::<()>(address);
    // SAFETY: both are pointers of one size, and this one is not null. The caller vouches for the function.
    unsafe { std::mem::transmute_copy::<*const (), P>(&address) }
}

impl CallPointer for Signature {
    type Pointer = unsafe extern "C" fn();

    fn at(address: ExecutorAddr) -> Self::Pointer {
        pointer_to(address)
    }
}

macro_rules! pointers {
    ($($($argument:ident)*;)*) => {$(
        impl<R, $($argument),*> CallPointer for extern "C" fn($($argument),*) -> R
        where
            R: Return + 'static,
            $($argument: Scalar + 'static,)*
        {
            type Pointer = unsafe extern "C" fn($($argument),*) -> R;

            fn at(address: ExecutorAddr) -> Self::Pointer {
                pointer_to(address)
            }
        }
    )*};
}

pointers! {
    ;
    A;
    A B;
    A B C;
    A B C D;
    A B C D E;
    A B C D E F;
    A B C D E F G;
    A B C D E F G H;
    A B C D E F G H I;
    A B C D E F G H I J;
    A B C D E F G H I J K;
    A B C D E F G H I J K L;
    A B C D E F G H I J K L M;
    A B C D E F G H I J K L M N;
    A B C D E F G H I J K L M N O;
    A B C D E F G H I J K L M N O P;
}
