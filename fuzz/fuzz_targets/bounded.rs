//! How much memory a reader of bytes may take.

#[path = "../../tests/fuzz/allocator.rs"]
mod allocator;

#[global_allocator]
static ALLOCATOR: allocator::Counting = allocator::Counting;

/// Runs `work`, which takes at most `times` the memory of its input, and `more` bytes.
pub(crate) fn bounded<R>(input: &[u8], times: usize, more: usize, work: impl FnOnce() -> R) -> R {
    let (result, peak) = allocator::peak_of(work);
    let (peak, most) = (usize::try_from(peak).unwrap_or(0), times * input.len() + more);
    assert!(
        peak <= most,
        "{peak} bytes of memory for {} bytes, and {most} are allowed",
        input.len()
    );
    result
}
