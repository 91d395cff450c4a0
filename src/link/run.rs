//! One link from its first step to its last: files and addresses in, an image out.
//!
//! Invariant: it calls only functions that programs can call themselves, so a program can take any of the steps apart.

use std::num::NonZeroUsize;

use super::graph::archives::Archives;
use super::graph::interface::{External, Undefined};
use super::graph::link_graph::LinkGraph;
use super::output::image::Image;
use super::place::layout::Layout;
use super::read::archive::Archive;
use super::read::object_file::ObjectFile;
use crate::addr::{ExecutorAddr, Prot};
use crate::error::Result;

/// A file to link.
#[derive(Debug, Clone, Copy)]
pub enum Input<'a> {
    /// An object, which is linked whole.
    Object(&'a ObjectFile),
    /// An archive, of which the members are linked that define a missing name.
    Archive(&'a Archive),
}

/// Choices of a link.
///
/// # Examples
///
/// ```
/// use farcall_link::Options;
///
/// let options = Options::default().want("main").threads_max(std::num::NonZeroUsize::MIN);
/// # let _ = options;
/// ```
#[derive(Debug, Clone, Default)]
pub struct Options {
    wanted: Vec<String>,
    threads_max: Option<NonZeroUsize>,
}

/// The addresses of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The start of each stripe, in the order of [`Prot::ALL`], with the [alignment](Layout::alignments) of the stripe.
    pub bases: [ExecutorAddr; Prot::ALL.len()],
    /// The distance, in bytes, of every thread's copy of the thread-locals from its thread pointer; 0 where there are none.
    pub thread_offset: i64,
}

impl Options {
    /// Searches the archives for `name`, as if an object referred to it: `main`, for example.
    #[must_use]
    pub fn want(mut self, name: impl Into<String>) -> Self {
        self.wanted.push(name.into());
        self
    }

    /// Limits the threads that share the work, as [`LinkGraph::set_threads_max`].
    #[must_use]
    pub fn threads_max(mut self, most: NonZeroUsize) -> Self {
        self.threads_max = Some(most);
        self
    }
}

/// Links files: adds the objects, takes members from the archives, gives the missing names their addresses, and computes the
/// image for its place.
///
/// Archives are searched together, behind the last object, so their order among the objects does not matter. `resolve` is called
/// once for each name that no file defines, in the order of the names. `place` is called once, with the sizes and alignments of the
/// stripes. The link is for the processor of the first object. A program that needs more takes the same steps one by one, from
/// [`LinkGraph::new`] to [`Layout::fixup`].
///
/// # Errors
///
/// - A file cannot be linked, or two files define one name. Two files are for two processors.
/// - `resolve` has returned `None` for names that are not weak ([`Error::symbols`](crate::Error::symbols) lists all of them).
/// - A stripe is not aligned, or a field does not reach its target from there.
/// - The errors of `resolve` and `place`.
///
/// # Examples
///
/// ```
#[doc = include_str!("compile.txt")]
/// use farcall_link::{External, ExecutorAddr, Input, Options, Place, run};
///
/// let twice = compile("int next(int); int twice(int n) { return next(next(n)); }")?;
/// let next = External { callable: true, ..ExecutorAddr::new(0x5555_0000_1230).into() };
/// let image = run(
///     [Input::Object(&twice)],
///     &Options::default(),
///     |missing| Ok((&*missing.name == "next").then_some(next)),
///     |layout| {
///         assert!(layout.bytes().iter().all(|bytes| *bytes < 0x1_0000));
///         let bases = [0x7f00_0000_0000, 0x7f00_0001_0000, 0x7f00_0002_0000].map(ExecutorAddr::new);
///         Ok(Place { bases, thread_offset: 0 })
///     },
/// )?;
/// let twice = image.symbols.address_of("twice").expect("it is defined");
/// assert!((0x7f00_0000_0000..0x7f00_0001_0000).contains(&twice.get()));
/// assert_eq!(image.stripes[0].len() as u64, image.bytes[0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn run<'a>(
    inputs: impl IntoIterator<Item = Input<'a>>,
    options: &Options,
    mut resolve: impl FnMut(&Undefined) -> Result<Option<External>>,
    place: impl FnOnce(&Layout) -> Result<Place>,
) -> Result<Image> {
    let inputs: Vec<Input<'_>> = inputs.into_iter().collect();
    let first = inputs.iter().find_map(|input| match input {
        Input::Object(object) => Some(object.processor()),
        Input::Archive(_) => None,
    });
    let mut graph = LinkGraph::for_processor(first.unwrap_or_default());
    options.threads_max.into_iter().for_each(|most| graph.set_threads_max(most));
    let mut archives = Archives::default();
    for input in inputs {
        match input {
            Input::Object(object) => graph.add_object(object)?,
            Input::Archive(archive) => archives.push(archive),
        }
    }
    options.wanted.iter().try_for_each(|name| graph.want(name))?;
    graph.add_archives(&archives, |_| false)?;
    for missing in graph.undefined() {
        if let Some(found) = resolve(&missing)? {
            graph.define_external(&missing.name, found);
        }
    }
    let layout = graph.layout()?;
    let Place { bases, thread_offset } = place(&layout)?;
    layout.fixup(bases, thread_offset)
}
