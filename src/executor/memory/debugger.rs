//! Registers object files of linked code with debuggers, and deregisters them, as allocation actions: GDB's JIT
//! interface, which LLDB reads too.
//!
//! LLVM 22 registers objects and never deregisters them. It frees their memory, and later another object lies there. So
//! an entry also goes in these cases:
//!
//! | event | what happens to the entries of objects in the range |
//! |---|---|
//! | the memory map frees memory | they are deregistered first ([`forget`]) |
//! | an object is registered | it replaces those that it overlaps |
//!
//! A debugger sets a breakpoint on `__jit_debug_register_code` and reads the list that starts at
//! `__jit_debug_descriptor` at each hit. Both symbols exist once in a process. The definitions here are weak: if a
//! program defines them itself (LLVM does), all use its list.
//!
//! Invariant: an object is in the list while it is in [`ENTRIES`], and lies in memory that is in use. Objects in the
//! list do not overlap.
#![allow(unsafe_code, reason = "the list is made of pointers, in a form that debuggers define")]

use std::collections::BTreeMap;

use crate::call::contract::{DebuggerDeregister, DebuggerRegister};
use crate::error::{Error, Result};
use crate::executor::entry::address::pointer;
use crate::executor::entry::wrapper::Serve;
use crate::executor::memory::object_names;
use crate::sync::Mutex;
use crate::{AddrRange, ExecutorAddr};

#[cfg(not(test))]
std::arch::global_asm!(
    ".pushsection .text.__jit_debug_register_code,\"ax\",@progbits",
    ".weak __jit_debug_register_code",
    ".type __jit_debug_register_code,@function",
    "__jit_debug_register_code:",
    "ret",
    ".size __jit_debug_register_code, . - __jit_debug_register_code",
    ".popsection",
);

std::arch::global_asm!(
    ".pushsection .data.__jit_debug_descriptor,\"aw\",@progbits",
    ".weak __jit_debug_descriptor",
    ".type __jit_debug_descriptor,@object",
    ".balign 8",
    "__jit_debug_descriptor:",
    ".long 1",
    ".long 0",
    ".quad 0",
    ".quad 0",
    ".size __jit_debug_descriptor, . - __jit_debug_descriptor",
    ".popsection",
);

unsafe extern "C" {
    /// Does nothing; debuggers stop here.
    fn __jit_debug_register_code();
    static mut __jit_debug_descriptor: Descriptor;
}

#[repr(C)]
struct Descriptor {
    version: u32,
    action: u32,
    /// The entry that the action concerns.
    relevant: *mut Entry,
    first: *mut Entry,
}

#[repr(C)]
struct Entry {
    next: *mut Entry,
    previous: *mut Entry,
    object: *const u8,
    bytes: u64,
}

const _: () = assert!(size_of::<Descriptor>() == 24 && size_of::<Entry>() == 32);

const NO_ACTION: u32 = 0;
const REGISTER: u32 = 1;
const UNREGISTER: u32 = 2;

/// An object and its entry in the list.
struct Registered {
    entry: *mut Entry,
    object: AddrRange,
}

// SAFETY: an entry is reached under the lock only, so it may move between threads.
unsafe impl Send for Registered {}

/// The registered objects, by start address. The lock is held while the list changes.
static ENTRIES: Mutex<BTreeMap<ExecutorAddr, Registered>> = Mutex::new(BTreeMap::new());

impl Serve for DebuggerRegister {
    fn serve((object,): (AddrRange,)) -> Result<()> {
        if object.bytes() == 0 {
            return Err(Error::invalid(format!("an empty object at {}", object.start)));
        }
        let mut entries = ENTRIES.lock();
        deregister_all_in(&mut entries, object);
        let entry = Box::into_raw(Box::new(Entry {
            next: std::ptr::null_mut(),
            previous: std::ptr::null_mut(),
            object: pointer(object.start),
            bytes: object.bytes(),
        }));
        // SAFETY: the lock is held, and the entry is in no list yet.
        unsafe { link(entry) };
        // SAFETY: the lock is held, and the entry is in the list.
        unsafe { announce(REGISTER, entry) };
        entries.insert(object.start, Registered { entry, object });
        Ok(())
    }
}

impl Serve for DebuggerDeregister {
    fn serve((object,): (AddrRange,)) -> Result<()> {
        let mut entries = ENTRIES.lock();
        if entries.get(&object.start).is_none_or(|found| found.object != object) {
            return Err(Error::invalid(format!(
                "object {}..{} is not registered",
                object.start, object.end
            )));
        }
        deregister_all_in(&mut entries, object);
        Ok(())
    }
}

/// Deregisters every object of which a byte lies in one of these ranges. Call this before their memory is freed.
pub(super) fn forget(ranges: impl IntoIterator<Item = AddrRange>) {
    let mut entries = ENTRIES.lock();
    for range in ranges {
        if entries.is_empty() {
            return;
        }
        deregister_all_in(&mut entries, range);
    }
}

/// Calls `found` with the name of the registered function that contains an address, and the offset of the address in it. Returns
/// false if there is none, or a thread is changing the list. Allocates nothing.
pub(crate) fn function_at(address: u64, found: impl FnOnce(&[u8], u64)) -> bool {
    let Some(entries) = ENTRIES.try_lock() else { return false };
    for Registered { object, .. } in entries.values() {
        let bytes = usize::try_from(object.bytes()).unwrap_or(0);
        // SAFETY: the bytes of a registered object stay until it is deregistered, for which the lock is needed.
        let object = unsafe { std::slice::from_raw_parts(pointer::<u8>(object.start), bytes) };
        if let Some((name, offset)) = object_names::function_at(object, address) {
            found(name, offset);
            return true;
        }
    }
    false
}

/// Deregisters every object of which a byte lies in the range.
fn deregister_all_in(entries: &mut BTreeMap<ExecutorAddr, Registered>, range: AddrRange) {
    // Objects do not overlap, so the last one below the end of the range is the last one in it.
    while let Some((start, last)) = entries.range(..range.end).next_back()
        && last.object.end > range.start
    {
        let start = *start;
        let Some(Registered { entry, .. }) = entries.remove(&start) else { return };
        // SAFETY: the lock is held, and the entry is in the list.
        unsafe { unlink(entry) };
        // SAFETY: the lock is held; the entry is freed after the debugger has read the action.
        unsafe { announce(UNREGISTER, entry) };
        // SAFETY: the entry comes from a `Box`, and no pointer leads to it any more.
        drop(unsafe { Box::from_raw(entry) });
    }
}

/// Inserts an entry at the front of the list.
///
/// # Safety
///
/// The lock must be held, and the entry be in no list.
#[expect(clippy::multiple_unsafe_ops_per_block, reason = "one list, one lock")]
unsafe fn link(entry: *mut Entry) {
    let descriptor = &raw mut __jit_debug_descriptor;
    // SAFETY: entries in the list live, and the caller holds the lock of the list.
    unsafe {
        let next = (*descriptor).first;
        (*entry).next = next;
        if !next.is_null() {
            (*next).previous = entry;
        }
        (*descriptor).first = entry;
    }
}

/// Removes an entry from the list.
///
/// # Safety
///
/// The lock must be held, and the entry be in the list.
#[expect(clippy::multiple_unsafe_ops_per_block, reason = "one list, one lock")]
unsafe fn unlink(entry: *mut Entry) {
    let descriptor = &raw mut __jit_debug_descriptor;
    // SAFETY: entries in the list live, and the caller holds the lock of the list.
    unsafe {
        let Entry { next, previous, .. } = *entry;
        match previous.is_null() {
            true => (*descriptor).first = next,
            false => (*previous).next = next,
        }
        if !next.is_null() {
            (*next).previous = previous;
        }
    }
}

/// Reports an action to the debugger.
///
/// # Safety
///
/// The lock must be held, and the entry live.
#[expect(clippy::multiple_unsafe_ops_per_block, reason = "one descriptor, one lock")]
unsafe fn announce(action: u32, entry: *mut Entry) {
    let descriptor = &raw mut __jit_debug_descriptor;
    // SAFETY: the caller holds the lock of the descriptor; the function does nothing. Debuggers read the words while
    // this thread is stopped in the function, so the stores must precede the call.
    unsafe {
        (&raw mut (*descriptor).relevant).write_volatile(entry);
        (&raw mut (*descriptor).action).write_volatile(action);
        __jit_debug_register_code();
        (&raw mut (*descriptor).action).write_volatile(NO_ACTION);
        (&raw mut (*descriptor).relevant).write_volatile(std::ptr::null_mut());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DESCRIPTOR: *const Descriptor = &raw const __jit_debug_descriptor;

    /// The view of a debugger: the action, and the object's address and size.
    static SEEN: Mutex<Vec<(u32, u64, u64)>> = Mutex::new(Vec::new());

    /// A program's own definition, which overrides the weak one.
    #[unsafe(no_mangle)]
    extern "C" fn __jit_debug_register_code() {
        // SAFETY: called under the lock.
        let Descriptor { action, relevant, .. } = unsafe { DESCRIPTOR.read() };
        // SAFETY: the entry that is announced lives.
        let Entry { object, bytes, .. } = unsafe { relevant.read() };
        SEEN.lock().push((action, object.addr() as u64, bytes));
    }

    /// The addresses of the objects in the list, the first first. Checks that the list is the same backwards.
    fn listed() -> Vec<u64> {
        let _lock = ENTRIES.lock();
        let mut found = Vec::new();
        // SAFETY: under the lock.
        let mut entry = unsafe { DESCRIPTOR.read() }.first;
        let mut previous = std::ptr::null_mut();
        while !entry.is_null() {
            // SAFETY: entries in the list live.
            let Entry { next, previous: back, object, .. } = unsafe { entry.read() };
            assert_eq!(back, previous);
            found.push(object.addr() as u64);
            (previous, entry) = (entry, next);
        }
        found
    }

    fn object(start: u64, bytes: u64) -> AddrRange {
        AddrRange::sized(ExecutorAddr::new(start), bytes).expect("no overflow")
    }

    /// The way of LLVM 22: it frees the memory of a registered object, and registers another one there.
    fn objects_go_with_their_memory_and_are_replaced() {
        let register =
            |start, bytes| DebuggerRegister::serve((object(start, bytes),)).expect("registered");
        for start in [0x1000, 0x2000, 0x3000, 0x4000] {
            register(start, 0x1000);
        }
        forget([object(0x1000, 0x1000), object(0x5000, 0x1000)]);
        assert_eq!(listed(), [0x4000, 0x3000, 0x2000], "the neighbours stay");
        forget([object(0x2fff, 2)]);
        assert_eq!(listed(), [0x4000], "a byte of each was freed");
        SEEN.lock().clear();
        register(0x4000, 0x1000);
        register(0x4800, 0x1000);
        register(0x3800, 0x4000);
        register(0x4000, 8);
        let seen = std::mem::take(&mut *SEEN.lock());
        let events: Vec<_> = seen.iter().map(|(action, start, _)| (*action, *start)).collect();
        let replaced = [0x4000, 0x4000, 0x4800, 0x3800];
        let mut expected = Vec::new();
        for (old, new) in replaced.into_iter().zip([0x4000, 0x4800, 0x3800, 0x4000]) {
            expected.extend([(UNREGISTER, old), (REGISTER, new)]);
        }
        assert_eq!(events, expected, "the old one goes first");
        assert_eq!(listed(), [0x4000]);
        forget([object(0, u64::MAX)]);
        assert_eq!(listed(), [0; 0]);
        forget([object(0, u64::MAX)]);
    }

    // One test, because there is one list.
    #[test]
    fn objects_are_listed_while_they_are_registered() {
        let all = [0x1000, 0x2000, 0x3000, 0x4000].map(|start| object(start, 0x100));
        all.iter().for_each(|one| DebuggerRegister::serve((*one,)).expect("registered"));
        assert_eq!(listed(), [0x4000, 0x3000, 0x2000, 0x1000], "the newest first");
        assert!(DebuggerRegister::serve((object(0x9000, 0),)).is_err(), "empty");
        assert!(DebuggerDeregister::serve((object(0x2000, 0x80),)).is_err(), "another one");

        for (gone, left) in
            [(1, &[0x4000, 0x3000, 0x1000][..]), (3, &[0x3000, 0x1000]), (0, &[0x3000]), (2, &[])]
        {
            DebuggerDeregister::serve((all[gone],)).expect("taken back");
            assert_eq!(listed(), left);
            let again = DebuggerDeregister::serve((all[gone],)).expect_err("it is gone");
            assert!(again.to_string().contains("is not registered"), "{again}");
        }
        let registered = [0x1000, 0x2000, 0x3000, 0x4000].map(|start| (REGISTER, start, 0x100));
        let taken = [0x2000, 0x4000, 0x1000, 0x3000].map(|start| (UNREGISTER, start, 0x100));
        assert_eq!(std::mem::take(&mut *SEEN.lock()), [registered, taken].concat());
        objects_go_with_their_memory_and_are_replaced();
        // SAFETY: no other test changes the descriptor.
        let after = unsafe { DESCRIPTOR.read() };
        assert_eq!((after.version, after.action), (1, NO_ACTION));
        assert!(after.relevant.is_null() && after.first.is_null());
    }
}
