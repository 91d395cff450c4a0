//! The names that the objects of a random program share, and the fate of each.
//!
//! Invariant: everything follows from the random numbers.

use super::fields::Reach;
use farcall_base::random::Random;

/// The definitions of a name.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// Defined by one object.
    Strong {
        object: usize,
    },
    /// Defined weakly by some objects, and strongly by one.
    Overridden {
        object: usize,
    },
    /// Defined weakly.
    Weak,
    /// Defined weakly, and replaced from outside.
    Replaced,
    /// Common in some objects.
    Common,
    /// Common in some objects and weak in others.
    CommonOverWeak,
    /// In a COMDAT group of some objects.
    Grouped,
    /// An absolute symbol.
    Absolute {
        object: usize,
    },
    /// Defined outside, within reach or not.
    Near,
    Far,
    /// A function out of reach, which may have a canonical PLT entry.
    FarFunction,
    /// A thread-local of one object.
    Thread {
        object: usize,
    },
    /// A thread-local defined outside.
    ThreadOutside,
    /// Undefined, with weak references only.
    Missing,
    MissingThread,
    /// Made by the linker.
    Made,
}

/// A shared name.
pub(super) struct Name {
    pub(super) text: String,
    pub(super) fate: Fate,
    pub(super) visibility: u8,
    /// The objects that define it, a bit each.
    pub(super) definers: u64,
}

impl Name {
    pub(super) fn is_defined_by(&self, object: usize) -> bool {
        self.definers >> object & 1 == 1
    }

    pub(super) fn is_thread(&self) -> bool {
        matches!(self.fate, Fate::Thread { .. } | Fate::ThreadOutside | Fate::MissingThread)
    }

    pub(super) fn reach(&self, is_low: bool) -> Reach {
        match self.fate {
            Fate::Far => Reach::Far,
            Fate::Missing | Fate::Absolute { .. } if is_low => Reach::Low,
            Fate::Missing | Fate::Absolute { .. } => Reach::Number,
            _ if is_low => Reach::Low,
            _ => Reach::Near,
        }
    }
}

/// The names that the objects of a program share.
pub(super) fn names(random: &mut Random, objects: usize) -> Vec<Name> {
    let mut names = Vec::new();
    for number in 0..4 + random.below(12) {
        let object = random.index(objects);
        let fate = match random.below(18) {
            0..=2 => Fate::Strong { object },
            3 => Fate::Overridden { object },
            4 => Fate::Weak,
            5 => Fate::Replaced,
            6 => Fate::Common,
            7 => Fate::CommonOverWeak,
            8 => Fate::Grouped,
            9 => Fate::Absolute { object },
            10 => Fate::Near,
            11 => Fate::Far,
            12 => Fate::FarFunction,
            13 | 14 => Fate::Thread { object },
            15 => Fate::ThreadOutside,
            16 => Fate::MissingThread,
            _ => Fate::Missing,
        };
        let definers = match fate {
            Fate::Strong { object } | Fate::Absolute { object } | Fate::Thread { object } => {
                1 << object
            }
            Fate::Overridden { .. }
            | Fate::Weak
            | Fate::Replaced
            | Fate::Common
            | Fate::CommonOverWeak
            | Fate::Grouped => random.word() | 1 << object,
            _ => 0,
        };
        // One in four is hidden, internal or protected.
        let visibility = if random.one_in(4) { random.pick(&[1, 2, 3]) } else { 0 };
        // A replaced name is defined outside without a version.
        let has_version = definers != 0 && fate != Fate::Replaced && random.one_in(8);
        let version = if has_version { "@@V1" } else { "" };
        names.push(Name { text: format!("n{number}{version}"), fate, visibility, definers });
    }
    let made = ["_GLOBAL_OFFSET_TABLE_", "__dso_handle", "__start_set_one", "__stop_set_one"];
    for text in made {
        let (text, fate) = (text.to_owned(), Fate::Made);
        names.push(Name { text, fate, visibility: 0, definers: 0 });
    }
    names
}
