//! The order of a link. Each link runs through these phases, whether a dylib or an object layer owns it.
//!
//! | phase | what happens |
//! |---|---|
//! | 1 pull | the owner completes the graph: members of archives, changes of plugins |
//! | 2 resolve | the owner looks up the names that the graph lacks |
//! | 3 place | the image is laid out, and memory allocated; the owner tells the link's addresses, and gets those of other links |
//! | 4 compute | the image is made for its addresses |
//! | 5 store | plugins add to it; it is stored through the controller's own mapping |
//! | 6 register | the actions that register it are posted ahead of the next call |
//! | 7 record | the owner records what the link owns |
//!
//! The owner of a link calls the next phase itself after phases 2 and 3. A dylib has its answers at once. An object layer gets them on
//! the thread that completes a lookup; no thread owns the link meanwhile.
//!
//! Invariant: all memory of a link that fails is freed before its owner learns of the error.

use std::sync::Arc;
use std::time::Instant;

use super::defined_handler::DefinedHandler;
use super::initial_data::InitialData;
use super::link_report::{LinkReport, LinkStep};
use super::linking::{Linked, Linker, Placed, Requirements, Shared, actions};
use super::object_plugin::{ObjectPlugin, collect};
use crate::call::contract::Placement;
use crate::error::{Error, Result};
use crate::link::{Image, LinkGraph, names_file};
use crate::{ExecutorAddr, PerProt, Prot};

/// The owner of a link: it has the names that the link refers to, and records the link.
pub(crate) trait Owner: Sized {
    /// The result of [`Link::run`].
    type Outcome;

    /// Phase 1: completes the graph, and chooses the placement.
    fn pull(link: &mut Link<Self>, graph: &mut LinkGraph) -> Result<()>;

    /// Phase 2: looks up what the graph lacks, and continues with `next`.
    fn resolve(link: Link<Self>, graph: LinkGraph, next: Resolved<Self>) -> Self::Outcome;

    /// The end of phase 3: tells the addresses of the link, locates the names of other links, and continues with `next`.
    fn locate(link: Link<Self>, next: Located<Self>) -> Self::Outcome {
        next(link)
    }

    /// The end of phase 4: the image may still be changed.
    fn computed(link: &mut Link<Self>, image: &mut Image) -> Result<()> {
        let _ = (link, image);
        Ok(())
    }

    /// A step has ended. True if a host was told, which takes time that is no step's.
    fn ended(&mut self, step: LinkStep) -> bool {
        let _ = step;
        false
    }

    /// Phase 7. The image has no symbols any more.
    fn record(link: Link<Self>, image: Image, linked: Linked) -> Self::Outcome;

    /// The link has failed.
    fn fail(link: Link<Self>, error: Error) -> Self::Outcome;
}

/// What follows phase 2.
pub(crate) type Resolved<O> = fn(Link<O>, LinkGraph) -> <O as Owner>::Outcome;

/// What follows phase 3.
pub(crate) type Located<O> = fn(Link<O>) -> <O as Owner>::Outcome;

/// A link under way.
pub(crate) struct Link<O> {
    pub(crate) owner: O,
    linker: Shared,
    pub(crate) plugins: Vec<Arc<dyn ObjectPlugin>>,
    /// The handlers whose stubs are linked.
    pub(crate) handlers: Vec<DefinedHandler>,
    pub(crate) placement: Placement,
    pub(crate) requirements: Requirements,
    /// The handle of the program that the link belongs to. The first link that needs one sets it.
    pub(crate) program: ExecutorAddr,
    /// The initial data is kept.
    pub(crate) keeps_data: bool,
    /// Its layout and memory, from phase 3 to phase 5. In a box, because they are large and the link is moved from phase to phase.
    pub(crate) placed: Option<Box<Placed>>,
    pub(crate) report: LinkReport,
    /// The begin of the present step.
    begun: Instant,
}

impl<O: Owner> Link<O> {
    /// A link near the executor.
    pub(crate) fn new(
        owner: O,
        linker: Shared,
        plugins: Vec<Arc<dyn ObjectPlugin>>,
        handlers: Vec<DefinedHandler>,
    ) -> Self {
        Self {
            owner,
            linker,
            plugins,
            handlers,
            placement: Placement::Near,
            requirements: Requirements::default(),
            program: ExecutorAddr::NULL,
            keeps_data: false,
            placed: None,
            report: LinkReport::default(),
            begun: Instant::now(),
        }
    }

    /// Links the objects of a graph: phases 1 and 2.
    pub(crate) fn run(mut self, mut graph: LinkGraph) -> O::Outcome {
        if let Err(error) = O::pull(&mut self, &mut graph) {
            return self.fail(error);
        }
        self.end(LinkStep::Pull);
        O::resolve(self, graph, Self::place)
    }

    /// Phase 3.
    fn place(mut self, graph: LinkGraph) -> O::Outcome {
        self.end(LinkStep::LookUp);
        match Linker::place(&self.linker, graph, self.placement) {
            Ok(placed) => self.placed = Some(Box::new(placed)),
            Err(error) => return self.fail(error),
        }
        self.end(LinkStep::Layout);
        O::locate(self, Self::finish)
    }

    /// Phases 4 to 7.
    fn finish(mut self) -> O::Outcome {
        match self.store() {
            Ok((image, linked)) => O::record(self, image, linked),
            Err(error) => self.fail(error),
        }
    }

    /// Phases 4 to 6. The image has its bytes if there are plugins, or if the initial data is kept.
    ///
    /// # Errors
    ///
    /// When a relocation cannot be made, the owner or a plugin refuses, memory runs out, or the session is over.
    fn store(&mut self) -> Result<(Image, Linked)> {
        let placed = self.placed.take();
        let placed = *placed.ok_or_else(|| Error::invalid("a link without memory"))?;
        let shared = Arc::clone(&self.linker);
        let linker = (*shared).as_ref();

        // 4 Compute.
        let objects = if self.plugins.is_empty() { Vec::new() } else { placed.objects() };
        let stored_bytes = placed.stored_data_bytes();
        let has_bytes = !self.plugins.is_empty() || self.keeps_data;
        let (mut image, mut memory) =
            if has_bytes { placed.fixup()? } else { placed.fixup_in_pieces()? };
        O::computed(self, &mut image)?;
        self.end(LinkStep::Fixup);

        // 5 Store.
        let mut additions = collect(&linker.memory, &self.plugins, &objects, &image, &memory)?;
        if has_bytes {
            memory.write(&image);
        }

        // 6 Register.
        let data = memory.start(Prot::Data);
        let allocation = memory.take_allocation(linker);
        let ranges = PerProt::from_fn(|prot| allocation.range(prot));
        if self.requirements.names {
            linker.add_names(&mut additions, &image.symbols, ranges)?;
        }
        if let Some(known) = &self.requirements.precedes {
            let (file, names) = names_file(&image.symbols, |name| known.may_contain(name));
            // Most programs have no name in common with a library.
            let Requirements { has_libraries, advises, .. } = self.requirements;
            if names > 0 || has_libraries || advises {
                let stored = advises.then_some(stored_bytes);
                linker.add_precedence(&mut additions, &file, ranges, stored)?;
            }
        }
        let exits = self.requirements.exits;
        let actions =
            actions::of_image(&linker.memory, &image, ranges.code, exits, &mut self.program)?;
        let (base, added) = linker.finalize(allocation, actions, additions)?;
        let symbols = Arc::new(std::mem::take(&mut image.symbols));
        linker.memory.remote().remember(&symbols);
        self.end(LinkStep::Transfer);

        self.report.count(&image);
        let handlers = DefinedHandler::into_tags(std::mem::take(&mut self.handlers));
        let initial = self.keeps_data.then(|| Box::new(InitialData::of(&mut image, data)));
        let (tls, program) = (memory.tls.take(), self.program);
        Ok((image, Linked { base, added, tls, symbols, handlers, program, initial }))
    }

    /// Ends the link with an error. Its memory is freed.
    pub(crate) fn fail(mut self, error: Error) -> O::Outcome {
        self.placed = None;
        O::fail(self, error)
    }

    /// Ends a step.
    fn end(&mut self, step: LinkStep) {
        let now = Instant::now();
        *self.report.time(step) = now.duration_since(self.begun);
        // A look at the clock takes 20 ns.
        self.begun = if self.owner.ended(step) { Instant::now() } else { now };
    }
}
