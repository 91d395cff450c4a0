//! The entry points by which linked code asks for a dynamic thread-local: the function that it calls, and the
//! function in TLS descriptors.
//!
//! Both are short if the thread has its block. They load the address of the thread's DTV, and from it the address of the block.
//! The DTV has one distance from the thread pointer in all threads. Otherwise they call `dynamic::find`.
//!
//! The descriptor's function may change one register only, so the long way saves all others, vector registers
//! included. Some compilers align the stack for neither function, so the long way aligns it.
//!
//! Invariant: neither function is called before the first TLS module is registered.
#![allow(unsafe_code, reason = "the functions are called by code only, so they are in assembler")]

use super::dynamic::{self, DTV_DISTANCE, ENTRIES_OFFSET};
use crate::ExecutorAddr;
use crate::call::contract::{THREAD_ADDRESS, THREAD_DESCRIPTOR};
use crate::executor::entry::abi;

/// The names and addresses of the functions.
pub(crate) fn functions() -> [(String, ExecutorAddr); 2] {
    let address = |function: *const ()| ExecutorAddr::new(function as u64);
    [
        (THREAD_ADDRESS.to_owned(), address(farcall_thread_address as *const ())),
        (THREAD_DESCRIPTOR.to_owned(), address(farcall_thread_descriptor as *const ())),
    ]
}

abi::thread_functions!(DTV_DISTANCE, ENTRIES_OFFSET, dynamic::find);

unsafe extern "C" {
    /// `__tls_get_addr`: takes the address of a module number and an offset, and returns an address.
    safe fn farcall_thread_address();
    /// See [`THREAD_DESCRIPTOR`].
    safe fn farcall_thread_descriptor();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::AddrRange;
    use crate::call::contract::{ThreadBlockDeregister, ThreadBlockRegister};
    use crate::executor::entry::abi::native::called::Registers;
    use crate::executor::entry::wrapper::Serve;
    use crate::sys::process::thread;

    #[test]
    fn descriptors_leave_all_registers_but_one_alone() {
        let values = [7_u64, 8, 9];
        let start = ExecutorAddr::new(values.as_ptr() as u64);
        let initial = AddrRange::sized(start, 24).expect("short");
        ThreadBlockRegister::serve((300, initial, 5000)).expect("free");
        let word = |index: usize| 0x0101_0101_0101_0101_u64.wrapping_mul(index as u64 + 1);
        let registers = Registers::of(word);
        let function = farcall_thread_descriptor as *const () as u64;
        let first = function_result(&[300, 8]);
        std::thread::spawn(move || {
            // The first time on the long way, the second time on the short one.
            for _ in 0..2 {
                let (distance, after) = registers.around(&[function, 300, 16]);
                assert_eq!(after, registers);
                assert_eq!(thread::word_at(thread::pointer().wrapping_add(distance)), Some(9));
                let (next, _) = registers.around(&[function, 300, 8]);
                assert_eq!(next, distance.wrapping_sub(8));
                let own = function_result(&[300, 8]);
                assert_eq!(own, thread::pointer().wrapping_add(next));
                assert_ne!(own, first);
            }
        })
        .join()
        .expect("no panic");
        assert_eq!((thread::word_at(first), function_result(&[300, 8])), (Some(8), first));
        ThreadBlockDeregister::serve((300,)).expect("forgotten");
    }

    /// The result of the called function for two words.
    fn function_result(words: &[u64; 2]) -> u64 {
        type Function = unsafe extern "C" fn(*const [u64; 2]) -> u64;
        // SAFETY: that is the form of the function.
        let function: Function =
            unsafe { std::mem::transmute(farcall_thread_address as *const ()) };
        // SAFETY: there are two words.
        unsafe { function(words) }
    }
}
