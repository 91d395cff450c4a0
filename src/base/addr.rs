//! Typed addresses: numbers that have a meaning only in the executor process.
//!
//! Invariant: nothing here can be dereferenced; only `executor` turns an address into a pointer.

use std::fmt;
use std::ops::{Index, IndexMut};

/// An address in the executor process.
///
/// # Examples
///
/// ```
/// # use farcall_base as farcall;
/// use farcall::ExecutorAddr;
///
/// let address = ExecutorAddr::new(0x1000);
/// assert_eq!(address.to_string(), "0x1000");
/// assert_eq!(address.checked_add(16), Some(ExecutorAddr::new(0x1010)));
/// assert!(ExecutorAddr::NULL.is_null());
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(transparent)]
pub struct ExecutorAddr(u64);

impl ExecutorAddr {
    /// The null address.
    pub const NULL: Self = Self(0);

    /// The address with this number.
    #[must_use]
    pub const fn new(value: u64) -> Self {
        Self(value)
    }

    /// The number of this address.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// True for address 0.
    #[must_use]
    pub const fn is_null(self) -> bool {
        self.0 == 0
    }

    /// The address `bytes` further on, or `None` past the end of the address space.
    #[must_use]
    pub const fn checked_add(self, bytes: u64) -> Option<Self> {
        match self.0.checked_add(bytes) {
            Some(sum) => Some(Self(sum)),
            None => None,
        }
    }
}

impl fmt::Display for ExecutorAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

impl fmt::Debug for ExecutorAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ExecutorAddr({:#x})", self.0)
    }
}

/// A half-open range of executor addresses, `start..end`.
///
/// # Examples
///
/// ```
/// # use farcall_base as farcall;
/// use farcall::{AddrRange, ExecutorAddr};
///
/// let page = AddrRange::sized(ExecutorAddr::new(0x1000), 0x1000).expect("it ends in the address space");
/// assert_eq!(page.bytes(), 4096);
/// assert!(page.contains(ExecutorAddr::new(0x1fff)) && !page.contains(page.end));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct AddrRange {
    /// The first address inside.
    pub start: ExecutorAddr,
    /// The first address past the end.
    pub end: ExecutorAddr,
}

impl AddrRange {
    /// The range of `bytes` bytes from `start`, or `None` when it would pass the end of the address space.
    #[must_use]
    pub const fn sized(start: ExecutorAddr, bytes: u64) -> Option<Self> {
        match start.checked_add(bytes) {
            Some(end) => Some(Self { start, end }),
            None => None,
        }
    }

    /// The number of bytes inside; 0 when the range is inverted.
    #[must_use]
    pub const fn bytes(self) -> u64 {
        self.end.get().saturating_sub(self.start.get())
    }

    /// True when `addr` lies inside.
    #[must_use]
    pub const fn contains(self, addr: ExecutorAddr) -> bool {
        self.start.get() <= addr.get() && addr.get() < self.end.get()
    }

    /// True when every byte of `other` lies inside this range.
    #[must_use]
    pub const fn encloses(self, other: Self) -> bool {
        self.start.get() <= other.start.get()
            && other.start.get() <= other.end.get()
            && other.end.get() <= self.end.get()
    }
}

/// The protection of a stripe of memory. There is no writable-and-executable one.
///
/// # Examples
///
/// ```
/// # use farcall_base as farcall;
/// use farcall::Prot;
///
/// assert_eq!(Prot::ALL.map(Prot::index), [0, 1, 2]);
/// assert!(Prot::Code < Prot::Data); // as they lie in a slab
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Prot {
    /// Executable code: R-X in the executor.
    Code,
    /// Constants: R-- in the executor.
    Constants,
    /// Data: RW- in the executor.
    Data,
}

impl Prot {
    /// Every protection, in the order in which a slab is striped.
    pub const ALL: [Prot; 3] = [Prot::Code, Prot::Constants, Prot::Data];

    /// The index of this protection in [`Prot::ALL`].
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }
}

/// A value for each protection.
///
/// # Examples
///
/// ```
/// # use farcall_base as farcall;
/// use farcall::{PerProt, Prot};
///
/// let mut bytes = PerProt { code: 16, ..PerProt::default() };
/// bytes[Prot::Data] = 8;
/// assert_eq!(bytes, PerProt { code: 16, constants: 0, data: 8 });
/// assert_eq!(bytes.into_array(), [16, 0, 8]); // in the order of Prot::ALL
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct PerProt<T> {
    /// For executable code.
    pub code: T,
    /// For constants.
    pub constants: T,
    /// For data.
    pub data: T,
}

impl<T> PerProt<T> {
    /// The value that `value` returns for each protection, which is called in the order of [`Prot::ALL`].
    #[inline]
    pub fn from_fn(mut value: impl FnMut(Prot) -> T) -> Self {
        Self { code: value(Prot::Code), constants: value(Prot::Constants), data: value(Prot::Data) }
    }

    /// The values in the order of [`Prot::ALL`].
    #[must_use]
    #[inline]
    pub fn into_array(self) -> [T; 3] {
        [self.code, self.constants, self.data]
    }

    /// The result of `map` for each value.
    #[must_use]
    #[inline]
    pub fn map<U>(self, mut map: impl FnMut(T) -> U) -> PerProt<U> {
        PerProt { code: map(self.code), constants: map(self.constants), data: map(self.data) }
    }
}

impl<T> Index<Prot> for PerProt<T> {
    type Output = T;

    #[inline]
    fn index(&self, prot: Prot) -> &T {
        match prot {
            Prot::Code => &self.code,
            Prot::Constants => &self.constants,
            Prot::Data => &self.data,
        }
    }
}

impl<T> IndexMut<Prot> for PerProt<T> {
    #[inline]
    fn index_mut(&mut self, prot: Prot) -> &mut T {
        match prot {
            Prot::Code => &mut self.code,
            Prot::Constants => &mut self.constants,
            Prot::Data => &mut self.data,
        }
    }
}

#[cfg(test)]
mod tests {
    //! `ExecutorAddressTest` of LLVM's runtime, without its pointer conversions, which only the executor has.

    use super::*;

    #[test]
    fn default_and_null() {
        assert!(ExecutorAddr::default().is_null() && ExecutorAddr::NULL.is_null());
        assert!(!ExecutorAddr::new(1).is_null());
    }

    #[test]
    fn ordering() {
        let (low, high) = (ExecutorAddr::new(1), ExecutorAddr::new(u64::MAX));
        assert!(low < high && low == ExecutorAddr::new(1) && low != high);
        assert_eq!(low.checked_add(u64::MAX - 1), Some(high));
        assert_eq!(high.checked_add(1), None, "it does not wrap");
    }

    #[test]
    fn wrapping_and_unwrapping() {
        assert_eq!(ExecutorAddr::new(0x1234).get(), 0x1234);
        assert_eq!(ExecutorAddr::new(0x1234).to_string(), "0x1234");
    }

    #[test]
    fn addr_ranges() {
        let at = ExecutorAddr::new;
        let range = AddrRange::sized(at(0x1000), 0x10).expect("no overflow");
        assert_eq!((range.end, range.bytes()), (at(0x1010), 0x10));
        assert!(range.contains(at(0x1000)) && range.contains(at(0x100f)));
        assert!(!range.contains(at(0xfff)) && !range.contains(at(0x1010)));
        assert!(range.encloses(range) && range.encloses(AddrRange { start: at(0x1010), ..range }));
        assert!(!range.encloses(AddrRange { end: at(0x1011), ..range }));
        let inverted = AddrRange { start: at(0x1010), end: at(0x1000) };
        assert!(inverted.bytes() == 0 && !range.encloses(inverted));
        assert_eq!(AddrRange::sized(at(u64::MAX), 2), None);
    }

    #[test]
    fn hashable() {
        let addresses = [1, 2, 1].map(ExecutorAddr::new);
        assert_eq!(std::collections::HashSet::from(addresses).len(), 2);
    }
}
