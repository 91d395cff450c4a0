//! The first state of a process, to which its main thread puts it back.
//!
//! | step | by | action |
//! |---|---|---|
//! | 1 | [`keep`] | lists mappings, descriptors, signal actions and threads in a [book](book::Book) that lies outside of the state |
//! | 2 | the same | has a [filter] refuse what changes memory unseen |
//! | 3 | the same | forks the [image]: a child that never runs, and so keeps all memory |
//! | 4 | the same | has the kernel note which [pages] are written from now on |
//! | 5 | [`put_back`] | looks whether all can be put back, and refuses otherwise; nothing has changed then |
//! | 6 | the same | unmaps and closes what is new, and puts the pages back that were changed |
//! | 7 | the same | returns from [`keep`] once more, with all memory and registers as they were |
//!
//! Steps 3 to 7 run on the book's own stack: they overwrite the main thread's stack, thread-locals and heap. They allocate nothing and
//! take no lock. Other threads sleep meanwhile, in the same wait as at first ([`threads`]).
//!
//! Invariant: what is not put back is refused, or is in the list of [`Snapshot::reset`](crate::controller::Snapshot::reset).

mod book;
mod context;
mod descriptors;
mod filter;
mod image;
mod mappings;
mod pages;
mod ranges;
mod refusal;
mod signals;
mod system;
mod threads;

use self::book::Book;
pub(crate) use self::refusal::Refusal;
use crate::error::{Error, Result};
use crate::sync::{AtomicU64, Ordering};

/// Words that the caller carries over a reset.
pub(crate) const CARRIED_WORDS: usize = 16;

/// Words that the caller carries from [`put_back`] to the return of [`keep`].
pub(crate) type Carried = [u64; CARRIED_WORDS];

/// The address of the book of this process; 0 before there is one.
static BOOK: AtomicU64 = AtomicU64::new(0);

/// The moments when [`keep`] returns.
#[derive(Debug)]
pub(crate) enum Moment {
    /// The first state is kept.
    Kept,
    /// The process is back in it.
    Back(Carried),
}

/// Keeps the state of this process. Returns each time that the process is [put back](put_back), too. If it `compares`, all memory is
/// compared with the image; otherwise the kernel notes which pages are written.
///
/// Call it on the main thread, once in the life of a process.
///
/// # Errors
///
/// When the kernel refuses, or the state cannot be kept. A child of this process may be left, which runs nothing.
pub(crate) fn keep(compares: bool) -> Result<Moment> {
    if BOOK.load(Ordering::Relaxed) != 0 {
        return Err(Error::invalid("the first state of this process is kept already"));
    }
    let book = Book::map()?;
    BOOK.store(book.address(), Ordering::Relaxed);
    book.edit(|book| {
        book.compares = u64::from(compares);
        pages::open(book).and_then(|()| mappings::open(book))
    })
    .map_err(|refusal| refusal.into_error("keeping the first state"))?;
    filter::install()?;
    match context::on_own_stack(book, keep_here) {
        book::DONE => Ok(Moment::Kept),
        book::BACK => Ok(Moment::Back(book.edit(|book| book.carried))),
        _ => Err(book.edit(|book| book.refusal).into_error("keeping the first state")),
    }
}

/// Puts the process back in the state that was [kept](keep), and does not return then: `keep` does. It returns `carried`. If another
/// thread may have run since, it `has_moved`: the kernel is asked where it waits.
///
/// # Errors
///
/// Why it is not put back. Nothing has changed then.
///
/// # Safety
///
/// The other threads that were there at `keep` are in the wait of then, or about to be in it. None of them is woken before this returns,
/// or `keep` does. No value that was made since then is used any more, apart from `carried`.
pub(crate) unsafe fn put_back(carried: Carried, has_moved: bool) -> Error {
    let Some(book) = Book::at(BOOK.load(Ordering::Relaxed)) else {
        return Error::invalid("no first state was kept");
    };
    book.edit(|book| (book.carried, book.has_moved) = (carried, u64::from(has_moved)));
    context::on_own_stack(book, put_back_here);
    book.edit(|book| book.refusal).into_error("this copy cannot be reset, so make a new one")
}

/// True when this process has kept a state.
pub(crate) fn is_kept() -> bool {
    BOOK.load(Ordering::Relaxed) != 0
}

/// Ends what keeps the first state, if any: this process is about to end.
pub(crate) fn end() {
    let image = Book::at(BOOK.load(Ordering::Relaxed)).map(|book| book.edit(|book| book.image));
    image.filter(|image| *image > 0).into_iter().for_each(image::end);
}

/// [`keep`] on the book's stack.
extern "C" fn keep_here(book: book::Handle) -> u64 {
    book.edit(|book| {
        let mask = signals::block();
        let kept = try_keep(book);
        book.mask = mask;
        signals::set_mask(mask);
        match kept {
            Ok(()) => book::DONE,
            Err(refusal) => book.refused(refusal),
        }
    })
}

fn try_keep(book: &mut Book) -> std::result::Result<(), Refusal> {
    book.first_stack = book.now_stack;
    context::keep(book);
    threads::keep(book)?;
    descriptors::keep(book)?;
    signals::keep(book);
    mappings::keep(book)?;
    book.first_break = system::end_of_heap(0);
    image::fork(book)?;
    pages::begin(book)
}

/// [`put_back`] on the book's stack.
extern "C" fn put_back_here(book: book::Handle) -> u64 {
    book.edit(|book| {
        let mask = signals::block();
        if let Err(refusal) = check(book) {
            mappings::undo(book);
            signals::set_mask(mask);
            return book.refused(refusal);
        }
        // From here on nothing may fail: half of a state is none.
        if mappings::put_back(book).and_then(|()| pages::put_back(book)).is_err() {
            std::process::abort();
        }
        descriptors::put_back(book);
        signals::put_back(book);
        context::put_back(book);
        signals::set_mask(book.mask);
        // The stack on which `keep` was called.
        book.now_stack = book.first_stack;
        book::BACK
    })
}

/// Looks whether all can be put back.
fn check(book: &mut Book) -> std::result::Result<(), Refusal> {
    threads::check(book)?;
    descriptors::check(book)?;
    mappings::check(book)?;
    image::check(book)?;
    pages::check(book)
}
