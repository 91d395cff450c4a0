//! A program that is run again and again, each time as if it had just been linked.
//!
//! The controller keeps what the program's data was at first, and stores it where the data is, through its own mapping of the
//! slab: nothing is linked again, and nothing copied by the executor. Thread-locals are given their initial values by the same
//! action as when they were linked.
//!
//! Invariant: what is restored is what was linked, but for the words that say which implementation an ifunc has:
//! those were chosen for the process and stay.

use std::ops::Range;

use super::dylib::Dylib;
use super::shared::Shared;
use crate::call::contract::{
    ProgramRun, ThreadBlockDeregister, ThreadBlockRegister, ThreadInitialize,
};
use crate::error::{Error, Result};
use crate::link::{Image, TlsBlock};
use crate::sps::Bytes;
use crate::{AddrRange, ExecutorAddr, Prot};

/// The data of a link as it was at first.
#[derive(Debug)]
pub(super) struct InitialData {
    /// Where the data is.
    start: ExecutorAddr,
    /// What is not zero of it.
    content: Vec<u8>,
    /// All of it.
    bytes: u64,
    /// Words that stay, in order. They are not even stored as they are: when the link is new, the executor may be about to store
    /// them for the first time.
    kept: Vec<ExecutorAddr>,
    threads: Option<TlsBlock>,
}

impl Dylib {
    /// From the next link on the data that is linked is kept as it is at first, in the memory of this process, for
    /// [`run_fresh`](Dylib::run_fresh).
    pub fn keep_initial_data(&self) {
        self.lock().keeps_data = true;
    }

    /// Runs the program as a process of its own would, with fresh data: its variables and thread-locals have their initial
    /// values, the initializers run, then `main` with these arguments, the program's name first, then what was registered
    /// with `atexit` and the finalizers. Returns what `main` returns. One round trip, and nothing is linked again.
    ///
    /// Fresh is what belongs to the program. What it took from the libraries is as it left it: memory from `malloc`, open files, the
    /// buffers of standard streams, `environ`, the working directory. Nothing of the program may be running, threads of its own
    /// included; the arguments are gone when it returns.
    ///
    /// # Errors
    ///
    /// When there is no `main`, or [`keep_initial_data`](Dylib::keep_initial_data) was not called before the program was linked;
    /// when the executor ends meanwhile ([`Error::death`], also when the program calls `exit`), or as [`Dylib::link`].
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # let controller = farcall::controller::Launch::new().start()?;
    /// # let object = farcall::link::ObjectFile::parse("program.o", Vec::new())?;
    /// let program = controller.create_dylib("program");
    /// program.keep_initial_data();
    /// program.add_object(&object)?;
    /// for _ in 0..10_000 {
    ///     assert_eq!(program.run_fresh(["program"])?, 0);
    /// }
    /// # Ok::<(), farcall::Error>(())
    /// ```
    pub fn run_fresh<A: AsRef<[u8]>>(&self, args: impl IntoIterator<Item = A>) -> Result<i32> {
        let main = self.lookup("main")?;
        let handle = {
            let state = self.lock();
            for linked in &state.linked {
                let initial = linked.initial.as_ref().ok_or_else(|| {
                    Error::invalid("a fresh run of what was linked before its data was to be kept")
                })?;
                self.shared().restore(initial)?;
            }
            state.handle
        };
        let args = args.into_iter().map(|arg| Bytes(arg.as_ref().to_vec())).collect();
        self.shared().call::<ProgramRun>(&(handle, main, args))
    }
}

impl InitialData {
    /// The data of an image, whose part of the data starts there. Takes it out of the image.
    pub(super) fn of(image: &mut Image, start: ExecutorAddr) -> Self {
        let mut kept: Vec<_> = image.ifuncs.iter().map(|one| one.slot).collect();
        kept.sort_unstable();
        Self {
            start,
            content: std::mem::take(&mut image.stripes[Prot::Data.index()]),
            bytes: image.bytes[Prot::Data.index()],
            kept,
            threads: image.threads,
        }
    }
}

impl Shared {
    /// Makes data what it was at first.
    fn restore(&self, initial: &InitialData) -> Result<()> {
        let mut from = 0;
        for slot in &initial.kept {
            let to = slot.get() - initial.start.get();
            self.restore_part(initial, from..to);
            from = to + 8;
        }
        self.restore_part(initial, from..initial.bytes);
        let Some(TlsBlock { offset, module, initial, bytes }) = initial.threads else {
            return Ok(());
        };
        let Some(module) = module else {
            return self.post::<ThreadInitialize>(&(offset, initial, bytes));
        };
        self.post::<ThreadBlockDeregister>(&(module,))?;
        self.post::<ThreadBlockRegister>(&(module, initial, bytes))
    }

    /// Makes so many bytes of data what they were at first.
    fn restore_part(&self, initial: &InitialData, part: Range<u64>) {
        let stored = part.start..part.end.min(initial.content.len() as u64);
        let zeroed = part.start.max(stored.end)..part.end;
        let address = |offset| ExecutorAddr::new(initial.start.get() + offset);
        let [from, to] =
            [stored.start, stored.end].map(|at| usize::try_from(at).unwrap_or(usize::MAX));
        if let Some(content) = initial.content.get(from..to)
            && !content.is_empty()
        {
            self.store(address(stored.start), content);
        }
        if !zeroed.is_empty() {
            self.zero(AddrRange { start: address(zeroed.start), end: address(zeroed.end) });
        }
    }
}
