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
//! | the value of every field, as the processor uses it | `fields`, `threads` |
//! | the slots and resolvers of ifuncs | `ifunc` |
//! | which unwind records are needed, as an unwinder reads them | `frames` |
//! | what runs at start and at the end, and its order | `arrays` |
//!
//! Every link of a debug build is checked; see [`Layout::fixup_and_verify`] for other builds.
//!
//! [`Layout::fixup_and_verify`]: crate::link::Layout::fixup_and_verify
//!
//! Invariant: shares plain data with the linker (`LinkMap`, `Image`) and no code, and changes nothing.

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

use std::collections::HashSet;

use crate::addr::AddrRange;
use crate::link::output::image::Image;
use fields::Fields;
use link_map::LinkMap;
use memory::Memory;
use names::{Meaning, Names, Object, own_address};

/// The text in every error of the checker. Such an error is a mistake of the linker.
pub(super) const WRONG_IMAGE: &str = "the linker made a wrong image";

/// What was found right in an image.
///
/// # Examples
///
/// ```
#[doc = include_str!("../compile.txt")]
/// use farcall::ExecutorAddr;
/// use farcall::link::LinkGraph;
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

/// What is wrong with an image, in words.
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
    let fields = Fields { map, memory: &memory, names: &names, objects: &objects };
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
