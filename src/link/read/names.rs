//! Names of symbols: which can be read, their versions, and their hashes.
//!
//! A name stays where it is in its file. Its hash is computed once, when the file is read, and all tables of names use it.
//!
//! Invariant: equal names have equal hashes in one process. Another process hashes differently, so that no file can be made
//! whose names all fall together.

use std::hash::BuildHasher;
use std::sync::LazyLock;

use foldhash::fast::RandomState;

/// The hash of a name.
pub(crate) fn hash(name: &[u8]) -> u64 {
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

/// The parts of a name with a version, as `.symver` makes it: the name, the version, and whether that is the default one. The name
/// without a version means the default version too.
///
/// | symbol | is |
/// |---|---|
/// | `api@@V2` | the default version |
/// | `api@V1` | another version, or a reference to any |
pub(crate) fn version_of(name: &[u8]) -> Option<(&[u8], &[u8], bool)> {
    // Finds nothing in nearly all names, several bytes at a time.
    if !name.contains(&b'@') {
        return None;
    }
    let (stem, rest) = name.split_at(name.iter().position(|byte| *byte == b'@')?);
    let (version, is_default) = match rest {
        [b'@', b'@', version @ ..] => (version, true),
        [_, version @ ..] => (version, false),
        [] => return None,
    };
    let is_sound = !stem.is_empty() && !version.is_empty() && version[0] != b'@';
    is_sound.then_some((stem, version, is_default))
}

/// The name under which an archive lists the definition that a reference to `api@V2` may mean: `api@@V2`.
pub(crate) fn as_default(name: &[u8]) -> Option<Vec<u8>> {
    let (stem, version, is_default) = version_of(name)?;
    (!is_default).then(|| [stem, version].join(&b"@@"[..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_and_hidden_characters_are_not_printable() {
        for name in ["", "main", "_ZN4coreE", "grün", "a b", "~"] {
            assert!(is_printable(name.as_bytes()), "{name}");
        }
        for name in [&b"a\nb"[..], b"\x7f", b"\xff", "\u{85}".as_bytes(), b"x\0"] {
            assert!(!is_printable(name), "{name:?}");
        }
    }

    #[test]
    fn a_name_with_a_version_has_parts() {
        let parts = |name: &'static str| {
            let text = |bytes| std::str::from_utf8(bytes).expect("text");
            version_of(name.as_bytes()).map(|(stem, version, is)| (text(stem), text(version), is))
        };
        assert_eq!(parts("api@@V2"), Some(("api", "V2", true)));
        assert_eq!(parts("api@V1"), Some(("api", "V1", false)));
        assert_eq!(parts("api@V@1"), Some(("api", "V@1", false)));
        for name in ["", "api", "@V1", "@@V1", "api@", "api@@", "api@@@V1", "@"] {
            assert_eq!(parts(name), None, "{name}");
        }
        assert_eq!(as_default(b"api@V1").as_deref(), Some(&b"api@@V1"[..]));
        assert_eq!((as_default(b"api@@V1"), as_default(b"api")), (None, None));
    }

    #[test]
    fn equal_names_have_equal_hashes() {
        assert_eq!(hash(b"main"), hash(&b"xmainx"[1..5]));
        assert_ne!(hash(b"main"), hash(b"mair"));
    }
}
