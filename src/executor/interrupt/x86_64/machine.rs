//! The registers of an interrupted thread.
#![allow(unsafe_code, reason = "reads and writes the stack of an interrupted thread")]

use libc::ucontext_t;

use crate::executor::entry::unwind_boundary::native::call_frame::{AtCall, KEPT};
use crate::executor::process::loaded::pointer;
use libc::{
    REG_EFL, REG_R12, REG_R13, REG_R14, REG_R15, REG_RAX, REG_RBP, REG_RBX, REG_RIP, REG_RSI,
    REG_RSP,
};

/// The registers that a function keeps, in the kernel's description of a thread.
const KEPT_REGISTERS: [i32; KEPT] = [REG_RBX, REG_RBP, REG_R12, REG_R13, REG_R14, REG_R15];
/// The direction flag, which is clear at a call.
const DIRECTION: i64 = 1 << 10;
/// `syscall`.
const SYSTEM_CALL: [u8; 2] = [0x0f, 0x05];
/// The system calls that may block and that POSIX lets fail with `EINTR`. A signal makes the others that block fail by itself.
const BLOCKING: [i64; 20] = [
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_readv,
    libc::SYS_writev,
    libc::SYS_pread64,
    libc::SYS_pwrite64,
    libc::SYS_open,
    libc::SYS_openat,
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_connect,
    libc::SYS_sendto,
    libc::SYS_sendmsg,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_wait4,
    libc::SYS_waitid,
    libc::SYS_flock,
    libc::SYS_getrandom,
    libc::SYS_futex,
];
/// The bits of an operation of `futex` without its flags.
const FUTEX_OPERATION: u64 = 0x7f;
/// The operations of `futex` that wait.
const FUTEX_WAITS: [u64; 2] = [libc::FUTEX_WAIT as u64, libc::FUTEX_WAIT_BITSET as u64];

/// The state of the thread that a signal has interrupted.
pub(super) struct Interrupted<'a>(&'a mut ucontext_t);

impl<'a> Interrupted<'a> {
    pub(super) fn new(context: &'a mut ucontext_t) -> Self {
        Self(context)
    }

    pub(super) fn program_counter(&self) -> u64 {
        self.register(REG_RIP)
    }

    /// The bytes that the program's stack for signal handlers has left below `here`, if `here` lies in that stack.
    pub(super) fn handler_stack_left(&self, here: u64) -> Option<u64> {
        let stack = &self.0.uc_stack;
        let start = stack.ss_sp.expose_provenance() as u64;
        here.checked_sub(start).filter(|left| *left < stack.ss_size as u64)
    }

    /// Makes the thread go on at `function`, as if the frame had called it.
    pub(super) fn call_from(&mut self, frame: &AtCall, function: u64) {
        for (register, value) in KEPT_REGISTERS.into_iter().zip(frame.kept) {
            self.set(register, value);
        }
        self.set(REG_RSP, frame.stack.wrapping_sub(8));
        self.set(REG_RIP, function);
        let flags = self.register(REG_EFL).cast_signed() & !DIRECTION;
        self.set(REG_EFL, flags.cast_unsigned());
    }

    /// Makes the blocking system call that the thread is about to begin, perhaps again, fail with `EINTR`.
    pub(super) fn fail_system_call(&mut self) {
        let Some(number) = self.next_system_call() else { return };
        let waits = || FUTEX_WAITS.contains(&(self.register(REG_RSI) & FUTEX_OPERATION));
        if BLOCKING.contains(&number) && (number != libc::SYS_futex || waits()) {
            self.set(REG_RIP, self.program_counter() + SYSTEM_CALL.len() as u64);
            self.set(REG_RAX, i64::from(-libc::EINTR).cast_unsigned());
        }
    }

    /// True in a system call that waits and can be cancelled. A wait for a lock is none, for functions that never throw take locks.
    pub(super) fn is_in_wait(&self) -> bool {
        match self.next_system_call() {
            Some(number) => BLOCKING.contains(&number) && number != libc::SYS_futex,
            None => {
                let before = self.program_counter().wrapping_sub(SYSTEM_CALL.len() as u64);
                let has_failed = self.register(REG_RAX) == i64::from(-libc::EINTR).cast_unsigned();
                has_failed && is_system_call(before)
            }
        }
    }

    /// The number of the system call that the thread is about to begin, perhaps again.
    fn next_system_call(&self) -> Option<i64> {
        let is_next = is_system_call(self.program_counter());
        is_next.then(|| self.register(REG_RAX).cast_signed())
    }

    fn register(&self, register: i32) -> u64 {
        self.0.uc_mcontext.gregs[register.unsigned_abs() as usize].cast_unsigned()
    }

    fn set(&mut self, register: i32, value: u64) {
        self.0.uc_mcontext.gregs[register.unsigned_abs() as usize] = value.cast_signed();
    }
}

/// True if the instruction at this address of code is a system call.
fn is_system_call(address: u64) -> bool {
    // SAFETY: the thread runs the instruction here or has run it.
    let first = unsafe { *pointer::<u8>(address) };
    // No instruction with this first byte ends behind it.
    // SAFETY: as above.
    first == SYSTEM_CALL[0] && unsafe { *pointer::<u8>(address + 1) } == SYSTEM_CALL[1]
}
