//! Mappings: what was mapped since the first state is unmapped; what is missing, or has changed, is refused.

use super::book::{Book, Mapping, Range, When};
use super::refusal::{Refusal, Why};
use super::system::{self, call};

pub(super) const READ: u64 = 1;
pub(super) const WRITE: u64 = 2;
const EXECUTE: u64 = 4;
const SHARED: u64 = 8;
const HEAP: u64 = 16;
const STACK: u64 = 32;
/// A mapping of the kernel's, such as its clock.
const KERNEL: u64 = 64;
/// The kernel notes the writes to it.
pub(super) const NOTED: u64 = 128;
/// The bits that a mapping keeps.
const STAYS: u64 = READ | WRITE | EXECUTE | SHARED;

impl Mapping {
    /// True if its pages belong to this process alone.
    pub(super) fn is_own(&self) -> bool {
        self.bits & (SHARED | KERNEL) == 0
    }
}

/// Lists the mappings.
pub(super) fn read(book: &mut Book, when: When) -> Result<(), Refusal> {
    let Book { first, now, text, .. } = book;
    let list = if when == When::First { first } else { now };
    list.clear();
    let file = system::open(c"/proc/self/maps", libc::O_RDONLY)?;
    let mut kept = 0;
    let outcome = loop {
        let bytes = match system::read(file, &mut text[kept..]) {
            Ok(0) => break Ok(()),
            Ok(bytes) => kept + bytes,
            Err(refusal) => break Err(refusal),
        };
        let mut rest = &text[..bytes];
        let mut pushed = Ok(());
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            pushed = pushed.and_then(|()| list.push(mapping(&rest[..end])));
            rest = &rest[end + 1..];
        }
        if pushed.is_err() {
            break pushed;
        }
        kept = rest.len();
        text.copy_within(bytes - kept..bytes, 0);
    };
    system::close(file);
    outcome
}

/// A line of the list: range, protection, offset, device, inode, name.
fn mapping(mut line: &[u8]) -> Mapping {
    let text = &mut line;
    let start = system::number(text, 16);
    system::skip(text, |byte| byte == b'-');
    let end = system::number(text, 16);
    let mut bits = 0;
    for (at, letter, bit) in
        [(1, b'r', READ), (2, b'w', WRITE), (3, b'x', EXECUTE), (4, b's', SHARED)]
    {
        bits |= if text.get(at) == Some(&letter) { bit } else { 0 };
    }
    *text = text.get(6..).unwrap_or_default();
    let offset = system::number(text, 16);
    let spaces = |byte| byte == b' ';
    system::skip(text, spaces);
    let major = system::number(text, 16);
    system::skip(text, |byte| byte == b':');
    let device = major << 32 | system::number(text, 16);
    system::skip(text, spaces);
    let inode = system::number(text, 10);
    system::skip(text, spaces);
    bits |= match *text {
        b"[heap]" => HEAP,
        b"[stack]" => STACK,
        name if name.starts_with(b"[v") => KERNEL,
        _ => 0,
    };
    Mapping { range: Range { start, end }, bits, offset, device, inode }
}

/// Lists what was mapped since the first state.
pub(super) fn check(book: &mut Book) -> Result<(), Refusal> {
    grow_heap(book);
    read(book, When::Now)?;
    let Book { first, now, added, .. } = book;
    let mut rest = now.all();
    for mapping in first.all() {
        let mut at = mapping.range.start;
        while at < mapping.range.end {
            let passed = rest.iter().position(|now| now.range.end > at).unwrap_or(rest.len());
            rest = &rest[passed..];
            match rest.first() {
                Some(now) if now.range.start <= at => {
                    look_at(mapping, now, at)?;
                    at = now.range.end;
                }
                _ => return Err(Refusal::new(Why::Unmapped, at)),
            }
        }
    }
    added.clear();
    let mut rest = first.all();
    for now in now.all() {
        let mut at = now.range.start;
        while at < now.range.end {
            let passed = rest.iter().position(|first| first.range.end > at).unwrap_or(rest.len());
            rest = &rest[passed..];
            let next = rest.first().map_or(u64::MAX, |first| first.range.start);
            if next > at {
                let end = next.min(now.range.end);
                added.push(Mapping { range: Range { start: at, end }, ..*now })?;
                at = end;
            } else {
                at = rest.first().map_or(u64::MAX, |first| first.range.end);
            }
        }
    }
    Ok(())
}

/// Looks whether the mapping `now` is what `first` was at this address.
fn look_at(first: &Mapping, now: &Mapping, at: u64) -> Result<(), Refusal> {
    let place = |mapping: &Mapping| (at - mapping.range.start).wrapping_add(mapping.offset);
    let is_same_file = first.device == now.device
        && first.inode == now.inode
        && (first.inode == 0 || place(first) == place(now));
    if !is_same_file || (first.bits ^ now.bits) & SHARED != 0 {
        return Err(Refusal::new(Why::Remapped, at));
    }
    if (first.bits ^ now.bits) & STAYS != 0 {
        return Err(Refusal::new(Why::Protected, at));
    }
    Ok(())
}

/// Takes the heap again that the program has given back.
fn grow_heap(book: &mut Book) {
    let now = system::end_of_heap(0);
    book.regrown = Range { start: 0, end: 0 };
    if now < book.first_break && system::end_of_heap(book.first_break) == book.first_break {
        let page = |address: u64| address.next_multiple_of(4096);
        book.regrown = Range { start: page(now), end: page(book.first_break) };
    }
}

/// Unmaps what was mapped.
pub(super) fn put_back(book: &Book) {
    for Mapping { range, bits, .. } in book.added.all() {
        let (start, bytes) = (system::size(range.start), system::size(range.end - range.start));
        if bits & STACK != 0 {
            let dont_need = libc::MADV_DONTNEED.cast_unsigned() as usize;
            // SAFETY: the main thread's stack did not reach so far in the first state.
            let _ = unsafe { call(libc::SYS_madvise, [start, bytes, dont_need, 0, 0]) };
        } else if bits & HEAP != 0 {
            system::end_of_heap(book.first_break);
        } else {
            // SAFETY: nothing was mapped there in the first state, so no value of it refers to this memory.
            let unmapped = unsafe { call(libc::SYS_munmap, [start, bytes, 0, 0, 0]) };
            if unmapped.is_err() {
                std::process::abort();
            }
        }
    }
}
