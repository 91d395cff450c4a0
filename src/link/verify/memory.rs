//! The memory of the image, as it will be in the executor.
//!
//! Invariant: reads only. Bytes that are not stored are zero, and there are none outside of the stripes.

use crate::output::image::Image;

/// An image at its addresses.
pub(super) struct Memory<'a> {
    bases: [u64; 3],
    image: &'a Image,
}

/// Indices of the stripes.
pub(super) const CODE: usize = 0;
pub(super) const DATA: usize = 2;

impl<'a> Memory<'a> {
    pub(super) fn new(bases: [u64; 3], image: &'a Image) -> Self {
        Self { bases, image }
    }

    /// The stripe that holds `bytes` bytes at an address, zero fill included.
    pub(super) fn stripe(&self, address: u64, bytes: u64) -> Option<usize> {
        let end = address.checked_add(bytes)?;
        let holds = |stripe: &usize| {
            let base = self.bases[*stripe];
            address >= base && end <= base + self.image.bytes[*stripe]
        };
        (0..3).find(holds)
    }

    /// The stored part of `bytes` bytes at an address: all, some or none of them.
    pub(super) fn stored(&self, address: u64, bytes: u64) -> Option<&'a [u8]> {
        let stripe = self.stripe(address, bytes)?;
        let start = address - self.bases[stripe];
        let content = &self.image.stripes[stripe];
        let limit = content.len() as u64;
        let (start, end) = (start.min(limit), (start + bytes).min(limit));
        content.get(usize::try_from(start).ok()?..usize::try_from(end).ok()?)
    }

    /// The `N` bytes at an address.
    pub(super) fn read<const N: usize>(&self, address: u64) -> Option<[u8; N]> {
        let mut bytes = [0; N];
        let stored = self.stored(address, N as u64)?;
        bytes[..stored.len()].copy_from_slice(stored);
        Some(bytes)
    }

    pub(super) fn u64_at(&self, address: u64) -> Option<u64> {
        self.read(address).map(u64::from_le_bytes)
    }

    pub(super) fn i32_at(&self, address: u64) -> Option<i32> {
        self.read(address).map(i32::from_le_bytes)
    }
}
