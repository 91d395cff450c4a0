//! The request to an executor that was forked ahead of it.

use std::os::fd::BorrowedFd;

use super::LaneOpener;
use crate::deadline::Deadline;
use crate::error::Result;
use crate::transport::control;
use crate::wire::control::ControlMessage;

impl LaneOpener {
    /// Sends the request with the standard streams and the working directory. The executor's main thread waits at the socket, so the
    /// doorbell does not ring. Never waits.
    ///
    /// # Errors
    ///
    /// When it has ended.
    pub(in crate::controller::process) fn send_request(
        &self,
        files: &[BorrowedFd<'_>],
    ) -> Result<()> {
        self.lanes.origin().check()?;
        control::send(self.socket()?, &ControlMessage::Take, files, Deadline::now())
    }
}
