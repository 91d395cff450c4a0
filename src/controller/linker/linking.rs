//! Layout, memory, look-ups and actions of links. Their order is in [`order`](super::order).
//!
//! Invariant: a link that is dropped before its end frees all that it has allocated.

pub(crate) mod actions;

use std::mem::ManuallyDrop;
use std::sync::Arc;

use super::initial_data::InitialData;
use super::tls_allocator::{TlsAllocation, TlsAllocator, TlsPlacement};
use crate::call::contract::name_hashes::NameHashes;
use crate::call::contract::{
    DylibFind, DylibLookup, Found, LibraryNames, Placement, STATIC_TLS_BYTES, STATIC_TLS_OFFSET,
    StackExecutable, ThreadLookup, Wanted,
};
use crate::controller::memory::allocation::InFlightAlloc;
use crate::controller::memory::executor_memory::ExecutorMemory;
use crate::controller::memory::pages::Pages;
use crate::controller::process::handlers::HandlerTag;
use crate::deadline::Deadline;
use crate::error::{Error, ErrorKind, Result};
use crate::limits::{LOW_ADDRESS_END, PAGE_BYTES, STORED_ZERO_FILL_BYTES_MAX};
use crate::link::{External, Image, Layout, LinkGraph, PlacedObject, SymbolTable};
use crate::sync::{AtomicBool, Mutex, Ordering};
use crate::{ExecutorAddr, PerProt, Prot, trace};

/// The symbol whose address is a program's handle.
pub(crate) const HANDLE: &str = "__dso_handle";
/// The functions by which code registers exit handlers, of the process and of threads.
const REGISTRARS: [&str; 4] =
    ["atexit", "__cxa_atexit", "__cxa_thread_atexit", "__cxa_thread_atexit_impl"];

/// The functions by which code finds the names of functions.
const NAMERS: [&str; 4] =
    ["dl_iterate_phdr", "dladdr", "backtrace_symbols", "backtrace_symbols_fd"];

/// The symbols that were wanted, what was found for each, and for a program the names of libraries.
type LookedUp = (Vec<Wanted>, Vec<Option<Found>>, Option<LibraryNames>);

/// What links allocate from in an executor: memory and thread-local storage.
#[derive(Debug)]
pub(crate) struct Linker {
    pub(crate) memory: ExecutorMemory,
    tls: Arc<Mutex<TlsAllocator>>,
    /// True when the executor's stacks are executable.
    has_executable_stacks: AtomicBool,
}

/// What a link requires apart from the addresses of symbols.
#[derive(Debug, Default)]
pub(crate) struct Requirements {
    /// Its code registers exit handlers.
    pub(crate) exits: bool,
    /// Its code finds the names of functions.
    pub(crate) names: bool,
    /// Those of its names that the executor's shared libraries may have, too, if its own come before them.
    pub(crate) precedes: Option<NameHashes>,
    /// With [`precedes`](Self::precedes): there are libraries that have to find its data.
    pub(crate) has_libraries: bool,
    /// Its code advises the kernel about memory.
    pub(crate) advises: bool,
}

/// The owner of a linker: a session.
pub(crate) type Shared = Arc<dyn AsRef<Linker> + Send + Sync>;

/// A link with its layout and memory, which borrows nothing.
pub(crate) struct Placed {
    pub(crate) layout: Layout,
    pub(super) memory: LinkMemory,
}

/// The memory that a link has allocated; freed when dropped.
pub(crate) struct LinkMemory {
    linker: Shared,
    /// The index of the slab that has the pages.
    slab: usize,
    pages: Pages,
    pub(super) tls: TlsAllocation,
    /// The addresses at which the stripes of the image start.
    starts: [ExecutorAddr; Prot::ALL.len()],
}

/// A finished link, with what it owns in the executor.
#[derive(Debug)]
pub(crate) struct Linked {
    /// The base of its finalized memory.
    pub(super) base: ExecutorAddr,
    /// The bases of the memory that plugins added.
    pub(super) added: Vec<ExecutorAddr>,
    pub(super) tls: TlsPlacement,
    pub(crate) symbols: Arc<SymbolTable>,
    /// The handlers that its stubs call.
    pub(super) handlers: Vec<HandlerTag>,
    /// The handle of the program that its initializers belong to. Null when no link of the program has needed one.
    pub(crate) program: ExecutorAddr,
    /// The initial data, if it is kept. Few links have it, and a layer has many links.
    pub(crate) initial: Option<Box<InitialData>>,
}

impl Requirements {
    /// Notes that the link refers to this name.
    pub(crate) fn note(&mut self, name: &str) {
        // A reference to a version, as of `dlopen@GLIBC_2.1`, means the same function.
        let name = name.split_once('@').map_or(name, |(name, _)| name);
        self.exits |= REGISTRARS.contains(&name);
        self.names |= NAMERS.contains(&name);
        self.advises |= name == "madvise";
    }
}

impl Placed {
    /// Makes the image, with its bytes.
    pub(crate) fn fixup(self) -> Result<(Image, LinkMemory)> {
        let image = self.layout.fixup(self.memory.starts, self.memory.tls.offset())?;
        Ok((image, self.memory))
    }

    /// Makes the image and stores it piece by piece. Debug builds read it back and check it.
    pub(crate) fn fixup_in_pieces(self) -> Result<(Image, LinkMemory)> {
        let Self { layout, memory } = self;
        let stored = layout.stored_bytes();
        memory.clear_around(stored);
        let store = |prot, offset, piece: &[u8]| memory.store(prot, offset, piece);
        let load = || memory.load(stored);
        let image = layout.fixup_and_load(memory.starts, memory.tls.offset(), store, load)?;
        Ok((image, memory))
    }

    /// The bytes of its memory for data that may not be zero, from the start on.
    pub(crate) fn stored_data_bytes(&self) -> u64 {
        let lead = self.memory.lead(Prot::Data) as u64;
        lead + self.layout.stored_bytes()[Prot::Data.index()]
    }

    /// The names that the link defines.
    pub(crate) fn symbols(&self) -> SymbolTable {
        self.layout.symbols(self.memory.starts, self.memory.tls.offset())
    }

    /// The objects of the link.
    pub(crate) fn objects(&self) -> Vec<PlacedObject> {
        self.layout.objects(self.memory.starts)
    }
}

impl LinkMemory {
    /// The allocation, which stays this memory's.
    pub(super) fn allocation(&self) -> ManuallyDrop<InFlightAlloc<'_>> {
        ManuallyDrop::new(InFlightAlloc::resume(
            &(*self.linker).as_ref().memory,
            self.slab,
            self.pages,
        ))
    }

    /// Passes the allocation to the caller.
    pub(super) fn take_allocation<'l>(&mut self, linker: &'l Linker) -> InFlightAlloc<'l> {
        InFlightAlloc::resume(&linker.memory, self.slab, std::mem::take(&mut self.pages))
    }

    /// The address at which the image's part with this protection starts.
    pub(crate) fn start(&self, prot: Prot) -> ExecutorAddr {
        self.starts[prot.index()]
    }

    /// Stores an image with its bytes.
    pub(crate) fn write(&self, image: &Image) {
        for (prot, content) in Prot::ALL.into_iter().zip(&image.stripes) {
            self.store(prot, 0, content);
        }
        self.clear_around(image.stripes.each_ref().map(|content| content.len() as u64));
    }

    /// Stores a piece of the image's part with this protection.
    fn store(&self, prot: Prot, offset: u64, piece: &[u8]) {
        self.allocation().store(prot, self.lead(prot).saturating_add(in_bytes(offset)), piece);
    }

    /// Zeroes what surrounds the stored bytes of the image.
    fn clear_around(&self, stored: [u64; Prot::ALL.len()]) {
        for (prot, stored) in Prot::ALL.into_iter().zip(stored) {
            let lead = self.lead(prot);
            self.allocation().clear_around(prot, lead..lead + in_bytes(stored));
        }
    }

    /// The stored bytes of the image as its memory has them.
    ///
    /// # Errors
    ///
    /// When the memory around them is not zero.
    fn load(&self, stored: [u64; Prot::ALL.len()]) -> Result<[Vec<u8>; Prot::ALL.len()]> {
        let allocation = self.allocation();
        let [code, constants, data] = Prot::ALL.map(|prot| {
            let part = in_bytes(allocation.range(prot).bytes());
            let start = self.lead(prot);
            let end = start + in_bytes(stored[prot.index()]);
            // More zero fill has no memory, and a load would give it some.
            let is_backed = part - end <= in_bytes(STORED_ZERO_FILL_BYTES_MAX);
            let seen = if is_backed { part } else { end.next_multiple_of(in_bytes(PAGE_BYTES)) };
            let mut bytes = allocation.load(prot, seen);
            let is_outside = |at: &usize| !(start..end).contains(at);
            if let Some(at) = (0..seen).filter(is_outside).find(|at| bytes[*at] != 0) {
                return Err(Error::link(format!(
                    "byte {at} of {part} bytes of {prot:?} memory is {:#x}, and the image has bytes {start} to {end} only (the \
                     linker left what was there before: report it with the objects)",
                    bytes[at]
                )));
            }
            bytes.truncate(end);
            Ok(bytes.split_off(start))
        });
        Ok([code?, constants?, data?])
    }

    /// The bytes of a part before the image, which may be aligned to more than a page.
    fn lead(&self, prot: Prot) -> usize {
        in_bytes(self.start(prot).get() - self.allocation().range(prot).start.get())
    }
}

impl Drop for LinkMemory {
    fn drop(&mut self) {
        drop(InFlightAlloc::resume(&(*self.linker).as_ref().memory, self.slab, self.pages));
    }
}

impl Linker {
    /// A linker for an executor that has reported its static TLS reserve.
    ///
    /// # Errors
    ///
    /// When the static TLS reserve that the executor reports is impossible.
    pub(crate) fn new(memory: ExecutorMemory) -> Result<Self> {
        let number = |name| memory.remote().values().get(name).copied().unwrap_or(0);
        let reserve = [number(STATIC_TLS_OFFSET), number(STATIC_TLS_BYTES)];
        let tls = match memory.remote().direct() {
            Some(_) => TlsAllocator::of_this_process(reserve)?,
            None => Arc::new(Mutex::new(TlsAllocator::new(reserve)?)),
        };
        Ok(Self { memory, tls, has_executable_stacks: AtomicBool::new(false) })
    }

    /// The linker of a copy. What the snapshot has allocated stays so.
    pub(crate) fn of_copy(memory: ExecutorMemory, snapshot: &Self) -> Self {
        let tls = Arc::new(Mutex::new(snapshot.tls.lock().clone()));
        // Relaxed: the flag only decides what is refused.
        let stacks = snapshot.has_executable_stacks.load(Ordering::Relaxed);
        // The snapshot may have thread-locals, also those that were removed since.
        memory.remote().opener().lanes().end_with_threads();
        Self { memory, tls, has_executable_stacks: AtomicBool::new(stacks) }
    }

    /// Makes the executor's stacks executable, for links whose code is put there.
    ///
    /// # Errors
    ///
    /// When the executor's system refuses, or the session is over.
    pub(crate) fn allow_executable_stacks(&self) -> Result<()> {
        self.memory.remote().opener().check_own_process("executable stacks")?;
        self.memory.remote().ask::<StackExecutable>(&(), Deadline::SESSION_END)?;
        // Relaxed: the flag only decides what is refused.
        self.has_executable_stacks.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Lays the link out, and allocates its memory.
    pub(crate) fn place(
        shared: &Shared,
        mut graph: LinkGraph,
        placement: Placement,
    ) -> Result<Placed> {
        let linker = (**shared).as_ref();
        if let Some((object, function)) = graph.code_on_stack()
            && !linker.has_executable_stacks.load(Ordering::Relaxed)
        {
            return Err(Error::link(format!(
                "{object}: function {function} puts code on the stack, as nested functions of GNU C do, and stacks are \
                 not executable; move it out of its function, or allow it: farcall run --allow-exec-stack, \
                 Process::allow_executable_stacks"
            )));
        }
        let functions = linker.memory.remote().thread_functions();
        if let Some([address, descriptor]) = functions {
            graph.define_thread_functions(address, descriptor)?;
        }
        let (layout, tls) = linker.place_threads(graph.layout()?, functions.is_some())?;
        let (bytes, alignments) = (layout.bytes(), layout.alignments());
        // Memory starts at a page. A larger alignment takes as much more memory as the start may have to move.
        let sizes = PerProt::from_fn(|prot| match bytes[prot.index()] {
            0 => 0,
            bytes => bytes.saturating_add(alignments[prot.index()] - PAGE_BYTES),
        });
        let stored = match layout.stored_bytes()[Prot::Data.index()] {
            0 => 0,
            stored => stored.saturating_add(alignments[Prot::Data.index()] - PAGE_BYTES),
        };
        let allocation = InFlightAlloc::with_zero_fill(&linker.memory, placement, sizes, stored)?;
        let starts = Prot::ALL.map(|prot| {
            let start = allocation.range(prot).start.get();
            ExecutorAddr::new(start.next_multiple_of(alignments[prot.index()]))
        });
        let (slab, pages) = allocation.suspend();
        let linker = Arc::clone(shared);
        Ok(Placed { layout, memory: LinkMemory { linker, slab, pages, tls, starts } })
    }

    /// Allocates the thread-locals of a link. The executor's threads end with their lanes from now on.
    fn place_threads(
        &self,
        layout: Layout,
        can_be_dynamic: bool,
    ) -> Result<(Layout, TlsAllocation)> {
        if layout.thread_bytes().0 > 0 {
            self.memory.remote().opener().lanes().end_with_threads();
        }
        TlsAllocation::of_layout(&self.tls, layout, can_be_dynamic)
    }

    /// Looks symbols up in the executor, up to the deadline. Code in the near slab may require, within reach, variables that other
    /// code had moved below 2 GiB. Then `placement` becomes low, and a second message asks again.
    pub(crate) fn look_up(
        &self,
        libraries: Vec<String>,
        placement: &mut Placement,
        wanted: Vec<Wanted>,
        preceding: Option<Vec<u32>>,
        deadline: Deadline,
    ) -> Result<LookedUp> {
        let _span = trace::look_up(wanted.len());
        let mut query = (libraries, *placement, wanted, preceding);
        let look_up = |query: &_| {
            let found = self.memory.remote().ask::<DylibLookup>(query, deadline);
            found.map_err(refused)
        };
        let (mut found, mut names) = look_up(&query)?;
        let is_moved = |((.., narrow), found): (&Wanted, &Option<Found>)| match found {
            Some((address, is_function)) => {
                *narrow && !is_function && address.get() < LOW_ADDRESS_END
            }
            None => false,
        };
        if *placement == Placement::Near && query.2.iter().zip(&found).any(is_moved) {
            *placement = Placement::Low;
            query = (Vec::new(), *placement, query.2, query.3);
            (found, names) = look_up(&query)?;
        }
        let wanted = query.2;
        if found.len() != wanted.len() {
            return Err(Error::violation(format!(
                "{} answers to a look-up of {} symbols",
                found.len(),
                wanted.len()
            )));
        }
        Ok((wanted, found, names))
    }

    /// The address of a symbol in one of these shared libraries or its dependencies. Opens them first.
    pub(crate) fn find_in(
        &self,
        libraries: Vec<String>,
        name: &str,
    ) -> Result<Option<ExecutorAddr>> {
        self.memory
            .remote()
            .ask::<DylibFind>(&(libraries, name.to_owned()), Deadline::SESSION_END)
            .map_err(refused)
    }

    /// Finds thread-locals in the executor's shared libraries. Few programs refer to any; those that do cost one message more.
    /// The layout refuses names that remain undefined.
    pub(crate) fn resolve_threads(
        &self,
        graph: &mut LinkGraph,
        names: Vec<String>,
        deadline: Deadline,
    ) -> Result<()> {
        if names.is_empty() {
            return Ok(());
        }
        let query = (names,);
        let found = self.memory.remote().ask::<ThreadLookup>(&query, deadline);
        let found = found.map_err(late)?;
        for (name, distance) in query.0.iter().zip(found) {
            if let Some(distance) = distance {
                let address = ExecutorAddr::new(distance.cast_unsigned());
                graph.define_external(name, External { thread: true, ..External::from(address) });
            }
        }
        Ok(())
    }

    /// Frees all that finished links own, with one message at most. Takes time proportional to their number.
    ///
    /// # Errors
    ///
    /// As [`ExecutorMemory::deallocate`]. When the executor has become a snapshot, whose copies have what the links own.
    pub(crate) fn deallocate<'l>(
        &self,
        links: impl IntoIterator<Item = &'l Linked, IntoIter: Clone>,
    ) -> Result<()> {
        let links = links.into_iter();
        if self.memory.remote().is_frozen() {
            return self.memory.remote().check_alive();
        }
        let bases = links.clone().flat_map(|link| link.added.iter().chain([&link.base]));
        let outcome = self.memory.deallocate(bases.copied());
        let handlers = self.memory.remote().opener().callbacks().handlers();
        links.clone().flat_map(|link| &link.handlers).for_each(|tag| handlers.remove(*tag));
        self.memory.remote().forget(links.clone().map(|link| &link.symbols));
        let mut tls = self.tls.lock();
        links.for_each(|link| tls.free(link.tls));
        outcome
    }
}

/// An error of the link, if the executor has refused: it cannot open a library, or copy a variable.
fn refused(error: Error) -> Error {
    match error.kind() {
        ErrorKind::Remote => Error::link(error.to_string()),
        _ => late(error),
    }
}

/// Says for what a link has waited, if the deadline has passed.
fn late(error: Error) -> Error {
    match error.kind() {
        ErrorKind::Timeout => error.during(
            "the executor did not look symbols up in time (ExecutorBuilder::link_timeout, or that of the call): a constructor of a \
             shared library may hang, or the process may be stopped",
        ),
        _ => error,
    }
}

fn in_bytes(offset: u64) -> usize {
    usize::try_from(offset).unwrap_or(usize::MAX)
}
