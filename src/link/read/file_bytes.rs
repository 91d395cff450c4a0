//! The bytes of a file, or a part of them: those of a member inside its archive.
//!
//! Invariant: the range lies inside the file.

use std::ops::{Deref, Range};
use std::sync::Arc;

/// Bytes that an object was read from. Cheap to clone. They keep the whole file alive.
#[derive(Clone)]
pub(in crate::link) struct FileBytes {
    file: Arc<Vec<u8>>,
    range: Range<usize>,
}

impl FileBytes {
    /// A part of these bytes, without a copy; `None` when it is not inside.
    pub(in crate::link) fn part(&self, start: u64, bytes: u64) -> Option<Self> {
        let start = self.range.start.checked_add(usize::try_from(start).ok()?)?;
        let end = start.checked_add(usize::try_from(bytes).ok()?)?;
        (end <= self.range.end).then(|| Self { file: Arc::clone(&self.file), range: start..end })
    }
}

impl From<Vec<u8>> for FileBytes {
    /// Copies nothing. An `Arc<[u8]>` would need a copy.
    fn from(file: Vec<u8>) -> Self {
        let range = 0..file.len();
        Self { file: Arc::new(file), range }
    }
}

impl Deref for FileBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.file.get(self.range.clone()).unwrap_or_default()
    }
}
