//! Attaching a region to an executor, which maps it then.

use std::sync::Arc;

use super::Region;
use crate::ExecutorAddr;
use crate::controller::session::{Process, Session};
use crate::error::{Error, Result};

/// A region in an executor, which unmaps it when this value is dropped. Linked code must not use the region then.
///
/// The region itself lives on, also beyond the executor.
///
/// # Examples
///
/// ```standalone_crate
/// # farcall::executor::run_if_spawned();
/// # let process = farcall::controller::ExecutorBuilder::new().this_program().start()?.process()?;
/// # let start = || farcall::controller::ExecutorBuilder::new().this_program().start()?.process();
/// use farcall::controller::region::{Access, Region};
///
/// let region = Region::new(4096, Access::ReadWrite)?;
/// let attached = process.attach(&region)?;
/// let address = attached.address();
/// process.kill(); // the executor may die; the region does not
/// let next = start()?;
/// assert_eq!(next.attach(&region)?.address(), address);
/// # Ok::<(), farcall::Error>(())
/// ```
#[derive(Debug)]
pub struct AttachedRegion {
    session: Arc<Session>,
    /// The region's address in this process.
    region: ExecutorAddr,
    address: ExecutorAddr,
    is_detached: bool,
}

impl Process {
    /// Makes the executor map a region at the region's own [address](Region::address), so that addresses stored in it are right.
    /// Sends one message. A region may be attached to several executors at the same time.
    ///
    /// # Errors
    ///
    /// - Other memory of the executor is at that address; [`attach_anywhere`](Process::attach_anywhere) takes another.
    /// - The region is attached to this executor already.
    /// - The executor has no address space left.
    /// - It does not answer in [`ATTACH_TIMEOUT`](crate::limits::ATTACH_TIMEOUT), or the session is over.
    pub fn attach(&self, region: &Region) -> Result<AttachedRegion> {
        let attached = self.attach_anywhere(region)?;
        if attached.address == region.address() {
            return Ok(attached);
        }
        Err(Error::exhausted(format!(
            "the executor has other memory at {}, where the region of {} bytes belongs: attach_anywhere takes another address, for \
             which addresses stored in the region are wrong",
            region.address(),
            region.bytes()
        )))
    }

    /// As [`attach`](Process::attach), at another address if the region's own is taken.
    ///
    /// # Errors
    ///
    /// The others of [`attach`](Process::attach).
    pub fn attach_anywhere(&self, region: &Region) -> Result<AttachedRegion> {
        let address = self.session.memory().attach(region);
        let address = address.map_err(|error| error.during("attaching a region"))?;
        let session = Arc::clone(&self.session);
        Ok(AttachedRegion { session, region: region.address(), address, is_detached: false })
    }
}

impl AttachedRegion {
    /// The executor's address of the region's first byte.
    #[must_use]
    pub fn address(&self) -> ExecutorAddr {
        self.address
    }

    /// Makes the executor unmap the region, as a drop does, and says whether that worked. Sends one message.
    ///
    /// # Errors
    ///
    /// When the executor does not answer in [`ATTACH_TIMEOUT`](crate::limits::ATTACH_TIMEOUT), or the session is over.
    pub fn detach(mut self) -> Result<()> {
        self.is_detached = true;
        let detached = self.session.memory().detach(self.region);
        detached.map_err(|error| error.during("detaching a region"))
    }
}

impl Drop for AttachedRegion {
    fn drop(&mut self) {
        // In a forked child of the controller the attachment belongs to the parent.
        if !self.is_detached && self.session.remote().supervisor().is_own() {
            // An executor that has ended has nothing mapped.
            let _ = self.session.memory().detach(self.region);
        }
    }
}
