//! The signal that interrupts linked code, and its handler.
//!
//! The signal is `SIGURG`, which the Go runtime uses for the same purpose, for the same reasons. Programs and the C library do not use it,
//! debuggers pass it on without a stop, and it is ignored by default.
#![allow(
    unsafe_code,
    reason = "installs a signal handler, and changes the state of the interrupted thread"
)]

use libc::{c_int, c_void, siginfo_t, ucontext_t};
use nix::errno::Errno;

use super::frames::{self, Obstacle, Start, Way};
use super::leave::{self, farcall_leave};
use super::machine::Interrupted;
use super::unwind_tables::personalities;
use super::{obstacles, return_stubs};
use crate::error::{Error, Result};
use crate::executor::entry::unwind_boundary::served_calls::ServedCalls;
use crate::executor::interrupt::places::Place;
use crate::executor::process::eh_frame;
use crate::sync::Ordering;

/// The signal.
pub(in crate::executor::interrupt) const SIGNAL: c_int = libc::SIGURG;

/// More bytes than the unwinder needs of the stack for signal handlers. Linked code may have set one, with its variables below.
const STACK_BYTES_MIN: u64 = 16 << 10;

/// Installs the handler, and what it needs to interrupt the thread that serves these calls.
///
/// # Errors
///
/// If the program has a handler of its own for the signal, which stays, or the system refuses.
pub(in crate::executor::interrupt) fn install(served: &ServedCalls) -> Result<()> {
    static STUBS: std::sync::Once = std::sync::Once::new();
    let mut registered = Ok(());
    STUBS.call_once(|| registered = return_stubs::register());
    registered?;
    personalities::prepare();
    if served.stub().load(Ordering::Relaxed) == 0 {
        served.stub().store(return_stubs::claim(), Ordering::Relaxed);
    }
    // SAFETY: all-zero bytes are a valid action.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = on_signal as *const () as usize;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
    // SAFETY: as above.
    let mut before: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: the system writes the present action, for which there is room.
    let read = unsafe { libc::sigaction(SIGNAL, std::ptr::null(), &raw mut before) };
    checked(read)?;
    match before.sa_sigaction {
        libc::SIG_DFL | libc::SIG_IGN => {}
        handler if handler == action.sa_sigaction => return Ok(()),
        _ => return Err(Error::invalid("the program handles SIGURG itself")),
    }
    // SAFETY: the handler has the three-argument form that its flags ask for.
    checked(unsafe { libc::sigaction(SIGNAL, &raw const action, std::ptr::null_mut()) })
}

fn checked(done: c_int) -> Result<()> {
    let what = "installing the handler that interrupts calls";
    Errno::result(done).map(drop).map_err(|errno| Error::os(what, errno))
}

/// Gives back what [`install`] has taken for the thread.
pub(in crate::executor::interrupt) fn release(served: &ServedCalls) {
    return_stubs::give_back(served.stub().swap(0, Ordering::Relaxed));
}

extern "C" fn on_signal(_: c_int, _: *mut siginfo_t, context: *mut c_void) {
    let errno = Errno::last_raw();
    if let Some(served) = ServedCalls::of_thread().filter(|served| served.is_here()) {
        // SAFETY: the kernel passes the state of the interrupted thread, which it restores when the handler has returned.
        let context = unsafe { &mut *context.cast::<ucontext_t>() };
        inspect(served, &mut Interrupted::new(context));
        served.end_look();
    }
    Errno::set_raw(errno);
}

/// Looks at the interrupted thread, and makes it leave its call if it can.
fn inspect(served: &ServedCalls, thread: &mut Interrupted<'_>) {
    if !obstacles::is_wanted(served) {
        return;
    }
    served.calls().count_sample();
    let here = (&raw const *thread).expose_provenance() as u64;
    if let Some(left) = thread.handler_stack_left(here).filter(|left| *left < STACK_BYTES_MIN) {
        served.note_obstacle(obstacles::SMALL_STACK, left);
        return;
    }
    if leave::is_leaving() || !eh_frame::is_prepared() {
        return;
    }
    let stands_at = thread.program_counter();
    // A wait that fails by `EINTR` is left at once.
    let is_in_wait = Place::of(stands_at) == Place::Library && thread.is_in_wait();
    let looks = if is_in_wait { u64::MAX } else { served.calls().samples() };
    match frames::way_out(Start::Interrupted(stands_at), looks) {
        Ok(Way::From { frame, skipped, address, boundary }) => {
            leave::note(address, skipped);
            leave::begin(boundary);
            thread.call_from(&frame, farcall_leave as *const c_void as u64);
        }
        Ok(Way::Return { frame, address }) => {
            let place = served.stub().load(Ordering::Relaxed);
            let slot = frame.return_slot();
            // SAFETY: the unwinder has read the return address of a frame of this thread here.
            let is_there = unsafe { slot.read() } == address;
            if let Some(stub) = return_stubs::leading_to(place, address).filter(|_| is_there) {
                leave::note(address, 0);
                // SAFETY: as above; the stub leads to the address that was here.
                unsafe { slot.write(stub) };
                thread.fail_system_call();
            }
            served.note_obstacle(obstacles::IN_LIBRARY, stands_at);
        }
        Ok(Way::Unwind { .. }) => {}
        Err(obstacle) => {
            if matches!(obstacle, Obstacle::Returns(_)) && thread.is_in_wait() {
                thread.fail_system_call();
            }
            obstacles::note(served, obstacle);
        }
    }
}

/// The obstacle that was noted last, in words.
pub(in crate::executor::interrupt) fn obstacle(served: &ServedCalls) -> String {
    obstacles::told(served)
}
