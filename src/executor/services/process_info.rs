//! What this process is: its target triple, its page size, what its processor can do.

use crate::call::contract::ProcessInfo;
use crate::error::Result;
use crate::executor::entry::wrapper::Serve;
use crate::limits::PAGE_BYTES;
use crate::sys::cpu;

/// The target triple that code has to be made for.
pub(crate) fn triple() -> String {
    format!("{}-unknown-linux-gnu", std::env::consts::ARCH)
}

/// What the processor can do, as LLVM lists it: "+avx,+avx2".
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
