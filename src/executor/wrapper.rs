//! Wrapper functions: the C calling convention of everything that is called across the process border.
//!
//! `fn(const char *data, size_t size) -> { union { char *ptr; char inline[8]; }, size_t size }`, the form of LLVM 22. Up to
//! 8 bytes come back in place, more in memory from `malloc` that the caller frees; size 0 with a pointer is an
//! out-of-band error, a NUL-terminated message from `malloc`.
#![allow(unsafe_code, reason = "calls and provides C functions by address")]

use std::ffi::{CStr, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::enter;
use crate::ExecutorAddr;
use crate::call::contract::Remote;
use crate::error::{Error, Result};
use crate::sps;

/// The result of a wrapper function, as it lies in two registers.
#[repr(C)]
pub(super) struct WrapperBuffer {
    /// Inline bytes, a pointer, or null.
    data: *mut c_char,
    size: usize,
}

const _: () = assert!(size_of::<WrapperBuffer>() == 16);

/// Results up to this size lie in the buffer.
const INLINE_BYTES: usize = size_of::<*mut c_char>();

type Wrapper = unsafe extern "C" fn(*const c_char, usize) -> WrapperBuffer;

/// An implementation of a function of the contract.
pub(super) trait Serve: Remote {
    /// Runs it; an error is answered out of band.
    fn serve(args: Self::Args) -> Result<Self::Ret>;
}

/// The name and address under which a function of the contract is offered.
pub(super) fn offer<R: Serve>() -> (String, ExecutorAddr) {
    let wrapper: Wrapper = shim::<R>;
    (R::NAME.to_owned(), ExecutorAddr::new(wrapper as usize as u64))
}

/// The pointer that an address of this process is.
#[expect(clippy::cast_possible_truncation, reason = "an address of this process fits a pointer")]
pub(super) fn pointer<T>(addr: ExecutorAddr) -> *const T {
    std::ptr::with_exposed_provenance(addr.get() as usize)
}

/// Calls the wrapper function at `target` with `bytes` bytes at `args`; `Err` is its out-of-band error.
///
/// # Safety
///
/// `target` must be the address of a wrapper function, and the arguments must stay until it returns. Only the controller can
/// know that; the executor obeys it.
#[inline(always)]
pub(super) unsafe fn call(
    target: u64,
    args: *const u8,
    bytes: usize,
) -> std::result::Result<WrapperBuffer, String> {
    if target == 0 {
        return Err("call of address 0".to_owned());
    }
    // SAFETY: the caller vouches for the address and the arguments.
    let buffer = unsafe { enter::wrapper(ExecutorAddr::new(target), args, bytes) };
    if buffer.size.wrapping_sub(1) < INLINE_BYTES || buffer.data.is_null() && buffer.size == 0 {
        return Ok(buffer);
    }
    buffer.checked()
}

impl WrapperBuffer {
    pub(super) fn from_bytes(bytes: &[u8]) -> Self {
        let size = bytes.len();
        if size <= INLINE_BYTES {
            let mut inline = [0; INLINE_BYTES];
            inline[..size].copy_from_slice(bytes);
            return Self {
                data: std::ptr::without_provenance_mut(usize::from_le_bytes(inline)),
                size,
            };
        }
        Self { data: copy_to_malloc(bytes), size }
    }

    pub(super) fn out_of_band(message: &str) -> Self {
        let mut bytes = message.replace('\0', " ").into_bytes();
        bytes.push(0);
        Self { data: copy_to_malloc(&bytes), size: 0 }
    }

    /// The buffer, unless it is an error.
    fn checked(self) -> std::result::Result<Self, String> {
        match (self.size, self.data.is_null()) {
            (0, false) => {
                // SAFETY: a wrapper function returns a NUL-terminated message with size 0.
                let message = unsafe { CStr::from_ptr(self.data) }.to_string_lossy().into_owned();
                // SAFETY: the message comes from malloc and is not used any more.
                unsafe { libc::free(self.data.cast()) };
                Err(message)
            }
            (size, true) if size > INLINE_BYTES => {
                Err(format!("a wrapper function returned {size} bytes at null"))
            }
            _ => Ok(self),
        }
    }
}

impl AsRef<[u8]> for WrapperBuffer {
    #[inline(always)]
    fn as_ref(&self) -> &[u8] {
        let at = match self.size {
            0..=INLINE_BYTES => (&raw const self.data).cast(),
            _ => self.data.cast_const().cast::<u8>(),
        };
        // SAFETY: a small result lies in the buffer itself, and a large one is so many bytes from malloc, which live as long
        // as the buffer.
        unsafe { std::slice::from_raw_parts(at, self.size) }
    }
}

impl Drop for WrapperBuffer {
    #[inline(always)]
    fn drop(&mut self) {
        if self.size > INLINE_BYTES {
            // SAFETY: the bytes come from malloc, and the buffer is theirs alone.
            unsafe { libc::free(self.data.cast()) };
        }
    }
}

/// The C face of an implementation. A panic in it becomes an out-of-band error.
unsafe extern "C" fn shim<R: Serve>(data: *const c_char, size: usize) -> WrapperBuffer {
    let bytes = if size == 0 {
        &[]
    } else {
        // SAFETY: wrapper functions are called with `size` readable bytes at `data`.
        unsafe { std::slice::from_raw_parts(data.cast::<u8>(), size) }
    };
    let served = catch_unwind(AssertUnwindSafe(|| {
        let args = sps::from_bytes::<R::Args>(bytes)?;
        R::serve(args)
    }));
    let result = served.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
        Err(Error::remote(format!("panicked: {}", text.unwrap_or("no message"))))
    });
    match result {
        Ok(value) => WrapperBuffer::from_bytes(&sps::to_bytes(&value)),
        Err(error) => WrapperBuffer::out_of_band(&format!("{}: {error}", R::NAME)),
    }
}

/// A copy of `bytes` in memory from `malloc`. Ends the process when there is none, as Rust's allocator does.
fn copy_to_malloc(bytes: &[u8]) -> *mut c_char {
    // SAFETY: malloc has no preconditions.
    let memory = unsafe { libc::malloc(bytes.len()) }.cast::<u8>();
    if memory.is_null() {
        std::process::abort();
    }
    // SAFETY: malloc gave this many bytes, which nobody else knows yet.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), memory, bytes.len()) };
    memory.cast()
}
