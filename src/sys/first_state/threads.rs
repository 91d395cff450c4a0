//! The other threads, which wait in the kernel.
//!
//! A thread that waits has its registers in the kernel. They are not put back. So it has to be in the same wait as at first. The system
//! call and its arguments are the same, but for the value that it compares. The program counter and the stack pointer are the same. The
//! threads here wait in loops that carry no value from one wait to the next. Such a thread finds on its stack then what it had left
//! there in the first state.

use std::ffi::CStr;

use super::book::{Book, COMPARED_BYTES, Thread};
use super::refusal::{Refusal, Why};
use super::system;

const FUTEX: u64 = libc::SYS_futex.cast_unsigned();
const FUTEX_WAITV: u64 = libc::SYS_futex_waitv.cast_unsigned();
/// The time between two looks, and how many there are.
const LOOK_NS: i64 = 50_000;
const LOOKS_MAX: u32 = 20_000;
/// How often a thread has to be found in the same wait.
const SAME_MIN: u32 = 3;
/// The arguments of a wait that belong to its place: the words, how many or the operation, and the time. Then the stack pointer and the
/// program counter.
const PLACE: [usize; 6] = [0, 1, 2, 4, 7, 8];
/// The argument with the time until which a thread waits.
const UNTIL: usize = 4;

/// Notes where all other threads wait, when they do.
pub(super) fn keep(book: &mut Book) -> Result<(), Refusal> {
    super::context::check().map_err(|_| Refusal::kernel(libc::ENOSYS))?;
    // SAFETY: it has no requirements.
    let process = unsafe { libc::getpid() };
    // SAFETY: it has no requirements.
    let thread = unsafe { libc::gettid() };
    if process != thread {
        return Err(Refusal::new(Why::NotMainThread, 0));
    }
    let mut same = 0;
    for _ in 0..LOOKS_MAX {
        let before = book.threads;
        list(book)?;
        let now = book.threads;
        let waits = |thread: &Thread| {
            [FUTEX, FUTEX_WAITV].contains(&thread.wait[0]) && thread.wait[UNTIL] == 0
        };
        let is_same = now.all().iter().all(waits) && now.all() == before.all();
        same = if is_same { same + 1 } else { 0 };
        if same == SAME_MIN {
            return Ok(());
        }
        pause();
    }
    let busy = book.threads.all().first().map_or(0, |thread| thread.number);
    Err(Refusal::new(Why::BusyThread, busy))
}

/// Looks whether the same threads are there and wait where they did at first, and whether there are no children.
pub(super) fn check(book: &mut Book) -> Result<(), Refusal> {
    let threads = book.threads;
    // SAFETY: it has no requirements.
    let process = unsafe { libc::getpid() };
    let count = system::links(c"/proc/self/task")?.saturating_sub(2);
    let is_there = |thread: &Thread| {
        let [process, thread] = [u64::from(process.unsigned_abs()), thread.number];
        let args = [system::size(process), system::size(thread), 0, 0, 0];
        // SAFETY: signal 0 is none.
        unsafe { system::call(libc::SYS_tgkill, args) }.is_ok()
    };
    if count != 1 + threads.all().len() as u64 || !threads.all().iter().all(is_there) {
        return Err(Refusal::new(Why::Threads, count));
    }
    if book.has_moved != 0 {
        for thread in threads.all() {
            wait_for(*thread, &mut book.text)?;
        }
    }
    if has_children(book)? { Err(Refusal::new(Why::Children, 0)) } else { Ok(()) }
}

/// Waits until a thread is in the wait of the first state.
fn wait_for(thread: Thread, text: &mut [u8; COMPARED_BYTES]) -> Result<(), Refusal> {
    for _ in 0..LOOKS_MAX / 10 {
        let wait = wait_of(thread.number, text)?;
        if PLACE.iter().all(|at| wait[*at] == thread.wait[*at]) {
            return Ok(());
        }
        pause();
    }
    Err(Refusal::new(Why::BusyThread, thread.number))
}

/// Lists the other threads with their waits.
fn list(book: &mut Book) -> Result<(), Refusal> {
    let Book { threads, text, other_text, .. } = book;
    threads.clear();
    system::numbers_in(c"/proc/self/task", text, |number, _| {
        // SAFETY: it has no requirements.
        if number == u64::from(unsafe { libc::getpid() }.unsigned_abs()) {
            return Ok(());
        }
        threads.push(Thread { number, wait: wait_of(number, other_text)? })
    })
}

/// The system call in which a thread waits; zeros while it runs.
fn wait_of(thread: u64, text: &mut [u8; COMPARED_BYTES]) -> Result<[u64; 9], Refusal> {
    let mut path = [0; 64];
    let (front, back) = (b"/proc/self/task/", b"/syscall");
    path[..front.len()].copy_from_slice(front);
    let mut at = front.len();
    for power in (0..10).rev() {
        let rest = thread / 10_u64.pow(power);
        if rest > 0 || power == 0 {
            // A digit.
            path[at] = b'0' + (rest % 10) as u8;
            at += 1;
        }
    }
    path[at..at + back.len()].copy_from_slice(back);
    let unknown = Refusal::new(Why::NoThreads, 0);
    let path = CStr::from_bytes_until_nul(&path).map_err(|_| unknown)?;
    let file = system::open(path, libc::O_RDONLY).map_err(|_| unknown)?;
    let read = system::read(file, text);
    system::close(file);
    let mut text = &text[..read.map_err(|_| unknown)?];
    let mut wait = [0; 9];
    if !text.first().is_some_and(u8::is_ascii_digit) {
        return Ok(wait);
    }
    wait[0] = system::number(&mut text, 10);
    for word in &mut wait[1..] {
        system::skip(&mut text, |byte| byte == b' ');
        text = text.strip_prefix(b"0x").unwrap_or(text);
        *word = system::number(&mut text, 16);
    }
    Ok(wait)
}

/// True if the program has child processes, the image apart. The kernel lists them, also those that send no signal at their end.
fn has_children(book: &mut Book) -> Result<bool, Refusal> {
    if let Ok(file) = system::open(c"/proc/thread-self/children", libc::O_RDONLY) {
        let bytes = system::read(file, &mut book.text);
        system::close(file);
        let mut text = &book.text[..bytes?];
        let first = system::number(&mut text, 10);
        system::skip(&mut text, |byte| byte == b' ');
        return Ok(first != u64::from(book.image.unsigned_abs()) || !text.is_empty());
    }
    let options = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
    let mut found = [0_u64; 16];
    let args = [0, 0, found.as_mut_ptr().addr(), options.cast_unsigned() as usize, 0];
    // SAFETY: the kernel writes 128 bytes.
    Ok(unsafe { system::call(libc::SYS_waitid, args) }.is_ok())
}

fn pause() {
    let time = [0, LOOK_NS];
    // SAFETY: it reads two words.
    let _ = unsafe { system::call(libc::SYS_nanosleep, [time.as_ptr().addr(), 0, 0, 0, 0]) };
}
