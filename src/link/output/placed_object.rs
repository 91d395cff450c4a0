//! An object of a link with its addresses, for debuggers and profilers, which read the object itself.
//!
//! Invariant: plain data; `sections` has an entry for every section of the object that can have a place.

use std::collections::HashMap;

use crate::addr::{AddrRange, ExecutorAddr, Prot};
use crate::place::addresses::Addresses;
use crate::place::layout::{Layout, NO_BLOCK};
use crate::read::object_file::ObjectFile;
use crate::read::parsed::Place;

/// An object of a link, and the addresses of its sections and common symbols.
///
/// # Examples
///
/// ```
#[doc = include_str!("../compile.txt")]
/// use farcall_link::ExecutorAddr;
/// use farcall_link::LinkGraph;
///
/// let mut graph = LinkGraph::new();
/// graph.add_object(&compile("int answer(void) { return 42; }")?)?;
/// let bases = [0x10000, 0x20000, 0x30000].map(ExecutorAddr::new);
/// let objects = graph.layout()?.objects(bases);
/// assert_eq!(objects[0].object().name(), "example.o");
/// assert!(objects[0].is_there());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct PlacedObject {
    pub(crate) object: ObjectFile,
    /// The addresses of its sections; `None` for dropped sections. For thread-locals the address of the initial values.
    pub(crate) sections: Vec<Option<u64>>,
    /// The addresses of its common symbols.
    pub(crate) commons: HashMap<u32, u64>,
}

impl Layout {
    /// The objects of the link, for stripes at `bases`.
    #[must_use]
    pub fn objects(&self, bases: [ExecutorAddr; 3]) -> Vec<PlacedObject> {
        let addresses = Addresses::new(self, bases, 0);
        let inputs = self.graph.inputs.iter().zip(&self.block_of).zip(&addresses.symbols);
        let objects = inputs.map(|((input, blocks), symbols)| {
            let section = |(section, block): (u32, &u32)| match *block {
                NO_BLOCK => input.elsewhere.get(&section).copied(),
                block => Some(addresses.blocks[block as usize]),
            };
            let numbered = (0..).zip(input.object.symbols()).zip(symbols);
            let commons = numbered.filter(|((_, symbol), _)| symbol.place == Place::Common);
            PlacedObject {
                object: input.object.clone(),
                sections: (0..).zip(blocks).map(section).collect(),
                commons: commons.map(|((number, _), address)| (number, *address)).collect(),
            }
        });
        objects.collect()
    }
}

impl PlacedObject {
    /// The object as it was read.
    #[must_use]
    pub fn object(&self) -> &ObjectFile {
        &self.object
    }

    /// True when any of it is a part of the image.
    #[must_use]
    pub fn is_there(&self) -> bool {
        self.sections.iter().any(Option::is_some)
    }

    /// The addresses of its code, section by section.
    pub(crate) fn code(&self) -> impl Iterator<Item = AddrRange> {
        let sections = self.object.sections().iter().zip(&self.sections);
        sections.filter(|(section, _)| section.prot == Prot::Code).filter_map(|(section, place)| {
            AddrRange::sized(ExecutorAddr::new((*place)?), section.bytes)
        })
    }

    /// The value of a symbol in debug information. It is the address of this object's own definition, or 0 if that was
    /// dropped. In a section that is not loaded it is the offset in the section.
    pub(crate) fn address_of(&self, symbol: u32) -> u64 {
        let Some(found) = self.object.symbols().get(symbol as usize) else { return 0 };
        match found.place {
            Place::Section(section) => match self.sections.get(section as usize) {
                Some(Some(start)) => start.wrapping_add(found.value),
                _ => 0,
            },
            Place::NotLoaded | Place::Absolute => found.value,
            Place::Common => self.commons.get(&symbol).copied().unwrap_or(0),
            Place::Undefined => 0,
        }
    }
}
