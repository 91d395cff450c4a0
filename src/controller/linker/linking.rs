//! The phases of a link that dylibs and the object layer share: places for everything, the image, and the actions that
//! register it.
//!
//! Invariant: what a link has taken is given back when it is dropped half way.

use std::collections::HashMap;
use std::sync::Arc;

use super::arena::{Arena, Taken, ThreadPlace};
use crate::call::contract::{
    Action, DylibLookup, Found, FramesDeregister, FramesRegister, IndirectResolve, NamesDeregister,
    NamesRegister, Placement, ProgramDeregister, ProgramRegister, Remote, THREAD_ARENA_BYTES,
    THREAD_ARENA_OFFSET, ThreadBlockDeregister, ThreadBlockRegister, ThreadInitialize,
    ThreadLookup, Wanted,
};
use crate::controller::memory::allocation::InFlightAlloc;
use crate::controller::memory::executor_memory::ExecutorMemory;
use crate::controller::memory::pages::Pages;
use crate::error::{Error, Result};
use crate::limits::{LOW_ADDRESS_END, PAGE_BYTES};
use crate::link::{External, Image, Layout, LinkGraph, PlacedObject, SymbolTable, TlsBlock};
use crate::sps::{self, Bytes, Encode};
use crate::sync::Mutex;
use crate::{ExecutorAddr, Prot};

/// The symbol whose address is a program's handle.
pub(crate) const HANDLE: &str = "__dso_handle";
/// The functions by which code registers exit handlers, of the process and of threads.
const REGISTRARS: [&str; 4] =
    ["atexit", "__cxa_atexit", "__cxa_thread_atexit", "__cxa_thread_atexit_impl"];

/// The functions by which code finds the names of functions.
const NAMERS: [&str; 4] =
    ["dl_iterate_phdr", "dladdr", "backtrace_symbols", "backtrace_symbols_fd"];

/// What links take from an executor: memory, and places for thread-locals.
#[derive(Debug)]
pub(crate) struct Linker {
    pub(crate) memory: ExecutorMemory,
    arena: Mutex<Arena>,
}

/// What a link wants apart from the addresses of symbols.
#[derive(Debug, Default)]
pub(crate) struct Wants {
    /// To register exit handlers.
    pub(crate) exits: bool,
    /// To find the names of its functions.
    pub(crate) names: bool,
    /// Thread-locals that neither its objects nor those of the dylib define.
    pub(crate) threads: Vec<String>,
}

/// A link that has its places.
#[derive(Debug)]
pub(crate) struct Placed<'a> {
    pub(crate) layout: Layout,
    pub(crate) room: Room<'a>,
}

/// What a link has taken.
#[derive(Debug)]
pub(crate) struct Room<'a> {
    pub(crate) memory: InFlightAlloc<'a>,
    pub(crate) threads: Taken<'a>,
    /// Where the stripes of the image start.
    starts: [ExecutorAddr; Prot::ALL.len()],
}

/// A link that has its places, while it waits for something and belongs to nobody. It has to [go on](Aside::go_on), even
/// if that is to be dropped.
#[derive(Debug)]
pub(crate) struct Aside {
    layout: Layout,
    placement: Placement,
    pages: Pages,
    threads: ThreadPlace,
    starts: [ExecutorAddr; Prot::ALL.len()],
}

/// What a link has left in the executor.
#[derive(Debug)]
pub(crate) struct Left {
    /// The number of its finalized memory.
    pub(crate) memory: ExecutorAddr,
    /// Those of what plugins added to it.
    pub(crate) added: Vec<ExecutorAddr>,
    pub(crate) threads: ThreadPlace,
    pub(crate) symbols: Arc<SymbolTable>,
}

impl Wants {
    /// The link refers to this name.
    pub(crate) fn note(&mut self, name: &str) {
        self.exits |= REGISTRARS.contains(&name);
        self.names |= NAMERS.contains(&name);
    }
}

impl<'a> Placed<'a> {
    /// Makes the image.
    pub(crate) fn fixup(self) -> Result<(Image, Room<'a>)> {
        let image = self.layout.fixup(self.room.starts, self.room.threads.offset())?;
        Ok((image, self.room))
    }

    /// The names that the link defines.
    pub(crate) fn symbols(&self) -> SymbolTable {
        self.layout.symbols(self.room.starts, self.room.threads.offset())
    }

    /// The objects of the link.
    pub(crate) fn objects(&self) -> Vec<PlacedObject> {
        self.layout.objects(self.room.starts)
    }

    /// Lets go of the session, until the link goes on.
    pub(crate) fn set_aside(self) -> Aside {
        let Room { memory, threads, starts } = self.room;
        let (placement, pages) = memory.set_aside();
        Aside { layout: self.layout, placement, pages, threads: threads.keep(), starts }
    }
}

impl Room<'_> {
    /// Where the image's part of this protection starts.
    pub(crate) fn start(&self, prot: Prot) -> ExecutorAddr {
        self.starts[prot.index()]
    }

    /// Stores the image.
    pub(crate) fn write(&mut self, image: &Image) {
        for (prot, content) in Prot::ALL.into_iter().zip(&image.stripes) {
            let lead = lead(self.memory.range(prot).start, self.starts[prot.index()]);
            if lead == 0 || content.is_empty() {
                self.memory.write(prot, content);
            } else {
                self.memory.write(prot, &[&vec![0; lead], &content[..]].concat());
            }
        }
    }
}

impl Aside {
    /// Goes on with a link of this session.
    pub(crate) fn go_on(self, linker: &Linker) -> Result<Placed<'_>> {
        let threads = Taken::again(&linker.arena, self.threads);
        let memory = InFlightAlloc::again(&linker.memory, self.placement, self.pages)?;
        Ok(Placed { layout: self.layout, room: Room { memory, threads, starts: self.starts } })
    }
}

impl Linker {
    /// A linker for an executor that tells these numbers of itself.
    ///
    /// # Errors
    ///
    /// When its room for thread-locals cannot be as it says.
    pub(crate) fn new(memory: ExecutorMemory, numbers: &HashMap<String, i64>) -> Result<Self> {
        let number = |name| numbers.get(name).copied().unwrap_or(0);
        let arena = Arena::new(number(THREAD_ARENA_OFFSET), number(THREAD_ARENA_BYTES))?;
        Ok(Self { memory, arena: Mutex::new(arena) })
    }

    /// Gives everything its place, and takes the memory.
    pub(crate) fn place(&self, mut graph: LinkGraph, placement: Placement) -> Result<Placed<'_>> {
        let functions = self.memory.remote().thread_functions();
        if let Some([address, descriptor]) = functions {
            graph.define_thread_functions(address, descriptor)?;
        }
        let (layout, threads) = self.place_threads(graph.layout()?, functions.is_some())?;
        let (bytes, alignments) = (layout.bytes(), layout.alignments());
        // Memory starts at a page; where more is asked for, there is room to start later.
        let rooms = Prot::ALL.map(|prot| match bytes[prot.index()] {
            0 => 0,
            bytes => bytes.saturating_add(alignments[prot.index()] - PAGE_BYTES),
        });
        let memory = InFlightAlloc::new(&self.memory, placement, rooms)?;
        let starts = Prot::ALL.map(|prot| {
            let start = memory.range(prot).start.get();
            ExecutorAddr::new(start.next_multiple_of(alignments[prot.index()]))
        });
        Ok(Placed { layout, room: Room { memory, threads, starts } })
    }

    /// Takes a place for the thread-locals of a link: in the arena, or outside when that is full and the executor has
    /// the functions by which code finds them there.
    fn place_threads(&self, layout: Layout, can_be_outside: bool) -> Result<(Layout, Taken<'_>)> {
        let arena = &self.arena;
        let (bytes, alignment) = layout.thread_bytes();
        let full = match Taken::range(arena, bytes, alignment) {
            Err(error) if error.is_exhausted() && can_be_outside => error,
            taken => return Ok((layout, taken?)),
        };
        let (threads, module) = Taken::module(arena)?;
        let layout = layout.with_dynamic_threads(module);
        let layout = layout.map_err(|why| Error::exhausted(format!("{full}, and {why}")))?;
        Ok((layout, threads))
    }

    /// Asks the executor for symbols. When code that was to be near wants variables within reach that were moved below
    /// 2 GiB for other code, it has to go there too, and asks again.
    pub(crate) fn look_up(
        &self,
        libraries: Vec<String>,
        placement: &mut Placement,
        wanted: Vec<Wanted>,
    ) -> Result<(Vec<Wanted>, Vec<Option<Found>>)> {
        let mut query = (libraries, *placement, wanted);
        let mut found = self.memory.remote().call::<DylibLookup>(&query)?;
        let was_moved = |((.., narrow), found): (&Wanted, &Option<Found>)| match found {
            Some((address, is_function)) => {
                *narrow && !is_function && address.get() < LOW_ADDRESS_END
            }
            None => false,
        };
        if *placement == Placement::Near && query.2.iter().zip(&found).any(was_moved) {
            *placement = Placement::Low;
            query = (Vec::new(), *placement, query.2);
            found = self.memory.remote().call::<DylibLookup>(&query)?;
        }
        let wanted = query.2;
        if found.len() != wanted.len() {
            return Err(Error::violation(format!(
                "{} answers to a look-up of {} symbols",
                found.len(),
                wanted.len()
            )));
        }
        Ok((wanted, found))
    }

    /// Finds thread-locals in the executor's shared libraries, with a message of their own if there are any: few programs
    /// name them. What is missing is refused when the graph is laid out.
    pub(crate) fn resolve_threads(&self, graph: &mut LinkGraph, names: Vec<String>) -> Result<()> {
        if names.is_empty() {
            return Ok(());
        }
        let query = (names,);
        let found = self.memory.remote().call::<ThreadLookup>(&query)?;
        for (name, distance) in query.0.iter().zip(found) {
            if let Some(distance) = distance {
                let address = ExecutorAddr::new(distance.cast_unsigned());
                graph.define_external(name, External { thread: true, ..External::from(address) });
            }
        }
        Ok(())
    }

    /// Takes back what links have left, with one message at most.
    ///
    /// # Errors
    ///
    /// As [`ExecutorMemory::deallocate`].
    pub(crate) fn take_back<'l>(
        &self,
        left: impl IntoIterator<Item = &'l Left, IntoIter: Clone>,
    ) -> Result<()> {
        let left = left.into_iter();
        let all = left.clone().flat_map(|one| one.added.iter().chain([&one.memory]));
        let outcome = self.memory.deallocate(all.copied());
        for one in left {
            self.memory.remote().forget(&one.symbols);
            self.arena.lock().give_back(one.threads);
        }
        outcome
    }

    /// What registers unwind information, names and initializers, if the image has or wants any, and what takes it back.
    pub(crate) fn actions(
        &self,
        image: &Image,
        memory: &InFlightAlloc<'_>,
        wants: &Wants,
        handle: &mut ExecutorAddr,
    ) -> Result<Vec<(Action, Action)>> {
        let mut actions: Vec<(Action, Action)> = Vec::new();
        if let Some(section) = image.eh_frame {
            let register = self.action::<FramesRegister>(&(section,))?;
            actions.push((register, self.action::<FramesDeregister>(&(section,))?));
        }
        if wants.names {
            let code = memory.range(Prot::Code);
            let file = Bytes(image.symbols.symbol_file(code));
            let register = self.action::<NamesRegister>(&(code, file))?;
            actions.push((register, self.action::<NamesDeregister>(&(code,))?));
        }
        if let Some(threads) = image.threads {
            actions.push(self.thread_actions(&threads)?);
        }
        if !image.ifuncs.is_empty() {
            let functions = image.ifuncs.iter().map(|one| (one.slot, one.resolver)).collect();
            actions.push((self.action::<IndirectResolve>(&(functions,))?, Action::default()));
        }
        if let Some(address) = image.symbols.address_of(HANDLE) {
            *handle = address;
        }
        // Exit handlers of earlier links may call this one. They have to run before its blocks of thread-locals go, and
        // do so when a program of the dylib is removed.
        let has_blocks = image.threads.is_some_and(|threads| threads.module.is_some());
        let has_code = memory.range(Prot::Code).bytes() > 0;
        let may_be_called_at_exit = has_blocks && has_code;
        if image.init.is_some() || image.fini.is_some() || wants.exits || may_be_called_at_exit {
            if handle.is_null() {
                // Nothing names the handle, so any address of the program's own will do.
                *handle = memory.range(Prot::Code).start;
            }
            let code = memory.range(Prot::Code);
            let (init, fini) = (image.init.unwrap_or_default(), image.fini.unwrap_or_default());
            let program = (*handle, code, init, fini);
            let register = self.action::<ProgramRegister>(&program)?;
            actions.push((register, self.action::<ProgramDeregister>(&(*handle,))?));
        }
        Ok(actions)
    }

    fn thread_actions(&self, threads: &TlsBlock) -> Result<(Action, Action)> {
        let TlsBlock { offset, module, initial, bytes } = *threads;
        let Some(module) = module else {
            let initialize = self.action::<ThreadInitialize>(&(offset, initial, bytes))?;
            return Ok((initialize, Action::default()));
        };
        let register = self.action::<ThreadBlockRegister>(&(module, initial, bytes))?;
        Ok((register, self.action::<ThreadBlockDeregister>(&(module,))?))
    }

    fn action<R: Remote>(&self, args: &R::Args) -> Result<Action>
    where
        R::Args: Encode,
    {
        Ok((self.memory.remote().function::<R>()?, Bytes(sps::to_bytes(args))))
    }
}

/// How many bytes of a stripe's memory lie before the image, which is aligned to more than a page.
fn lead(memory: ExecutorAddr, image: ExecutorAddr) -> usize {
    usize::try_from(image.get() - memory.get()).unwrap_or(usize::MAX)
}
