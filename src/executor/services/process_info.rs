//! The properties of this process: target triple, page size, processor features.

use crate::call::contract::ProcessInfo;
use crate::error::Result;
use crate::executor::entry::wrapper::Serve;
use crate::limits::PAGE_BYTES;
use crate::sys::cpu;

/// The target triple to compile for.
pub(crate) fn triple() -> String {
    format!("{}-unknown-linux-gnu", std::env::consts::ARCH)
}

/// The processor's features as LLVM lists them: "+avx,+avx2".
pub(crate) fn features() -> String {
    let features: Vec<_> = cpu::features().map(|name| format!("+{name}")).collect();
    features.join(",")
}

impl Serve for ProcessInfo {
    fn serve((): ()) -> Result<(String, u64, String)> {
        Ok((triple(), PAGE_BYTES, features()))
    }
}

#[cfg(test)]
mod tests;
