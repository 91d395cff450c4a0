//! Symbols: what a name stands for, and how far it is on its way.
//!
//! Invariant: plain values; nothing here locks.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::ops::BitOr;
use std::sync::Arc;

use crate::ExecutorAddr;

/// The addresses of names: what a lookup gives, and what a responsibility is told.
pub type SymbolMap = HashMap<Arc<str>, Symbol>;
/// The flags of names, in their order.
pub type SymbolFlagsMap = BTreeMap<Arc<str>, SymbolFlags>;

/// What a name stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Symbol {
    /// Where it is in the executor.
    pub address: ExecutorAddr,
    /// What is known about it.
    pub flags: SymbolFlags,
    /// What the layer that defines it says to the layer that refers to it; 0 says nothing. The session only passes it on.
    pub target: u32,
}

impl Symbol {
    /// A strong symbol that others may use.
    #[must_use]
    pub fn exported(address: ExecutorAddr) -> Self {
        Self { address, flags: SymbolFlags::EXPORTED, target: 0 }
    }
}

/// A set of flags. The numbers are LLVM's.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct SymbolFlags(u8);

impl SymbolFlags {
    /// A strong symbol for its own dylib only.
    pub const NONE: Self = Self(0);
    /// The first definition counts. A strong one replaces it if no lookup has asked for it yet.
    pub const WEAK: Self = Self(1 << 1);
    /// As [`WEAK`](Self::WEAK): the linker makes room for it.
    pub const COMMON: Self = Self(1 << 2);
    /// A number rather than a place.
    pub const ABSOLUTE: Self = Self(1 << 3);
    /// Other dylibs see it.
    pub const EXPORTED: Self = Self(1 << 4);
    /// A function.
    pub const CALLABLE: Self = Self(1 << 5);
    /// Nothing is at it; looking for it makes its unit do its work.
    pub const SIDE_EFFECTS_ONLY: Self = Self(1 << 6);

    /// The set with this number; bits without a meaning are dropped.
    #[must_use]
    pub const fn from_bits(bits: u8) -> Self {
        Self(bits & 0b0111_1110)
    }

    /// The number of the set.
    #[must_use]
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// True when all of `flags` are set.
    #[must_use]
    pub const fn contains(self, flags: Self) -> bool {
        self.0 & flags.0 == flags.0
    }

    /// The set without `flags`.
    #[must_use]
    pub const fn without(self, flags: Self) -> Self {
        Self(self.0 & !flags.0)
    }

    /// True when another definition excludes this one: it is neither weak nor common.
    #[must_use]
    pub const fn is_strong(self) -> bool {
        self.0 & (Self::WEAK.0 | Self::COMMON.0) == 0
    }

    /// The set without what may change while a definition is on its way.
    pub(in crate::jit) const fn lasting(self) -> Self {
        self.without(Self(Self::WEAK.0 | Self::COMMON.0))
    }
}

impl BitOr for SymbolFlags {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl fmt::Debug for SymbolFlags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = [
            (Self::WEAK, "weak"),
            (Self::COMMON, "common"),
            (Self::ABSOLUTE, "absolute"),
            (Self::EXPORTED, "exported"),
            (Self::CALLABLE, "callable"),
            (Self::SIDE_EFFECTS_ONLY, "side effects only"),
        ];
        let set = names.iter().filter(|(flag, _)| self.contains(*flag)).map(|(_, name)| name);
        f.debug_set().entries(set).finish()
    }
}

/// How far a symbol is. It only ever goes on, except that a unit may be [replaced](super::MaterializationResponsibility::replace).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SymbolState {
    /// Defined; no lookup has asked for it.
    NeverSearched,
    /// Its unit is at work.
    Materializing,
    /// Its address is known.
    Resolved,
    /// Its bytes are in place; what it depends on may not be.
    Emitted,
    /// Everything that it reaches is emitted too.
    Ready,
}

/// Whether a lookup fails for want of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SymbolLookupFlags {
    /// It does.
    #[default]
    Required,
    /// The name is left out of the result.
    WeaklyReferenced,
}

/// What is looked for, each name once.
pub type SymbolLookupSet = Vec<(Arc<str>, SymbolLookupFlags)>;

/// What a lookup is for. Generators may look at it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LookupKind {
    /// As a linker looks for what an object refers to.
    Static,
    /// As `dlsym` looks: archives add no members for it.
    DLSym,
}

/// Which symbols of a dylib a lookup sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JITDylibLookupFlags {
    /// Exported ones.
    MatchExportedSymbolsOnly,
    /// All.
    MatchAllSymbols,
}

impl JITDylibLookupFlags {
    pub(in crate::jit) fn sees(self, flags: SymbolFlags) -> bool {
        self == Self::MatchAllSymbols || flags.contains(SymbolFlags::EXPORTED)
    }
}
