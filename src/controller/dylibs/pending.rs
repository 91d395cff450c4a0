//! The objects that the next link of a dylib takes.

use crate::error::Result;
use crate::link::{LinkGraph, ObjectFile};

/// The objects that the next link takes, as a graph, and the inputs that it is made of.
#[derive(Debug, Default)]
pub(super) struct Pending {
    pub(super) graph: LinkGraph,
    pub(super) inputs: Inputs,
}

/// The inputs of a graph.
#[derive(Debug, Default)]
pub(super) struct Inputs {
    objects: Vec<ObjectFile>,
    wanted: Vec<String>,
}

impl Pending {
    /// Adds an object, unless `refuse` finds a name in it that the dylib has.
    ///
    /// # Errors
    ///
    /// As [`LinkGraph::add_object`], and the error of `refuse`. Nothing has changed then.
    pub(super) fn add(
        &mut self,
        object: &ObjectFile,
        refuse: impl FnOnce(&LinkGraph) -> Result<()>,
    ) -> Result<()> {
        let added = self.graph.add_object(object).and_then(|()| refuse(&self.graph));
        match added {
            Ok(()) => self.inputs.objects.push(object.clone()),
            // A graph that refuses an object has perhaps read a part of it.
            Err(_) => self.graph = self.read_again()?,
        }
        added
    }

    /// Makes the link search archives for a symbol that no object refers to.
    ///
    /// # Errors
    ///
    /// As [`LinkGraph::want`].
    pub(super) fn want(&mut self, name: &str) -> Result<()> {
        self.graph.want(name)?;
        self.inputs.wanted.push(name.to_owned());
        Ok(())
    }

    fn read_again(&self) -> Result<LinkGraph> {
        let mut graph = LinkGraph::default();
        self.inputs.objects.iter().try_for_each(|object| graph.add_object(object))?;
        self.inputs.wanted.iter().try_for_each(|name| graph.want(name))?;
        Ok(graph)
    }
}
