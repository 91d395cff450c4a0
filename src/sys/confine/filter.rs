//! Filters of system calls: what they are made of, and how the kernel gets them.

use std::collections::BTreeMap;

use libc::c_long;
use seccompiler::{
    BpfProgram, BpfProgramRef, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition,
    SeccompFilter, SeccompRule, TargetArch,
};

use crate::error::{Error, Result};
use crate::sys::processor;

/// System calls by number. A call with rules matches if one of them does; a call without rules matches.
pub(in crate::sys) type Calls = BTreeMap<c_long, Vec<SeccompRule>>;

/// Matches an argument of 32 bits that is one of these numbers.
pub(in crate::sys) fn one_of<N: Copy>(argument: u8, values: &[N]) -> Result<Vec<SeccompRule>>
where
    i64: TryFrom<N>,
{
    let equals = |value: &N| {
        let value = i64::try_from(*value).unwrap_or_default().cast_unsigned();
        let value = value & u64::from(u32::MAX);
        all(vec![condition(argument, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, value)?])
    };
    values.iter().map(equals).collect()
}

/// Matches an argument of which the bits of the mask are these.
pub(in crate::sys) fn rule(argument: u8, mask: i32, bits: i32) -> Result<SeccompRule> {
    all(vec![masked(argument, mask, bits)?])
}

/// As [`rule`], as a part of a rule.
pub(super) fn masked(argument: u8, mask: i32, bits: i32) -> Result<SeccompCondition> {
    let [mask, bits] = [mask, bits].map(|number| u64::from(number.cast_unsigned()));
    condition(argument, SeccompCmpArgLen::Dword, SeccompCmpOp::MaskedEq(mask), bits)
}

/// An argument of 32 bits is another number than all of these.
pub(super) fn none_of(argument: u8, values: &[i32]) -> Result<Vec<SeccompCondition>> {
    let differs = |value: &i32| {
        let value = u64::from(value.cast_unsigned());
        condition(argument, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, value)
    };
    values.iter().map(differs).collect()
}

pub(super) fn condition(
    argument: u8,
    length: SeccompCmpArgLen,
    operation: SeccompCmpOp,
    value: u64,
) -> Result<SeccompCondition> {
    SeccompCondition::new(argument, length, operation, value).map_err(refused)
}

/// Matches where all of these hold.
pub(super) fn all(conditions: Vec<SeccompCondition>) -> Result<SeccompRule> {
    SeccompRule::new(conditions).map_err(refused)
}

/// Installs a filter for this thread and all that it will start: `these` becomes of the calls in the list.
///
/// # Errors
///
/// When the system refuses.
pub(super) fn install(calls: Calls, others: SeccompAction, these: SeccompAction) -> Result<()> {
    let processor = TargetArch::try_from(std::env::consts::ARCH).map_err(refused)?;
    let filter = SeccompFilter::new(calls, others, these, processor).map_err(refused)?;
    apply(&BpfProgram::try_from(filter).map_err(refused)?)
}

/// Installs a filter for all threads of this process and all that they will start. `these` becomes of the calls in the list; the others
/// are allowed.
///
/// # Errors
///
/// When the system refuses, or a thread has a filter that the caller does not have.
pub(in crate::sys) fn install_for_all(calls: Calls, these: SeccompAction) -> Result<()> {
    let processor = TargetArch::try_from(std::env::consts::ARCH).map_err(refused)?;
    let filter = SeccompFilter::new(calls, SeccompAction::Allow, these, processor);
    let program = BpfProgram::try_from(filter.map_err(refused)?).map_err(refused)?;
    seccompiler::apply_filter_all_threads(&program)
        .map_err(|error| Error::remote(format!("installing a filter of system calls: {error}")))
}

/// Refuses a second set of calls, if the processor has one. Their numbers are others: no filter above knows them.
///
/// # Errors
///
/// When the system refuses.
pub(in crate::sys) fn refuse_other_calls() -> Result<()> {
    let Some(first) = processor::OTHER_CALLS else { return Ok(()) };
    let step = |code: u32, jt: u8, jf: u8, k: u32| seccompiler::sock_filter {
        code: u16::try_from(code).unwrap_or_default(),
        jt,
        jf,
        k,
    };
    let refusal = SeccompAction::Errno(libc::EPERM.unsigned_abs());
    apply(&[
        // The number of the call is the first word of what a filter sees.
        step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        step(libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K, 0, 1, first),
        step(libc::BPF_RET | libc::BPF_K, 0, 0, u32::from(refusal)),
        step(libc::BPF_RET | libc::BPF_K, 0, 0, u32::from(SeccompAction::Allow)),
    ])
}

fn apply(program: BpfProgramRef<'_>) -> Result<()> {
    seccompiler::apply_filter(program)
        .map_err(|error| Error::remote(format!("installing a filter of system calls: {error}")))
}

fn refused(error: impl std::fmt::Display) -> Error {
    Error::invalid(format!("a filter of system calls: {error}"))
}
