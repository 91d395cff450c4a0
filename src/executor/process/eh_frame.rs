//! Registers call frame information (`.eh_frame`) of linked code with the unwinder, and deregisters it, as allocation
//! actions.
//!
//! LLVM's libunwind registers a whole section by `__unw_add_dynamic_eh_frame_section`; its `__register_frame` takes single
//! records. libgcc's `__register_frame_info` takes a section that ends with a zero word. It aborts the process at a second
//! registration or an unknown deregistration.
//!
//! JITLink strips records of functions that are gone, and leaves zeros in their place. An unwinder stops at the first zero
//! word, so it would not find the records behind. Here the records between two zero words are a *run*. Each run that describes
//! a function is registered by itself; the zero word behind it ends it.
//!
//! Before version 13, libgcc has one list of all sections, which a deregistration walks through. Its entries are in memory that the
//! caller provides. Here they lie side by side. With `__register_frame`, which allocates each one, a walk over 8,000 of them took
//! thirty times as long.
//!
//! Invariant: the runs of a section are registered while it is in [`SECTIONS`], and with one unwinder, which is also the thrower.
#![allow(unsafe_code, reason = "calls the unwinder's registration functions")]

use std::collections::{BTreeMap, VecDeque};
use std::ffi::{CStr, c_void};
use std::mem::MaybeUninit;
use std::sync::OnceLock;

use crate::call::contract::{
    FramesDeregister, FramesRegister, LlvmFramesDeregister, LlvmFramesRegister,
};
use crate::error::{Error, Result};
use crate::executor::entry::address::pointer;
use crate::executor::entry::wrapper::Serve;
use crate::sps::Status;
use crate::sync::Mutex;
use crate::sys::memory::access;
use crate::{AddrRange, ExecutorAddr};

/// The registered sections.
struct Sections {
    /// By start address.
    all: BTreeMap<ExecutorAddr, (AddrRange, Vec<Run>)>,
    /// Entries that can be used, the longest free first. So sections that come and go in one order keep theirs in that order, too.
    free: VecDeque<*mut Entry>,
}

/// Records that are registered together: the address of the first one, and their entry in the unwinder's list, if that is
/// libgcc's.
type Run = (ExecutorAddr, Option<*mut Entry>);

// SAFETY: an entry is reached under the lock only, or by the unwinder, so it may move between threads.
unsafe impl Send for Sections {}

static SECTIONS: Mutex<Sections> =
    Mutex::new(Sections { all: BTreeMap::new(), free: VecDeque::new() });

/// What libgcc keeps of a section: `struct object`. It has 48 bytes, here with room to spare.
#[repr(C, align(64))]
struct Entry([u64; 8]);

/// Entries that are allocated together. They stay as long as the process.
const ENTRIES: usize = 256;

impl Sections {
    /// An entry that the unwinder does not use.
    fn entry(&mut self) -> *mut Entry {
        if let Some(entry) = self.free.pop_front() {
            return entry;
        }
        let entries = (0..ENTRIES).map(|_| Entry([0; 8])).collect::<Vec<_>>();
        // The last one is used first, so that the list, whose first entry is the newest, goes up in memory.
        let entries = Box::leak(entries.into_boxed_slice());
        self.free.extend(entries.iter_mut().rev().map(std::ptr::from_mut));
        self.free.pop_front().unwrap_or(std::ptr::null_mut())
    }
}

/// Registering a registered section again changes nothing.
impl Serve for FramesRegister {
    fn serve((section,): (AddrRange,)) -> Result<()> {
        let runs = runs(section)?;
        let mut sections = SECTIONS.lock();
        match sections.all.get(&section.start) {
            Some((same, _)) if *same == section => Ok(()),
            Some((other, _)) => Err(Error::invalid(format!(
                "call frame information {}..{}: {}..{} is registered there",
                section.start, section.end, other.start, other.end
            ))),
            None => {
                let unwinder = unwinder();
                let register = |start| {
                    let entry = matches!(unwinder, Unwinder::Frames).then(|| sections.entry());
                    unwinder.register(start, entry.unwrap_or(std::ptr::null_mut()));
                    (start, entry)
                };
                let runs = runs.into_iter().map(register).collect();
                sections.all.insert(section.start, (section, runs));
                Ok(())
            }
        }
    }
}

impl Serve for FramesDeregister {
    fn serve((section,): (AddrRange,)) -> Result<()> {
        let mut sections = SECTIONS.lock();
        if sections.all.get(&section.start).is_none_or(|(known, _)| *known != section) {
            return Err(Error::invalid(format!(
                "call frame information {}..{} is not registered",
                section.start, section.end
            )));
        }
        let Some((_, runs)) = sections.all.remove(&section.start) else { return Ok(()) };
        for (start, entry) in runs {
            unwinder().deregister(start);
            sections.free.extend(entry);
        }
        Ok(())
    }
}

impl Serve for LlvmFramesRegister {
    fn serve(section: (AddrRange,)) -> Result<Status> {
        Ok(FramesRegister::serve(section).into())
    }
}

impl Serve for LlvmFramesDeregister {
    fn serve(section: (AddrRange,)) -> Result<Status> {
        Ok(FramesDeregister::serve(section).into())
    }
}

/// The registration functions of the process's unwinder.
#[derive(Debug, Clone, Copy)]
enum Unwinder {
    /// libunwind's functions that add and remove a section.
    Sections { add: unsafe extern "C" fn(usize), remove: unsafe extern "C" fn(usize) },
    /// libgcc's functions.
    Frames,
}

impl Unwinder {
    /// Registers the run of records at this address.
    fn register(self, start: ExecutorAddr, entry: *mut Entry) {
        let begin = pointer::<c_void>(start);
        match self {
            // SAFETY: the run was checked, and stays until the matching dealloc action.
            Self::Sections { add, .. } => unsafe { add(begin.addr()) },
            // SAFETY: the run was checked: it ends with a zero word. It and the entry, which nothing else uses, stay until
            // the matching dealloc action.
            Self::Frames => unsafe { __register_frame_info(begin, entry) },
        }
    }

    fn deregister(self, start: ExecutorAddr) {
        let begin = pointer::<c_void>(start);
        match self {
            // SAFETY: the run is registered, and not a second time.
            Self::Sections { remove, .. } => unsafe { remove(begin.addr()) },
            Self::Frames => {
                // SAFETY: the run is registered, and not a second time.
                unsafe { __deregister_frame_info(begin) };
            }
        }
    }
}

/// The unwinder that throws in this process. libunwind may be loaded beside it without being used.
fn unwinder() -> Unwinder {
    static UNWINDER: OnceLock<Unwinder> = OnceLock::new();
    *UNWINDER.get_or_init(|| {
        let (thrower, raise) = found(c"_Unwind_RaiseException");
        let (adder, add) = found(c"__unw_add_dynamic_eh_frame_section");
        let (remover, remove) = found(c"__unw_remove_dynamic_eh_frame_section");
        if raise.is_null() || add.is_null() || remove.is_null() || [adder, remover] != [thrower; 2]
        {
            return Unwinder::Frames;
        }
        // SAFETY: libunwind declares this function so.
        let add = unsafe { std::mem::transmute::<*mut c_void, unsafe extern "C" fn(usize)>(add) };
        // SAFETY: libunwind declares this function so.
        let remove =
            unsafe { std::mem::transmute::<*mut c_void, unsafe extern "C" fn(usize)>(remove) };
        Unwinder::Sections { add, remove }
    })
}

/// The base address of the file that defines a function which linked code would find, and the function; nulls if
/// there is none.
fn found(name: &CStr) -> (usize, *mut c_void) {
    // SAFETY: the name is a C string.
    let function = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    let mut info = MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: `info` has room for the answer; `dladdr` accepts any address.
    unsafe { libc::dladdr(function, info.as_mut_ptr()) };
    // SAFETY: all-zero bytes are a valid answer, as is what the function wrote.
    let info = unsafe { info.assume_init() };
    (info.dli_fbase.addr(), function)
}

/// Checks a whole section: its records and zero words must follow each other up to a zero word at its end. Returns the address of
/// each run that describes a function.
fn runs(section: AddrRange) -> Result<Vec<ExecutorAddr>> {
    let refuse = |why: String| {
        let AddrRange { start, end } = section;
        Err(Error::invalid(format!("call frame information {start}..{end}: {why}")))
    };
    let size = usize::try_from(section.bytes()).unwrap_or(usize::MAX);
    if size < 4 {
        return refuse("no room for the word that ends it".to_owned());
    }
    let mut bytes = vec![0; size];
    access::read(&[(section.start.get(), size)], &mut bytes)?;
    let word = |at: usize| {
        let word = bytes.get(at..).and_then(<[u8]>::first_chunk::<4>);
        word.map(|word| u32::from_le_bytes(*word))
    };
    let mut runs = Vec::new();
    // The offset of the run's first record, and whether the run describes a function.
    let (mut first, mut has_function) = (0, false);
    let mut at = 0;
    while let Some(length) = word(at) {
        let end = usize::try_from(length).ok().and_then(|length| at.checked_add(4 + length));
        match end {
            Some(end) if length == 0 => {
                if has_function {
                    runs.extend(section.start.checked_add(first as u64));
                }
                if end == size {
                    return Ok(runs);
                }
                (first, has_function, at) = (end, false, end);
            }
            Some(end) if length >= 4 && end < size => {
                // The second word of a CIE is 0; that of an FDE leads to its CIE.
                has_function |= word(at + 4) != Some(0);
                at = end;
            }
            _ => return refuse(format!("a record of length {length:#x} at offset {at:#x}")),
        }
    }
    refuse(format!("it ends at offset {at:#x} without a zero word"))
}

unsafe extern "C" {
    fn __register_frame_info(begin: *const c_void, entry: *mut Entry);
    fn __deregister_frame_info(begin: *const c_void) -> *mut Entry;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Call frame information of a function: a CIE, an FDE, the terminator.
    fn section(function: u64, bytes: u64) -> Vec<u8> {
        let mut section = vec![20, 0, 0, 0, 0, 0, 0, 0, 1, b'z', b'R', 0, 1, 0x78, 16, 1, 0x00];
        section.extend([0x0c, 7, 8, 0x90, 1, 0, 0]);
        section.extend([28, 0, 0, 0, 28, 0, 0, 0]);
        section.extend([function.to_le_bytes(), bytes.to_le_bytes()].concat());
        section.extend([0; 8]);
        section.extend([0; 4]);
        section
    }

    fn range(bytes: &[u8]) -> AddrRange {
        let start = ExecutorAddr::new(bytes.as_ptr().expose_provenance() as u64);
        AddrRange::sized(start, bytes.len() as u64).expect("no overflow")
    }

    #[test]
    fn registration_is_idempotent_and_symmetrical() {
        let section = section(0x10_0000, 16);
        let all = range(&section);
        for _ in 0..3 {
            for _ in 0..3 {
                FramesRegister::serve((all,)).expect("registered");
            }
            FramesDeregister::serve((all,)).expect("taken back");
            let error = FramesDeregister::serve((all,)).expect_err("it is gone").to_string();
            assert!(error.contains("is not registered") && error.contains(&all.start.to_string()));
        }
    }

    #[test]
    fn a_section_is_checked_whole() {
        let good = section(0x20_0000, 16);
        let start = range(&good).start;
        assert_eq!(runs(range(&good)).expect("good"), [start]);
        assert_eq!(runs(range(&[0; 4])).expect("nothing but the end"), []);
        let cut = &good[..good.len() - 4];
        let more = [&good[..], &[1, 0, 0, 0]].concat();
        let mut long = good.clone();
        long[24] = 29;
        let mut wide = good.clone();
        wide[..4].copy_from_slice(&[0xff; 4]);
        for bad in [&[][..], &[0; 3], cut, &more, &long, &wide, &good[..20], &good[..26]] {
            let error = FramesRegister::serve((range(bad),)).expect_err("bad").to_string();
            assert!(error.contains("call frame information"), "{error}");
        }
        let nowhere = AddrRange::sized(ExecutorAddr::new(16), 64).expect("no overflow");
        assert!(FramesRegister::serve((nowhere,)).is_err());
    }

    /// What JITLink 22 leaves where it strips records: zero words, and records behind them.
    #[test]
    fn records_between_zero_words_are_registered() {
        let (cie, fde) = (24, 32);
        let whole = section(0x30_0000, 16);
        // The CIE alone, a gap, the FDE with a longer way to its CIE, a wide gap, a whole section, its end.
        let mut bytes = whole[..cie].to_vec();
        bytes.extend([0; 4]);
        let second = bytes.len();
        bytes.extend(&whole[cie..cie + fde]);
        bytes[second + 4] += 4;
        bytes.extend([0; 12]);
        let third = bytes.len();
        bytes.extend(section(0x31_0000, 16));
        let all = range(&bytes);
        let expected = [second, third].map(|at| all.start.get() + at as u64);
        let found: Vec<u64> = runs(all).expect("good").iter().map(|run| run.get()).collect();
        assert_eq!(found, expected, "a run without a function is left out");
        for (function, is_found) in [(0x30_0000, true), (0x31_0000, true), (0x32_0000, false)] {
            FramesRegister::serve((all,)).expect("registered");
            assert_eq!(described(function + 8), is_found.then_some(function), "{function:#x}");
            FramesDeregister::serve((all,)).expect("taken back");
            assert_eq!(described(function + 8), None, "{function:#x}");
        }
    }

    /// The start of the function that the unwinder finds at this address.
    fn described(address: usize) -> Option<usize> {
        unsafe extern "C" {
            fn _Unwind_Find_FDE(pc: *const c_void, bases: *mut [*const c_void; 3])
            -> *const c_void;
        }
        let mut bases = [std::ptr::null(); 3];
        // SAFETY: the function searches for any address, and `bases` has room for the answer.
        let fde =
            unsafe { _Unwind_Find_FDE(std::ptr::without_provenance(address), &raw mut bases) };
        (!fde.is_null()).then(|| bases[2].addr())
    }
}
