//! The addresses of everything in an image: all that the checker takes from the linker.
//!
//! Invariant: addresses only, and no reasons for them.

use std::collections::HashMap;
use std::ops::Range;

use crate::addr::Prot;
use crate::arch::facts::GOT_ENTRY_BYTES;
use crate::graph::interface::External;
use crate::graph::link_graph::{Global, Input, Resolution};
use crate::graph::provided::DSO_HANDLE_NAME;
use crate::place::addresses::Addresses;
use crate::place::block::Content;
use crate::place::layout::{Layout, NO_BLOCK};
use crate::read::object_file::ObjectFile;

/// The addresses of everything in an image.
pub(crate) struct LinkMap<'a> {
    /// The stripes.
    pub(crate) bases: [u64; 3],
    /// The objects, in the order of the link.
    pub(crate) inputs: Vec<MappedInput<'a>>,
    /// The names that were defined from outside.
    pub(crate) externals: HashMap<&'a str, MappedExternal>,
    /// The names that the linker allocated: common symbols and `__dso_handle`.
    pub(crate) rooms: HashMap<&'a str, u64>,
    pub(crate) got: Range<u64>,
    pub(crate) stubs: Range<u64>,
    /// Stubs among the code.
    pub(crate) islands: Vec<Range<u64>>,
    /// The stubs of ifuncs, and the slots that they jump through.
    pub(crate) ifuncs: [Range<u64>; 2],
    /// The address of the initial values of the thread-locals, and the offset of their copies from the thread pointer; 0 for
    /// dynamic ones.
    pub(crate) threads: Option<(u64, u64)>,
    /// The number of the TLS module, if the thread-locals are dynamic.
    pub(crate) tls_module: Option<u32>,
    /// The functions that find dynamic thread-locals: the function that code calls, and the function in descriptors.
    pub(crate) thread_functions: Option<(u64, u64)>,
}

/// A name from outside.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MappedExternal {
    /// The definition that the linker was given.
    pub(crate) found: External,
    /// Its address in the image: the definition, or its canonical PLT entry.
    pub(crate) meant: u64,
}

/// One object of a link.
pub(crate) struct MappedInput<'a> {
    pub(crate) object: &'a ObjectFile,
    /// The address of each section that a program has in memory, in the order of the file; `None` for those that are not
    /// needed. For thread-locals the address of the initial values. Zeroes that are not stored have the address that they would
    /// have behind those.
    pub(crate) sections: Vec<Option<u64>>,
    /// Which of those lie outside of the image.
    pub(crate) elsewhere: Vec<bool>,
    /// The stubs of its ifuncs, by their symbols.
    pub(crate) ifuncs: HashMap<usize, u64>,
}

impl<'a> LinkMap<'a> {
    pub(crate) fn new(layout: &'a Layout, addresses: &Addresses, bases: [u64; 3]) -> LinkMap<'a> {
        let address = |(section, block): (u32, &u32), input: &Input| match *block {
            NO_BLOCK => input.elsewhere.get(&section).copied(),
            block => Some(addresses.blocks[block as usize]),
        };
        let stub_bytes = layout.graph.facts().stub_bytes;
        let mut ifuncs = vec![HashMap::new(); layout.graph.inputs.len()];
        for (number, (input, symbol)) in (0..).zip(&layout.ifuncs.functions) {
            let stub = addresses.ifunc_stubs + number * stub_bytes;
            ifuncs[*input as usize].insert(*symbol as usize, stub);
        }
        let inputs = layout.graph.inputs.iter().zip(&layout.block_of).zip(ifuncs);
        let inputs = inputs.map(|((input, blocks), ifuncs)| {
            let sections = (0..).zip(blocks).map(|one| address(one, input)).collect();
            let elsewhere = (0..).zip(blocks).map(|(one, _)| input.elsewhere.contains_key(&one));
            let elsewhere = elsewhere.collect();
            MappedInput { object: &input.object, sections, elsewhere, ifuncs }
        });
        let functions = layout.graph.thread_functions;
        // The executor's function for thread-locals is no name of the program.
        let is_name = |(id, _): &(u32, _)| functions.is_none_or(|one| one.global != *id);
        let external = |(id, (global, meant)): (u32, (&Global, &u64))| match global.resolution {
            Resolution::External(found) => {
                Some((layout.graph.names.text(id), MappedExternal { found, meant: *meant }))
            }
            _ => None,
        };
        let globals = (0..).zip(layout.graph.globals.iter().zip(&addresses.globals));
        let table = |start: u64, entries: usize, entry_bytes: u64| {
            start..start.wrapping_add(entries as u64 * entry_bytes)
        };
        LinkMap {
            bases,
            inputs: inputs.collect(),
            externals: globals.filter(is_name).filter_map(external).collect(),
            rooms: rooms(layout, addresses),
            got: table(addresses.got, layout.tables.entries.len(), GOT_ENTRY_BYTES),
            stubs: table(addresses.stubs, layout.tables.stubs.len(), stub_bytes),
            islands: layout
                .islands
                .iter()
                .map(|one| table(addresses.blocks[one.block as usize], one.goals.len(), stub_bytes))
                .collect(),
            ifuncs: [
                table(addresses.ifunc_stubs, layout.ifuncs.functions.len(), stub_bytes),
                table(addresses.ifunc_slots, layout.ifuncs.functions.len(), GOT_ENTRY_BYTES),
            ],
            threads: layout.threads.map(|threads| {
                (bases[Prot::Constants.index()].wrapping_add(threads.start), addresses.threads)
            }),
            tls_module: layout.tls_module,
            thread_functions: functions.map(|one| (one.address.get(), one.descriptor.get())),
        }
    }
}

fn rooms<'a>(layout: &'a Layout, addresses: &Addresses) -> HashMap<&'a str, u64> {
    let mut rooms = HashMap::new();
    for (block, address) in layout.blocks.iter().zip(&addresses.blocks) {
        let name = match &block.content {
            Content::Common { global } => layout.graph.names.text(*global),
            Content::DsoHandle => DSO_HANDLE_NAME,
            _ => continue,
        };
        rooms.insert(name, *address);
    }
    rooms
}
