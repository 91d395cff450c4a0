//! System calls that fail: a seccomp filter, for a thread of this process or for an executor.
#![allow(unsafe_code, reason = "asks the kernel for a filter")]

use farcall::controller::ExecutorBuilder;
use nix::errno::Errno;
use nix::libc;

use crate::sources;

/// From now on these calls fail in this thread, and in all threads and processes that it starts.
pub(crate) fn refuse(calls: &[libc::c_long], error: Errno) {
    let instruction = |code: u32, yes: usize, no: u8, k: u32| libc::sock_filter {
        code: u16::try_from(code).expect("a code"),
        jt: u8::try_from(yes).expect("a short filter"),
        jf: no,
        k,
    };
    let mut filter = vec![instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0)];
    for (at, call) in calls.iter().enumerate() {
        let call = u32::try_from(*call).expect("a number of a call");
        let code = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
        filter.push(instruction(code, calls.len() - at, 0, call));
    }
    let code = libc::BPF_RET | libc::BPF_K;
    filter.push(instruction(code, 0, 0, libc::SECCOMP_RET_ALLOW));
    filter.push(instruction(code, 0, 0, libc::SECCOMP_RET_ERRNO | error as u32));
    let length = u16::try_from(filter.len()).expect("a short filter");
    let program = libc::sock_fprog { len: length, filter: filter.as_mut_ptr() };
    // SAFETY: this request takes numbers only.
    let asked = unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
    assert_eq!(asked, 0, "{}", Errno::last());
    let mode = libc::SECCOMP_MODE_FILTER;
    // SAFETY: the kernel copies the filter, of the length that the program says.
    let asked = unsafe { libc::prctl(libc::PR_SET_SECCOMP, mode, &raw const program) };
    assert_eq!(asked, 0, "{}", Errno::last());
}

/// An executor in which these calls fail once its program is loaded.
pub(crate) fn launch_refusing(
    launch: ExecutorBuilder,
    calls: &[libc::c_long],
    error: Errno,
) -> ExecutorBuilder {
    let numbers = calls.iter().map(|call| format!(" {call}")).collect::<String>();
    launch
        .env("LD_PRELOAD", sources::path("refuse"))
        .env("ATTACK_REFUSE", format!("{}{numbers}", error as i32))
}
