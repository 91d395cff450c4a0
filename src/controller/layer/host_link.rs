//! A link of one object for a host with a symbol table of its own, such as LLVM's session. The host takes it from step to step.
//!
//! It runs through the phases of [`order`](crate::controller::linker::order), and stops twice. At the end of phase 2 the graph lacks
//! names. At the end of phase 3 the object has addresses, and those of other links may be missing yet. So links of a host may refer to
//! each other in a circle.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use crate::ExecutorAddr;
use crate::call::contract::{ProgramDeregister, ProgramInitialize};
use crate::controller::calls::{Bytes, CallOptions};
use crate::controller::linker::linking::{HANDLE, Linked, Placed};
use crate::controller::linker::order::{Link, Located, Owner, Resolved};
use crate::controller::profile::DebugObjects;
use crate::controller::session::{Process, Session};
use crate::deadline::Deadline;
use crate::error::{Error, Result};
use crate::link::{Definition, Export, External, Image, LinkGraph, ObjectFile, Undefined};
use crate::sps;
use crate::sync::{Mutex, MutexGuard};

/// A link of one object, whose names a host resolves itself.
///
/// 1. [`definitions`](Self::definitions): the host [`define`](Self::define)s those that it has from elsewhere.
/// 2. [`references`](Self::references): the host defines those that it has.
/// 3. [`place`](Self::place): now the definitions have addresses.
/// 4. [`locate`](Self::locate): the host tells the addresses that it could not tell before.
/// 5. [`finish`](Self::finish): the next call may run the code.
///
/// Any thread may take the next step. A step that fails ends the link, and frees its memory; one out of
/// its turn changes nothing. Dropping it frees the memory of a link that is
/// not finished, and keeps that of a finished one, which [`remove`](Self::remove) frees.
///
/// # Examples
///
/// ```standalone_crate
/// # farcall::executor::run_if_spawned();
/// # let process = farcall::controller::ExecutorBuilder::new().this_program().start()?.process()?;
#[doc = include_str!("../../docs/compile.txt")]
/// use farcall::orc::HostLink;
/// let object = compile("int next(int); int twice(int n) { return next(next(n)); }")?;
/// let one = HostLink::new(&process, &object)?;
/// let other = HostLink::new(&process, &compile("int next(int n) { return n + 1; }")?)?;
/// assert_eq!(one.references()?[0].name, "next");
/// one.define("next", None, true)?; // its address comes later
/// one.place()?;
/// other.place()?;
/// one.locate("next", other.definitions()?[0].address)?;
/// let twice = one.definitions()?[0].address;
/// one.finish()?;
/// other.finish()?;
/// assert_eq!(process.function::<extern "C" fn(i32) -> i32>(twice).call((3,))?, 5);
/// HostLink::remove([&one, &other])?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct HostLink {
    session: Arc<Session>,
    step: Mutex<Step>,
}

/// A name that the object defines for others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostDefinition {
    /// The name.
    pub name: String,
    /// Where it is; null before the object is placed. For a thread-local it is a number for [`HostLink::define`] alone.
    pub address: ExecutorAddr,
    /// True for functions.
    pub callable: bool,
    /// True when a definition elsewhere may take its place (weak, COMDAT or common).
    pub weak: bool,
    /// True when only objects of the same dylib may use it.
    pub hidden: bool,
}

/// A name that the object refers to, and does not define.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostReference {
    /// The name.
    pub name: String,
    /// True when the link may do without a definition of the host's.
    pub weak: bool,
    /// True for a thread-local, whose address the host has to tell before the object is placed.
    pub thread: bool,
}

enum Step {
    /// Phase 2: names may be defined.
    Naming(Box<Naming>),
    /// The end of phase 3: addresses may be told.
    Locating(Box<Locating>),
    /// The code is there.
    Finished(Box<Finished>),
    /// A step has failed, or the code was removed.
    Over,
}

struct Naming {
    link: Link<Host>,
    graph: LinkGraph,
    next: Resolved<Host>,
    /// The references of the object, from the first question on.
    references: Option<Vec<HostReference>>,
}

struct Locating {
    link: Link<Host>,
    next: Located<Host>,
    definitions: Vec<HostDefinition>,
}

struct Finished {
    linked: Linked,
    has_initializers: bool,
}

/// The owner of the link.
struct Host;

impl Owner for Host {
    type Outcome = Result<Step>;

    fn pull(_link: &mut Link<Self>, graph: &mut LinkGraph) -> Result<()> {
        match graph.needs_low_addresses() {
            true => Err(Error::link("code with 32-bit addresses; compile with -fPIC or -fPIE")),
            false => Ok(()),
        }
    }

    fn resolve(link: Link<Self>, graph: LinkGraph, next: Resolved<Self>) -> Result<Step> {
        Ok(Step::Naming(Box::new(Naming { link, graph, next, references: None })))
    }

    fn locate(link: Link<Self>, next: Located<Self>) -> Result<Step> {
        Ok(Step::Locating(Box::new(Locating { link, next, definitions: Vec::new() })))
    }

    fn record(_link: Link<Self>, image: Image, linked: Linked) -> Result<Step> {
        let has_initializers = image.init.is_some();
        Ok(Step::Finished(Box::new(Finished { linked, has_initializers })))
    }

    fn fail(_link: Link<Self>, error: Error) -> Result<Step> {
        Err(error)
    }
}

impl HostLink {
    /// A link of this object.
    ///
    /// # Errors
    ///
    /// When the object cannot be linked.
    pub fn new(process: &Process, object: &ObjectFile) -> Result<Self> {
        Self::with_debug_objects(process, object, false)
    }

    /// As [`new`](Self::new). If `debug` is true, the object is registered with debuggers, as by [`DebugObjects`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn with_debug_objects(process: &Process, object: &ObjectFile, debug: bool) -> Result<Self> {
        let mut graph = LinkGraph::new();
        graph.add_object(object)?;
        let session = Arc::clone(&process.session);
        let plugins = if debug { vec![Arc::new(DebugObjects) as _] } else { Vec::new() };
        let step = Link::new(Host, session.shared_linker(), plugins, Vec::new()).run(graph)?;
        Ok(Self { session, step: Mutex::new(step) })
    }

    /// The definitions of the object, without the names that [`define`](Self::define) has given to the host.
    ///
    /// # Errors
    ///
    /// When the link is finished or over.
    pub fn definitions(&self) -> Result<Vec<HostDefinition>> {
        match &*self.lock() {
            Step::Naming(at) => Ok(at.definitions()),
            Step::Locating(at) => Ok(at.definitions.clone()),
            _ => Err(out_of_turn("its definitions are asked for before it is finished")),
        }
    }

    /// The references of the object. Call it when the definitions from elsewhere are defined.
    ///
    /// # Errors
    ///
    /// When the object is placed.
    pub fn references(&self) -> Result<Vec<HostReference>> {
        match &mut *self.lock() {
            Step::Naming(at) => Ok(at.references().clone()),
            _ => Err(out_of_turn("its references are asked for before it is placed")),
        }
    }

    /// Defines a name as the host's. A weak definition of the object is dropped then. `address` is any address of the executor; `None` if
    /// [`locate`](Self::locate) will tell it. For a thread-local, only the address in another link's definitions means anything. With
    /// another address the executor's libraries are asked for the name.
    ///
    /// # Errors
    ///
    /// When the object is placed.
    pub fn define(&self, name: &str, address: Option<ExecutorAddr>, callable: bool) -> Result<()> {
        let mut step = self.lock();
        let Step::Naming(at) = &mut *step else {
            return Err(out_of_turn("names are defined before it is placed"));
        };
        let address = address.unwrap_or(ExecutorAddr::NULL);
        let mut known = at.references.iter().flatten();
        let found = match thread_local(address) {
            Some(found) => found,
            None if known.any(|one| one.thread && one.name == name) => return Ok(()),
            None => External { callable, ..address.into() },
        };
        at.graph.define_external(name, found);
        for one in at.references.iter_mut().flatten() {
            // The executor is not asked for it.
            one.thread &= one.name != name;
        }
        Ok(())
    }

    /// Lays the object out and allocates its memory. Sends one message if it refers to thread-locals that the host has not defined.
    ///
    /// # Errors
    ///
    /// When memory runs out, a name is missing, or the session is over.
    pub fn place(&self) -> Result<()> {
        let mut step = self.lock();
        match std::mem::replace(&mut *step, Step::Over) {
            Step::Naming(at) => {
                *step = at.place(&self.session)?;
                Ok(())
            }
            other => {
                *step = other;
                Err(out_of_turn("it is placed once"))
            }
        }
    }

    /// Tells the address of a name that was defined without one.
    ///
    /// # Errors
    ///
    /// When the object is not placed, or the link is finished.
    pub fn locate(&self, name: &str, address: ExecutorAddr) -> Result<()> {
        let mut step = self.lock();
        let placed = match &mut *step {
            Step::Locating(at) => at.link.placed.as_mut(),
            _ => None,
        };
        let placed = placed
            .ok_or_else(|| out_of_turn("addresses are told between its place and its end"))?;
        placed.layout.locate_external(name, address);
        Ok(())
    }

    /// Makes the code usable. In this process the code is ready when this returns, also for a plain pointer. Elsewhere its
    /// registration goes ahead of the next call, and no message is sent.
    ///
    /// # Errors
    ///
    /// When a relocation cannot be made, or the session is over. In this process also when the registration fails.
    pub fn finish(&self) -> Result<()> {
        let mut step = self.lock();
        match std::mem::replace(&mut *step, Step::Over) {
            Step::Locating(at) => *step = (at.next)(at.link)?,
            other => {
                *step = other;
                return Err(out_of_turn("it is finished once, when it is placed"));
            }
        }
        drop(step);
        let Some(direct) = self.session.remote().direct() else { return Ok(()) };
        self.session.remote().settle()?;
        direct.pass_pointer()
    }

    /// True when the finished link has initializers that have not run.
    #[must_use]
    pub fn has_initializers(&self) -> bool {
        matches!(&*self.lock(), Step::Finished(at) if at.has_initializers)
    }

    /// Runs the initializers, if they have not run, with the options of a call. Does nothing in a link without any.
    ///
    /// # Errors
    ///
    /// When the link is not finished, or the executor ends meanwhile; those that [`CallOptions`] names.
    pub fn initialize(&self, options: &CallOptions<'_>) -> Result<()> {
        let program = match &mut *self.lock() {
            Step::Finished(at) => match std::mem::take(&mut at.has_initializers) {
                true => at.linked.program,
                false => return Ok(()),
            },
            _ => return Err(out_of_turn("its initializers run when it is finished")),
        };
        let function = self.session.remote().function::<ProgramInitialize>()?;
        let process = Process { session: Arc::clone(&self.session) };
        let arguments = sps::to_bytes(&(program, Vec::<sps::Bytes>::new()));
        process.function::<Bytes>(function).call_with(options, &arguments).map(drop)
    }

    /// Runs exit handlers and finalizers now, as [`remove`](Self::remove) does otherwise.
    ///
    /// # Errors
    ///
    /// When the link is not finished, or the executor ends meanwhile.
    pub fn deinitialize(&self) -> Result<()> {
        let program = match &*self.lock() {
            Step::Finished(at) => at.linked.program,
            _ => return Err(out_of_turn("its exit handlers run when it is finished")),
        };
        match program.is_null() {
            true => Ok(()),
            false => self.session.run::<ProgramDeregister>(&(program,)),
        }
    }

    /// Removes the code of links of one process: runs exit handlers, and frees the memory. Sends one message for all at most. None of the
    /// code may be running. Links that are not finished are dropped.
    ///
    /// # Errors
    ///
    /// When a dealloc action fails (the rest is still freed), or the session is over.
    pub fn remove<'l>(links: impl IntoIterator<Item = &'l Self>) -> Result<()> {
        let mut session = None;
        let mut all = Vec::new();
        for link in links {
            if let Step::Finished(at) = std::mem::replace(&mut *link.lock(), Step::Over) {
                all.push(at.linked);
                session = Some(&link.session);
            }
        }
        session.map_or(Ok(()), |session| session.linker.deallocate(&all))
    }

    fn lock(&self) -> MutexGuard<'_, Step> {
        self.step.lock()
    }
}

impl Naming {
    fn definitions(&self) -> Vec<HostDefinition> {
        let definition = |export: Export<'_>| HostDefinition {
            name: export.name.to_owned(),
            address: ExecutorAddr::NULL,
            callable: export.callable,
            weak: export.weak,
            hidden: export.hidden,
        };
        self.graph.exports().map(definition).collect()
    }

    fn references(&mut self) -> &mut Vec<HostReference> {
        let Self { link, graph, references, .. } = self;
        references.get_or_insert_with(|| {
            let undefined = graph.undefined();
            undefined.iter().for_each(|one| link.requirements.note(&one.name));
            let reference = |one: Undefined| HostReference {
                name: one.name.to_string(),
                weak: one.weak || one.thread,
                thread: one.thread,
            };
            let handle = graph.lacks_handle().then(|| HostReference {
                name: HANDLE.to_owned(),
                weak: true,
                thread: false,
            });
            undefined.into_iter().map(reference).chain(handle).collect()
        })
    }

    fn place(mut self: Box<Self>, session: &Session) -> Result<Step> {
        let threads = self.references().iter().filter(|one| one.thread);
        let threads = threads.map(|one| one.name.clone()).collect();
        let deadline = session.remote().link_deadline(Deadline::SESSION_END);
        session.linker.resolve_threads(&mut self.graph, threads, deadline)?;
        let exports = self.definitions();
        let Self { link, graph, next, .. } = *self;
        match next(link, graph)? {
            Step::Locating(mut at) => {
                at.definitions = exports;
                at.tell_addresses();
                Ok(Step::Locating(at))
            }
            step => Ok(step),
        }
    }
}

impl Locating {
    fn tell_addresses(&mut self) {
        let table = self.link.placed.as_deref().map(Placed::symbols).unwrap_or_default();
        let hidden: HashMap<&str, &Definition> = table.hidden().collect();
        self.definitions.retain_mut(|one| {
            let found = table.get(&one.name).or_else(|| hidden.get(&*one.name).copied());
            let address = found.and_then(host_address);
            one.address = address.unwrap_or(ExecutorAddr::NULL);
            address.is_some()
        });
    }
}

/// An address that no memory of a process has: it stands for a thread-local.
const THREAD: u64 = 1 << 63;
/// The bits of such an address that are an offset. Those between are the number of the TLS module plus one.
const OFFSET_BITS: u32 = 40;

/// The address that the host gets for a definition. `None` if a thread-local is too far away for one.
fn host_address(definition: &Definition) -> Option<ExecutorAddr> {
    if !definition.thread {
        return Some(definition.address);
    }
    let offset = definition.address.get() & ((1 << OFFSET_BITS) - 1);
    let module = definition.tls_module.map_or(0, |module| u64::from(module) + 1);
    let fits = module < 1 << (63 - OFFSET_BITS);
    fits.then(|| ExecutorAddr::new(THREAD | module << OFFSET_BITS | offset))
}

/// The thread-local that such an address stands for.
fn thread_local(address: ExecutorAddr) -> Option<External> {
    let bits = address.get();
    if bits & THREAD == 0 {
        return None;
    }
    let shift = u64::BITS - OFFSET_BITS;
    // The offset of a static thread-local is negative.
    let offset = (bits << shift).cast_signed() >> shift;
    let module = u32::try_from((bits & !THREAD) >> OFFSET_BITS).ok()?;
    let address = ExecutorAddr::new(offset.cast_unsigned());
    Some(External { thread: true, tls_module: module.checked_sub(1), ..address.into() })
}

fn out_of_turn(rule: &str) -> Error {
    Error::invalid(format!("a step of a link out of its turn: {rule}"))
}

impl fmt::Debug for HostLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let step = match &*self.lock() {
            Step::Naming(_) => "naming",
            Step::Locating(_) => "placed",
            Step::Finished(_) => "finished",
            Step::Over => "over",
        };
        f.debug_struct("HostLink").field("step", &step).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_stands_for_each_thread_local() {
        for (offset, tls_module) in
            [(-8_i64, None), (-(1 << 30), None), (0, Some(0)), (4096, Some(7))]
        {
            let definition = Definition {
                address: ExecutorAddr::new(offset.cast_unsigned()),
                bytes: 8,
                callable: false,
                thread: true,
                tls_module,
                weak: false,
            };
            let found = host_address(&definition).and_then(thread_local);
            assert_eq!(found, Some(External::from(&definition)));
        }
        assert_eq!(thread_local(ExecutorAddr::new(0x7fff_ffff_f000)), None);
    }
}
