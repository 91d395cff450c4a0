//! The names that the objects of a link need of others, and offer to them.
//!
//! Invariant: plain data; changing it does not change the graph that it came from.

use std::sync::Arc;

use crate::addr::ExecutorAddr;

/// A name that the graph needs and does not define.
///
/// # Examples
///
/// ```
#[doc = include_str!("../compile.txt")]
/// use farcall_link::LinkGraph;
///
/// let mut graph = LinkGraph::new();
/// graph.add_object(&compile("int next(int); int twice(int n) { return next(next(n)); }")?)?;
/// let [undefined] = &graph.undefined()[..] else { panic!("one name") };
/// assert_eq!((&*undefined.name, &*undefined.used_by), ("next", "example.o"));
/// assert!(!undefined.weak && !undefined.thread);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Undefined {
    /// The name.
    pub name: Arc<str>,
    /// True when every reference is weak, so that address 0 is accepted.
    pub weak: bool,
    /// True when code or data holds its address, or the distance to it, in less than 64 bits, so that it must be near.
    /// Calls do not count.
    pub narrow: bool,
    /// True when it is used as a thread-local.
    pub thread: bool,
    /// The first object that refers to it.
    pub used_by: Arc<str>,
}

/// A definition outside of the graph.
///
/// # Examples
///
/// ```
#[doc = include_str!("../compile.txt")]
/// use farcall_link::ExecutorAddr;
/// use farcall_link::{External, LinkGraph};
///
/// let mut graph = LinkGraph::new();
/// graph.add_object(&compile("int next(int); int twice(int n) { return next(next(n)); }")?)?;
/// let next = External { callable: true, ..External::from(ExecutorAddr::new(0x7f00_0000_0000)) };
/// graph.define_external("next", next);
/// assert!(graph.undefined().is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct External {
    /// Where it is. For a thread-local its offset from the thread pointer, in two's complement; for a dynamic one
    /// its distance from the start of its TLS block.
    pub address: ExecutorAddr,
    /// True for a function. A function too far away for a 32-bit field gets a canonical PLT entry: a stub, whose address is
    /// the function's everywhere in the graph.
    pub callable: bool,
    /// True for a thread-local.
    pub thread: bool,
    /// For a dynamic thread-local (see [`Layout::with_dynamic_threads`](crate::Layout::with_dynamic_threads)) the
    /// number of its TLS module.
    pub tls_module: Option<u32>,
}

/// A name that the graph defines for others.
///
/// # Examples
///
/// ```
#[doc = include_str!("../compile.txt")]
/// use farcall_link::LinkGraph;
///
/// let mut graph = LinkGraph::new();
/// graph.add_object(&compile("__attribute__((weak)) int answer(void) { return 42; }")?)?;
/// let exports: Vec<_> = graph.exports().collect();
/// assert_eq!(&*exports[0].name, "answer");
/// assert!(exports[0].weak && exports[0].callable && !exports[0].hidden);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Export<'a> {
    /// The name.
    pub name: &'a str,
    /// True when a definition elsewhere may take its place (weak, COMDAT or common).
    pub weak: bool,
    /// True when only links of the same dylib may use it.
    pub hidden: bool,
    /// True for functions.
    pub callable: bool,
}

impl From<ExecutorAddr> for External {
    fn from(address: ExecutorAddr) -> Self {
        Self { address, callable: false, thread: false, tls_module: None }
    }
}
