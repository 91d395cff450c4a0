//! Links over a connection: the executor's processor decides what is linked, and the content goes in one message.
//!
//! Invariant: what a link that fails has taken in the executor is given back.

use std::sync::Arc;

use super::{Client, ClientImage};
use crate::call::contract::{
    DylibLookup, Placement, THREAD_ADDRESS, THREAD_DESCRIPTOR, ThreadLookup, ThreadRoomClaim,
};
use crate::controller::linker::linking::actions;
use crate::controller::linker::tls_allocator::{TlsAllocation, TlsAllocator};
use crate::controller::memory::native_memory::{AllocActionPair, Segment};
use crate::controller::memory::peer::Peer;
use crate::error::{Error, ErrorKind, Result};
use crate::limits::PAGE_BYTES;
use crate::link::{Archives, External, Image, Input, Layout, LinkGraph, Processor};
use crate::sps::AllocGroup;
use crate::sync::Mutex;
use crate::{AddrRange, ExecutorAddr, Prot};

/// The largest pages of any processor that the linker knows.
const PAGE_BYTES_MAX: u64 = 64 << 10;

/// Where the stripes of an image go.
struct Place {
    /// The range of each stripe, in whole pages.
    stripes: [AddrRange; Prot::ALL.len()],
    /// The size of a slab for all of them.
    bytes: u64,
}

impl Client {
    /// The executor's processor, for which objects have to be compiled.
    ///
    /// # Errors
    ///
    /// When the linker does not know the processor of its [`triple`](Client::triple).
    pub fn processor(&self) -> Result<Processor> {
        Processor::of_triple(&self.triple).ok_or_else(|| {
            Error::link(format!(
                "the executor is for {}, and the linker for {} and {}: start an executor for one of these",
                self.triple,
                Processor::X86_64,
                Processor::Aarch64
            ))
        })
    }

    /// Links objects and members of archives, and stores the image in the executor. Names that no file defines are looked up in the
    /// executor's shared libraries. Sends three or four messages, and copies the content into one of them. The initializers run with
    /// [`ClientImage::initialize`] or [`ClientImage::run`].
    ///
    /// The processor of this program does not matter: the objects have to be for the [executor's](Client::processor).
    ///
    /// # Errors
    ///
    /// - An object is for another processor, or cannot be linked; the message names both processors, or what to change
    ///   ([`ErrorKind::Link`]).
    /// - A name is not found ([`Error::symbols`]).
    /// - Code has 32-bit addresses, as with `-fno-pic` on x86-64: compile it with `-fPIC` or `-fPIE`.
    /// - There are thread-locals, and another session of the executor's process has some, or there is no room for them.
    /// - The executor is not of this library, or the session is over.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use farcall::Connection;
    /// use farcall::controller::Client;
    /// use farcall::link::{Input, ObjectFile};
    ///
    /// # let timeout = std::time::Duration::from_secs(10);
    /// let client = Client::connect(Connection::open(&"tcp:connect=board:4000".parse()?, timeout)?)?;
    /// println!("compile for {}", client.processor()?);
    /// let object = ObjectFile::parse("hello.o", std::fs::read("hello.o")?)?;
    /// let status = client.link([Input::Object(&object)])?.run([b"hello"])?;
    /// # let _ = status;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn link<'i>(&self, inputs: impl IntoIterator<Item = Input<'i>>) -> Result<ClientImage<'_>> {
        let mut graph = self.graph(inputs)?;
        self.resolve(&mut graph)?;
        let functions = [THREAD_ADDRESS, THREAD_DESCRIPTOR].map(|name| self.symbol(name));
        let has_functions = match functions {
            [Some(address), Some(descriptor)] => {
                graph.define_thread_functions(address, descriptor)?;
                true
            }
            _ => false,
        };
        let layout = graph.layout()?;
        let (layout, tls) = match layout.thread_bytes() {
            (0, _) => (layout, None),
            _ => {
                let of_layout = TlsAllocation::of_layout(self.threads()?, layout, has_functions);
                of_layout.map(|(layout, tls)| (layout, Some(tls)))?
            }
        };
        let memory = self.native_memory();
        let slab = memory.reserve(self.place(&layout, ExecutorAddr::NULL)?.bytes)?;
        let stored = self.store(layout, tls.as_ref(), slab);
        let (image, program) = stored.inspect_err(|_| {
            // The error says more than one of the release.
            let _ = memory.release(&[slab]);
        })?;
        Ok(ClientImage::new(self, slab, image.symbols, program, tls))
    }

    /// A graph of these inputs, for the executor's processor.
    fn graph<'i>(&self, inputs: impl IntoIterator<Item = Input<'i>>) -> Result<LinkGraph> {
        let processor = self.processor()?;
        let mut graph = LinkGraph::for_processor(processor);
        let mut archives = Archives::default();
        for input in inputs {
            match input {
                Input::Object(object) if object.processor() != processor => {
                    return Err(Error::link(format!(
                        "{} is for {}, and the executor for {processor}: compile it for {processor}",
                        object.name(),
                        object.processor()
                    )));
                }
                Input::Object(object) => graph.add_object(object)?,
                Input::Archive(archive) => archives.push(archive),
            }
        }
        graph.add_archives(&archives, |_| false)?;
        if graph.needs_low_addresses() {
            return Err(Error::link(
                "some code has 32-bit addresses, and memory over a connection lies higher: compile it with -fPIC or -fPIE",
            ));
        }
        if let Some((object, function)) = graph.code_on_stack() {
            return Err(Error::link(format!(
                "{object}: function {function} puts code on the stack, as nested functions of GNU C do, and stacks are not \
                 executable: move it out of its function"
            )));
        }
        Ok(graph)
    }

    /// Looks up what the graph lacks: with one message, and one more for thread-locals.
    fn resolve(&self, graph: &mut LinkGraph) -> Result<()> {
        let (threads, others): (Vec<_>, Vec<_>) =
            graph.undefined().into_iter().partition(|one| one.thread);
        let peer: &dyn Peer = self;
        let wanted: Vec<_> =
            others.iter().map(|one| (one.name.to_string(), !one.weak, one.narrow)).collect();
        if !wanted.is_empty() {
            let query = (Vec::new(), Placement::Near, wanted, None);
            let (found, _) = peer.ask::<DylibLookup>(&query).map_err(refused)?;
            check_count(found.len(), others.len())?;
            let mut missing = Vec::new();
            for (one, found) in others.iter().zip(found) {
                match found {
                    Some((address, callable)) => {
                        let found = External { callable, ..External::from(address) };
                        graph.define_external(&one.name, found);
                    }
                    None if one.weak => {}
                    None => missing.push(one.name.to_string()),
                }
            }
            if !missing.is_empty() {
                return Err(Error::symbols_not_found(missing));
            }
        }
        if threads.is_empty() {
            return Ok(());
        }
        let names: Vec<_> = threads.iter().map(|one| one.name.to_string()).collect();
        let found = peer.ask::<ThreadLookup>(&(names,))?;
        check_count(found.len(), threads.len())?;
        for (one, found) in threads.iter().zip(found) {
            if let Some(distance) = found {
                let address = ExecutorAddr::new(distance.cast_unsigned());
                let found = External { thread: true, ..External::from(address) };
                graph.define_external(&one.name, found);
            }
        }
        Ok(())
    }

    /// The executor's room for thread-locals, which the first link with some claims.
    fn threads(&self) -> Result<&Arc<Mutex<TlsAllocator>>> {
        if let Some(threads) = self.threads.get() {
            return Ok(threads);
        }
        let peer: &dyn Peer = self;
        let claimed = peer.ask::<ThreadRoomClaim>(&(peer.instance()?,));
        let (offset, bytes) = claimed.map_err(refused)?;
        let made = Arc::new(Mutex::new(TlsAllocator::new([offset, bytes])?));
        Ok(self.threads.get_or_init(|| made))
    }

    /// Where the stripes of a layout go in a slab that starts at this address. Each has pages of its own.
    fn place(&self, layout: &Layout, slab: ExecutorAddr) -> Result<Place> {
        let page = self.page_bytes;
        if !page.is_power_of_two() || !(PAGE_BYTES..=PAGE_BYTES_MAX).contains(&page) {
            return Err(Error::violation(format!("an executor with pages of {page} bytes")));
        }
        let too_large = || Error::exhausted("an image larger than the address space");
        let (mut next, mut room) = (slab.get(), 0_u64);
        let mut stripes = [AddrRange::default(); Prot::ALL.len()];
        let sizes = layout.bytes().into_iter().zip(layout.alignments());
        for (stripe, (bytes, alignment)) in stripes.iter_mut().zip(sizes) {
            let alignment = alignment.max(page);
            let whole = bytes.checked_next_multiple_of(page).ok_or_else(too_large)?;
            let start = next.checked_next_multiple_of(alignment).ok_or_else(too_large)?;
            next = start.checked_add(whole).ok_or_else(too_large)?;
            room = room
                .checked_add(whole)
                .and_then(|room| room.checked_add(alignment - page))
                .ok_or_else(too_large)?;
            *stripe = AddrRange { start: ExecutorAddr::new(start), end: ExecutorAddr::new(next) };
        }
        Ok(Place { stripes, bytes: room.max(page) })
    }

    /// Computes the image for its place in a slab, and stores it there. Returns it with the handle of its program.
    fn store(
        &self,
        layout: Layout,
        tls: Option<&TlsAllocation>,
        slab: ExecutorAddr,
    ) -> Result<(Image, ExecutorAddr)> {
        let Place { stripes, bytes } = self.place(&layout, slab)?;
        let starts = stripes.map(|stripe| stripe.start);
        let image = layout.fixup(starts, tls.map_or(0, TlsAllocation::offset))?;
        let mut program = ExecutorAddr::NULL;
        let code = stripes[Prot::Code.index()];
        // Each image is a program of its own: what it registers for exits, it runs when it is removed.
        let actions = actions::of_image(self, &image, code, code.bytes() > 0, &mut program)?;
        let actions: Vec<_> = actions.into_iter().map(AllocActionPair::of_actions).collect();
        let mut segments: Vec<Segment<'_>> = Vec::new();
        for (prot, content) in Prot::ALL.into_iter().zip(&image.stripes) {
            let (group, stripe) = (AllocGroup::standard(prot), stripes[prot.index()]);
            if stripe.bytes() > 0 {
                segments.push(Segment {
                    group,
                    start: stripe.start,
                    bytes: stripe.bytes(),
                    content,
                });
            }
        }
        if segments.is_empty() {
            let group = AllocGroup::standard(Prot::Constants);
            segments.push(Segment { group, start: slab, bytes, content: &[] });
        }
        self.native_memory().initialize(&segments, &actions)?;
        Ok((image, program))
    }
}

/// An error of the link, if the executor has refused.
fn refused(error: Error) -> Error {
    match error.kind() {
        ErrorKind::Remote => Error::link(error.to_string()),
        _ => error,
    }
}

/// # Errors
///
/// When the executor has not answered each question.
fn check_count(answers: usize, questions: usize) -> Result<()> {
    match answers == questions {
        true => Ok(()),
        false => Err(Error::violation(format!("{answers} answers to {questions} symbols"))),
    }
}
