//! `_init` and `_fini`: one function each, of the fragments that the objects have in `.init` and `.fini`.
//!
//! A native program has the start of each function from `crti.o` and the end from `crtn.o`. Here the linker adds both. Like
//! the fragments between them they are blocks, and all have one alignment. So no gap is left that control could not cross.
//!
//! Invariant: there is no start and no end where there is no fragment.

use super::block::{Block, Content, Rank, Rewritten};
use crate::addr::Prot;
use crate::link::arch::x86_64::{CODE_POINTER_BYTES, NOP, ROUTINE_END, ROUTINE_START};
use crate::link::graph::link_graph::LinkGraph;
use crate::link::read::object_file::ObjectFile;
use crate::link::read::parsed::{Role, Routine};

/// The part of a routine that a block is, in the order of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::link) enum Part {
    Start,
    Fragment,
    End,
}

/// The alignment of the parts of each routine that the graph has.
pub(super) struct Routines([Option<u64>; 2]);

impl Routines {
    pub(super) fn collect(graph: &LinkGraph) -> Routines {
        let mut routines = Routines([None; 2]);
        for (_, section) in graph.inputs.iter().flat_map(|input| input.kept_sections()) {
            if let Role::Fragment(routine) = section.role {
                let alignment = &mut routines.0[routine as usize];
                *alignment = (*alignment).max(Some(section.alignment));
            }
        }
        routines
    }

    /// The alignment of the parts of a routine.
    pub(super) fn alignment(&self, routine: Routine) -> u64 {
        self.0[routine as usize].unwrap_or(1)
    }

    /// A fragment with instructions behind it that do nothing, up to the next one.
    pub(super) fn fragment(
        &self,
        routine: Routine,
        object: &ObjectFile,
        section: u32,
    ) -> Rewritten {
        let section = object.section(section);
        let mut content = object.content(section).to_vec();
        fill_up(&mut content, self.alignment(routine));
        Rewritten { content, edges: object.edges(section).to_vec() }
    }

    /// The start, the end and the address of each routine.
    pub(super) fn add_to(&self, blocks: &mut Vec<Block>) {
        for routine in [Routine::Init, Routine::Fini] {
            let Some(alignment) = self.0[routine as usize] else { continue };
            let mut start = ROUTINE_START.to_vec();
            fill_up(&mut start, alignment);
            for (part, code) in [(Part::Start, start), (Part::End, ROUTINE_END.to_vec())] {
                blocks.push(Block {
                    prot: Prot::Code,
                    rank: Rank::Routine(routine, part),
                    alignment,
                    bytes: code.len() as u64,
                    content: Content::Code(code),
                    offset: 0,
                });
            }
            blocks.push(Block {
                content: Content::RoutineAddress(routine),
                prot: Prot::Constants,
                rank: match routine {
                    Routine::Init => Rank::InitRoutine,
                    Routine::Fini => Rank::FiniRoutine,
                },
                alignment: CODE_POINTER_BYTES,
                bytes: CODE_POINTER_BYTES,
                offset: 0,
            });
        }
    }
}

/// Adds instructions that do nothing, up to a multiple of `alignment`.
fn fill_up(code: &mut Vec<u8>, alignment: u64) {
    // A section's alignment is checked to be small.
    let alignment = usize::try_from(alignment).unwrap_or(1);
    code.resize(code.len().next_multiple_of(alignment), NOP);
}
