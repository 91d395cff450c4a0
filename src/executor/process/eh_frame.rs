//! Registers call frame information (`.eh_frame`) of linked code with the unwinder, and deregisters it, as allocation
//! actions.
//!
//! LLVM's libunwind registers a whole section by `__unw_add_dynamic_eh_frame_section`; its `__register_frame` takes single
//! records. libgcc's `__register_frame_info` takes a section that ends with a zero word. It aborts the process at a second
//! registration or an unknown deregistration.
//!
//! JITLink strips records of functions that are gone, and leaves gaps for the alignment of what follows. The words in a gap are
//! zero, or what was in the controller's memory before. An unwinder stops at a zero word, and reads any other word as a record.
//! Here the records between two gaps are a *run*. Each run that describes a function is registered by itself; the gap behind it
//! ends it, and is set to zero for that.
//!
//! Before version 13, libgcc has one list of all sections, which a deregistration walks through. Its entries are in memory that the
//! caller provides. Here they lie side by side. With `__register_frame`, which allocates each one, a walk over 8,000 of them took
//! thirty times as long.
//!
//! Invariant: the runs of a section are registered while it is in [`SECTIONS`], and with one unwinder, which is also the thrower.
#![allow(unsafe_code, reason = "calls the unwinder's registration functions")]

use std::collections::{BTreeMap, VecDeque};
use std::ffi::{CStr, c_void};
use std::fs::File;
use std::mem::MaybeUninit;
use std::os::unix::fs::FileExt;
use std::sync::OnceLock;

use crate::call::contract::{
    FramesDeregister, FramesRegister, LlvmFramesDeregister, LlvmFramesRegister,
};
use crate::error::{Error, Result};
use crate::executor::entry::address::pointer;
use crate::executor::entry::wrapper::Serve;
use crate::sps::Status;
use crate::sync::{AtomicU64, Mutex, Ordering};
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

/// Sections that were registered so far, and how many of them the unwinder has prepared for its searches.
static REGISTERED: AtomicU64 = AtomicU64::new(0);
static PREPARED: AtomicU64 = AtomicU64::new(0);

/// Makes the unwinder prepare all sections for its searches: the first search behind a registration allocates memory. Waits for no linked
/// code.
pub(crate) fn prepare() {
    let registered = REGISTERED.load(Ordering::Acquire);
    if PREPARED.load(Ordering::Relaxed) != registered {
        let mut bases = [std::ptr::null(); 3];
        // SAFETY: no function is at this address, and there is room for the three words of a result.
        unsafe { _Unwind_Find_FDE(std::ptr::without_provenance(1), &raw mut bases) };
        PREPARED.store(registered, Ordering::Release);
    }
}

/// True if a search of the unwinder allocates nothing, so that a signal handler may begin one.
pub(crate) fn is_prepared() -> bool {
    PREPARED.load(Ordering::Acquire) == REGISTERED.load(Ordering::Acquire)
}

unsafe extern "C" {
    fn _Unwind_Find_FDE(pc: *const c_void, bases: *mut [*const c_void; 3]) -> *const c_void;
}

static SECTIONS: Mutex<Sections> =
    Mutex::new(Sections { all: BTreeMap::new(), free: VecDeque::new() });

/// libgcc's record of a section: `struct object`. It has 48 bytes, here with room to spare.
#[repr(C, align(64))]
struct Entry([u64; 8]);

/// Entries that are allocated together. They stay until the process ends.
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
        register(section, Gaps::Zero)
    }
}

/// Registers a section of this library's own, which stays.
///
/// # Errors
///
/// When it is malformed.
pub(crate) fn register_own(section: AddrRange) -> Result<()> {
    register(section, Gaps::Zero)
}

/// The possible content of gaps between records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Gaps {
    /// Zeros: any other word that is no record is damage.
    Zero,
    /// Anything, as with LLVM's controllers.
    Any,
}

fn register(section: AddrRange, gaps: Gaps) -> Result<()> {
    let runs = runs(section, gaps)?;
    let mut sections = SECTIONS.lock();
    match sections.all.get(&section.start) {
        Some((same, _)) if *same == section => Ok(()),
        Some((other, _)) => Err(Error::invalid(format!(
            "call frame information {}..{}: {}..{} is registered there",
            section.start, section.end, other.start, other.end
        ))),
        None => {
            // Before the unwinder gets the section.
            REGISTERED.fetch_add(1, Ordering::AcqRel);
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
    fn serve((section,): (AddrRange,)) -> Result<Status> {
        Ok(register(section, Gaps::Any).into())
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

/// Checks a whole section, which must end with a zero word. Returns the address of each run that describes a function, if a zero
/// word ends the run.
fn runs(section: AddrRange, gaps: Gaps) -> Result<Vec<ExecutorAddr>> {
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
    let (mut runs, mut cies) = (Vec::new(), Vec::new());
    // The offset of the run's first record, and whether the run describes a function.
    let (mut first, mut has_function) = (0, false);
    let mut at = 0;
    while let Some(length) = word(&bytes, at) {
        // A word in a gap may look like the length of an FDE. The true record is behind it then.
        let is_gap = gaps == Gaps::Any && record(&bytes, at + 4, &cies, gaps).is_some();
        match record(&bytes, at, &cies, gaps).filter(|_| !is_gap) {
            Some((end, is_cie)) => {
                if is_cie {
                    cies.push(at);
                }
                has_function |= !is_cie;
                at = end;
                continue;
            }
            None if length != 0 && gaps == Gaps::Zero => {
                return refuse(format!("a record of length {length:#x} at offset {at:#x}"));
            }
            None => {}
        }
        let end = section.start.get() + at as u64;
        if has_function && (length == 0 || set_zero(end)) {
            runs.extend(section.start.checked_add(first as u64));
        }
        at += 4;
        if at == size && length == 0 {
            return Ok(runs);
        }
        (first, has_function) = (at, false);
    }
    refuse(format!("it ends at offset {at:#x} without a zero word"))
}

/// The word at an offset, if it is inside.
fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let word = bytes.get(at..).and_then(<[u8]>::first_chunk::<4>);
    word.map(|word| u32::from_le_bytes(*word))
}

/// The end of the record at an offset, and whether it is a CIE; `None` if there is no record. A word is left behind the record for
/// what ends the section. Where gaps may hold anything, a CIE must have a known version. An FDE must lead back to one of the
/// CIEs before it, whose sorted offsets are `cies`.
fn record(bytes: &[u8], at: usize, cies: &[usize], gaps: Gaps) -> Option<(usize, bool)> {
    let length = usize::try_from(word(bytes, at)?).ok().filter(|length| *length >= 4)?;
    let end = at.checked_add(4 + length).filter(|end| *end < bytes.len())?;
    match word(bytes, at + 4)? {
        second if gaps == Gaps::Zero => Some((end, second == 0)),
        0 => matches!(bytes.get(at + 8), Some(1 | 3)).then_some((end, true)),
        distance => {
            let cie = (at + 4).checked_sub(usize::try_from(distance).ok()?)?;
            cies.binary_search(&cie).ok().map(|_| (end, false))
        }
    }
}

/// Sets a word in a gap to zero, though its page may be read-only. Returns false where the system refuses, as it does for shared
/// memory.
fn set_zero(address: u64) -> bool {
    // The kernel lets a process write its own private memory so, whatever its protection.
    let memory = File::options().write(true).open("/proc/self/mem");
    memory.is_ok_and(|memory| memory.write_all_at(&[0; 4], address).is_ok())
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
        assert_eq!(runs(range(&good), Gaps::Zero).expect("good"), [start]);
        assert_eq!(runs(range(&[0; 4]), Gaps::Zero).expect("nothing but the end"), []);
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

    /// The remains where JITLink 22 strips records: gaps of any content, and records behind them.
    #[test]
    fn records_between_gaps_are_registered() {
        let (cie, fde) = (24, 32);
        let whole = section(0x30_0000, 16);
        let garbage = [0xfffff000_u32, 20, 4, u32::MAX].map(u32::to_le_bytes).concat();
        for gap in [[0; 16], *garbage.first_chunk().expect("16 bytes")] {
            // The CIE alone, a gap, the FDE with a longer way to its CIE, a gap, a whole section, its end.
            let mut bytes = whole[..cie].to_vec();
            bytes.extend(&gap[..4]);
            let second = bytes.len();
            bytes.extend(&whole[cie..cie + fde]);
            bytes[second + 4] += 4;
            bytes.extend(gap);
            let third = bytes.len();
            bytes.extend(section(0x31_0000, 16));
            let all = range(&bytes);
            if gap != [0; 16] {
                let error = FramesRegister::serve((all,)).expect_err("strict").to_string();
                assert!(error.contains("a record of length 0xfffff000 at offset 0x18"), "{error}");
            }
            for (function, is_found) in [(0x30_0000, true), (0x31_0000, true), (0x32_0000, false)] {
                LlvmFramesRegister::serve((all,)).expect("an answer").0.expect("registered");
                assert_eq!(described(function + 8), is_found.then_some(function), "{function:#x}");
                FramesDeregister::serve((all,)).expect("taken back");
                assert_eq!(described(function + 8), None, "{function:#x}");
            }
            let expected = [second, third].map(|at| all.start.get() + at as u64);
            let found = runs(all, Gaps::Any).expect("good");
            let found: Vec<u64> = found.iter().map(|run| run.get()).collect();
            assert_eq!(found, expected, "a run without a function is left out");
        }
    }

    /// The start of the function that the unwinder finds at this address.
    fn described(address: usize) -> Option<usize> {
        let mut bases = [std::ptr::null(); 3];
        // SAFETY: the function searches for any address, and `bases` has room for the answer.
        let fde =
            unsafe { _Unwind_Find_FDE(std::ptr::without_provenance(address), &raw mut bases) };
        (!fde.is_null()).then(|| bases[2].addr())
    }
}
