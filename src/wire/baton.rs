//! The first word of a baton, the line in which a lane's synchronous calls and replies travel.
//!
//! ```text
//! word 0   63..11 hop number   10 fresh bit   9..4 inline bytes   3..1 kind   0 ring bit
//! word 1   target
//! words 2..7   inline bytes, up to 48; with the ring bit word 2 is the sender's ring position and 40 remain
//! ```
//!
//! 63 for the inline bytes says that the payload is in the lane's bulk buffer. The low half of the first inline word has its
//! bytes, the high half its offset in lines.
//!
//! The hop number grows by one with every handover, so a word is never mistaken for an earlier one. The fresh bit says that
//! code was written since the sender's last message: the receiver serialises its instruction stream before it runs anything.

use super::Kind;

const RING: u64 = 1;
const KIND_SHIFT: u32 = 1;
const BYTES_SHIFT: u32 = 4;
const FRESH: u64 = 1 << 10;
/// The bits of the word below the hop number.
pub(crate) const HOP_SHIFT: u32 = 11;

/// Inline bytes of a message without ring position.
pub(crate) const INLINE_BYTES_MAX: usize = 48;
/// Inline bytes of a message with a ring position.
pub(crate) const INLINE_BYTES_MAX_WITH_RING: usize = 40;

/// The number of inline bytes that stands for a payload in the bulk buffer.
const IN_BULK: usize = 63;

/// The decoded first word of a baton.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Word {
    pub(crate) hop: u64,
    pub(crate) kind: Kind,
    pub(crate) inline_bytes: usize,
    /// The payload lies in the lane's bulk buffer; the inline bytes are 8 and say where.
    pub(crate) bulk: bool,
    /// The message carries the sender's ring position: drain the ring up to it first.
    pub(crate) ring: bool,
    /// Code was written since the sender's last message.
    pub(crate) fresh: bool,
}

impl Word {
    /// The word to publish.
    #[inline]
    pub(crate) fn encode(self) -> u64 {
        debug_assert!(self.inline_bytes <= INLINE_BYTES_MAX);
        let bytes = if self.bulk { IN_BULK } else { self.inline_bytes };
        self.hop << HOP_SHIFT
            | (bytes as u64) << BYTES_SHIFT
            | (self.kind as u64) << KIND_SHIFT
            | if self.ring { RING } else { 0 }
            | if self.fresh { FRESH } else { 0 }
    }

    /// Decodes a word; `None` when `encode` cannot have made it.
    #[inline]
    pub(crate) fn decode(word: u64) -> Option<Self> {
        let kind = Kind::from_bits((word >> KIND_SHIFT & 7) as u8)?;
        let bytes = (word >> BYTES_SHIFT & 63) as usize;
        let bulk = bytes == IN_BULK;
        let inline_bytes = if bulk { 8 } else { bytes };
        let ring = word & RING != 0;
        let most = if ring { INLINE_BYTES_MAX_WITH_RING } else { INLINE_BYTES_MAX };
        let fresh = word & FRESH != 0;
        (inline_bytes <= most).then_some(Self {
            hop: hop_of(word),
            kind,
            inline_bytes,
            bulk,
            ring,
            fresh,
        })
    }
}

/// The inline word of a payload in the bulk buffer.
#[inline]
pub(crate) fn encode_place(line: usize, bytes: usize) -> u64 {
    (line as u64) << 32 | bytes as u64
}

/// Offset in lines and bytes of a payload in the bulk buffer.
#[inline]
pub(crate) fn decode_place(word: u64) -> (u64, u64) {
    (word >> 32, word & 0xffff_ffff)
}

/// The hop number of a word, of 53 bits.
#[inline]
pub(crate) fn hop_of(word: u64) -> u64 {
    word >> HOP_SHIFT
}

/// The hop number after `hop`.
#[inline]
pub(crate) fn next_hop(hop: u64) -> u64 {
    hop.wrapping_add(1) & (u64::MAX >> HOP_SHIFT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_round_trips_and_every_other_is_refused() {
        let mut accepted = 0;
        for low in 0..1_u64 << HOP_SHIFT {
            let raw = 9 << HOP_SHIFT | low;
            if let Some(word) = Word::decode(raw) {
                assert_eq!(word.encode(), raw);
                assert_eq!(word.hop, 9);
                accepted += 1;
            }
        }
        // 7 kinds, lengths 0..=48 and with the ring bit 0..=40, or in the bulk buffer; fresh bit free.
        assert_eq!(accepted, 7 * (50 + 42) * 2);
    }

    #[test]
    fn hops_wrap_at_53_bits() {
        let last = (1 << 53) - 1;
        assert_eq!(next_hop(last), 0);
        assert_eq!(next_hop(0), 1);
    }
}
