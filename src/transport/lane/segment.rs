//! The segment of a lane: made by the controller, checked by the executor that receives it.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::shm::Segment;
use crate::sync::Ordering;
use crate::wire::layout::{FIXED_WORDS, HEADER, SEGMENT_WORDS, SPIN_NS_WORD, VERSION};

/// Makes the segment of a lane on which both sides poll for `spin` before they sleep. Also returns its descriptor, which the
/// caller may close once it is sent.
///
/// # Errors
///
/// When memory or descriptors run out.
pub(crate) fn create(spin: Duration) -> Result<(Arc<Segment>, OwnedFd)> {
    let mut segment = Segment::create(c"farcall-lane", SEGMENT_WORDS as u64 * 8, false)?;
    segment.back(0, FIXED_WORDS as u64 * 8)?;
    for (word, value) in segment.words().iter().zip(HEADER) {
        word.store(value, Ordering::Release);
    }
    let spin_ns = spin.as_nanos().try_into().unwrap_or(u64::MAX);
    segment.words()[SPIN_NS_WORD].store(spin_ns, Ordering::Release);
    let file = segment.take_file();
    let file = file.ok_or_else(|| Error::invalid("a segment without its descriptor"))?;
    Ok((Arc::new(segment), file))
}

/// Maps the segment of a lane that came over a socket.
///
/// # Errors
///
/// When its size is not sealed, or it is not the segment of a lane of this version.
pub(crate) fn open(file: OwnedFd) -> Result<Arc<Segment>> {
    let mut segment = Segment::open(file)?;
    drop(segment.take_file());
    let segment = Arc::new(segment);
    let words = segment.words();
    let header = HEADER.iter().zip(words).map(|(_, word)| word.load(Ordering::Acquire));
    if words.len() != SEGMENT_WORDS || !header.eq(HEADER) {
        return Err(Error::violation(format!(
            "a segment of {} bytes that is not of version {VERSION}: controller and executor must be of one build",
            words.len() * 8
        )));
    }
    Ok(segment)
}
