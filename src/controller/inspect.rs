//! Asking the executor what it is, and for its memory by address.

use super::memory::memory_access::MemoryAccess;
use super::memory::peer::Peer;
use super::session::Process;
use crate::ExecutorAddr;
use crate::call::contract;
use crate::error::Result;
use crate::sys::confine::enforced::Enforced;

/// The executor's target triple, page size and processor features.
///
/// # Examples
///
/// ```standalone_crate
/// # farcall::executor::run_if_spawned();
/// # let process = farcall::controller::ExecutorBuilder::new().this_program().start()?.process()?;
/// let info = process.process_info()?;
/// assert_eq!(info.page_bytes, 4096);
/// assert!(info.triple.starts_with("x86_64"));
/// # Ok::<(), farcall::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessInfo {
    /// The target triple.
    pub triple: String,
    /// The size of a page.
    pub page_bytes: u64,
    /// The features of its processor, by LLVM's names.
    pub cpu_features: Vec<String>,
}

impl Process {
    /// What the kernel enforces on the executor, as the executor reported it before it ran linked code. Sends no message.
    #[must_use]
    pub fn confinement(&self) -> Enforced {
        self.session.remote().enforced()
    }

    /// The executor's memory by address.
    #[must_use]
    pub fn memory_access(&self) -> MemoryAccess<'_> {
        MemoryAccess::of(self.session.memory())
    }

    /// The address that the executor offers under a name. Sends no message.
    ///
    /// # Examples
    ///
    /// ```standalone_crate
    /// # farcall::executor::run_if_spawned();
    /// # let process = farcall::controller::ExecutorBuilder::new().this_program().start()?.process()?;
    /// let info = process.symbol("farcall_process_info");
    /// assert_eq!(info.is_some(), process.symbols().any(|(name, _)| name == "farcall_process_info"));
    /// assert_eq!(process.symbol("no such name"), None);
    /// # Ok::<(), farcall::Error>(())
    /// ```
    #[must_use]
    pub fn symbol(&self, name: &str) -> Option<ExecutorAddr> {
        self.session.remote().functions().get(name).copied()
    }

    /// The addresses that the executor offers, with their names, in no order. Sends no message.
    pub fn symbols(&self) -> impl Iterator<Item = (&str, ExecutorAddr)> {
        self.session.remote().functions().iter().map(|(name, address)| (&**name, *address))
    }

    /// The numbers that the executor offers, with their names, in no order. Sends no message.
    pub fn values(&self) -> impl Iterator<Item = (&str, i64)> {
        self.session.remote().values().iter().map(|(name, value)| (&**name, *value))
    }

    /// Asks the executor for its triple, page size and processor features. Sends one message.
    ///
    /// # Errors
    ///
    /// When the session is over.
    pub fn process_info(&self) -> Result<ProcessInfo> {
        ProcessInfo::ask(self.session.memory())
    }
}

impl ProcessInfo {
    pub(super) fn ask(peer: &dyn Peer) -> Result<Self> {
        let (triple, page_bytes, features) = peer.ask::<contract::ProcessInfo>(&())?;
        let names = features.split(',').filter_map(|feature| feature.strip_prefix('+'));
        let cpu_features = names.map(str::to_owned).collect();
        Ok(Self { triple, page_bytes, cpu_features })
    }
}
