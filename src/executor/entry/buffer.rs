//! The buffer in which wrapper functions take and return bytes, with the layout of C.
#![allow(unsafe_code, reason = "holds memory from malloc, and shares it with C")]

use std::ffi::{CStr, c_char};
use std::fmt;

use crate::ExecutorAddr;
use crate::executor::entry::allocator;
use crate::transport::Payload;

/// LLVM's `orc_rt_WrapperFunctionBuffer` and `CWrapperFunctionResult`: `{ union { char *ptr; char inline[8]; },
/// size_t size }`, which is passed in two registers.
///
/// | size | pointer | state |
/// |---|---|---|
/// | 0 | null | empty, also the result of a function that has none |
/// | 0 | not null | *out-of-band error*: a message that ends with NUL, from `malloc` |
/// | 1 to 8 | | the bytes themselves |
/// | more | not null | a pointer to `size` bytes from `malloc` |
///
/// The buffer owns the memory that it points to. A buffer that is passed to C by value is C's to `free`; a buffer
/// that C passes is freed here. A buffer may move to another thread.
///
/// # Examples
///
/// ```
/// use farcall::executor::WrapperFunctionBuffer;
///
/// let buffer = WrapperFunctionBuffer::from_bytes(b"hello");
/// assert_eq!(buffer.as_bytes(), b"hello");
/// let error = WrapperFunctionBuffer::out_of_band("no such file");
/// assert_eq!(error.out_of_band_error(), Some(c"no such file"));
/// assert_eq!(error.into_result().unwrap_err(), "no such file");
/// ```
#[repr(C)]
pub struct WrapperFunctionBuffer {
    /// Inline bytes, a pointer, or null.
    data: *mut c_char,
    size: usize,
}

const _: () = assert!(size_of::<WrapperFunctionBuffer>() == 16);

/// Content up to this size is stored in the buffer itself.
const INLINE_BYTES: usize = size_of::<*mut c_char>();

// SAFETY: memory from malloc belongs to no thread, and only the buffer points to it.
unsafe impl Send for WrapperFunctionBuffer {}
// SAFETY: a shared buffer is only read.
unsafe impl Sync for WrapperFunctionBuffer {}

impl WrapperFunctionBuffer {
    /// An empty buffer.
    #[must_use]
    pub const fn new() -> Self {
        Self { data: std::ptr::null_mut(), size: 0 }
    }

    /// A copy of `bytes`.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Self {
        // SAFETY: the slice has this many bytes.
        unsafe { Self::copy_of(bytes.as_ptr(), bytes.len()) }
    }

    /// A copy of an incoming payload.
    #[inline]
    pub(crate) fn from_payload(payload: Payload<'_>) -> Self {
        // SAFETY: the payload has this many bytes; the controller, which the executor obeys, does not change them
        // meanwhile.
        unsafe { Self::copy_of(payload.as_ptr(), payload.len()) }
    }

    /// # Safety
    ///
    /// `size` bytes at `data` must be readable.
    #[inline]
    unsafe fn copy_of(data: *const u8, size: usize) -> Self {
        if size > INLINE_BYTES {
            // SAFETY: the caller vouches for the bytes.
            return Self { data: unsafe { copy_to_malloc(data, size) }, size };
        }
        let mut inline = [0; INLINE_BYTES];
        if size == INLINE_BYTES {
            // A copy of constant size is one instruction; one of variable size is a call.
            // SAFETY: the caller vouches for the bytes.
            inline = unsafe { data.cast::<[u8; INLINE_BYTES]>().read() };
        } else {
            // SAFETY: the caller vouches for the bytes, and `inline` has room for them.
            unsafe { std::ptr::copy_nonoverlapping(data, inline.as_mut_ptr(), size) };
        }
        Self { data: std::ptr::without_provenance_mut(usize::from_ne_bytes(inline)), size }
    }

    /// A copy of `text`, with its NUL.
    #[must_use]
    pub fn from_c_str(text: &CStr) -> Self {
        Self::from_bytes(text.to_bytes_with_nul())
    }

    /// An out-of-band error with this message. A NUL in the message becomes a space.
    #[must_use]
    pub fn out_of_band(message: &str) -> Self {
        let mut bytes = message.replace('\0', " ").into_bytes();
        bytes.push(0);
        // SAFETY: the vector has this many bytes.
        Self { data: unsafe { copy_to_malloc(bytes.as_ptr(), bytes.len()) }, size: 0 }
    }

    /// Makes a buffer of its two words.
    ///
    /// # Safety
    ///
    /// The words must be in one of the states above, and no other owner may have the memory that they point to.
    #[must_use]
    pub const unsafe fn from_parts(data: *mut c_char, size: usize) -> Self {
        Self { data, size }
    }

    /// The two words. The caller owns the memory that they point to, and frees it.
    #[must_use = "the caller must free what the words point to"]
    pub fn into_parts(self) -> (*mut c_char, usize) {
        let buffer = std::mem::ManuallyDrop::new(self);
        (buffer.data, buffer.size)
    }

    /// The content; empty for an out-of-band error.
    #[inline(always)]
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        let at = match self.size {
            0..=INLINE_BYTES => (&raw const self.data).cast(),
            _ => self.data.cast_const().cast::<u8>(),
        };
        // SAFETY: small content is stored in the buffer itself; large content is this many bytes from malloc, which
        // belong to the buffer.
        unsafe { std::slice::from_raw_parts(at, self.size) }
    }

    /// The number of bytes of the content.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.size
    }

    /// True for a buffer without content that is not an error.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.size == 0 && self.data.is_null()
    }

    /// The message, if this is an out-of-band error.
    #[must_use]
    pub fn out_of_band_error(&self) -> Option<&CStr> {
        if self.size > 0 || self.data.is_null() {
            return None;
        }
        // SAFETY: a message ends with NUL, and belongs to the buffer.
        Some(unsafe { CStr::from_ptr(self.data) })
    }

    /// Returns the buffer, unless it is an error.
    ///
    /// # Errors
    ///
    /// The message of an out-of-band error, or a description of an invalid buffer from C.
    #[inline(always)]
    pub fn into_result(self) -> Result<Self, String> {
        if self.size.wrapping_sub(1) < INLINE_BYTES || self.data.is_null() && self.size == 0 {
            return Ok(self);
        }
        self.checked()
    }

    /// The buffer that code at this address has returned or passed on, in memory of the C library. The code may belong to a program
    /// with an allocator of its own.
    #[inline(always)]
    pub(crate) fn taken_from(self, code: ExecutorAddr) -> Self {
        match self.is_in_memory() && allocator::is_replaced_for(code) {
            true => self.taken_from_linked_code(),
            false => self,
        }
    }

    /// The same for linked code.
    #[cold]
    pub(crate) fn taken_from_linked_code(self) -> Self {
        if !self.is_in_memory() || !allocator::is_replaced() {
            return self;
        }
        // SAFETY: the content has this many bytes.
        let data = unsafe { copy_to_malloc(self.data.cast(), self.bytes_in_memory()) };
        let (old, size) = self.into_parts();
        // SAFETY: the program's allocator has made it, and only the buffer pointed to it.
        unsafe { allocator::release(old.cast()) };
        Self { data, size }
    }

    /// The same buffer, to be passed to code at this address, which will free it.
    pub(crate) fn for_code(self, code: ExecutorAddr) -> Self {
        if allocator::is_replaced_for(code) { self.for_linked_code() } else { self }
    }

    /// The same buffer, to be passed to linked code, which will free it.
    #[inline]
    pub(crate) fn for_linked_code(self) -> Self {
        if !self.is_in_memory() || !allocator::is_replaced() {
            return self;
        }
        let bytes = self.bytes_in_memory();
        let memory = allocator::allocate(bytes).cast::<c_char>();
        if memory.is_null() {
            std::process::abort();
        }
        // SAFETY: both have this many bytes, and no other code knows the new ones.
        unsafe { memory.copy_from_nonoverlapping(self.data, bytes) };
        Self { data: memory, size: self.size }
    }

    /// True if the buffer points to memory.
    #[inline(always)]
    const fn is_in_memory(&self) -> bool {
        self.size.wrapping_sub(1) >= INLINE_BYTES && !self.data.is_null()
    }

    /// The number of bytes that the buffer points to.
    fn bytes_in_memory(&self) -> usize {
        self.out_of_band_error().map_or(self.size, |message| message.count_bytes() + 1)
    }

    fn checked(mut self) -> Result<Self, String> {
        if let Some(message) = self.out_of_band_error() {
            return Err(message.to_string_lossy().into_owned());
        }
        if self.data.is_null() {
            let size = std::mem::take(&mut self.size);
            return Err(format!("a wrapper function returned {size} bytes at null"));
        }
        Ok(self)
    }
}

impl Default for WrapperFunctionBuffer {
    fn default() -> Self {
        Self::new()
    }
}

impl AsRef<[u8]> for WrapperFunctionBuffer {
    #[inline(always)]
    fn as_ref(&self) -> &[u8] {
        self.as_bytes()
    }
}

impl Drop for WrapperFunctionBuffer {
    #[inline(always)]
    fn drop(&mut self) {
        if self.is_in_memory() {
            // SAFETY: large content and messages come from malloc, and only the buffer owns them.
            unsafe { libc::free(self.data.cast()) };
        }
    }
}

impl fmt::Debug for WrapperFunctionBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.out_of_band_error() {
            Some(message) => f.debug_tuple("OutOfBand").field(&message).finish(),
            None => write!(f, "WrapperFunctionBuffer({} bytes)", self.size),
        }
    }
}

/// A copy in memory from `malloc`. Aborts the process if there is none, as Rust's allocator does.
///
/// # Safety
///
/// `size` bytes at `data` must be readable.
unsafe fn copy_to_malloc(data: *const u8, size: usize) -> *mut c_char {
    // SAFETY: malloc has no preconditions.
    let memory = unsafe { libc::malloc(size) }.cast::<u8>();
    if memory.is_null() {
        std::process::abort();
    }
    // SAFETY: the caller vouches for the bytes; malloc returned as many, which no other code knows yet.
    unsafe { std::ptr::copy_nonoverlapping(data, memory, size) };
    memory.cast()
}

#[cfg(test)]
mod tests {
    //! `WrapperFunctionBufferTest` of LLVM's runtime.

    use super::*;

    #[test]
    fn default() {
        let buffer = WrapperFunctionBuffer::default();
        assert!(buffer.is_empty() && buffer.out_of_band_error().is_none());
        assert_eq!((buffer.as_bytes(), buffer.len()), (&[][..], 0));
    }

    #[test]
    fn from_c_struct() {
        let (data, size) = WrapperFunctionBuffer::from_bytes(&[7; 100]).into_parts();
        // SAFETY: the words come from a buffer.
        let buffer = unsafe { WrapperFunctionBuffer::from_parts(data, size) };
        assert_eq!(
            (buffer.as_bytes(), buffer.data),
            (&[7; 100][..], data),
            "it is the same memory"
        );
    }

    #[test]
    fn from_range() {
        for size in [1, 7, 8, 9, 4096] {
            let bytes: Vec<u8> = (0..size).map(|n: u16| n.to_le_bytes()[0]).collect();
            let buffer = WrapperFunctionBuffer::from_bytes(&bytes);
            assert_eq!((buffer.as_bytes(), buffer.len()), (&bytes[..], bytes.len()));
            assert!(!buffer.is_empty() && buffer.out_of_band_error().is_none());
            assert_eq!(buffer.into_result().expect("no error").as_bytes(), bytes);
        }
    }

    #[test]
    fn from_empty_range_is_empty() {
        let buffer = WrapperFunctionBuffer::from_bytes(&[]);
        assert!(buffer.is_empty() && buffer.out_of_band_error().is_none());
        assert!(buffer.into_result().expect("no error").is_empty());
    }

    #[test]
    fn from_c_string() {
        for text in [c"", c"abc", c"longer than a pointer"] {
            let buffer = WrapperFunctionBuffer::from_c_str(text);
            assert_eq!(buffer.as_bytes(), text.to_bytes_with_nul());
        }
    }

    #[test]
    fn from_out_of_band_error() {
        let buffer = WrapperFunctionBuffer::out_of_band("no\0way");
        assert_eq!(buffer.out_of_band_error(), Some(c"no way"));
        assert!(!buffer.is_empty(), "not the result of a function that has none");
        assert_eq!((buffer.as_bytes(), buffer.len()), (&[][..], 0));
        assert_eq!(format!("{buffer:?}"), "OutOfBand(\"no way\")");
        assert_eq!(buffer.into_result().expect_err("an error"), "no way");
        let silent = WrapperFunctionBuffer::out_of_band("");
        assert_eq!(silent.into_result().expect_err("an error"), "");
    }

    #[test]
    fn bytes_at_null_are_an_error() {
        // SAFETY: this is not one of the states, but the pointer to free is null.
        let buffer = unsafe { WrapperFunctionBuffer::from_parts(std::ptr::null_mut(), 9) };
        assert!(buffer.into_result().expect_err("an error").contains("9 bytes at null"));
    }
}
