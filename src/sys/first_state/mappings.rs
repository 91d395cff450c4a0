//! Mappings: what was mapped since the first state is unmapped; what is missing, or has changed, is refused.

use super::book::{Book, Mapping};
use super::ranges::{List, RANGES_MAX, Range};
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
/// Children get zeros there (`MADV_WIPEONFORK`), or nothing (`MADV_DONTFORK`).
pub(super) const WIPED: u64 = 128;
const NOT_INHERITED: u64 = 256;
/// The kernel writes there when work ends that was started before.
const ASYNCHRONOUS: u64 = 512;
/// The bits that a mapping keeps.
const STAYS: u64 = READ | WRITE | EXECUTE | SHARED;

impl Mapping {
    /// True if its pages belong to this process alone.
    pub(super) fn is_own(&self) -> bool {
        self.bits & (SHARED | KERNEL) == 0
    }
}

/// Opens the list of mappings.
pub(super) fn open(book: &mut Book) -> Result<(), Refusal> {
    book.maps = system::moved(system::open(c"/proc/self/maps", libc::O_RDONLY)?);
    Ok(())
}

/// Lists the mappings of the first state.
pub(super) fn keep(book: &mut Book) -> Result<(), Refusal> {
    let file = system::open(c"/proc/self/smaps", libc::O_RDONLY)?;
    let bytes = system::read_all(file, &mut book.list);
    system::close(file);
    parse(&book.list[..bytes?], &mut book.first)?;
    let not_inherited = book.first.all().iter().find(|first| first.bits & NOT_INHERITED != 0);
    not_inherited.map_or(Ok(()), |first| Err(Refusal::new(Why::NotInherited, first.range.start)))
}

/// Reads mappings from the text of `maps` or `smaps`. The lines about the mapping of before begin with a capital.
fn parse(text: &[u8], list: &mut List<Mapping, RANGES_MAX>) -> Result<(), Refusal> {
    list.clear();
    for line in text.split(|byte| *byte == b'\n') {
        if line.first().is_some_and(|first| first.is_ascii_digit() || first.is_ascii_lowercase()) {
            list.push(mapping(line))?;
        } else if let Some(flags) = line.strip_prefix(b"VmFlags:") {
            let flags = || flags.split(|byte| *byte == b' ');
            let bits = flags().fold(0, |bits, flag| match flag {
                b"wf" => bits | WIPED,
                b"dc" => bits | NOT_INHERITED,
                _ => bits,
            });
            list.mark_last(|last| last.bits |= if last.is_own() { bits } else { 0 });
        }
    }
    Ok(())
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
        b"/[aio]" | b"/[aio] (deleted)" => ASYNCHRONOUS,
        name if name.starts_with(b"[v") => KERNEL,
        _ => 0,
    };
    Mapping { range: Range { start, end }, bits, offset, device, inode }
}

/// Lists what was mapped since the first state. The heap gets its end of the first state.
pub(super) fn check(book: &mut Book) -> Result<(), Refusal> {
    grow_heap(book);
    book.added.clear();
    system::rewind(book.maps);
    let bytes = system::read_all(book.maps, &mut book.list)?;
    if bytes == book.known_bytes && book.list[..bytes] == book.known[..bytes] {
        return Ok(());
    }
    parse(&book.list[..bytes], &mut book.now)?;
    compare(book)?;
    if book.added.all().is_empty() && book.shrunk_break == 0 {
        book.known[..bytes].copy_from_slice(&book.list[..bytes]);
        book.known_bytes = bytes;
    }
    Ok(())
}

/// Lists what was mapped, by the two lists.
fn compare(book: &mut Book) -> Result<(), Refusal> {
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
    let mut rest = first.all();
    for now in now.all() {
        let mut at = now.range.start;
        while at < now.range.end {
            let passed = rest.iter().position(|first| first.range.end > at).unwrap_or(rest.len());
            rest = &rest[passed..];
            let next = rest.first().map_or(u64::MAX, |first| first.range.start);
            if next > at {
                let end = next.min(now.range.end);
                if now.bits & ASYNCHRONOUS != 0 {
                    return Err(Refusal::new(Why::Asynchronous, at));
                }
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
    book.shrunk_break = 0;
    if now < book.first_break && system::end_of_heap(book.first_break) == book.first_break {
        book.shrunk_break = now;
    }
}

/// Has the heap end where it did before [`check`].
pub(super) fn undo(book: &mut Book) {
    if book.shrunk_break != 0 {
        system::end_of_heap(book.shrunk_break);
    }
}

/// Unmaps what was mapped.
///
/// # Errors
///
/// A part is unmapped then.
pub(super) fn put_back(book: &Book) -> Result<(), Refusal> {
    for Mapping { range, bits, .. } in book.added.all() {
        let (start, bytes) = (system::size(range.start), system::size(range.bytes()));
        if bits & STACK != 0 {
            let dont_need = libc::MADV_DONTNEED.cast_unsigned() as usize;
            // SAFETY: the main thread's stack did not reach so far in the first state.
            let _ = unsafe { call(libc::SYS_madvise, [start, bytes, dont_need, 0, 0]) };
        } else if bits & HEAP != 0 {
            system::end_of_heap(book.first_break);
        } else {
            // SAFETY: nothing was mapped there in the first state, so no value of it refers to this memory.
            unsafe { call(libc::SYS_munmap, [start, bytes, 0, 0, 0]) }?;
        }
    }
    Ok(())
}

/// Gives memory the protection that a mapping with these bits has.
pub(super) fn set_protection(range: Range, bits: u64) -> Result<(), Refusal> {
    let mut protection = libc::PROT_NONE;
    for (bit, flag) in
        [(READ, libc::PROT_READ), (WRITE, libc::PROT_WRITE), (EXECUTE, libc::PROT_EXEC)]
    {
        protection |= if bits & bit != 0 { flag } else { 0 };
    }
    let (start, bytes) = (system::size(range.start), system::size(range.bytes()));
    let protection = protection.cast_unsigned() as usize;
    // SAFETY: the memory gets its protection of the first state, or can be written for the time of a reset.
    unsafe { call(libc::SYS_mprotect, [start, bytes, protection, 0, 0]) }.map(drop)
}
