//! Ways to the network that isolated code does not get: all but Unix sockets and UDP.
//!
//! Landlock restricts `bind` and `connect` of TCP. It does not restrict MPTCP and other protocols that carry TCP, `listen` without
//! `bind`, and connections that begin with `MSG_FASTOPEN`. So a filter refuses to make the sockets.

use libc::c_long;
use seccompiler::SeccompRule;

use super::filter::{Calls, all, masked, none_of, rule};
use crate::error::Result;

/// The kinds of sockets, `SOCK_STREAM` and the others, without flags.
const KIND: i32 = 15;

/// Calls that send, and the argument that has their flags.
const SENDS: [(c_long, u8); 3] =
    [(libc::SYS_sendto, 3), (libc::SYS_sendmsg, 2), (libc::SYS_sendmmsg, 3)];

/// Work of a thread of the kernel for `io_uring` passes no filter.
const URING: [c_long; 3] =
    [libc::SYS_io_uring_setup, libc::SYS_io_uring_enter, libc::SYS_io_uring_register];

/// The calls that are refused.
pub(super) fn refused() -> Result<Calls> {
    let mut calls: Calls = URING.iter().map(|call| (*call, Vec::new())).collect();
    calls.insert(libc::SYS_socket, of_other_kinds()?);
    calls.insert(libc::SYS_socketpair, vec![all(none_of(0, &[libc::AF_UNIX])?)?]);
    for (call, flags) in SENDS {
        calls.insert(call, vec![rule(flags, libc::MSG_FASTOPEN, libc::MSG_FASTOPEN)?]);
    }
    Ok(calls)
}

/// Matches a socket that is neither a Unix socket nor one of UDP.
fn of_other_kinds() -> Result<Vec<SeccompRule>> {
    let is_no_unix = || none_of(0, &[libc::AF_UNIX]);
    let mut rules = vec![
        all(none_of(0, &[libc::AF_UNIX, libc::AF_INET, libc::AF_INET6])?)?,
        // 0 is the protocol of the kind.
        all([is_no_unix()?, none_of(2, &[0, libc::IPPROTO_UDP])?].concat())?,
    ];
    for kind in (0..=KIND).filter(|kind| *kind != libc::SOCK_DGRAM) {
        rules.push(all([is_no_unix()?, vec![masked(1, KIND, kind)?]].concat())?);
    }
    Ok(rules)
}
