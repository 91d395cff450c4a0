//! Which bytes of a section its relocations may change.
//!
//! Invariant: a byte outside of all windows is as in the file.

use std::ops::Range;

use super::Fault;
use super::fields::{field_bytes, is_got_load};
use super::raw::Relocation;
use super::threads;

/// The windows of some relocations, which are sorted by offset.
pub(super) struct Windows {
    windows: Vec<Range<usize>>,
    is_entangled: Vec<bool>,
}

impl Windows {
    /// Finds the windows in the `bytes` bytes from `start` on. A window is the field of a relocation, and the instructions
    /// around it if the linker may rewrite them. `code` has the bytes of the section; empty in data.
    pub(super) fn new(
        relocations: &[Relocation],
        code: &[u8],
        start: u64,
        bytes: usize,
    ) -> Result<Windows, Fault> {
        let mut windows = Vec::with_capacity(relocations.len());
        for relocation in relocations {
            let Relocation { kind, offset, .. } = *relocation;
            let size = field_bytes(kind).ok_or_else(|| format!("unknown relocation {kind}"))?;
            let to = |at: u64| usize::try_from(at.checked_sub(start)?).ok();
            let rewritten = match kind {
                _ if code.is_empty() => None,
                _ if is_got_load(kind) => {
                    Some(offset.saturating_sub(2)..offset.saturating_add(size))
                }
                _ => threads::window(code, relocation),
            };
            let Range { start: first, end } =
                rewritten.unwrap_or(offset..offset.saturating_add(size));
            let window = to(first.max(start)).zip(to(end));
            let window = window.filter(|(_, end)| *end <= bytes);
            let (from, end) = window.ok_or_else(|| {
                format!("relocation {kind} at offset {offset:#x} is outside, or crosses a border")
            })?;
            windows.push(from..end);
        }
        let is_entangled = entangled(&windows);
        Ok(Windows { windows, is_entangled })
    }

    /// True when other relocations change bytes of this one's window.
    pub(super) fn is_entangled(&self, relocation: usize) -> bool {
        self.is_entangled[relocation]
    }

    /// The first byte outside of all windows that differs. Behind its end, `wanted` counts as zeroes.
    pub(super) fn difference(&self, wanted: &[u8], found: &[u8]) -> Option<usize> {
        if self.windows.is_empty() && wanted == found {
            return None;
        }
        let mut is_free = vec![true; found.len()];
        for window in &self.windows {
            is_free[window.clone()].fill(false);
        }
        let wanted = wanted.iter().chain(std::iter::repeat(&0));
        let mut bytes = wanted.zip(found).zip(is_free);
        bytes.position(|((wanted, found), is_free)| is_free && wanted != found)
    }
}

/// Which windows overlap others.
fn entangled(windows: &[Range<usize>]) -> Vec<bool> {
    let mut order: Vec<usize> = (0..windows.len()).collect();
    order.sort_by_key(|window| windows[*window].start);
    let mut is_entangled = vec![false; windows.len()];
    // The window that ends last, of those that have started.
    let mut furthest: Option<usize> = None;
    for window in order {
        if let Some(before) = furthest
            && windows[window].start < windows[before].end
        {
            is_entangled[window] = true;
            is_entangled[before] = true;
        }
        if furthest.is_none_or(|before| windows[before].end < windows[window].end) {
            furthest = Some(window);
        }
    }
    is_entangled
}
