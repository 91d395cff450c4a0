//! Bytes that go in and out of functions.

use std::ffi::{CStr, c_char, c_void};
use std::ptr::NonNull;

use farcall::ErrorKind;
use farcall::executor::WrapperFunctionBuffer;
use farcall::limits::PAYLOAD_BYTES_MAX;

use super::error::{Error, invalid};
use super::text::text;

/// The bytes of a buffer of up to 8 bytes, or the address of the bytes of a larger one.
#[repr(C)]
#[derive(Clone, Copy)]
pub union BufferValue {
    /// The bytes, from malloc. In a buffer of size 0: NULL, or the text of an out-of-band error.
    pub pointer: *mut c_char,
    /// Up to 8 bytes.
    pub bytes: [c_char; 8],
}

/// Arguments or a result, as orc_rt_WrapperFunctionBuffer: empty, up to 8 bytes in place, more from malloc, or an
/// out-of-band error. A function that receives a buffer by value owns the bytes, and disposes of them or hands them on.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Buffer {
    /// The bytes, or their address.
    pub value: BufferValue,
    /// The number of bytes.
    pub size: usize,
}

const _: () = assert!(size_of::<BufferValue>() == size_of::<*mut c_char>());
const _: () = assert!(size_of::<Buffer>() == size_of::<WrapperFunctionBuffer>());

impl std::fmt::Debug for BufferValue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("BufferValue")
    }
}

impl std::fmt::Debug for Buffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Buffer({} bytes)", self.size)
    }
}

impl Buffer {
    pub(crate) fn new(buffer: WrapperFunctionBuffer) -> Self {
        let (pointer, size) = buffer.into_parts();
        Self { value: BufferValue { pointer }, size }
    }

    /// An out-of-band error.
    pub(crate) fn failed(message: &str) -> Self {
        Self::new(WrapperFunctionBuffer::out_of_band(message))
    }

    /// A copy of these bytes.
    pub(crate) fn of(bytes: &[u8]) -> Self {
        Self::new(WrapperFunctionBuffer::from_bytes(bytes))
    }

    /// A copy of the bytes of a buffer that C keeps.
    ///
    /// # Errors
    ///
    /// When it is an out-of-band error, or at NULL.
    ///
    /// # Safety
    ///
    /// It must be in one of its states.
    pub(crate) unsafe fn copied(&self) -> farcall::Result<Vec<u8>> {
        // SAFETY: the caller vouches for the buffer.
        let message = unsafe { farcall_buffer_out_of_band_error(self) };
        if !message.is_null() {
            // SAFETY: an out-of-band error is a text.
            return Err(farcall::Error::other(unsafe { text(message) }));
        }
        // SAFETY: the caller vouches for the buffer.
        let data = unsafe { farcall_buffer_const_data(self) };
        // SAFETY: as above.
        unsafe { bytes(data.cast(), self.size) }.map(<[u8]>::to_vec)
    }

    /// The buffer that C gave.
    ///
    /// # Safety
    ///
    /// It must be in one of its states, and the caller's.
    pub(crate) unsafe fn take(self) -> WrapperFunctionBuffer {
        // SAFETY: every buffer was written through the pointer, or is as long.
        let pointer = unsafe { self.value.pointer };
        // SAFETY: the caller vouches for the two words.
        unsafe { WrapperFunctionBuffer::from_parts(pointer, self.size) }
    }
}

/// An empty buffer, which is also the result of a function without a result.
#[unsafe(no_mangle)]
#[must_use]
pub extern "C" fn farcall_buffer_empty() -> Buffer {
    Buffer::new(WrapperFunctionBuffer::new())
}

/// A buffer of size bytes, all zero. If memory runs out, an out-of-band error.
#[unsafe(no_mangle)]
#[must_use]
pub extern "C" fn farcall_buffer_allocate(size: usize) -> Buffer {
    if size <= size_of::<BufferValue>() {
        return Buffer { value: BufferValue { pointer: std::ptr::null_mut() }, size };
    }
    // SAFETY: calloc has no preconditions.
    let pointer = unsafe { libc::calloc(size, 1) }.cast::<c_char>();
    if pointer.is_null() {
        return Buffer::failed(&format!("no memory for {size} bytes"));
    }
    Buffer { value: BufferValue { pointer }, size }
}

/// A copy of size bytes at data. An out-of-band error if data is NULL and size is not 0, or if memory runs out. May be NULL: data.
///
/// # Safety
///
/// They must be readable.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn farcall_buffer_from_range(data: *const c_void, size: usize) -> Buffer {
    // SAFETY: the caller vouches for the bytes.
    let bytes = match unsafe { bytes(data, size) } {
        Ok(bytes) => bytes,
        Err(error) => return Buffer::failed(&error.to_string()),
    };
    let mut buffer = farcall_buffer_allocate(size);
    if size > size_of::<BufferValue>() && buffer.size == 0 {
        return buffer;
    }
    // SAFETY: the buffer is of this function.
    let to = unsafe { farcall_buffer_data(&raw mut buffer) };
    // SAFETY: the buffer is new, and has this many bytes.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr().cast(), to, size) };
    buffer
}

/// A copy of a text, its NUL included. Empty for NULL. May be NULL: text.
///
/// # Safety
///
/// It must be one.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn farcall_buffer_from_string(text: *const c_char) -> Buffer {
    if text.is_null() {
        return farcall_buffer_empty();
    }
    // SAFETY: the caller vouches for the text.
    let text = unsafe { CStr::from_ptr(text) };
    Buffer::new(WrapperFunctionBuffer::from_c_str(text))
}

/// An out-of-band error with a copy of this message. May be NULL: message.
///
/// # Safety
///
/// It must be a text.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn farcall_buffer_from_out_of_band_error(message: *const c_char) -> Buffer {
    // SAFETY: the caller vouches for the text.
    let message = unsafe { text(message) };
    Buffer::new(WrapperFunctionBuffer::out_of_band(&message))
}

/// Frees what the buffer points to, and leaves it empty. May be NULL: buffer.
///
/// # Safety
///
/// It must be a buffer of the caller's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_buffer_dispose(buffer: *mut Buffer) {
    if buffer.is_null() {
        return;
    }
    // SAFETY: the caller vouches for the buffer.
    let taken = unsafe { std::ptr::replace(buffer, farcall_buffer_empty()) };
    // SAFETY: as above; an empty one is left.
    drop(unsafe { taken.take() });
}

/// The bytes of a buffer, which stay where they are until it is disposed of or moved. NULL for NULL. May be NULL: buffer, the
/// result.
///
/// # Safety
///
/// It must be a buffer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_buffer_data(buffer: *mut Buffer) -> *mut c_char {
    if buffer.is_null() {
        return std::ptr::null_mut();
    }
    // SAFETY: the caller vouches for the buffer.
    let size = unsafe { (*buffer).size };
    if size <= size_of::<BufferValue>() {
        // SAFETY: as above.
        return unsafe { &raw mut (*buffer).value }.cast();
    }
    // SAFETY: as above.
    let value = unsafe { (*buffer).value };
    // SAFETY: a large one holds a pointer.
    unsafe { value.pointer }
}

/// The bytes of a buffer, to be read. NULL for NULL. May be NULL: buffer, the result.
///
/// # Safety
///
/// It must be a buffer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_buffer_const_data(buffer: *const Buffer) -> *const c_char {
    // SAFETY: nothing is written.
    unsafe { farcall_buffer_data(buffer.cast_mut()) }
}

/// How many bytes a buffer has; 0 for NULL. May be NULL: buffer.
///
/// # Safety
///
/// It must be a buffer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_buffer_size(buffer: *const Buffer) -> usize {
    // SAFETY: the caller vouches for the buffer.
    unsafe { buffer.as_ref() }.map_or(0, |buffer| buffer.size)
}

/// True for a buffer that has no bytes and is no error either, and for NULL. May be NULL: buffer.
///
/// # Safety
///
/// It must be a buffer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_buffer_is_empty(buffer: *const Buffer) -> bool {
    // SAFETY: the caller vouches for the buffer.
    let Some(Buffer { value, size }) = (unsafe { buffer.as_ref() }) else { return true };
    // SAFETY: every buffer of size 0 was written through the pointer.
    *size == 0 && unsafe { value.pointer }.is_null()
}

/// The message of an out-of-band error, which is the buffer's; NULL for any other buffer, and for NULL. May be NULL:
/// buffer, the result.
///
/// # Safety
///
/// It must be a buffer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_buffer_out_of_band_error(buffer: *const Buffer) -> *const c_char {
    // SAFETY: the caller vouches for the buffer.
    let buffer = unsafe { buffer.as_ref() };
    let Some(Buffer { value, size }) = buffer else { return std::ptr::null() };
    // SAFETY: a pointer or bytes, as many as a pointer has.
    let pointer = unsafe { value.pointer };
    if *size == 0 { pointer } else { std::ptr::null() }
}

/// The bytes there.
///
/// # Errors
///
/// When they are at NULL, or more than any object has.
///
/// # Safety
///
/// They must be readable and stay so.
pub(crate) unsafe fn bytes<'a>(data: *const c_void, size: usize) -> farcall::Result<&'a [u8]> {
    // SAFETY: the caller vouches for the bytes.
    unsafe { array(data.cast::<u8>(), size) }
}

/// The bytes of a message, which are not looked at if they are too many.
///
/// # Safety
///
/// As [`bytes`].
pub(crate) unsafe fn message<'a>(
    data: *const c_void,
    size: usize,
    what: &str,
) -> farcall::Result<&'a [u8]> {
    if size as u64 > PAYLOAD_BYTES_MAX {
        let text =
            format!("{what} of {size} bytes; at most {PAYLOAD_BYTES_MAX} travel in one call");
        return Err(farcall::Error::new(ErrorKind::Exhausted, text));
    }
    // SAFETY: the caller vouches for the bytes.
    unsafe { bytes(data, size) }
}

/// The elements there.
///
/// # Errors
///
/// When they are at NULL or not aligned, or more than any object has.
///
/// # Safety
///
/// They must be readable and stay so.
pub(crate) unsafe fn array<'a, T>(data: *const T, count: usize) -> farcall::Result<&'a [T]> {
    if count == 0 {
        return Ok(&[]);
    }
    let size = count.checked_mul(size_of::<T>()).filter(|size| isize::try_from(*size).is_ok());
    if data.is_null() || !data.is_aligned() || size.is_none() {
        return Err(invalid(format!("{count} elements at {data:?}")));
    }
    // SAFETY: the caller vouches for the elements.
    Ok(unsafe { std::slice::from_raw_parts(data, count) })
}

/// A text that must be there; `what` names it in messages.
///
/// # Errors
///
/// When it is NULL, or not UTF-8.
///
/// # Safety
///
/// It must be one, or NULL, and stay so.
pub(crate) unsafe fn required_text<'a>(
    text: *const c_char,
    what: &str,
) -> farcall::Result<&'a str> {
    if text.is_null() {
        return Err(invalid(format!("{what} is NULL")));
    }
    // SAFETY: the caller vouches for the text.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_str().map_err(|error| invalid(format!("{what}: {error}")))
}

/// The texts of an array that NULL ends; none for NULL.
///
/// # Safety
///
/// The array and its texts must be readable and stay so.
pub(crate) unsafe fn texts<'a>(
    array: *const *const c_char,
) -> impl Iterator<Item = farcall::Result<&'a CStr>> {
    let mut at = array;
    std::iter::from_fn(move || {
        if at.is_null() {
            return None;
        }
        if !at.is_aligned() {
            at = std::ptr::null();
            return Some(Err(invalid("an array of texts that is not aligned")));
        }
        // SAFETY: the array goes on to its NULL, which has not come.
        let text = unsafe { at.read() };
        // SAFETY: as above.
        at = unsafe { at.add(1) };
        // SAFETY: the caller vouches for the text.
        (!text.is_null()).then(|| Ok(unsafe { CStr::from_ptr(text) }))
    })
}

/// Where a function stores a result. It holds `empty` until the result is there.
#[derive(Debug)]
pub(crate) struct Out<T>(NonNull<T>);

impl<T> Out<T> {
    /// The place that C has given for a result; `what` names it in messages.
    ///
    /// # Errors
    ///
    /// When it is NULL or not aligned.
    ///
    /// # Safety
    ///
    /// It must be writable while this value lives, or NULL.
    pub(crate) unsafe fn new(pointer: *mut T, what: &str, empty: T) -> farcall::Result<Self> {
        let place = NonNull::new(pointer).filter(|place| place.is_aligned());
        let place = place.ok_or_else(|| invalid(format!("{what} is {pointer:?}")))?;
        // SAFETY: the caller vouches that it is writable.
        unsafe { place.write(empty) };
        Ok(Self(place))
    }

    /// As [`new`](Out::new), for a result that C may do without: NULL is no place.
    ///
    /// # Errors
    ///
    /// When it is not aligned.
    ///
    /// # Safety
    ///
    /// As [`new`](Out::new).
    pub(crate) unsafe fn optional(
        pointer: *mut T,
        what: &str,
        empty: T,
    ) -> farcall::Result<Option<Self>> {
        if pointer.is_null() {
            return Ok(None);
        }
        // SAFETY: the caller vouches that it is writable.
        unsafe { Self::new(pointer, what, empty) }.map(Some)
    }

    /// Does the work of a function, as [`Error::of`], and stores its result.
    pub(crate) fn stored(
        place: farcall::Result<Self>,
        work: impl FnOnce() -> farcall::Result<T>,
    ) -> *mut Error {
        Error::of(|| {
            let place = place?;
            place.write(work()?);
            Ok(())
        })
    }

    pub(crate) fn write(self, value: T) {
        // SAFETY: the maker of this value has vouched that the place is writable.
        unsafe { self.0.write(value) };
    }
}
