//! Memory of the controller that is attached to this executor: each one a memory file, mapped whole and shared.
//!
//! The acceptor's thread maps a file when it arrives, since only that thread has its descriptor, and closes it. The call that
//! attaches the file learns the address. Forked children go on to share the memory.

use std::collections::HashMap;
use std::os::fd::OwnedFd;

use crate::error::{Error, Result};
use crate::limits::ATTACH_TIMEOUT;
use crate::sync::{Condvar, Mutex};
use crate::sys::memory::map::Reservation;
use crate::sys::memory::memfd;
use crate::{ExecutorAddr, Prot};

/// The attached regions, by the address that the controller has for it.
#[derive(Debug, Default)]
pub(crate) struct Attached {
    maps: Mutex<HashMap<ExecutorAddr, Result<Reservation>>>,
    arrived: Condvar,
}

impl Attached {
    /// Maps a file at `wanted`, or elsewhere if that is taken, and keeps it under that address. A file that is sealed against
    /// writers is mapped for reading only.
    pub(crate) fn map(&self, wanted: ExecutorAddr, file: Result<OwnedFd>) {
        let mut maps = self.maps.lock();
        // A leftover of an attachment that the controller did not wait for. It may have the wanted address.
        maps.remove(&wanted);
        maps.insert(wanted, file.and_then(|file| map(wanted, &file)));
        self.arrived.notify_all();
    }

    /// The address where the memory is, which the controller calls `wanted`. It was sent before.
    ///
    /// # Errors
    ///
    /// The reason for which it was not mapped; when it has not arrived in [`ATTACH_TIMEOUT`].
    pub(crate) fn wait(&self, wanted: ExecutorAddr) -> Result<ExecutorAddr> {
        let waits = |maps: &mut HashMap<_, _>| !maps.contains_key(&wanted);
        let maps = self.arrived.wait_timeout_while(self.maps.lock(), ATTACH_TIMEOUT, waits);
        match maps.get(&wanted) {
            Some(Ok(map)) => Ok(map.range().start),
            Some(Err(error)) => Err(error.clone()),
            None => Err(Error::timeout(format!("no memory has arrived for {wanted}"))),
        }
    }

    /// How many regions there are.
    pub(crate) fn count(&self) -> usize {
        self.maps.lock().len()
    }

    /// Unmaps what the controller calls `wanted`.
    ///
    /// # Errors
    ///
    /// When it is not attached.
    pub(crate) fn detach(&self, wanted: ExecutorAddr) -> Result<()> {
        let removed = self.maps.lock().remove(&wanted);
        removed.map(drop).ok_or_else(|| Error::invalid(format!("nothing is attached for {wanted}")))
    }
}

fn map(wanted: ExecutorAddr, file: &OwnedFd) -> Result<Reservation> {
    let bytes = memfd::sealed_bytes(file)?;
    let is_constant = memfd::is_sealed_against_writers(file)?;
    let prot = if is_constant { Prot::Constants } else { Prot::Data };
    let map = match Reservation::at(wanted.get(), bytes)? {
        Some(map) => map,
        None => Reservation::new(bytes)?,
    };
    map.map(0, bytes, prot, file)?;
    Ok(map)
}
