//! Landlock: files, TCP, signals, other processes. No privileges are needed.
//!
//! A process belongs to *domains*, one in the other, and so do all that it starts. It cannot trace processes outside of its
//! innermost domain. Each domain can also restrict files, sockets and signals.

use landlock::{
    ABI, Access, AccessFs, AccessNet, LandlockStatus, RestrictionStatus, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetError, Scope, path_beneath_rules,
};

use super::confinement::ConfinementLevel;
use super::enforced::{Enforced, Restriction};
use crate::error::{Error, Result};

/// The rights that are used, so that newer kernels behave the same. Older kernels restrict what they know of them.
const KNOWN: ABI = ABI::V7;

/// The version of Landlock from which on it restricts something entirely, and the first such kernel.
const SINCE: [(Restriction, u32); 4] = [
    (Restriction::Tracing, 1),
    // From then on truncation counts as writing.
    (Restriction::FileWrites, 3),
    (Restriction::Signals, 6),
    (Restriction::AbstractSockets, 6),
];

/// The files that a strictly confined process may read: libraries, what opens them, and itself.
const READABLE: [&str; 12] = [
    "/lib",
    "/lib64",
    "/usr/lib",
    "/usr/lib64",
    "/usr/local/lib",
    "/etc/ld.so.cache",
    "/etc/ld.so.preload",
    "/etc/localtime",
    "/dev/null",
    "/dev/zero",
    "/dev/urandom",
    "/proc/self",
];

/// Puts this process into a domain that restricts signals only. False where the kernel cannot.
///
/// # Errors
///
/// When the system refuses.
pub(super) fn scope_signals() -> Result<bool> {
    let status = Ruleset::default()
        .scope(Scope::Signal)
        .and_then(Ruleset::create)
        .and_then(|ruleset| ruleset.restrict_self())
        .map_err(refused)?;
    Ok(abi(&status) >= 6)
}

/// Restricts this process as the level demands, as far as the kernel can.
///
/// # Errors
///
/// When the system refuses.
pub(super) fn restrict(level: ConfinementLevel) -> Result<Enforced> {
    let is_strict = level == ConfinementLevel::Strict;
    let status = rules(is_strict).map_err(refused)?;
    let abi = abi(&status);
    let mut enforced = Enforced::new(level, abi);
    for (restriction, since) in SINCE {
        if abi >= since {
            enforced.add(restriction);
        }
    }
    if abi > 0 && is_strict {
        enforced.add(Restriction::FileReads);
    }
    Ok(enforced)
}

fn rules(is_strict: bool) -> std::result::Result<RestrictionStatus, RulesetError> {
    let files = if is_strict { AccessFs::from_all(KNOWN) } else { AccessFs::from_write(KNOWN) };
    let ruleset = Ruleset::default()
        .handle_access(files)?
        .handle_access(AccessNet::from_all(KNOWN))?
        .scope(Scope::from_all(KNOWN))?
        .create()?
        .add_rules(path_beneath_rules(["/dev/null"], AccessFs::WriteFile))?;
    if !is_strict {
        return ruleset.restrict_self();
    }
    let reads = AccessFs::ReadFile | AccessFs::ReadDir;
    let own = std::env::current_exe().ok();
    ruleset
        .add_rules(path_beneath_rules(READABLE, reads))?
        .add_rules(path_beneath_rules(own, reads))?
        .restrict_self()
}

/// The version of Landlock, 0 where there is none.
fn abi(status: &RestrictionStatus) -> u32 {
    match status.landlock {
        LandlockStatus::Available { effective_abi, .. } => effective_abi as u32,
        _ => 0,
    }
}

fn refused(error: RulesetError) -> Error {
    Error::remote(format!("Landlock: {error}"))
}
