//! Bytes that go in and out of functions.

use std::ffi::{CStr, c_char, c_void};

use farcall::executor::WrapperFunctionBuffer;

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
    pub(super) fn new(buffer: WrapperFunctionBuffer) -> Self {
        let (pointer, size) = buffer.into_parts();
        Self { value: BufferValue { pointer }, size }
    }

    /// The buffer that C gave.
    ///
    /// # Safety
    ///
    /// It must be in one of its states, and the caller's.
    pub(super) unsafe fn take(self) -> WrapperFunctionBuffer {
        // SAFETY: every buffer was written through the pointer, or is as long.
        let pointer = unsafe { self.value.pointer };
        // SAFETY: the caller vouches for the two words.
        unsafe { WrapperFunctionBuffer::from_parts(pointer, self.size) }
    }
}

/// An empty buffer, which is also the result of a function without a result.
#[unsafe(no_mangle)]
pub extern "C" fn farcall_buffer_empty() -> Buffer {
    Buffer::new(WrapperFunctionBuffer::new())
}

/// A buffer of size bytes, all zero. Ends the process if memory runs out.
#[unsafe(no_mangle)]
pub extern "C" fn farcall_buffer_allocate(size: usize) -> Buffer {
    if size <= size_of::<BufferValue>() {
        return Buffer { value: BufferValue { pointer: std::ptr::null_mut() }, size };
    }
    // SAFETY: calloc has no preconditions.
    let pointer = unsafe { libc::calloc(size, 1) }.cast::<c_char>();
    if pointer.is_null() {
        std::process::abort();
    }
    Buffer { value: BufferValue { pointer }, size }
}

/// A copy of size bytes at data.
///
/// # Safety
///
/// They must be readable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_buffer_from_range(data: *const c_void, size: usize) -> Buffer {
    // SAFETY: the caller vouches for the bytes.
    let bytes = unsafe { bytes(data, size) };
    Buffer::new(WrapperFunctionBuffer::from_bytes(bytes))
}

/// A copy of a text, its NUL included.
///
/// # Safety
///
/// It must be one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_buffer_from_string(text: *const c_char) -> Buffer {
    // SAFETY: the caller vouches for the text.
    let text = unsafe { CStr::from_ptr(text) };
    Buffer::new(WrapperFunctionBuffer::from_c_str(text))
}

/// An out-of-band error with a copy of this message.
///
/// # Safety
///
/// It must be a text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_buffer_from_out_of_band_error(message: *const c_char) -> Buffer {
    // SAFETY: the caller vouches for the text.
    let message = unsafe { text(message) };
    Buffer::new(WrapperFunctionBuffer::out_of_band(&message))
}

/// Frees what the buffer points to, and leaves it empty.
///
/// # Safety
///
/// It must be a buffer of the caller's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_buffer_dispose(buffer: *mut Buffer) {
    // SAFETY: the caller vouches for the buffer.
    let taken = unsafe { std::ptr::replace(buffer, farcall_buffer_empty()) };
    // SAFETY: as above; an empty one is left.
    drop(unsafe { taken.take() });
}

/// The bytes of a buffer, which stay where they are until it is disposed of or moved.
///
/// # Safety
///
/// It must be a buffer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_buffer_data(buffer: *mut Buffer) -> *mut c_char {
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

/// The bytes of a buffer, to be read.
///
/// # Safety
///
/// It must be a buffer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_buffer_const_data(buffer: *const Buffer) -> *const c_char {
    // SAFETY: nothing is written.
    unsafe { farcall_buffer_data(buffer.cast_mut()) }
}

/// How many bytes a buffer has.
///
/// # Safety
///
/// It must be a buffer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_buffer_size(buffer: *const Buffer) -> usize {
    // SAFETY: the caller vouches for the buffer.
    unsafe { (*buffer).size }
}

/// True for a buffer that has no bytes and is no error either.
///
/// # Safety
///
/// It must be a buffer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_buffer_is_empty(buffer: *const Buffer) -> bool {
    // SAFETY: the caller vouches for the buffer.
    let Buffer { value, size } = unsafe { *buffer };
    // SAFETY: every buffer of size 0 was written through the pointer.
    size == 0 && unsafe { value.pointer }.is_null()
}

/// The message of an out-of-band error, which is the buffer's; NULL for any other buffer.
///
/// # Safety
///
/// It must be a buffer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_buffer_out_of_band_error(buffer: *const Buffer) -> *const c_char {
    // SAFETY: the caller vouches for the buffer.
    let Buffer { value, size } = unsafe { *buffer };
    // SAFETY: a pointer or bytes, as many as a pointer has.
    let pointer = unsafe { value.pointer };
    if size == 0 { pointer } else { std::ptr::null() }
}

/// The bytes there.
///
/// # Safety
///
/// They must be readable and stay so.
pub(super) unsafe fn bytes<'a>(data: *const c_void, size: usize) -> &'a [u8] {
    if size == 0 {
        return &[];
    }
    // SAFETY: the caller vouches for the bytes.
    unsafe { std::slice::from_raw_parts(data.cast::<u8>(), size) }
}

/// A copy of a text; nothing for NULL.
///
/// # Safety
///
/// It must be one, or NULL.
pub(super) unsafe fn text(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: the caller vouches for the text.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}
