//! The rows that farcall is compared with: other ways to make a round trip, one file each, and the tables that list them.
//!
//! Invariant: both sides of a transport are in its file, so that they are changed together. A new transport is its file and its
//! lines here.

pub(crate) mod copy;
mod eventfd;
pub(crate) mod executor;
pub(crate) mod floor;
pub(crate) mod futex;
#[cfg(feature = "iceoryx2")]
mod iceoryx;
pub(crate) mod kernel;
mod local;
#[cfg(feature = "shaq")]
mod shaq;
pub(crate) mod transport;

use crate::processes::server::Service;
use crate::transports::transport::Transport;

/// The transports that `--vs` accepts.
pub(crate) const TRANSPORTS: &[Transport] = &[
    kernel::OVER_PIPES,
    kernel::OVER_UNIX_STREAM,
    kernel::OVER_TCP,
    futex::TRANSPORT,
    eventfd::TRANSPORT,
    local::TRANSPORT,
    #[cfg(feature = "iceoryx2")]
    iceoryx::TRANSPORT,
    #[cfg(feature = "shaq")]
    shaq::TRANSPORT,
];

/// The servers that the peer process can make.
pub(crate) const SERVICES: &[Service] = &[
    floor::TwoLines::SERVICE,
    floor::OneLine::SERVICE,
    copy::SERVICE,
    futex::SERVICE,
    kernel::SERVICE,
    eventfd::SERVICE,
    #[cfg(feature = "iceoryx2")]
    iceoryx::SERVICE,
    #[cfg(feature = "shaq")]
    shaq::SERVICE,
    executor::SERVICE,
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn no_two_transports_and_no_two_services_have_the_same_name() {
        let words: HashSet<_> = TRANSPORTS.iter().map(|one| one.word).collect();
        assert_eq!(words.len(), TRANSPORTS.len());
        let names: HashSet<_> = SERVICES.iter().map(|one| one.name).collect();
        assert_eq!(names.len(), SERVICES.len());
    }
}
