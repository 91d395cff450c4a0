//! The report of a link.

use std::time::Duration;

use crate::link::Image;

/// The counts of one link, and the times of its phases.
///
/// # Examples
///
/// ```standalone_crate
/// # farcall::executor::run_if_spawned();
/// # let executor = farcall::controller::ExecutorBuilder::new().this_program().start()?;
/// let library = executor.library("empty");
/// let report = library.link()?;
/// assert_eq!((report.objects, report.bytes), (0, 0));
/// # Ok::<(), farcall::Error>(())
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct LinkReport {
    /// Objects linked, archive members included.
    pub objects: u64,
    /// Sections that became part of the image.
    pub sections: u64,
    /// Relocations applied.
    pub relocations: u64,
    /// Bytes of the image, zero-fill included.
    pub bytes: u64,
    /// Time to search archives, and to read the members that are needed.
    pub pull: Duration,
    /// Time to look symbols up, first in the dylib, then in the executor.
    pub look_up: Duration,
    /// Time to lay the image out, and to allocate its memory.
    pub layout: Duration,
    /// Time to make the image for its addresses; in debug builds with its check.
    pub fixup: Duration,
    /// Time to store the image, and to post its actions.
    pub transfer: Duration,
}

impl LinkReport {
    /// The time of a step.
    pub(super) fn time(&mut self, step: LinkStep) -> &mut Duration {
        match step {
            LinkStep::Pull => &mut self.pull,
            LinkStep::LookUp => &mut self.look_up,
            LinkStep::Layout => &mut self.layout,
            LinkStep::Fixup => &mut self.fixup,
            LinkStep::Transfer => &mut self.transfer,
        }
    }

    /// Counts the contents of an image.
    pub(super) fn count(&mut self, image: &Image) {
        self.objects = image.stats.objects;
        self.sections = image.stats.sections;
        self.relocations = image.stats.relocations;
        self.bytes = image.stats.bytes;
    }
}

/// A step of a link, for [`Dylib::link_with`](crate::controller::Library::link_with).
///
/// # Examples
///
/// ```standalone_crate
/// # farcall::executor::run_if_spawned();
/// # let executor = farcall::controller::ExecutorBuilder::new().this_program().start()?;
/// use farcall::controller::plugin::LinkStep;
///
/// let library = executor.library("program");
/// // An object comes from a compiler: library.add_object(&ObjectFile::parse("a.o", bytes)?)?;
/// let mut steps = Vec::new();
/// library.link_with(&mut |ended| steps.push(ended))?;
/// assert_eq!(steps, [], "nothing was added");
/// # Ok::<(), farcall::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum LinkStep {
    /// Archives were searched, and the members that are needed were read.
    Pull,
    /// Symbols were looked up.
    LookUp,
    /// The image was laid out, and its memory was allocated.
    Layout,
    /// The image was made for its addresses.
    Fixup,
    /// The image was stored, and its actions were posted.
    Transfer,
}
