//! Islands: stubs among the code, for calls that reach a part of it only.
//!
//! The stubs of `got_plt` lie behind all code. Code may be larger than the reach of a call. Then it is cut into *regions*, and
//! behind each lies an *island* of *far jumps*. There is one for each place in the code stripe that a call of the region does not
//! reach. A call of a function outside of the graph goes to the function's stub, which may be such a place.
//!
//! Jumps make distances longer, so new calls do not reach. They are added until every call has its way.
//!
//! Invariant: a far jump is needed by a call of its region, and goes to a place in the code stripe.

use std::collections::HashMap;
use std::ops::Range;

use super::block::{Block, Content, Rank};
use super::got_plt::{GotPlt, Target, target};
use super::ifunc::Ifuncs;
use crate::addr::Prot;
use crate::arch::edge::{Edge, Formula, ThreadModel};
use crate::arch::operand::Operand;
use crate::graph::link_graph::{LinkGraph, Resolution};
use crate::read::parsed::Place;

/// The islands of one link, in the order of their addresses.
#[derive(Default)]
pub(crate) struct Islands(Vec<Island>);

/// The far jumps behind one region.
pub(crate) struct Island {
    /// Its block.
    pub(crate) block: u32,
    /// The goals of its jumps.
    pub(crate) goals: Vec<Goal>,
    numbers: HashMap<Goal, u32>,
}

/// A place that calls go to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Goal {
    /// The symbol, or its stub if it is outside.
    pub(crate) target: Target,
    pub(crate) addend: i64,
}

impl Goal {
    /// The goal of a call in this input. Code for a thread-local may call the executor's function.
    pub(crate) fn of(graph: &LinkGraph, input: u32, edge: &Edge) -> Option<Goal> {
        let (symbol, addend) = (edge.target, edge.addend);
        Some(match edge.kind.formula {
            Formula::Branch if edge.kind.operand.is_some_and(Operand::is_call) => {
                let binding = graph.inputs[input as usize].bindings[symbol as usize];
                Goal { target: target(input, symbol, binding), addend }
            }
            Formula::Thread(ThreadModel::General) => {
                Goal { target: Target::Global(graph.thread_functions?.global), addend }
            }
            _ => return None,
        })
    }
}

/// The blocks of a link with their offsets.
pub(super) struct Placed<'a> {
    pub(super) graph: &'a LinkGraph,
    pub(super) tables: &'a GotPlt,
    pub(super) ifuncs: &'a Ifuncs,
    pub(super) blocks: &'a [Block],
    pub(super) block_of: &'a [Vec<u32>],
}

impl Islands {
    /// Puts empty islands between the blocks where a call might not reach. Small links have none.
    pub(super) fn between(graph: &LinkGraph, blocks: &mut Vec<Block>, code_bytes: u64) -> Islands {
        let Some(far_jump) = &graph.facts().far_jump else { return Islands::default() };
        if code_bytes <= far_jump.reach_bytes {
            return Islands::default();
        }
        let is_code = |block: &Block| block.prot == Prot::Code;
        let in_front =
            blocks.iter().take_while(|block| is_code(block) && block.rank <= Rank::Plain);
        // Nothing may lie between the blocks of the other ranks.
        let places_end = in_front.count();
        let mut cuts = Vec::new();
        let mut start = 0;
        for (at, block) in blocks.iter().enumerate().take(places_end) {
            let is_full = block.offset + block.bytes - start > far_jump.reach_bytes / 2;
            if is_full && block.rank == Rank::Plain && block.offset > start {
                cuts.push(at);
                start = block.offset;
            }
        }
        cuts.push(places_end);
        let mut islands = Vec::with_capacity(cuts.len());
        for (number, at) in cuts.into_iter().enumerate().rev() {
            let offset =
                at.checked_sub(1).map_or(0, |last| blocks[last].offset + blocks[last].bytes);
            let (prot, rank, alignment) = (Prot::Code, Rank::Plain, 16);
            let content = Content::Island(number);
            blocks.insert(at, Block { content, prot, rank, alignment, bytes: 0, offset });
            let block = u32::try_from(at + number).unwrap_or(u32::MAX);
            islands.push(Island { block, goals: Vec::new(), numbers: HashMap::new() });
        }
        islands.reverse();
        Islands(islands)
    }

    /// Adds far jumps for the calls that do not reach their goals with the blocks where they are. Returns the new size of each
    /// island that grew, by its block.
    pub(super) fn grow(&mut self, placed: &Placed<'_>) -> Vec<(u32, u64)> {
        if self.0.is_empty() {
            return Vec::new();
        }
        let stub_bytes = placed.graph.facts().stub_bytes;
        let code = placed.blocks.iter().take_while(|block| block.prot == Prot::Code).count();
        let last = self.0.len().saturating_sub(1);
        let (mut first, mut grown) = (0, Vec::new());
        for (number, island) in self.0.iter_mut().enumerate() {
            let end = if number == last { code } else { island.block as usize };
            let before = island.goals.len();
            placed.calls(first..end, |goal, is_reached| {
                if !is_reached {
                    island.add(goal);
                }
            });
            if island.goals.len() > before {
                grown.push((island.block, island.goals.len() as u64 * stub_bytes));
            }
            first = end;
        }
        grown
    }

    /// The far jump to a goal for calls in a block: the block of its island, and its number there.
    pub(crate) fn jump(&self, block: u32, goal: Goal) -> Option<(u32, u32)> {
        let next = self.0.partition_point(|island| island.block < block);
        let island = self.0.get(next).or(self.0.last())?;
        Some((island.block, *island.numbers.get(&goal)?))
    }

    /// The island with this number.
    pub(crate) fn get(&self, number: usize) -> Option<&Island> {
        self.0.get(number)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Island> {
        self.0.iter()
    }
}

impl Island {
    fn add(&mut self, goal: Goal) {
        let Self { numbers, goals, .. } = self;
        numbers.entry(goal).or_insert_with(|| {
            goals.push(goal);
            // A graph has fewer than 2^32 calls.
            u32::try_from(goals.len() - 1).unwrap_or(u32::MAX)
        });
    }
}

impl Placed<'_> {
    /// Visits the calls in a range of blocks: the goal of each, and whether it is in reach.
    fn calls(&self, range: Range<usize>, mut visit: impl FnMut(Goal, bool)) {
        for block in &self.blocks[range] {
            let (input, edges) = match &block.content {
                Content::Section { input, section } => {
                    let object = &self.graph.inputs[*input as usize].object;
                    (*input, object.edges(object.section(*section)))
                }
                Content::Rewritten { input, parts, .. } => (*input, &*parts.edges),
                _ => continue,
            };
            for edge in edges {
                if let Some(goal) = Goal::of(self.graph, input, edge)
                    && let Some(offset) = self.offset_of(goal)
                {
                    let place = block.offset + u64::from(edge.offset);
                    visit(goal, self.reaches(edge, place, offset));
                }
            }
        }
    }

    /// True when a call reaches an offset of the code stripe.
    fn reaches(&self, edge: &Edge, mut place: u64, offset: u64) -> bool {
        let far_jump = self.graph.facts().far_jump.as_ref();
        if matches!(edge.kind.formula, Formula::Thread(_)) {
            place += far_jump.map_or(0, |far_jump| far_jump.thread_call);
        }
        let reach = far_jump.map_or(u64::MAX, |far_jump| far_jump.reach_bytes);
        // The distance forward is one instruction less, and calls go to instructions.
        let distance = offset.wrapping_sub(place);
        distance < reach || distance.wrapping_neg() <= reach
    }

    /// The offset of a goal in the code stripe; `None` when it is not there.
    fn offset_of(&self, goal: Goal) -> Option<u64> {
        let start = match goal.target {
            Target::Local { input, symbol } => self.offset(input, symbol),
            Target::Global(global) => match self.graph.globals[global as usize].resolution {
                Resolution::Here { input, symbol, absolute: false, .. } => {
                    self.offset(input, symbol)
                }
                // A stub goes to the function, and not behind it.
                _ if goal.addend == 0 => self.in_table(Rank::Stubs, self.tables.stub(global)?),
                _ => None,
            },
            _ => None,
        };
        Some(start?.wrapping_add_signed(goal.addend))
    }

    /// The offset of a symbol of this input in the code stripe.
    fn offset(&self, input: u32, symbol: u32) -> Option<u64> {
        if let Some(position) = self.ifuncs.position(input, symbol) {
            return self.in_table(Rank::IfuncStubs, position);
        }
        let symbol = self.graph.inputs[input as usize].object.symbol(symbol);
        let Place::Section(section) = symbol.place else { return None };
        let block = self.block_of[input as usize][section as usize];
        let block = self.blocks.get(block as usize).filter(|block| block.prot == Prot::Code)?;
        Some(block.offset.wrapping_add(symbol.value))
    }

    /// The offset of the stub with this number in the table of this rank.
    fn in_table(&self, rank: Rank, number: u32) -> Option<u64> {
        let end =
            self.blocks.partition_point(|block| (block.prot, block.rank) < (Prot::Code, rank));
        let table = self.blocks.get(end).filter(|block| block.rank == rank)?;
        Some(table.offset + u64::from(number) * self.graph.facts().stub_bytes)
    }
}
