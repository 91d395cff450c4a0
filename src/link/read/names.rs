//! Names of symbols: which can be read, and their hashes.
//!
//! A name stays where it is in its file. Its hash is computed once, when the file is read, and all tables of names use it.
//!
//! Invariant: equal names have equal hashes in one process. Another process hashes differently, so that no file can be made
//! whose names all fall together.

use std::hash::BuildHasher;
use std::sync::LazyLock;

use foldhash::fast::RandomState;

/// The hash of a name.
pub(in crate::link) fn hash(name: &[u8]) -> u64 {
    static STATE: LazyLock<RandomState> = LazyLock::new(RandomState::default);
    STATE.hash_one(name)
}

/// True for UTF-8 without control characters. Names appear in messages, which are one line each.
pub(super) fn is_printable(name: &[u8]) -> bool {
    let is_plain = |byte: &u8| (0x20..0x7f).contains(byte);
    // Nearly all names are ASCII, for which this is one comparison for 16 bytes or more.
    name.iter().fold(true, |all, byte| all & is_plain(byte))
        || std::str::from_utf8(name).is_ok_and(|text| !text.contains(char::is_control))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_messages_cannot_show_is_not_printable() {
        for name in ["", "main", "_ZN4coreE", "grün", "a b", "~"] {
            assert!(is_printable(name.as_bytes()), "{name}");
        }
        for name in [&b"a\nb"[..], b"\x7f", b"\xff", "\u{85}".as_bytes(), b"x\0"] {
            assert!(!is_printable(name), "{name:?}");
        }
    }

    #[test]
    fn equal_names_have_equal_hashes() {
        assert_eq!(hash(b"main"), hash(&b"xmainx"[1..5]));
        assert_ne!(hash(b"main"), hash(b"mair"));
    }
}
