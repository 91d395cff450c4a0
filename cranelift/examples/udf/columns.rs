//! Columns of Arrow whose buffers lie in a region.
#![allow(unsafe_code, reason = "Arrow takes a buffer as an address and its owner")]

use std::alloc::Layout;
use std::panic::AssertUnwindSafe;
use std::ptr::NonNull;
use std::sync::Arc;

use arrow_array::{Array, Float64Array, RecordBatch};
use arrow_buffer::{Buffer, ScalarBuffer};
use arrow_schema::{DataType, Field, Schema};
use farcall::ExecutorAddr;
use farcall::controller::region::{HeapBlock, RegionHeap};

use crate::Failure;

/// The bytes of a column of 64-bit floating-point numbers, before Arrow reads them.
pub(crate) struct Column {
    block: HeapBlock,
    rows: usize,
}

impl Column {
    /// A column of any numbers.
    ///
    /// # Errors
    ///
    /// When the region is full.
    pub(crate) fn new(heap: &RegionHeap, rows: usize) -> Result<Self, Failure> {
        let block = heap.allocate(Layout::array::<f64>(rows)?)?;
        Ok(Self { block, rows })
    }

    /// The address in both processes.
    pub(crate) fn address(&self) -> ExecutorAddr {
        self.block.address()
    }

    /// The column as an array of Arrow, in place. The array frees it.
    ///
    /// # Safety
    ///
    /// From now on no code may write the column.
    pub(crate) unsafe fn into_array(self) -> Float64Array {
        let Self { block, rows } = self;
        let start = block.address().get() as *mut u8;
        let start = NonNull::new(start).expect("memory is mapped at the address");
        // SAFETY: the owner keeps the bytes mapped and allocated, and the caller vouches that no code writes them.
        let buffer = unsafe {
            Buffer::from_custom_allocation(
                start,
                rows * size_of::<f64>(),
                Arc::new(AssertUnwindSafe(block)),
            )
        };
        Float64Array::new(ScalarBuffer::new(buffer, 0, rows), None)
    }
}

/// A record batch of sales, in a region.
///
/// # Errors
///
/// When the region is full.
pub(crate) fn sales(heap: &RegionHeap, rows: usize) -> Result<RecordBatch, Failure> {
    let numbers = [("price", 0.25, 4096), ("quantity", 1.0, 50), ("discount", 0.01, 30)];
    let mut fields = Vec::new();
    let mut columns: Vec<Arc<dyn Array>> = Vec::new();
    for (name, unit, different) in numbers {
        let column = Column::new(heap, rows)?;
        let values: Vec<f64> = (0..rows).map(|row| (row * 7 % different) as f64 * unit).collect();
        heap.region().write_from(column.block.offset(), &values);
        // SAFETY: linked code cannot write the region, and the program does not any more.
        columns.push(Arc::new(unsafe { column.into_array() }));
        fields.push(Field::new(name, DataType::Float64, false));
    }
    Ok(RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)?)
}

/// The addresses of these columns of a batch, stored in the region for a kernel.
///
/// # Errors
///
/// When the batch has no such columns of 64-bit floating-point numbers, some rows have no value, or the region is full.
pub(crate) fn table(
    heap: &RegionHeap,
    batch: &RecordBatch,
    names: &[String],
) -> Result<HeapBlock, Failure> {
    let mut addresses = Vec::new();
    for name in names {
        let column =
            batch.column_by_name(name).ok_or_else(|| format!("there is no column {name}"))?;
        let numbers = column.as_any().downcast_ref::<Float64Array>();
        let numbers = numbers.filter(|numbers| numbers.null_count() == 0);
        let numbers = numbers
            .ok_or_else(|| format!("column {name} is {}, or has nulls", column.data_type()))?;
        addresses.push(numbers.values().as_ptr() as u64);
    }
    Ok(heap.copy(&addresses)?)
}
