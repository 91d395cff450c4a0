//! The objects of one link and the names that connect them.
//!
//! Invariant: indices of `inputs`, of their sections and symbols, and of `globals` never change. A section that is not needed
//! is marked as dropped, not removed.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::num::NonZeroUsize;
use std::sync::Arc;

use hashbrown::HashTable;

use super::interface::{Export, External};
use super::provided::TLS_MODULE_BASE_NAME;
use crate::addr::ExecutorAddr;
use crate::arch::edge::Edge;
use crate::arch::facts::Facts;
use crate::arch::processor::Processor;
use crate::error::Result;
use crate::parallel::Threads;
use crate::read::eh_frame::{self, Record};
use crate::read::name_table::NameTable;
use crate::read::object_file::ObjectFile;
use crate::read::parsed::{Place, Role, Routine, Section, Symbol, SymbolKind};

/// One batch of objects that is linked together, as one shared library would be.
///
/// Hidden names bind inside the graph, and inside the dylib that it becomes a part of. A section is not dropped because
/// nothing refers to it, only because another definition won over its own.
///
/// After an error of [`add_object`](Self::add_object) or [`add_archive`](Self::add_archive) the graph
/// holds a part of that object. Start again with a new graph; the objects need not be read again.
///
/// # Examples
///
/// ```
#[doc = include_str!("../compile.txt")]
/// use farcall_link::ExecutorAddr;
/// use farcall_link::LinkGraph;
///
/// let mut graph = LinkGraph::new();
/// graph.add_object(&compile("int next(int); int twice(int n) { return next(next(n)); }")?)?;
/// assert_eq!(&*graph.undefined()[0].name, "next");
/// graph.add_object(&compile("int next(int n) { return n + 1; }")?)?;
/// let layout = graph.layout()?;
/// // Code, constants, data.
/// let bases = [0x10000, 0x20000, 0x30000].map(ExecutorAddr::new);
/// let image = layout.fixup(bases, 0)?;
/// assert!(image.symbols.address_of("twice").is_some());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Default)]
pub struct LinkGraph {
    processor: Processor,
    pub(crate) inputs: Vec<Input>,
    pub(crate) globals: Vec<Global>,
    /// The name of each one in `globals`. The image has the same table.
    pub(crate) names: Arc<NameTable>,
    /// The first COMDAT group with each signature: its input, and its index there.
    pub(crate) groups: HashTable<(u32, u32)>,
    /// The names that some object needs, as indices into `globals`, in the order in which they were first needed. Archives
    /// are searched for those that are not defined, or are common.
    pub(crate) needed: Vec<u32>,
    /// The most threads that work on the link.
    pub(crate) threads: Threads,
    /// The inputs that lost definitions since [`drop_overridden`](Self::drop_overridden) last ran.
    pub(crate) losers: BTreeSet<u32>,
    pub(crate) thread_functions: Option<ThreadFunctions>,
    /// True when the image lists the variables that have sections of their own.
    pub(crate) lists_variables: bool,
}

/// The executor's functions for dynamic thread-locals.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ThreadFunctions {
    /// The function that code calls, as an index into `globals`. Objects cannot refer to it by name.
    pub(crate) global: u32,
    /// The address of that function.
    pub(crate) address: ExecutorAddr,
    /// The function that descriptors hold.
    pub(crate) descriptor: ExecutorAddr,
}

/// An object as a part of one graph.
pub(crate) struct Input {
    pub(crate) object: ObjectFile,
    /// Which sections are not needed.
    pub(crate) dropped: Vec<bool>,
    /// The addresses of those among them that lie outside of the image: variables that stay where they are.
    pub(crate) elsewhere: HashMap<u32, u64>,
    /// For every symbol its index in `globals`, or [`LOCAL`].
    pub(crate) bindings: Vec<u32>,
    /// The symbols that define a name with a version in addition, and its index in `globals`. Sorted.
    pub(crate) versions: Vec<(u32, u32)>,
}

/// A relocation, and the section and input that it is in.
#[derive(Clone, Copy)]
pub(crate) struct Site<'a> {
    pub(crate) input_id: u32,
    pub(crate) input: &'a Input,
    pub(crate) section: &'a Section,
    pub(crate) edge: &'a Edge,
}

/// The binding of a symbol that no other object sees.
pub(crate) const LOCAL: u32 = u32::MAX;

/// The meaning of a name that objects share.
#[derive(Clone, Default)]
pub(crate) struct Global {
    pub(crate) resolution: Resolution,
    /// True when any object declares it hidden.
    pub(crate) hidden: bool,
    /// True when an object refers to it and the reference is not weak.
    pub(crate) wanted: bool,
}

/// The definition of a name.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Resolution {
    /// None yet.
    #[default]
    None,
    /// One outside of the graph.
    External(External),
    /// A symbol of an input. The flags repeat what the symbol says, so that relocations need not look there.
    Here { input: u32, symbol: u32, weak: bool, thread: bool, absolute: bool },
    /// A common symbol, which the linker allocates; `input` asked for the most bytes.
    Common { input: u32, bytes: u64, alignment: u64 },
}

impl LinkGraph {
    /// A graph without objects, for the processor of this program.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A graph without objects, for this processor. Objects for another one cannot be added.
    #[must_use]
    pub fn for_processor(processor: Processor) -> Self {
        Self { processor, ..Self::default() }
    }

    /// The processor of all objects of the graph.
    #[must_use]
    pub fn processor(&self) -> Processor {
        self.processor
    }

    pub(crate) fn facts(&self) -> &'static Facts {
        self.processor.facts()
    }

    /// Adds an object and binds its names to those that are already there. The graph keeps a reference to the object until
    /// the link is over.
    ///
    /// # Errors
    /// Two objects define the same name, and neither is weak. Or the object is for another processor than the graph.
    pub fn add_object(&mut self, object: &ObjectFile) -> Result<()> {
        self.bind(object)?;
        self.drop_overridden();
        Ok(())
    }

    /// Limits the threads that share the work of a large link. Without a limit there are as many as the process has CPUs. The
    /// image does not depend on their number, and small links have one thread.
    pub fn set_threads_max(&mut self, most: NonZeroUsize) {
        self.threads.most = Some(most);
    }

    /// Says how threads share the work, also of a small link.
    #[doc(hidden)]
    pub fn set_threads(&mut self, threads: Threads) {
        self.threads = threads;
    }

    /// True when the graph defines `name` for others. Hidden names are not for others.
    #[must_use]
    pub fn defines(&self, name: &str) -> bool {
        self.global(name).is_some_and(|global| global.is_defined() && !global.hidden)
    }

    /// The names that the graph defines, hidden ones included, in the order in which objects first named them.
    pub fn exports(&self) -> impl Iterator<Item = Export<'_>> {
        (0..).zip(&self.globals).filter_map(|(id, global)| self.export(id, global))
    }

    /// The exports for which this condition holds.
    pub(crate) fn exports_with(
        &self,
        holds: impl Fn(&Global) -> bool,
    ) -> impl Iterator<Item = Export<'_>> {
        let all = (0..).zip(&self.globals).filter(move |(_, global)| holds(global));
        all.filter_map(|(id, global)| self.export(id, global))
    }

    /// The [`exports`](Self::exports) under the names of the object that was added last. Takes time for that object only.
    #[doc(hidden)]
    pub fn exports_of_last(&self) -> impl Iterator<Item = Export<'_>> {
        let names = self.inputs.last().map_or(&[][..], |input| &input.bindings);
        let global = |id: &u32| self.export(*id, self.globals.get(*id as usize)?);
        names.iter().filter_map(global)
    }

    fn export(&self, id: u32, global: &Global) -> Option<Export<'_>> {
        global.is_defined().then(|| Export {
            name: self.names.text(id),
            weak: !matches!(global.resolution, Resolution::Here { weak: false, .. }),
            hidden: global.hidden,
            callable: self.is_function(global.resolution),
        })
    }

    /// True when there are functions to call at start.
    #[must_use]
    pub fn has_initializers(&self) -> bool {
        let runs_at_start = |role: &Role| {
            matches!(
                role,
                Role::PreinitArray | Role::InitArray { .. } | Role::Fragment(Routine::Init)
            )
        };
        let mut sections = self.inputs.iter().flat_map(Input::kept_sections);
        sections.any(|(_, section)| runs_at_start(&section.role))
    }

    /// The first object that puts code on the stack and runs it there, as nested functions of GNU C do. With it the function
    /// concerned, as far as names tell.
    #[must_use]
    pub fn code_on_stack(&self) -> Option<(&str, &str)> {
        let objects = self.inputs.iter().map(|input| &input.object);
        objects.filter_map(|one| Some((one.name(), one.function_on_stack()?))).next()
    }

    /// True when a global symbol of an input is the definition of its name, or of its name with a version.
    pub(crate) fn is_definition(&self, input_id: u32, symbol_id: u32) -> bool {
        let input = &self.inputs[input_id as usize];
        let is_it = |binding: u32| {
            matches!(
                self.globals[binding as usize].resolution,
                Resolution::Here { input, symbol, .. } if (input, symbol) == (input_id, symbol_id)
            )
        };
        let first = input.versions.partition_point(|(symbol, _)| *symbol < symbol_id);
        let mut versions =
            input.versions[first..].iter().take_while(|(symbol, _)| *symbol == symbol_id);
        is_it(input.bindings[symbol_id as usize]) || versions.any(|(_, binding)| is_it(*binding))
    }

    fn is_function(&self, resolution: Resolution) -> bool {
        let Resolution::Here { input, symbol, .. } = resolution else { return false };
        let kind = self.inputs[input as usize].object.symbol(symbol).kind;
        matches!(kind, SymbolKind::Function | SymbolKind::Ifunc)
    }

    /// The number of a thread-local's TLS module; `None` when it has a constant offset from the thread pointer. `own` is the
    /// module of the graph's own thread-locals.
    pub(crate) fn tls_module_of(&self, binding: u32, own: Option<u32>) -> Option<u32> {
        match self.globals.get(binding as usize) {
            None => own,
            Some(global) => match global.resolution {
                Resolution::Here { .. } => own,
                Resolution::External(found) => found.tls_module,
                Resolution::None if self.is_name(binding, TLS_MODULE_BASE_NAME) => own,
                Resolution::None | Resolution::Common { .. } => None,
            },
        }
    }

    /// True when some code or data holds addresses in 32 bits, as `-fno-pic` code does, so that the image must lie below
    /// 2 GiB.
    #[must_use]
    pub fn needs_low_addresses(&self) -> bool {
        self.inputs.iter().any(|input| input.kept_sections().any(|(_, section)| section.is_low))
    }

    pub(crate) fn global(&self, name: &str) -> Option<&Global> {
        self.globals.get(self.names.number(name)? as usize)
    }

    /// The names without a definition.
    pub(crate) fn missing(&self) -> impl Iterator<Item = &str> {
        let globals = (0..).zip(&self.globals);
        let missing = globals.filter(|(_, global)| global.resolution == Resolution::None);
        missing.map(|(id, _)| self.names.text(id))
    }

    /// True when the one with this index in `globals` has this name.
    pub(crate) fn is_name(&self, id: u32, name: &str) -> bool {
        self.names.text(id) == name
    }

    /// The results of `work` for all inputs, in their order. Several threads share the work of a large link.
    pub(crate) fn map_inputs<'a, T: Send>(
        &'a self,
        work: impl Fn(u32, &'a Input) -> T + Sync,
    ) -> Vec<T> {
        let weight = self.inputs.iter().map(|input| input.object.bytes().len() as u64).sum();
        self.threads.map(self.inputs.len(), weight, |at| {
            // There are fewer than 2^32 inputs.
            work(u32::try_from(at).unwrap_or(u32::MAX), &self.inputs[at])
        })
    }

    /// The relocations that will be applied and for which `is_wanted` is true, in their order.
    pub(crate) fn sites<'a>(
        &'a self,
        is_wanted: impl Fn(&Site<'a>) -> bool + Sync,
    ) -> impl Iterator<Item = Site<'a>> {
        let sites = self.map_inputs(|input_id, input| {
            let mut wanted = Vec::new();
            let mut visit = |section: &'a Section, edge: &'a Edge| {
                let site = Site { input_id, input, section, edge };
                if is_wanted(&site) {
                    wanted.push(site);
                }
            };
            for (_, section) in input.kept_sections() {
                if let Role::EhFrame(records) = &section.role {
                    let kept = self.kept_records(input_id, records);
                    let edges = eh_frame::kept_edges(records, &kept, input.object.edges(section));
                    edges.for_each(|edge| visit(section, edge));
                } else {
                    input.object.edges(section).iter().for_each(|edge| visit(section, edge));
                }
            }
            wanted
        });
        sites.into_iter().flatten()
    }

    /// Which `.eh_frame` records of an input are needed: the records of the functions that it contributes.
    pub(crate) fn kept_records(&self, input_id: u32, records: &[Record]) -> Vec<bool> {
        let input = &self.inputs[input_id as usize];
        eh_frame::kept(records, |target| {
            let own = match self.globals.get(input.bindings[target as usize] as usize) {
                None => true,
                Some(global) => matches!(
                    global.resolution,
                    Resolution::Here { input, symbol, .. }
                        if input == input_id && symbol == target
                ),
            };
            own && !input.is_dropped(input.object.symbol(target).place)
        })
    }
}

impl fmt::Debug for LinkGraph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let objects: Vec<&str> = self.inputs.iter().map(|input| input.object.name()).collect();
        f.debug_struct("LinkGraph")
            .field("objects", &objects)
            .field("names", &self.globals.len())
            .finish_non_exhaustive()
    }
}

impl Input {
    /// The sections that are needed, with their indices.
    pub(crate) fn kept_sections(&self) -> impl Iterator<Item = (u32, &Section)> {
        let sections = (0..).zip(self.object.sections());
        sections.zip(&self.dropped).filter(|(_, dropped)| !**dropped).map(|(section, _)| section)
    }

    /// True for a place in a section that is not needed.
    pub(crate) fn is_dropped(&self, place: Place) -> bool {
        matches!(place, Place::Section(section) if self.dropped[section as usize])
    }
}

impl<'a> Site<'a> {
    /// The symbol that the relocation refers to, as its object sees it.
    pub(crate) fn symbol(&self) -> &'a Symbol {
        self.input.object.symbol(self.edge.target)
    }

    /// The same symbol as an index into `globals`, or [`LOCAL`].
    pub(crate) fn binding(&self) -> u32 {
        self.input.bindings[self.edge.target as usize]
    }
}

impl Global {
    fn is_defined(&self) -> bool {
        matches!(self.resolution, Resolution::Here { .. } | Resolution::Common { .. })
    }
}
