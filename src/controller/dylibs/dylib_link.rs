//! A link of a dylib: of all objects that were added since its last link. It has its answers at once.

use std::sync::Arc;

use super::dylib::Dylib;
use super::link_lock::LinkGuard;
use super::pending::{Inputs, Pending};
use crate::call::contract::name_hashes::{NameHashes, gnu_hash};
use crate::call::contract::{Placement, ProgramAnnounce, Wanted};
use crate::controller::linker::link_report::{LinkReport, LinkStep};
use crate::controller::linker::linking::{HANDLE, Linked};
use crate::controller::linker::order::{Link, Owner, Resolved};
use crate::deadline::Deadline;
use crate::error::{Error, ErrorKind, Result};
use crate::link::{Export, External, Image, LinkGraph};
use crate::sps::Bytes;
use crate::trace;

/// The owner of a link of a dylib.
struct DylibLink<'a, 'e> {
    dylib: &'a Dylib,
    /// What the link's graph is made of.
    inputs: Inputs,
    deadline: Deadline,
    ended: Option<&'e mut dyn FnMut(LinkStep)>,
}

impl Dylib {
    /// Links the objects that were added, if any were.
    ///
    /// # Errors
    ///
    /// As [`Library::link`](crate::controller::Library::link).
    pub(super) fn link_pending(
        &self,
        _linking: &LinkGuard<'_>,
        deadline: Deadline,
        ended: Option<&mut dyn FnMut(LinkStep)>,
    ) -> Result<LinkReport> {
        let mut state = self.lock();
        let Some(Pending { graph, inputs }) = state.pending.take() else {
            return Ok(LinkReport::default());
        };
        let handlers = std::mem::take(&mut state.handlers);
        let owner = DylibLink { dylib: self, inputs, deadline, ended };
        let plugins = self.plugins.all();
        let mut link = Link::new(owner, self.session.shared_linker(), plugins, handlers);
        link.placement = state.placement;
        link.program = state.handle;
        link.keeps_data = state.keeps_data;
        drop(state);
        let _span = trace::link(&self.name);
        link.run(graph)
    }
}

impl Owner for DylibLink<'_, '_> {
    type Outcome = Result<LinkReport>;

    fn pull(link: &mut Link<Self>, graph: &mut LinkGraph) -> Result<()> {
        let state = link.owner.dylib.lock();
        graph.add_archives(&state.archives, |name| state.known(name).is_some())?;
        if let Some(variables) = &state.variables {
            graph.keep_variables(|name, bytes| {
                let earlier = variables.get(name).filter(|range| range.bytes() == bytes);
                earlier.map(|range| range.start)
            });
        }
        if graph.needs_low_addresses() {
            link.placement = Placement::Low;
        }
        Ok(())
    }

    fn resolve(
        mut link: Link<Self>,
        mut graph: LinkGraph,
        next: Resolved<Self>,
    ) -> Result<LinkReport> {
        match link.look_up(&mut graph) {
            Ok(()) => next(link, graph),
            Err(error) => {
                if error.kind() == ErrorKind::Timeout {
                    link.put_back(graph);
                }
                link.fail(error)
            }
        }
    }

    fn ended(&mut self, step: LinkStep) -> bool {
        let told = self.ended.as_mut().map(|ended| ended(step));
        told.is_some()
    }

    fn record(link: Link<Self>, image: Image, linked: Linked) -> Result<LinkReport> {
        let mut state = link.owner.dylib.lock();
        if let Some(variables) = &mut state.variables {
            variables.extend(image.variables);
        }
        (state.placement, state.handle) = (link.placement, link.program);
        let symbols = Arc::clone(&linked.symbols);
        state.linked.push(Arc::new(linked));
        let [named, hidden] = symbols.shared();
        state.symbols.add(named)?;
        state.hidden.add(hidden)?;
        Ok(link.report)
    }

    fn fail(_link: Link<Self>, error: Error) -> Result<LinkReport> {
        Err(error)
    }
}

impl Link<DylibLink<'_, '_>> {
    /// Finds the names that the graph does not define: in the dylib first, then in the executor with one message, and one more for
    /// thread-locals.
    fn look_up(&mut self, graph: &mut LinkGraph) -> Result<()> {
        let (mut wanted, mut threads) = (Vec::new(), Vec::new());
        let (libraries, precedes) = {
            let mut state = self.owner.dylib.lock();
            if !state.handle.is_null() {
                graph.define_external(HANDLE, state.handle);
            }
            if !state.knows_nothing() {
                // A weak definition here yields to an earlier one of the dylib. Code reaches hidden data by its distance, so a
                // hidden definition does not yield when this link goes to another slab.
                let is_elsewhere = self.placement != state.placement;
                let gives_way =
                    |export: &Export<'_>| export.weak && !(export.hidden && is_elsewhere);
                let earlier =
                    |export: Export<'_>| Some((export.name.to_owned(), *state.known(export.name)?));
                let earlier: Vec<_> =
                    graph.exports().filter(gives_way).filter_map(earlier).collect();
                for (name, definition) in &earlier {
                    graph.define_external(name, definition);
                }
            }
            for undefined in graph.undefined() {
                let name = &*undefined.name;
                self.requirements.note(name);
                match state.known(name) {
                    Some(definition) => graph.define_external(name, definition),
                    None if undefined.thread => threads.push(name.to_owned()),
                    None => wanted.push((name.to_owned(), !undefined.weak, undefined.narrow)),
                }
            }
            (std::mem::take(&mut state.libraries), state.precedes)
        };
        if !wanted.is_empty() || !libraries.is_empty() || precedes {
            self.look_up_in_executor(graph, wanted, libraries, precedes)?;
        }
        let linker = &self.owner.dylib.session.linker;
        linker.resolve_threads(graph, threads, self.owner.deadline)
    }

    fn look_up_in_executor(
        &mut self,
        graph: &mut LinkGraph,
        wanted: Vec<Wanted>,
        libraries: Vec<String>,
        precedes: bool,
    ) -> Result<()> {
        let DylibLink { dylib, deadline, .. } = self.owner;
        let again = libraries.clone();
        let preceding = precedes.then(|| {
            graph.announced_names().map(|name| gnu_hash(name.as_bytes())).collect::<Vec<_>>()
        });
        let mut look_up = |libraries, wanted| {
            let preceding = preceding.clone();
            dylib.session.linker.look_up(
                libraries,
                &mut self.placement,
                wanted,
                preceding,
                deadline,
            )
        };
        let looked_up = match precedes && !libraries.is_empty() {
            false => look_up(libraries, wanted),
            // A library may need names of the program, though most do not.
            true => look_up(libraries, wanted.clone()).or_else(|error| {
                // The words of the dynamic linker.
                let lacks = error.to_string().contains("undefined symbol");
                if error.kind() != ErrorKind::Link || !lacks {
                    return Err(error);
                }
                let names = (Bytes(graph.announced_file()),);
                dylib.session.remote().ask::<ProgramAnnounce>(&names, deadline)?;
                look_up(again.clone(), wanted)
            }),
        };
        let (wanted, found, names) = looked_up.inspect_err(|error| {
            if error.kind() == ErrorKind::Timeout {
                dylib.lock().libraries.splice(..0, again.iter().cloned());
            }
        })?;
        if let Some((hashes, has_others)) = names {
            self.requirements.precedes = Some(NameHashes::new(hashes));
            self.requirements.has_libraries = has_others;
        }
        let mut missing = Vec::new();
        for ((name, required, _), found) in wanted.into_iter().zip(found) {
            match found {
                Some((address, callable)) => {
                    graph.define_external(&name, External { callable, ..External::from(address) });
                }
                None if required => missing.push(name),
                None => {}
            }
        }
        match missing.is_empty() {
            true => Ok(()),
            false => Err(Error::symbols_not_found(missing)),
        }
    }

    /// Keeps what was not linked in time for the next link, unless another thread has added objects for that.
    fn put_back(&mut self, graph: LinkGraph) {
        let mut state = self.owner.dylib.lock();
        if state.pending.is_none() {
            let inputs = std::mem::take(&mut self.owner.inputs);
            state.pending = Some(Pending { graph, inputs });
            state.handlers = std::mem::take(&mut self.handlers);
        }
    }
}
