//! Instructions for the processor: serialization, fences, prefetches, pauses; and what it can do.

use super::processor::native;

/// LLVM's names of the features that this processor has and the system lets programs use.
pub(crate) use native::features;
/// Begins to fetch the line at `address` of this process, code or data. A hint: an unmapped address is ignored.
pub(crate) use native::prefetch;
/// The same for a line that is to be written.
pub(crate) use native::prefetch_to_write;
/// From here on this thread executes the instructions that another processor wrote before the last acquired message.
pub(crate) use native::serialize;
/// Waits for `turns`, at least one, of a few cycles each. No later instruction begins before.
pub(crate) use native::spin;

/// As [`serialize`], ahead of code at this address, which is fetched meanwhile where that helps.
#[inline]
pub(crate) fn serialize_for(code: u64) {
    if native::fetches_ahead() {
        prefetch(code);
    }
    serialize();
}

/// Orders this thread's stores before its later loads, and waits until the stores have left the processor: no later instruction
/// begins before.
///
/// A thread that measures time behind a fence which holds back loads only starts its clock before other processors see the store.
#[inline(always)]
pub(crate) fn fence() {
    #[cfg(not(model))]
    native::fence();
    #[cfg(model)]
    crate::sync::fence(crate::sync::Ordering::SeqCst);
}

/// The number of the CPU that this thread runs on, plus one; 0 when the system does not tell. Takes a few nanoseconds.
pub(crate) fn current() -> u64 {
    if cfg!(model) {
        return 0;
    }
    // SAFETY: takes no argument and touches no memory of ours.
    let number = unsafe { libc::sched_getcpu() };
    u64::try_from(i64::from(number) + 1).unwrap_or(0)
}

/// Moves this thread to another of the CPUs that it may use. False where it may use one only, or the kernel refuses.
///
/// The thread may use the same CPUs afterwards, and the kernel may move it back at any time.
pub(crate) fn leave() -> bool {
    let mut allowed = no_cpus();
    // SAFETY: the kernel writes at most the size of the set, which is a live variable.
    let got = unsafe { libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut allowed) };
    // SAFETY: reads a set that the kernel has filled, or that is empty.
    let count = unsafe { libc::CPU_COUNT(&allowed) };
    let Ok(number) = usize::try_from(current().wrapping_sub(1)) else { return false };
    if got != 0 || count < 2 || number >= 8 * size_of::<libc::cpu_set_t>() {
        return false;
    }
    let mut others = allowed;
    // SAFETY: the number is below the size of the set in bits.
    unsafe { libc::CPU_CLR(number, &mut others) };
    let moved = allow(&others);
    // A set without CPUs that the thread had is refused, and changes nothing. So is this one, where control groups changed since.
    allow(&allowed);
    moved
}

fn no_cpus() -> libc::cpu_set_t {
    // SAFETY: a set of CPUs is an array of integers, for which zeros are valid.
    unsafe { std::mem::zeroed() }
}

/// From now on this thread may use these CPUs. False when the kernel refuses.
fn allow(cpus: &libc::cpu_set_t) -> bool {
    // SAFETY: the kernel reads the set, which is a live reference.
    unsafe {
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), std::ptr::from_ref(cpus)) == 0
    }
}

#[cfg(all(test, not(model)))]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_leaves_its_cpu_may_use_the_same_cpus() {
        let allowed = || {
            let mut set = no_cpus();
            // SAFETY: the kernel writes at most the size of the set, which is a live variable.
            unsafe { libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut set) };
            set
        };
        std::thread::spawn(move || {
            let before = allowed();
            // SAFETY: reads a set that the kernel has filled.
            let count = unsafe { libc::CPU_COUNT(&before) };
            assert_eq!(leave(), count > 1);
            assert!(allowed() == before);
            let mut one = no_cpus();
            let number = usize::try_from(current() - 1).expect("a CPU");
            // SAFETY: the number names a CPU of this machine.
            unsafe { libc::CPU_SET(number, &mut one) };
            assert!(allow(&one));
            assert!(!leave());
            assert!(allowed() == one);
        })
        .join()
        .expect("no panic");
    }

    #[test]
    fn time_passes_for_any_number_of_turns() {
        for turns in 0..300 {
            spin(turns);
        }
    }
}
