//! Symbols: their addresses, flags and states.
//!
//! Invariant: plain values; nothing here locks.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::ops::BitOr;
use std::sync::Arc;

use crate::ExecutorAddr;

/// Names with their symbols. Lookups return it; units pass it to
/// [`notify_resolved`](super::MaterializationResponsibility::notify_resolved).
pub type SymbolMap = HashMap<Arc<str>, Symbol>;
/// Names with their flags, sorted by name.
pub type SymbolFlagsMap = BTreeMap<Arc<str>, SymbolFlags>;

/// The definition of a name.
///
/// # Examples
///
/// ```
/// use farcall_orc::ExecutorAddr;
/// use farcall_orc::jit::{Symbol, SymbolFlags};
///
/// let symbol = Symbol::exported(ExecutorAddr::new(0x42));
/// assert!(symbol.flags.contains(SymbolFlags::EXPORTED));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Symbol {
    /// Where it is in the executor.
    pub address: ExecutorAddr,
    /// The knowledge about it.
    pub flags: SymbolFlags,
    /// A value that the defining layer passes to the referring layer; 0 means none. The session does not interpret it.
    pub target: u32,
}

impl Symbol {
    /// A strong symbol that other dylibs see.
    #[must_use]
    pub fn exported(address: ExecutorAddr) -> Self {
        Self { address, flags: SymbolFlags::EXPORTED, target: 0 }
    }
}

/// A set of flags. The numbers are LLVM's.
///
/// # Examples
///
/// ```
/// use farcall_orc::jit::SymbolFlags;
///
/// let flags = SymbolFlags::EXPORTED | SymbolFlags::WEAK;
/// assert!(!flags.is_strong());
/// assert_eq!(flags.without(SymbolFlags::WEAK), SymbolFlags::EXPORTED);
/// assert_eq!(SymbolFlags::from_bits(flags.bits()), flags);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct SymbolFlags(u8);

impl SymbolFlags {
    /// A strong symbol for its own dylib only.
    pub const NONE: Self = Self(0);
    /// The first weak definition counts. A strong definition overrides it until the first lookup of the name.
    pub const WEAK: Self = Self(1 << 1);
    /// As [`WEAK`](Self::WEAK), but the linker allocates its memory.
    pub const COMMON: Self = Self(1 << 2);
    /// A number rather than an address.
    pub const ABSOLUTE: Self = Self(1 << 3);
    /// Other dylibs see it.
    pub const EXPORTED: Self = Self(1 << 4);
    /// A function.
    pub const CALLABLE: Self = Self(1 << 5);
    /// The name has no address. Its lookup runs its unit.
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

    /// The set without the flags that may change until the definition is resolved.
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

/// The state of a symbol. States only advance, with 1 exception: after
/// [`replace`](super::MaterializationResponsibility::replace) a symbol is [`NeverSearched`](Self::NeverSearched) again.
///
/// # Examples
///
/// ```
/// use farcall_orc::ExecutorAddr;
/// use farcall_orc::jit::{ExecutionSession, Symbol, SymbolState};
///
/// let session = ExecutionSession::new();
/// let main = session.create_dylib("main")?;
/// main.define_absolute([("answer", Symbol::exported(ExecutorAddr::new(0x42)))])?;
/// assert_eq!(main.state_of("answer"), Some(SymbolState::NeverSearched));
/// main.lookup("answer")?;
/// assert_eq!(main.state_of("answer"), Some(SymbolState::Ready));
/// # Ok::<(), farcall_orc::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SymbolState {
    /// Defined; no lookup has asked for it.
    NeverSearched,
    /// Its unit was started.
    Materializing,
    /// Its address is known.
    Resolved,
    /// Its bytes are in place; the bytes of its dependencies may be missing.
    Emitted,
    /// Everything that it reaches is emitted too.
    Ready,
}

/// Whether a lookup fails if the name is not defined.
///
/// # Examples
///
/// ```
/// use farcall_orc::jit::{
///     ExecutionSession, JITDylibLookupFlags, LookupKind, SymbolLookupFlags, SymbolState,
/// };
///
/// let session = ExecutionSession::new();
/// let main = session.create_dylib("main")?;
/// let look_up = |flags| {
///     let order = vec![(main.clone(), JITDylibLookupFlags::MatchAllSymbols)];
///     session.lookup(LookupKind::Static, order, vec![("missing".into(), flags)], SymbolState::Ready)
/// };
/// assert!(look_up(SymbolLookupFlags::WeaklyReferenced)?.is_empty());
/// assert!(look_up(SymbolLookupFlags::Required).is_err_and(|error| error.kind() == farcall_orc::ErrorKind::SymbolsNotFound));
/// # Ok::<(), farcall_orc::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SymbolLookupFlags {
    /// It fails.
    #[default]
    Required,
    /// The name is left out of the result.
    WeaklyReferenced,
}

/// The names that a lookup asks for, each once.
pub type SymbolLookupSet = Vec<(Arc<str>, SymbolLookupFlags)>;

/// The purpose of a lookup. Generators may read it.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
///
/// use farcall_orc::Result;
/// use farcall_orc::jit::{ExecutionSession, JITDylib, LookupKind, SymbolLookupFlags};
///
/// let session = ExecutionSession::new();
/// let main = session.create_dylib("main")?;
/// main.add_generator(|_: &JITDylib, kind: LookupKind, _: &[(Arc<str>, SymbolLookupFlags)]| -> Result<()> {
///     assert_eq!(kind, LookupKind::Static);
///     Ok(())
/// })?;
/// assert!(main.lookup("missing").is_err());
/// # Ok::<(), farcall_orc::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LookupKind {
    /// A linker looks up the references of an object.
    Static,
    /// A program looks up a name, as with `dlsym`. Archives add no members for it.
    DLSym,
}

/// Which symbols of a dylib a lookup sees.
///
/// # Examples
///
/// ```
/// use farcall_orc::ExecutorAddr;
/// use farcall_orc::jit::{ExecutionSession, JITDylibLookupFlags, Symbol, SymbolFlags};
///
/// let session = ExecutionSession::new();
/// let (main, library) = (session.create_dylib("main")?, session.create_dylib("library")?);
/// let hidden = Symbol { flags: SymbolFlags::NONE, ..Symbol::exported(ExecutorAddr::new(0x42)) };
/// library.define_absolute([("hidden", hidden)])?;
/// main.set_link_order(&[(library.clone(), JITDylibLookupFlags::MatchExportedSymbolsOnly)])?;
/// assert!(main.lookup("hidden").is_err());
/// main.set_link_order(&[(library, JITDylibLookupFlags::MatchAllSymbols)])?;
/// assert!(main.lookup("hidden").is_ok());
/// # Ok::<(), farcall_orc::Error>(())
/// ```
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

/// The names that a unit defines.
///
/// # Examples
///
/// ```
/// use farcall_orc::jit::{Interface, SymbolFlags};
///
/// let interface = Interface::exporting(["one", "two"]);
/// assert_eq!(interface.symbols["one"], SymbolFlags::EXPORTED);
/// assert_eq!(interface.initializer, None);
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Interface {
    /// The names and their flags.
    pub symbols: SymbolFlagsMap,
    /// The name, if any, whose lookup runs the initializers.
    pub initializer: Option<Arc<str>>,
}

impl Interface {
    /// Strong and exported symbols.
    pub fn exporting<N: Into<Arc<str>>>(names: impl IntoIterator<Item = N>) -> Self {
        let symbols = names.into_iter().map(|name| (name.into(), SymbolFlags::EXPORTED)).collect();
        Self { symbols, initializer: None }
    }
}

pub(in crate::jit) type DylibId = u64;
pub(in crate::jit) type UnitId = u64;
pub(in crate::jit) type QueryId = u64;
pub(in crate::jit) type ResponsibilityId = u64;

/// A name in a dylib.
pub(in crate::jit) type Place = (DylibId, Arc<str>);
