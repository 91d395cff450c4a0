//! Trust in a peer, as a type.

use std::fmt;

/// A channel to a peer that this process has decided to trust, and why. The controller at the other end of an executor's channel
/// can run any code here, so that is the decision which matters most. Each of the three reasons has a constructor of its own.
#[derive(Debug)]
pub(crate) struct VettedPeer<C> {
    channel: C,
    trust: Trust,
}

/// Why a peer is trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trust {
    Inherited,
    Checked,
    Unchecked,
}

impl<C> VettedPeer<C> {
    /// The parent of this process has left the channel open for it, and could have made it run any code without that.
    pub(crate) fn inherited(channel: C) -> Self {
        Self { channel, trust: Trust::Inherited }
    }

    /// The peer has shown that it may, by a token.
    pub(crate) fn checked(channel: C) -> Self {
        Self { channel, trust: Trust::Checked }
    }

    /// The peer is known by its address only: any process behind that address is trusted.
    pub(crate) fn unchecked(channel: C) -> Self {
        Self { channel, trust: Trust::Unchecked }
    }

    /// Why the peer is trusted.
    pub(crate) fn trust(&self) -> Trust {
        self.trust
    }

    /// The channel, for the conversation that it was opened for.
    pub(crate) fn take(self) -> C {
        self.channel
    }
}

impl fmt::Display for Trust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Inherited => "inherited from the parent of this process",
            Self::Checked => "checked by its token",
            Self::Unchecked => "not checked, and known by its address only",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // VettedPeerTest

    #[test]
    fn take_yields_the_channel() {
        for (peer, trust) in [
            (VettedPeer::inherited(Box::new(7)), Trust::Inherited),
            (VettedPeer::checked(Box::new(7)), Trust::Checked),
            (VettedPeer::unchecked(Box::new(7)), Trust::Unchecked),
        ] {
            assert_eq!(peer.trust(), trust);
            assert_eq!(*peer.take(), 7);
        }
    }
}
