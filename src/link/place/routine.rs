//! `_init` and `_fini`: one function each, of the fragments that the objects have in `.init` and `.fini`.
//!
//! A native program has the start of each function from `crti.o` and the end from `crtn.o`. Here the linker adds both. Like
//! the fragments between them they are blocks, and all have one alignment. So no gap is left that control could not cross.
//!
//! Invariant: there is no start and no end where there is no fragment.

use crate::arch::facts::Facts;
use crate::graph::link_graph::LinkGraph;
use crate::read::parsed::{Role, Routine};

/// The part of a routine that a block is, in the order of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Part {
    Start,
    Fragment,
    End,
}

/// The alignment of the parts of each routine that the graph has.
pub(super) struct Routines {
    alignments: [Option<u64>; 2],
    facts: &'static Facts,
}

impl Routines {
    pub(super) fn collect(graph: &LinkGraph) -> Routines {
        let mut routines = Routines { alignments: [None; 2], facts: graph.facts() };
        // The gaps are filled with whole instructions.
        let least = routines.facts.nop.len() as u64;
        for (_, section) in graph.inputs.iter().flat_map(|input| input.kept_sections()) {
            if let Role::Fragment(routine) = section.role {
                let alignment = &mut routines.alignments[routine as usize];
                *alignment = (*alignment).max(Some(section.alignment.max(least)));
            }
        }
        routines
    }

    /// The alignment of the parts of a routine.
    pub(super) fn alignment(&self, routine: Routine) -> u64 {
        self.alignments[routine as usize].unwrap_or(1)
    }

    /// The bytes of a fragment, with instructions behind them that do nothing, up to the next fragment.
    pub(super) fn fragment(&self, routine: Routine, content: &[u8]) -> Vec<u8> {
        fill_up(content, self.alignment(routine), self.facts.nop)
    }

    /// The start and the end of each routine that the graph has.
    pub(super) fn ends(&self) -> impl Iterator<Item = (Routine, [(Part, Vec<u8>); 2])> {
        let has = |routine: &Routine| self.alignments[*routine as usize].is_some();
        [Routine::Init, Routine::Fini].into_iter().filter(has).map(|routine| {
            let Facts { routine_start, routine_end, nop, .. } = self.facts;
            let start = fill_up(routine_start, self.alignment(routine), nop);
            (routine, [(Part::Start, start), (Part::End, routine_end.to_vec())])
        })
    }
}

/// Code with instructions behind it that do nothing, up to a multiple of `alignment`.
fn fill_up(code: &[u8], alignment: u64, nop: &[u8]) -> Vec<u8> {
    let mut code = code.to_vec();
    // A section's alignment is checked to be small.
    let alignment = usize::try_from(alignment).unwrap_or(1);
    let end = code.len().next_multiple_of(alignment);
    let mut bytes = nop.iter().copied().cycle().skip(code.len() % nop.len());
    code.resize_with(end, || bytes.next().unwrap_or_default());
    code
}
