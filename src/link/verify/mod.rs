//! The independent checker: is an image what its objects ask for?
//!
//! A mistake in a table of the linker gives an image that is wrong and looks right. So the checker starts again from the
//! bytes of the files. From the linker it takes only addresses and the definitions from outside ([`LinkMap`]).
//!
//! | derived a second time | file |
//! |---|---|
//! | the tables of an object file | `raw` |
//! | the definition of every name | `names` |
//! | which sections are needed, and where they may lie | `sections` |
//! | which bytes of a section relocations may change | `windows` |
//! | the value of every field, as the processor uses it | `fields`, `threads`, `aarch64` |
//! | the slots and resolvers of ifuncs | `ifunc` |
//! | which unwind records are needed, as an unwinder reads them | `frames` |
//! | what runs at start and at the end, and its order | `arrays` |
//!
//! # What a success proves
//!
//! Given are the files in the order of the link, the definitions from outside, and the addresses that the linker chose.
//! [`verify`] succeeds for an image only if all of this holds:
//!
//! 1. *Place.* Each section that the program needs lies whole in one stripe, at a multiple of its alignment. Code is in the
//!    stripe of code, and what the program writes is in the stripe of data. No two sections or tables share a byte. A section is
//!    missing only if it is a duplicate, or if each name that it defines means another definition.
//! 2. *Meaning.* A name means its only strong definition. Without one it means the common symbol, with the largest size and
//!    alignment of all, then the first weak definition, then the definition from outside. No name has two strong definitions.
//! 3. *Bytes.* A byte of a section is the byte of the file, unless it is in the window of a relocation. That is its field, and
//!    for some relocations the instructions around it.
//! 4. *Fields.* Let a relocation have its field at `P`, and refer to a symbol that means the address `S`, with the addend `A`.
//!    A processor or a program computes from the field the formula of the processor supplement for `S`, `A` and `P`.
//!    A branch may end at a jump through an entry of the GOT instead, and that entry holds `S`. Where an instruction in the
//!    window was rewritten, the new one has the same effect as the old one.
//! 5. *Unwinding.* The list of unwind records has the record of each function that is in the image, and its common record.
//!    It has each once, in the order of the files, and nothing else.
//! 6. *Start and end.* The arrays hold the functions of the files' arrays in the order of a native program, and nothing else.
//! 7. *Names.* The image defines for others what its files define for others, at the addresses that 2 gives, and nothing else.
//!
//! So two images of the same files at the same addresses that both succeed behave equally. They may differ in padding, in
//! unused entries of the GOT, and in the choice between instructions of the same effect.
//!
//! Three things are taken for granted. A definition from outside has the right address. The formulas here are the formulas of the
//! supplement. Fields are right where several relocations change the same bytes: [`Verified::entangled`] counts them, and
//! compilers write none. `tests/verification.rs` plants mistakes in every step of a link, and changes every byte of an image.
//!
//! Every link of a debug build is checked; see [`Layout::fixup_and_verify`] for other builds.
//!
//! [`Layout::fixup_and_verify`]: crate::Layout::fixup_and_verify
//!
//! Invariant: shares plain data with the linker (`LinkMap`, `Image`) and no code, and changes nothing.

mod aarch64;
mod arrays;
mod fields;
mod frames;
mod ifunc;
pub(super) mod link_map;
mod memory;
mod names;
mod raw;
mod sections;
mod threads;
mod windows;

use std::collections::{HashMap, HashSet};

use crate::addr::AddrRange;
use crate::output::image::Image;
use fields::Fields;
use link_map::LinkMap;
use memory::Memory;
use names::{Meaning, Names, Object, own_address};

/// The text in every error of the checker. Such an error is a mistake of the linker.
pub const WRONG_IMAGE: &str = "the linker made a wrong image";

/// The parts of an image that were found right, in numbers.
///
/// # Examples
///
/// ```
#[doc = include_str!("../compile.txt")]
/// use farcall_link::ExecutorAddr;
/// use farcall_link::LinkGraph;
///
/// let mut graph = LinkGraph::new();
/// graph.add_object(&compile("int answer(void) { return 42; } int (*pointer)(void) = answer;")?)?;
/// let bases = [0x10000, 0x20000, 0x30000].map(ExecutorAddr::new);
/// let (_, verified) = graph.layout()?.fixup_and_verify(bases, 0)?;
/// assert_eq!(verified.names, 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Verified {
    /// Relocated fields.
    pub fields: u64,
    /// Fields that could not be checked, because several relocations of the file change the same bytes.
    pub entangled: u64,
    /// Unwind records.
    pub records: u64,
    /// Functions that run at start or at the end.
    pub functions: u64,
    /// Names that the image defines for others.
    pub names: u64,
}

/// The fault of an image, in words.
type Fault = String;

/// Checks an image against the objects that it was made of.
///
/// # Errors
/// Says what is wrong. It is a mistake of the linker, whatever the objects are.
pub(super) fn verify(map: &LinkMap<'_>, image: &Image) -> Result<Verified, Fault> {
    let memory = Memory::new(map.bases, image);
    let mut signatures = HashSet::new();
    let mut objects = Vec::with_capacity(map.inputs.len());
    for input in &map.inputs {
        let object = Object::read(input, map.threads, &mut signatures);
        objects.push(object.map_err(|what| format!("{}: {what}", input.object.name()))?);
    }
    let names = Names::new(map, &objects, image)?;
    let machine = objects.first().map_or(0, |object| object.raw.machine);
    if let Some(other) = objects.iter().find(|object| object.raw.machine != machine) {
        return Err(format!("{} is for another processor than the first object", other.name));
    }
    let got_entries = match machine {
        aarch64::MACHINE => Fields::entries_by_value(map.got.clone(), |entry| memory.u64_at(entry)),
        _ => HashMap::new(),
    };
    let fields =
        Fields { map, memory: &memory, names: &names, objects: &objects, machine, got_entries };
    let mut verified = Verified::default();
    for (name, external) in &map.externals {
        fields.check_canonical_entry(external).map_err(|what| format!("`{name}`: {what}"))?;
    }
    let eh_frame = image.eh_frame.map(bounds);
    sections::check_room(&fields, eh_frame)?;
    fields.check_threads(image.threads)?;
    fields.check_ifuncs(&image.ifuncs)?;
    for (number, object) in objects.iter().enumerate() {
        let checked = fields.check_sections(number, &mut verified);
        checked.map_err(|what| format!("{}: {what}", object.name))?;
    }
    fields.check_frames(eh_frame, &mut verified)?;
    fields.check_arrays(false, image.init.map(bounds), &mut verified)?;
    fields.check_arrays(true, image.fini.map(bounds), &mut verified)?;
    verified.names = check_names(image, &names, &objects)?;
    Ok(verified)
}

/// Checks that the image defines for others what its objects define. Returns the number of names.
fn check_names(image: &Image, names: &Names<'_, '_>, objects: &[Object<'_>]) -> Result<u64, Fault> {
    let mut count = 0;
    for (name, meaning) in names.exports() {
        let address = match meaning {
            Meaning::Strong { object, symbol } | Meaning::Weak { object, symbol } => {
                own_address(&objects[object], symbol)
            }
            _ => names.room(name),
        };
        let text = say(name);
        let address = address.ok_or_else(|| format!("{text} is defined in what was dropped"))?;
        let found = std::str::from_utf8(name).ok().and_then(|name| image.symbols.get(name));
        match found.map(|definition| definition.address.get()) {
            Some(found) if found == address => count += 1,
            Some(found) => {
                return Err(format!("{text} is said to be at {found:#x}, not {address:#x}"));
            }
            None => return Err(format!("{text} is missing among the names of the image")),
        }
    }
    if image.symbols.iter().count() as u64 != count {
        return Err(format!("the image defines more than the {count} names of its objects"));
    }
    Ok(count)
}

fn bounds(range: AddrRange) -> (u64, u64) {
    (range.start.get(), range.end.get())
}

/// A name, for messages.
fn say(name: &[u8]) -> String {
    format!("`{}`", String::from_utf8_lossy(name))
}
