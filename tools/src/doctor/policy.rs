//! The limits of this process: /proc, a filter of system calls, the rules for debuggers.

use super::file_of_kernel;
use super::row::{Mark, Row};

pub(super) fn rows() -> Vec<Row> {
    vec![proc(), seccomp(), tracing()]
}

fn proc() -> Row {
    let found = match file_of_kernel("/proc/self/status") {
        Some(_) => Ok("mounted".to_owned()),
        None => Err("not mounted, or not readable".to_owned()),
    };
    Row::found("/proc", found, "no executor is found unless FARCALL_EXECUTOR names one")
}

/// The mode in `/proc/self/status`.
fn seccomp() -> Row {
    let without = "a filter may refuse the calls in the rows above";
    let status = file_of_kernel("/proc/self/status").unwrap_or_default();
    let mode = status.lines().find_map(|line| line.strip_prefix("Seccomp:")).map(str::trim);
    match mode {
        Some("0") => Row::new("seccomp", Mark::Good, "no filter", without),
        Some("1") => Row::new("seccomp", Mark::Less, "strict mode", without),
        Some("2") => {
            let filters = status.lines().find_map(|line| line.strip_prefix("Seccomp_filters:"));
            let filters = filters.map_or("unknown", str::trim);
            Row::new("seccomp", Mark::Less, format!("filters: {filters}"), without)
        }
        _ => Row::new("seccomp", Mark::Unknown, "unknown", without),
    }
}

fn tracing() -> Row {
    let without = "no debugger can attach to a running executor";
    let (mark, value) = match file_of_kernel("/proc/sys/kernel/yama/ptrace_scope").as_deref() {
        Some("0") => (Mark::Good, "any process of this user".to_owned()),
        Some("1") => (Mark::Less, "ptrace_scope=1: own children only".to_owned()),
        Some("2") => (Mark::Less, "ptrace_scope=2: for root only".to_owned()),
        Some("3") => (Mark::Missing, "ptrace_scope=3: not at all".to_owned()),
        Some(other) => (Mark::Unknown, format!("ptrace_scope={other}")),
        None if file_of_kernel("/proc/self/status").is_none() => {
            (Mark::Unknown, "unknown".to_owned())
        }
        None => (Mark::Good, "no Yama: any process of this user".to_owned()),
    };
    Row::new("ptrace", mark, value, without)
}
