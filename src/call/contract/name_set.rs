//! A set of names as bits, which seems to have a few more names than were added.
//!
//! An executor makes it of the names in its shared libraries. By it a controller finds the names of a program that may be among them,
//! and sends these only.

/// A power of two, so that about one name in thirty seems to be in a set by mistake.
const BITS_FOR_EACH: usize = 32;

/// The names, one bit for each.
#[derive(Debug, Default)]
pub(crate) struct NameSet(Vec<u8>);

impl NameSet {
    /// An empty set with room for this many names.
    pub(crate) fn with_room(count: usize) -> Self {
        Self(vec![0; (count.max(1) * BITS_FOR_EACH / 8).next_power_of_two()])
    }

    /// The set of all names.
    pub(crate) fn all() -> Self {
        Self(vec![u8::MAX])
    }

    /// A set that comes from the other side.
    pub(crate) fn from_bytes(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }

    /// The set for the other side.
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    /// Adds the name with this [hash](gnu_hash), whose lowest bit does not count.
    pub(crate) fn insert(&mut self, hash: u32) {
        if let Some((byte, bit)) = self.place(hash) {
            self.0[byte] |= bit;
        }
    }

    /// False if the name was not added.
    pub(crate) fn may_contain(&self, name: &str) -> bool {
        let place = self.place(gnu_hash(name.as_bytes()));
        place.is_some_and(|(byte, bit)| self.0[byte] & bit != 0)
    }

    /// The byte and the bit of a name; `None` if the set has no bytes.
    fn place(&self, hash: u32) -> Option<(usize, u8)> {
        let number = hash as usize >> 1;
        Some(((number >> 3).checked_rem(self.0.len())?, 1 << (number & 7)))
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
    fn a_set_has_what_was_added_and_little_else() {
        let name = |number: u32| format!("_ZN5names4nameE{number}");
        let mut set = NameSet::with_room(1000);
        (0..1000).for_each(|number| set.insert(gnu_hash(name(number).as_bytes()) & !1));
        let set = NameSet::from_bytes(set.into_bytes());
        assert!((0..1000).all(|number| set.may_contain(&name(number))));
        let others = (1000..11_000).filter(|number| set.may_contain(&name(*number))).count();
        assert!(others < 1000, "{others} of 10,000");
        assert!(NameSet::all().may_contain("a name"));
        assert!(!NameSet::default().may_contain("a name"), "a set without bytes has none");
    }
}
