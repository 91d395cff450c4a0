//! Memory that the interpreter and executors map, for NumPy's arrays.
//!
//! An executor's arrays are blocks of one region, so a thousand arrays are one mapping. A block lives while Python refers to it,
//! also beyond the executor.

use std::alloc::Layout;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use farcall::controller::region::{Access, HeapBlock, Region, RegionHeap};
use farcall::{Error, Result};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::error;

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
    pub(crate) fn find(&self, address: u64, bytes: u64) -> Option<Arc<Block>> {
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
    /// Refuses memory that was given back.
    ///
    /// # Errors
    ///
    /// `ValueError`.
    pub(crate) fn check_live(&self) -> PyResult<()> {
        match self.is_freed.load(Ordering::Relaxed) {
            false => Ok(()),
            true => Err(PyValueError::new_err("the memory of the array was freed")),
        }
    }

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
        // Memory that cannot be given back now stays until the block is reused.
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
    /// The memory as bytes, for NumPy.
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
