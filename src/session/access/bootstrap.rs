//! A session's first words to its controller.

use std::collections::BTreeMap;

use crate::session::SimpleSymbolTable;

/// The bootstrap value that lists the features of the executor's processor as LLVM does: "+avx,+avx2".
pub const SUBTARGET_FEATURES: &str = "orc-rt.Executor.SubtargetFeatures";

/// The bootstrap symbol whose address identifies the session.
pub const SESSION_SYMBOL: &str = "orc_rt_Session_Instance";

/// The executor's properties and what it offers. [`connect`](crate::session::ControllerAccess::connect) receives it;
/// it lives until the session ends.
///
/// # Examples
///
/// ```
/// use farcall::session::{SUBTARGET_FEATURES, SessionBuilder};
///
/// let session = SessionBuilder::new(|task| drop(std::thread::spawn(|| task.run()))).build()?;
/// let info = session.bootstrap_info();
/// assert!(info.triple().ends_with("linux-gnu") && info.page_bytes() >= 4096);
/// println!("features: {}", String::from_utf8_lossy(info.value(SUBTARGET_FEATURES).unwrap_or(b"")));
/// # Ok::<(), farcall::Error>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct BootstrapInfo {
    pub(crate) triple: String,
    pub(crate) page_bytes: u64,
    pub(crate) symbols: SimpleSymbolTable,
    pub(crate) values: BTreeMap<String, Vec<u8>>,
}

impl BootstrapInfo {
    /// The target triple to compile for.
    #[must_use]
    pub fn triple(&self) -> &str {
        &self.triple
    }

    /// The page size in bytes, a power of two.
    #[must_use]
    pub fn page_bytes(&self) -> u64 {
        self.page_bytes
    }

    /// The symbols that the session offers.
    #[must_use]
    pub fn symbols(&self) -> &SimpleSymbolTable {
        &self.symbols
    }

    /// The named values, sorted by name.
    pub fn values(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.values.iter().map(|(name, bytes)| (name.as_str(), bytes.as_slice()))
    }

    /// The bytes of a named value.
    #[must_use]
    pub fn value(&self, name: &str) -> Option<&[u8]> {
        self.values.get(name).map(Vec::as_slice)
    }
}
