//! What a session tells its controller of itself, first thing.

use std::collections::BTreeMap;

use crate::session::SimpleSymbolTable;

/// The bootstrap value with the features of the executor's processor, as LLVM lists them: "+avx,+avx2".
pub const SUBTARGET_FEATURES: &str = "orc-rt.Executor.SubtargetFeatures";

/// The bootstrap symbol whose address is the session itself.
pub const SESSION_SYMBOL: &str = "orc_rt_Session_Instance";

/// What the executor is and offers: passed to [`connect`](crate::session::ControllerAccess::connect), and valid as long as the
/// session.
#[derive(Debug, Clone, Default)]
pub struct BootstrapInfo {
    pub(crate) triple: String,
    pub(crate) page_bytes: u64,
    pub(crate) symbols: SimpleSymbolTable,
    pub(crate) values: BTreeMap<String, Vec<u8>>,
}

impl BootstrapInfo {
    /// The target triple that code has to be made for.
    #[must_use]
    pub fn triple(&self) -> &str {
        &self.triple
    }

    /// The size of a page, a power of two.
    #[must_use]
    pub fn page_bytes(&self) -> u64 {
        self.page_bytes
    }

    /// Named addresses.
    #[must_use]
    pub fn symbols(&self) -> &SimpleSymbolTable {
        &self.symbols
    }

    /// Named bytes, sorted by name.
    pub fn values(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.values.iter().map(|(name, bytes)| (name.as_str(), bytes.as_slice()))
    }

    /// The bytes under a name.
    #[must_use]
    pub fn value(&self, name: &str) -> Option<&[u8]> {
        self.values.get(name).map(Vec::as_slice)
    }
}
