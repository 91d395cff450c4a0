//! Memory of this process for an image.

#![allow(unsafe_code, reason = "memory to run code in")]

use farcall_link::{Error, ExecutorAddr, Image, Layout, Place, Result};

const PAGE_BYTES: u64 = 4096;

/// Memory for the three stripes of an image, one behind the other.
pub(crate) struct Memory {
    start: *mut libc::c_void,
    /// The size of each stripe, in whole pages.
    bytes: [usize; 3],
}

impl Memory {
    /// As much as the layout asks for, and its place.
    pub(crate) fn new(layout: &Layout) -> Result<(Memory, Place)> {
        if layout.thread_bytes().0 > 0 {
            return Err(Error::other("thread-locals: this example has no place for them"));
        }
        if layout.alignments().iter().any(|alignment| *alignment > PAGE_BYTES) {
            return Err(Error::other("a section with an alignment of more than a page"));
        }
        let bytes = layout.bytes().map(|bytes| bytes.next_multiple_of(PAGE_BYTES));
        let bytes = bytes.map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
        let all = bytes.iter().sum::<usize>().max(1);
        let (rights, kind) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: new memory at an address that the kernel chooses overlaps no other.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), all, rights, kind, -1, 0) };
        if start == libc::MAP_FAILED {
            return Err(Error::other(std::io::Error::last_os_error()));
        }
        let first = start as u64;
        let bases = [first, first + bytes[0] as u64, first + (bytes[0] + bytes[1]) as u64];
        Ok((
            Memory { start, bytes },
            Place { bases: bases.map(ExecutorAddr::new), thread_offset: 0 },
        ))
    }

    /// Stores the image, chooses its ifuncs and runs its initializers.
    ///
    /// # Safety
    /// The image was linked for this memory, and its code may run.
    pub(crate) unsafe fn load(&self, image: &Image) -> Result<()> {
        let mut start = self.start.cast::<u8>();
        let rights = [
            libc::PROT_READ | libc::PROT_EXEC,
            libc::PROT_READ,
            libc::PROT_READ | libc::PROT_WRITE,
        ];
        for ((stripe, bytes), rights) in image.stripes.iter().zip(self.bytes).zip(rights) {
            // SAFETY: the stripe is no longer than its memory.
            unsafe { start.copy_from_nonoverlapping(stripe.as_ptr(), stripe.len()) };
            // SAFETY: these pages belong to this memory, and nothing runs in them yet.
            if unsafe { libc::mprotect(start.cast(), bytes, rights) } != 0 {
                return Err(Error::other(std::io::Error::last_os_error()));
            }
            // SAFETY: it stays in the memory, or just behind it.
            start = unsafe { start.add(bytes) };
        }
        for ifunc in &image.ifuncs {
            // SAFETY: the caller vouches for the code; a resolver takes nothing and returns an address.
            let resolver: extern "C" fn() -> u64 = unsafe { function(ifunc.resolver) };
            // SAFETY: the slot lies in the image's data.
            unsafe { (ifunc.slot.get() as *mut u64).write(resolver()) };
        }
        let Some(init) = image.init else { return Ok(()) };
        for at in (init.start.get()..init.end.get()).step_by(8) {
            // SAFETY: the array lies in the image.
            let address = ExecutorAddr::new(unsafe { (at as *const u64).read() });
            // SAFETY: the caller vouches for the code.
            let initializer: extern "C" fn() = unsafe { function(address) };
            initializer();
        }
        Ok(())
    }
}

/// The function at an address.
///
/// # Safety
/// There is one of type `F`, a type of function pointers.
pub(crate) unsafe fn function<F: Copy>(address: ExecutorAddr) -> F {
    assert_eq!(size_of::<F>(), size_of::<u64>());
    // SAFETY: the caller vouches for the function; an address is as large as its pointer.
    unsafe { std::mem::transmute_copy(&address.get()) }
}
