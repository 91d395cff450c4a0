//! The bytes of the three stripes.
//!
//! Invariant: every stored block is written once, and each of its relocations is applied once.

use super::fixer::Fixer;
use crate::addr::Prot;
use crate::error::{Error, Result};
use crate::link::arch::x86_64::{self, GOT_ENTRY_BYTES, STUB_BYTES};
use crate::link::place::addresses::Addresses;
use crate::link::place::block::Content;
use crate::link::place::got_plt::Stub;
use crate::link::place::layout::Layout;

/// The stored bytes of an image, and counts of the work.
pub(in crate::link) struct Stripes {
    /// In the order of [`Prot::ALL`].
    pub(in crate::link) bytes: [Vec<u8>; 3],
    /// Loads from the GOT that were rewritten to need none.
    pub(in crate::link) loads_relaxed: u64,
    /// Relocations that were applied.
    pub(in crate::link) relocations: u64,
}

/// Writes every stored block to its stripe, and computes its fields.
///
/// # Errors
/// A relocation cannot reach its target, or a stub its GOT entry; the message says which and how to compile for it.
pub(in crate::link) fn fill(layout: &Layout, addresses: &Addresses) -> Result<Stripes> {
    let mut stripes = [const { Vec::new() }; 3];
    for (prot, stripe) in Prot::ALL.into_iter().zip(&mut stripes) {
        let bytes = layout.stored_bytes[prot.index()];
        let bytes = usize::try_from(bytes).map_err(|_| Error::link("the image is too large"))?;
        let padding = if prot == Prot::Code { x86_64::CODE_PADDING } else { 0 };
        *stripe = vec![padding; bytes];
    }
    let (mut loads_relaxed, mut relocations) = (0, 0);
    for (block, address) in layout.blocks.iter().zip(&addresses.blocks) {
        if !block.rank.is_stored() {
            continue;
        }
        // The stripe has the bytes of all stored blocks; see above.
        let start = usize::try_from(block.offset).unwrap_or(usize::MAX);
        let size = usize::try_from(block.bytes).unwrap_or(usize::MAX);
        let bytes = &mut stripes[block.prot.index()][start..start + size];
        let (input, section, content, edges) = match &block.content {
            Content::Section { input, section } => {
                let object = &layout.graph.inputs[*input as usize].object;
                let from = object.section(*section);
                (*input, *section, object.content(from), &from.edges)
            }
            Content::Rewritten { input, section, content, edges } => {
                (*input, *section, &**content, edges)
            }
            Content::Got => {
                for (entry, target) in bytes.chunks_exact_mut(8).zip(&layout.tables.entries) {
                    x86_64::store(entry, addresses.target(layout, *target));
                }
                continue;
            }
            Content::Stubs => {
                let entry = |stub: &Stub| addresses.got + u64::from(stub.entry) * GOT_ENTRY_BYTES;
                let entries = layout.tables.stubs.iter().map(entry);
                fill_stubs(addresses.stubs, entries, bytes)?;
                continue;
            }
            Content::IfuncStubs => {
                let slots = (0..).map(|slot| addresses.ifunc_slots + slot * GOT_ENTRY_BYTES);
                fill_stubs(addresses.ifunc_stubs, slots, bytes)?;
                continue;
            }
            Content::EhFrameEnd => {
                bytes.fill(0);
                continue;
            }
            Content::Common { .. } | Content::DsoHandle | Content::IfuncSlots => continue,
        };
        if content.is_empty() {
            bytes.fill(0);
        } else {
            bytes.copy_from_slice(content);
        }
        let (address, is_code) = (*address, block.prot == Prot::Code);
        let mut fixer =
            Fixer { layout, addresses, input, section, address, is_code, loads_relaxed: 0 };
        for edge in edges {
            fixer.apply(edge, bytes)?;
        }
        loads_relaxed += fixer.loads_relaxed;
        relocations += edges.len() as u64;
    }
    Ok(Stripes { bytes: stripes, loads_relaxed, relocations })
}

/// Writes stubs that jump through `entries`, the first of them at `address`.
fn fill_stubs(
    mut address: u64,
    entries: impl Iterator<Item = u64>,
    bytes: &mut [u8],
) -> Result<()> {
    for (bytes, entry) in bytes.chunks_exact_mut(8).zip(entries) {
        let code = x86_64::stub(address, entry).ok_or_else(|| {
            Error::link(format!(
                "the stub at {address:#x} cannot reach its target's address at {entry:#x}: place the \
                 stripes within 2 GiB of each other"
            ))
        })?;
        bytes.copy_from_slice(&code);
        address += STUB_BYTES;
    }
    Ok(())
}
