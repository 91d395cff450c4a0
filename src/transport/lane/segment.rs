//! The segment of a lane: made by the controller, checked by the executor that receives it.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::shm::Segment;
use crate::sync::Ordering;
use crate::transport::wait::poll_policy::PollPolicy;
use crate::wire::hello::check_segment;
use crate::wire::layout::{FIXED_WORDS, HEADER, SEGMENT_WORDS, SPIN_NS_WORD};

/// Makes the segment of a lane whose sides poll by this policy. Also returns its descriptor, which the caller may close once it
/// is sent.
///
/// # Errors
///
/// When memory or descriptors run out.
pub(crate) fn create(policy: PollPolicy) -> Result<(Arc<Segment>, OwnedFd)> {
    let mut segment = Segment::create(c"farcall-lane", SEGMENT_WORDS as u64 * 8, false)?;
    segment.back(0, FIXED_WORDS as u64 * 8)?;
    for (word, value) in segment.words().iter().zip(HEADER) {
        word.store(value, Ordering::Release);
    }
    policy.store(&segment.words()[SPIN_NS_WORD]);
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
    let name = format!("a segment of {} bytes", segment.words().len() * 8);
    check(&segment, HEADER, SEGMENT_WORDS, &name)?;
    Ok(Arc::new(segment))
}

/// Refuses a segment with another header than the `due` one, or of another size than `words`. `name` says which segment.
///
/// # Errors
///
/// `ErrorKind::Violation`, with both versions where the segment has one.
pub(crate) fn check(segment: &Segment, due: [u64; 4], words: usize, name: &str) -> Result<()> {
    let mut header = [0; 4];
    for (value, word) in header.iter_mut().zip(segment.words()) {
        *value = word.load(Ordering::Acquire);
    }
    check_segment(header, due, name)?;
    match segment.words().len() == words {
        true => Ok(()),
        false => Err(Error::violation(format!("{name} of another size than its header says"))),
    }
}
