//! Regions: memory of this program that executors map as well.

use std::alloc::Layout;
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::{Arc, Mutex, PoisonError};

use farcall::controller::region::{Access, HeapBlock, RegionHeap};

use super::buffer::Out;
use super::error::{Error, invalid};
use super::life::{LiveProcess, Process};
use super::object::{self, Number, Object};

/// Memory of this program that executors map as well. A number, as farcall_executor is one. It belongs to no executor, and outlives
/// executors.
#[derive(Debug)]
pub struct Region {
    /// No value of this type exists: its address is a number.
    _nobody: std::convert::Infallible,
}

pub(crate) struct LiveRegion {
    pub(crate) heap: RegionHeap,
    /// The blocks of the heap, by their offsets.
    blocks: Mutex<BTreeMap<u64, HeapBlock>>,
}

impl Object for LiveRegion {
    type Handle = Region;
    const WHAT: &'static str = "region";
}

/// Makes a region of this many bytes, zero at first. If is_read_only is true, a store of linked code ends the executor; this
/// program may write. Pages take memory when they are touched.
///
/// # Safety
///
/// region must be writable.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn farcall_region_create(
    bytes: u64,
    is_read_only: bool,
    region: *mut *mut Region,
) -> *mut Error {
    // SAFETY: the caller vouches that the pointer is writable.
    Out::stored(unsafe { Out::new(region, "region", std::ptr::null_mut()) }, || {
        let access = if is_read_only { Access::ReadOnly } else { Access::ReadWrite };
        let heap = RegionHeap::new(farcall::controller::region::Region::new(bytes, access)?);
        let made = LiveRegion { heap, blocks: Mutex::default() };
        Number::new().name(None, Arc::new(made))
    })
}

/// Stores where the region is in this program, and its size. The bytes stay mapped until farcall_region_dispose. Linked code may
/// write them at any moment: use atomics for what both sides write, or wait for calls. May be NULL: bytes.
///
/// # Safety
///
/// data and bytes must be writable.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn farcall_region_data(
    region: *mut Region,
    data: *mut *mut c_void,
    bytes: *mut u64,
) -> *mut Error {
    Error::of(|| {
        // SAFETY: the caller vouches that the pointer is writable.
        let place = unsafe { Out::new(data, "data", std::ptr::null_mut()) }?;
        let region = object::find::<LiveRegion>(region)?;
        place.write(region.heap.region().as_ptr().cast());
        if !bytes.is_null() {
            // SAFETY: the caller vouches that the pointer is writable.
            unsafe { bytes.write(region.heap.region().bytes()) };
        }
        Ok(())
    })
}

/// Makes an executor map the region, and stores the executor's address of its first byte. That is the address in this program, so
/// addresses in the region are right on both sides. If is_anywhere is true, it is another one where other memory is there.
/// Sends one message. A region may be attached to several executors, to each once.
///
/// # Safety
///
/// address must be writable.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn farcall_region_attach(
    region: *mut Region,
    process: *mut Process,
    is_anywhere: bool,
    address: *mut u64,
) -> *mut Error {
    // SAFETY: the caller vouches that the pointer is writable.
    Out::stored(unsafe { Out::new(address, "address", 0) }, || {
        let live = object::find::<LiveProcess>(process)?;
        let found = object::find::<LiveRegion>(region)?;
        let attach = |region| match is_anywhere {
            true => live.process.attach_anywhere(region),
            false => live.process.attach(region),
        };
        let attached = attach(found.heap.region())?;
        let at = attached.address().get();
        live.lock_regions().insert(Number::of(region), attached);
        Ok(at)
    })
}

/// Makes an executor unmap the region. Linked code must not use it then. Sends one message.
#[unsafe(no_mangle)]
#[must_use]
pub extern "C" fn farcall_region_detach(region: *mut Region, process: *mut Process) -> *mut Error {
    object::with::<LiveProcess>(process, |live| {
        let attached = live.lock_regions().remove(&Number::of(region));
        attached.ok_or_else(|| invalid("the region is not attached to this executor"))?.detach()
    })
}

/// Does something with a part of a region.
fn with_part(
    region: *mut Region,
    offset: usize,
    bytes: usize,
    work: impl FnOnce(&farcall::controller::region::Region, usize, usize) -> farcall::Result<()>,
) -> *mut Error {
    object::with::<LiveRegion>(region, |region| {
        let region = region.heap.region();
        let end = offset.checked_add(bytes).filter(|end| *end as u64 <= region.bytes());
        let outside = || invalid(format!("{bytes} bytes from the offset {offset} of the region"));
        end.ok_or_else(outside)?;
        work(region, offset, bytes)
    })
}

/// Takes the memory of a part of the region now. Without this a page is taken when it is first touched, and if the system has no memory
/// left then, it kills a process.
#[unsafe(no_mangle)]
#[must_use]
pub extern "C" fn farcall_region_populate(
    region: *mut Region,
    offset: usize,
    bytes: usize,
) -> *mut Error {
    with_part(region, offset, bytes, |region, offset, bytes| region.populate(offset, bytes))
}

/// Takes the memory of a part of the region now, in pages of 2 MiB. FARCALL_SYSTEM if the system has none.
#[unsafe(no_mangle)]
#[must_use]
pub extern "C" fn farcall_region_use_large_pages(
    region: *mut Region,
    offset: usize,
    bytes: usize,
) -> *mut Error {
    with_part(region, offset, bytes, |region, offset, bytes| region.use_large_pages(offset, bytes))
}

/// Gives the whole pages of a part of the region back to the system. They are zero then.
#[unsafe(no_mangle)]
#[must_use]
pub extern "C" fn farcall_region_discard(
    region: *mut Region,
    offset: usize,
    bytes: usize,
) -> *mut Error {
    with_part(region, offset, bytes, |region, offset, bytes| region.discard(offset, bytes))
}

/// Allocates a block of the region's heap, and stores its offset. All of the region is the heap: a program that places data itself
/// allocates nothing. The bytes are zero, or those of an earlier block. alignment is a power of two. FARCALL_LIMIT if no free
/// part is large enough.
///
/// # Safety
///
/// offset must be writable.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn farcall_region_allocate(
    region: *mut Region,
    size: usize,
    alignment: usize,
    offset: *mut u64,
) -> *mut Error {
    // SAFETY: the caller vouches that the pointer is writable.
    Out::stored(unsafe { Out::new(offset, "offset", 0) }, || {
        let region = object::find::<LiveRegion>(region)?;
        let layout = Layout::from_size_align(size, alignment);
        let layout = layout.map_err(|_| invalid(format!("{size} bytes aligned to {alignment}")))?;
        let block = region.heap.allocate(layout)?;
        let at = block.offset() as u64;
        region.blocks.lock().unwrap_or_else(PoisonError::into_inner).insert(at, block);
        Ok(at)
    })
}

/// Frees the block at an offset, which farcall_region_allocate has stored. Linked code must not use it then.
#[unsafe(no_mangle)]
#[must_use]
pub extern "C" fn farcall_region_free(region: *mut Region, offset: u64) -> *mut Error {
    object::with::<LiveRegion>(region, |region| {
        let block = region.blocks.lock().unwrap_or_else(PoisonError::into_inner).remove(&offset);
        block.map(drop).ok_or_else(|| invalid(format!("no block is at the offset {offset}")))
    })
}

/// Unmaps the region here. Executors that have it attached keep it until they end. No thread may use its bytes then. May be NULL:
/// region.
#[unsafe(no_mangle)]
#[must_use]
pub extern "C" fn farcall_region_dispose(region: *mut Region) -> *mut Error {
    object::dispose::<LiveRegion>(region)
}
