//! The kinds of messages.

/// The kind of a message. Fits the 3 bits that a baton and a ring record have for it; 0 is no message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    /// Run the wrapper function at the target address (executor) or of that handler tag (controller).
    Call = 1,
    /// The result of a call.
    Result = 2,
    /// A call failed out of band: the payload is the message, as text.
    Failure = 3,
    /// The executor's first message: what it is and what it offers.
    Setup = 4,
    /// The session ends; the payload is an SPS status: success for an orderly end, or the reason.
    Hangup = 5,
    /// Part of the payload of the message that follows; as a baton: make room in my ring.
    Part = 6,
    /// There is room again.
    Continue = 7,
}

impl Kind {
    /// The kind with this number.
    pub(crate) fn from_bits(bits: u8) -> Option<Self> {
        Some(match bits {
            1 => Self::Call,
            2 => Self::Result,
            3 => Self::Failure,
            4 => Self::Setup,
            5 => Self::Hangup,
            6 => Self::Part,
            7 => Self::Continue,
            _ => return None,
        })
    }
}
