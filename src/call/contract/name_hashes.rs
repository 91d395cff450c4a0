//! Names as the hashes of GNU's hash tables: four bytes for each, and a library's table tells soon that it lacks one.
//!
//! A controller sends the hashes of a program's names. The executor returns those that may be names of its shared libraries; of these
//! names alone the controller sends the addresses.

use std::collections::HashSet;

/// Hashes that an executor has returned.
#[derive(Debug, Default)]
pub(crate) struct NameHashes(HashSet<u32>);

impl NameHashes {
    /// The set of these hashes.
    pub(crate) fn new(hashes: impl IntoIterator<Item = u32>) -> Self {
        Self(hashes.into_iter().collect())
    }

    /// False if no name with the hash of `name` is in the set.
    pub(crate) fn may_contain(&self, name: &str) -> bool {
        !self.0.is_empty() && self.0.contains(&gnu_hash(name.as_bytes()))
    }
}

/// The hash function of GNU hash tables.
pub(crate) fn gnu_hash(name: &[u8]) -> u32 {
    name.iter().fold(5381, |hash, byte| u32::wrapping_add(hash.wrapping_mul(33), u32::from(*byte)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_has_the_names_whose_hashes_were_added() {
        assert_eq!(gnu_hash(b"printf"), 0x156b_2bb8);
        let name = |number: u32| format!("_ZN5names4nameE{number}");
        let hashes = NameHashes::new((0..1000).map(|number| gnu_hash(name(number).as_bytes())));
        assert!((0..1000).all(|number| hashes.may_contain(&name(number))));
        assert!((1000..2000).all(|number| !hashes.may_contain(&name(number))));
        assert!(!NameHashes::default().may_contain("a name"));
    }
}
