//! Memory that the interpreter and executors map, for NumPy's arrays, and arguments that lie in it.
//!
//! An executor's arrays are blocks of one region, so a thousand arrays are one mapping. A block lives as long as Python refers to it,
//! also beyond the executor.

use std::alloc::Layout;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use farcall::controller::{Access, HeapBlock, Region, RegionHeap};
use farcall::types::Type;
use farcall::{Error, Result};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::error;
use crate::prototype::Target;

/// Arrays begin at a cache line; large ones at a page.
const LINE_BYTES: usize = 64;
const PAGE_BYTES: usize = 4096;
const LARGE_PAGE_BYTES: usize = 2 << 20;

/// The memory of an executor's arrays.
#[derive(Debug, Clone)]
pub(crate) struct Heap {
    heap: RegionHeap,
    /// The live blocks of arrays, by their addresses.
    blocks: Arc<Mutex<BTreeMap<u64, Weak<Block>>>>,
}

/// Memory of one array.
#[derive(Debug)]
pub(crate) struct Block {
    block: HeapBlock,
    heap: Heap,
    is_freed: AtomicBool,
}

impl Heap {
    /// A heap of `bytes` bytes of address space; memory is taken page by page.
    ///
    /// # Errors
    ///
    /// As [`Region::new`].
    pub(crate) fn new(bytes: u64) -> Result<Self> {
        let heap = RegionHeap::new(Region::new(bytes, Access::ReadWrite)?);
        Ok(Self { heap, blocks: Arc::default() })
    }

    /// The memory to attach.
    pub(crate) fn region(&self) -> &RegionHeap {
        &self.heap
    }

    /// Copies bytes, with a zero behind them, for one call.
    ///
    /// # Errors
    ///
    /// When the heap is full.
    pub(crate) fn copy(&self, bytes: &[u8]) -> Result<HeapBlock> {
        let block = self.heap.allocate(layout(bytes.len() + 1)?)?;
        self.heap.region().write_from(block.offset(), bytes);
        self.heap.region().write_from(block.offset() + bytes.len(), &[0_u8]);
        Ok(block)
    }

    /// Memory of zeros for an array.
    ///
    /// # Errors
    ///
    /// When the heap is full, or the system has no large pages.
    pub(crate) fn allocate(&self, bytes: usize, large_pages: bool) -> Result<Arc<Block>> {
        let mut layout = layout(bytes)?;
        if large_pages {
            let aligned = layout.align_to(LARGE_PAGE_BYTES);
            layout = aligned.map_or(layout, |aligned| aligned.pad_to_align());
        }
        let block = self.heap.allocate(layout)?;
        self.heap.region().discard(block.offset(), block.bytes())?;
        if large_pages {
            self.heap.region().use_large_pages(block.offset(), block.bytes())?;
        }
        let address = block.address().get();
        let block = Arc::new(Block { block, heap: self.clone(), is_freed: AtomicBool::new(false) });
        self.lock().insert(address, Arc::downgrade(&block));
        Ok(block)
    }

    /// The live block that these bytes lie in.
    fn find(&self, address: u64, bytes: u64) -> Option<Arc<Block>> {
        let blocks = self.lock();
        let (start, block) = blocks.range(..=address).next_back()?;
        let block = block.upgrade()?;
        let end = start + block.block.bytes() as u64;
        address.checked_add(bytes).is_some_and(|last| last <= end).then_some(block)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<u64, Weak<Block>>> {
        self.blocks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn layout(bytes: usize) -> Result<Layout> {
    let alignment = if bytes >= PAGE_BYTES { PAGE_BYTES } else { LINE_BYTES };
    let layout = Layout::from_size_align(bytes.max(1), alignment);
    layout.map_err(|_| Error::new(farcall::ErrorKind::InvalidArgument, format!("{bytes} bytes")))
}

impl Block {
    /// Gives the memory back to the system. The bytes are zeros from now on, until the block is dropped.
    ///
    /// # Errors
    ///
    /// In a forked child: the block is the parent's. For want of memory; the bytes then stay until the block is reused.
    fn free(&self) -> Result<()> {
        self.heap.heap.region().discard(self.block.offset(), self.block.bytes())?;
        // Relaxed: a call that runs at the same time may use the memory still.
        self.is_freed.store(true, Ordering::Relaxed);
        Ok(())
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        self.heap.lock().remove(&self.block.address().get());
        // What cannot be given back now stays until the block is reused.
        let _ = self.free();
    }
}

/// Memory of an executor's arrays. NumPy makes an array of it (`numpy.asarray`), which keeps it alive.
#[pyclass(frozen, module = "farcall._farcall")]
#[derive(Debug)]
pub(crate) struct Memory {
    block: Arc<Block>,
}

impl Memory {
    pub(crate) fn new(block: Arc<Block>) -> Self {
        Self { block }
    }
}

#[pymethods]
impl Memory {
    /// What NumPy reads: the memory as bytes.
    #[getter]
    fn __array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let interface = PyDict::new(py);
        interface.set_item("version", 3)?;
        interface.set_item("typestr", "|u1")?;
        interface.set_item("shape", (self.block.block.bytes(),))?;
        interface.set_item("data", (self.block.block.address().get(), false))?;
        Ok(interface)
    }

    /// Gives the memory back to the system now. Arrays in it have zeros from then on, and no call takes them.
    fn free(&self, py: Python<'_>) -> PyResult<()> {
        self.block.free().map_err(|error| error::raise(py, &error))
    }
}

/// What an argument for a pointer is in memory.
pub(crate) enum Found {
    /// In the executor's memory, at this address.
    Here(u64, Arc<Block>),
    /// In the interpreter's memory only.
    Elsewhere,
}

/// Looks at an array, and compares it with what a pointer leads to.
///
/// # Errors
///
/// `TypeError` for another `dtype`; `ValueError` when it is not contiguous, read-only, or its memory was freed.
pub(crate) fn look(
    heap: Option<&Heap>,
    target: &Target,
    interface: &Bound<'_, PyDict>,
) -> PyResult<Found> {
    let item = |name: &str| -> PyResult<Bound<'_, PyAny>> {
        let missing = || PyTypeError::new_err(format!("an array interface without {name}"));
        interface.get_item(name)?.ok_or_else(missing)
    };
    let kind: String = item("typestr")?.extract()?;
    let shape = item("shape")?;
    let shape = shape.cast::<PyTuple>()?;
    let (address, is_read_only): (u64, bool) = item("data")?.extract()?;
    let is_contiguous = match interface.get_item("strides")? {
        Some(strides) => strides.is_none(),
        None => true,
    };
    check_kind(target, &kind)?;
    if !is_contiguous {
        return Err(PyValueError::new_err(
            "the array is not contiguous: numpy.ascontiguousarray copies it",
        ));
    }
    if is_read_only && !target.is_const {
        return Err(PyValueError::new_err("the array is read-only, and the function may write it"));
    }
    let mut bytes = item_bytes(&kind)?;
    for extent in shape {
        bytes = bytes.saturating_mul(extent.extract()?);
    }
    let Some(block) = heap.and_then(|heap| heap.find(address, bytes)) else {
        return Ok(Found::Elsewhere);
    };
    if block.is_freed.load(Ordering::Relaxed) {
        return Err(PyValueError::new_err("the memory of the array was freed"));
    }
    Ok(Found::Here(address, block))
}

/// Compares NumPy's name of a type with what a pointer leads to.
fn check_kind(target: &Target, name: &str) -> PyResult<()> {
    let Some(kind) = &target.kind else { return Ok(()) };
    let is_right = match kind {
        Type::I8 if target.is_text => name == "|i1" || name == "|u1" || name.starts_with("|S"),
        // A record, or the bytes of several.
        Type::Struct(_) => name == format!("|V{}", kind.bytes()) || name == "|u1",
        Type::V128 | Type::Array(..) => true,
        kind => numpy_name(kind) == Some(name),
    };
    if is_right {
        return Ok(());
    }
    Err(PyTypeError::new_err(format!("an array of {name}, where the function takes {kind}")))
}

/// NumPy's name of a number's type.
pub(crate) fn numpy_name(kind: &Type) -> Option<&'static str> {
    Some(match kind {
        Type::F64 => "<f8",
        Type::F32 => "<f4",
        Type::I8 => "|i1",
        Type::U8 => "|u1",
        Type::I16 => "<i2",
        Type::U16 => "<u2",
        Type::I32 => "<i4",
        Type::U32 => "<u4",
        Type::I64 => "<i8",
        Type::U64 => "<u8",
        Type::Bool => "|b1",
        _ => return None,
    })
}

/// The size of an element by NumPy's name of its type.
fn item_bytes(name: &str) -> PyResult<u64> {
    let digits = name.get(2..).and_then(|digits| digits.parse::<u64>().ok());
    let one = || PyTypeError::new_err(format!("an array of {name}"));
    // NumPy counts the letters of its Unicode strings, of four bytes each.
    let bytes = digits.map(|digits| if name.contains('U') { digits * 4 } else { digits });
    bytes.ok_or_else(one)
}
